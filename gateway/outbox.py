"""What waits for one client, in order; nobody waits for a client that is slow."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, Self, TypeVar

T = TypeVar("T")


class Outbox(Generic[T]):
    """A bounded queue whose reader iterates. Subclasses say what is lost when it is full."""

    def __init__(self, limit: int) -> None:
        self.dropped = 0
        self._limit = limit
        self._waiting: deque[T] = deque()
        self._arrived = asyncio.Event()
        self._closed = False

    @property
    def full(self) -> bool:
        """Whether something must be lost before more is put in."""
        return len(self._waiting) >= self._limit

    def close(self) -> None:
        """End the iteration after what still waits."""
        self._closed = True
        self._arrived.set()

    def _put(self, item: T) -> None:
        self._waiting.append(item)
        self._arrived.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        while not self._waiting:
            if self._closed:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        return self._waiting.popleft()
