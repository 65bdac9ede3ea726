"""Back-pressure by credit: a producer runs only so far ahead of what has been heard."""

from __future__ import annotations

import asyncio


class CreditWindow:
    """How far a turn's producer may run ahead of the listener.

    Counts in the unit of the producer's choice (voice samples, frames). The consumer's
    progress comes from `clock` chunks; `window` is the lead allowed.
    """

    def __init__(self, window: int) -> None:
        self._window = window
        self._consumed = 0
        self._changed = asyncio.Event()

    @property
    def consumed(self) -> int:
        return self._consumed

    def lead(self, produced: int) -> int:
        """How far `produced` is ahead of what has been consumed."""
        return produced - self._consumed

    def grant(self, consumed: int) -> None:
        """The consumer has come as far as `consumed`. Never goes back."""
        if consumed > self._consumed:
            self._consumed = consumed
            self._changed.set()

    def reset(self) -> None:
        """A new turn begins: nothing of it has been consumed."""
        self._consumed = 0
        self._changed.set()

    async def wait(self, produced: int) -> None:
        """Return once having produced `produced` is within the window."""
        while self.lead(produced) > self._window:
            self._changed.clear()
            await self._changed.wait()
