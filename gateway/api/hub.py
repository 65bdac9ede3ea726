"""A session's events to everybody who listens, each through an outbox; nobody waits for a
slow one. And all that happens in it, to those who follow it: the fronts of other protocols.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Generic, Literal, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from gateway.api.events import ServerEvent
from gateway.talk.history import Marks
from visavis.wire.media import WordTime

T = TypeVar("T")

QUEUE_LIMIT = 500


class Outbox(Generic[T]):
    """A bounded queue whose reader iterates. Where he does not keep up the oldest are lost.

    Subclasses may have it otherwise.
    """

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

    def tell(self, item: T) -> None:
        """Add it, in place of the oldest if the queue is full."""
        if self.full:
            self._waiting.popleft()
            self.dropped += 1
        self._put(item)

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
    """One client's events."""

    def __init__(self) -> None:
        super().__init__(QUEUE_LIMIT)


@dataclass(frozen=True, slots=True)
class Voiced:
    """A piece of a turn's voice, as soon as it is made: long before it is played.

    pcm: [N] int16 at 48 kHz, which follows on what came before. marks: where words of the turn's
    text end in its voice, as far as this piece goes.
    """

    turn: int
    pcm: NDArray[np.int16]
    marks: Marks
    last: bool


@dataclass(frozen=True, slots=True)
class Overheard:
    """What becomes of the visitor's voice before a word of it is known, and its end.

    over_answer: it has lasted, and the answer stands still for it. at_ms: of the microphone.
    words: at the end, in its time, too: words or passages, as the recogniser tells them.
    """

    what: Literal["began", "over_answer", "ended"]
    utterance: int
    at_ms: int = 0
    words: tuple[WordTime, ...] = ()


class Follower(Protocol):
    """The front of another protocol: it is told at once, and more than listeners are.

    It notes what it is told, and does nothing with the session there and then.
    """

    def told(self, event: ServerEvent | Voiced | Overheard) -> None:
        """Something has happened."""


class EventHub:
    """Tells everybody who listens what happens in one session."""

    def __init__(self) -> None:
        self._listeners: set[Listener] = set()
        self._followers: list[Follower] = []
        self._ended = False

    @property
    def listeners(self) -> int:
        return len(self._listeners) + len(self._followers)

    def follow(self, follower: Follower) -> None:
        """Tell it everything from now on."""
        self._followers.append(follower)

    @property
    def followers(self) -> tuple[Follower, ...]:
        return tuple(self._followers)

    def unfollow(self, follower: Follower) -> None:
        if follower in self._followers:
            self._followers.remove(follower)

    def overheard(self, news: Voiced | Overheard) -> None:
        """What only those who follow are told."""
        for follower in self._followers:
            follower.told(news)

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
        for follower in self._followers:
            follower.told(event)

    def end(self) -> None:
        """All listeners have heard the last event; who joins later gets his greeting alone."""
        self._ended = True
        for listener in list(self._listeners):
            self.leave(listener)
