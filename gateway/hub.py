"""A session's events to everybody who listens; nobody waits for a slow one."""

from __future__ import annotations

import asyncio
from collections import deque

from gateway.events import ServerEvent

QUEUE_LIMIT = 500


class Listener:
    """One client's events, in order. The oldest are lost when it does not read."""

    def __init__(self) -> None:
        self.dropped = 0
        self._waiting: deque[ServerEvent] = deque()
        self._arrived = asyncio.Event()
        self._closed = False

    def push(self, event: ServerEvent) -> None:
        if len(self._waiting) >= QUEUE_LIMIT:
            self._waiting.popleft()
            self.dropped += 1
        self._waiting.append(event)
        self._arrived.set()

    def close(self) -> None:
        """End the iteration after what still waits."""
        self._closed = True
        self._arrived.set()

    def __aiter__(self) -> Listener:
        return self

    async def __anext__(self) -> ServerEvent:
        while not self._waiting:
            if self._closed:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        return self._waiting.popleft()


class EventHub:
    """Fan-out of one session's events."""

    def __init__(self) -> None:
        self._listeners: set[Listener] = set()

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    def join(self, *greeting: ServerEvent) -> Listener:
        """A new listener, which first gets `greeting`."""
        listener = Listener()
        for event in greeting:
            listener.push(event)
        self._listeners.add(listener)
        return listener

    def leave(self, listener: Listener) -> None:
        listener.close()
        self._listeners.discard(listener)

    def publish(self, event: ServerEvent) -> None:
        for listener in self._listeners:
            listener.push(event)

    def close(self) -> None:
        for listener in list(self._listeners):
            self.leave(listener)
