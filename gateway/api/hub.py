"""A session's events to everybody who listens, each through an outbox; nobody waits for a
slow one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, Self, TypeVar

from gateway.api.events import ServerEvent

T = TypeVar("T")

QUEUE_LIMIT = 500


class Outbox(Generic[T]):
    """A bounded queue whose reader iterates. Subclasses say what is lost when it is full."""

    def __init__(self, limit: int) -> None:
        self.dropped = 0
        self._limit = limit
        self._waiting: deque[T] = deque()
        self._arrived = asyncio.Event()
        self._ended = False

    @property
    def full(self) -> bool:
        """Whether something must be lost before more is put in."""
        return len(self._waiting) >= self._limit

    def end(self) -> None:
        """End the iteration after what still waits."""
        self._ended = True
        self._arrived.set()

    def _put(self, item: T) -> None:
        self._waiting.append(item)
        self._arrived.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        while not self._waiting:
            if self._ended:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        return self._waiting.popleft()


class Listener(Outbox[ServerEvent]):
    """One client's events. The oldest are lost when it does not read."""

    def __init__(self) -> None:
        super().__init__(QUEUE_LIMIT)

    def tell(self, event: ServerEvent) -> None:
        """Add an event, in place of the oldest if the queue is full."""
        if self.full:
            self._waiting.popleft()
            self.dropped += 1
        self._put(event)


class EventHub:
    """Tells everybody who listens what happens in one session."""

    def __init__(self) -> None:
        self._listeners: set[Listener] = set()
        self._ended = False

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    def join(self, *greeting: ServerEvent) -> Listener:
        """A new listener, which first gets `greeting`. After `end` it gets nothing else."""
        listener = Listener()
        for event in greeting:
            listener.tell(event)
        if self._ended:
            listener.end()
        else:
            self._listeners.add(listener)
        return listener

    def leave(self, listener: Listener) -> None:
        listener.end()
        self._listeners.discard(listener)

    def publish(self, event: ServerEvent) -> None:
        for listener in self._listeners:
            listener.tell(event)

    def end(self) -> None:
        """All listeners have heard the last event; who joins later gets his greeting alone."""
        self._ended = True
        for listener in list(self._listeners):
            self.leave(listener)
