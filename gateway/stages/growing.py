"""What comes piece by piece, and may have to be told from its beginning to another replica."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Growing(Generic[T]):
    """Pieces that others read while more are added. How many there may be, is up to who adds."""

    def __init__(self) -> None:
        self._pieces: list[T] = []
        self._more = asyncio.Event()
        self.ended = False
        """Nothing will be added."""

    def add(self, piece: T) -> None:
        """One more, behind the others."""
        self._pieces.append(piece)
        self._more.set()

    def end(self) -> None:
        """All are there."""
        self.ended = True
        self._more.set()

    async def __aiter__(self) -> AsyncIterator[T]:
        """From the first on; waits for what is not there yet."""
        at = 0
        while True:
            while at < len(self._pieces):
                yield self._pieces[at]
                at += 1
            if self.ended:
                return
            self._more.clear()
            await self._more.wait()
