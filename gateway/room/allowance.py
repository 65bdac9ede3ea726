"""How many comments may come. Pure: the time is an argument."""

from __future__ import annotations


class Allowance:
    """So many a second, and for a moment more: a bucket of tokens that fills by itself."""

    def __init__(self, per_s: float, burst: int, now: float) -> None:
        self._per_s = per_s
        self._burst = burst
        self._left = float(burst)
        self._at_s = now

    def take(self, wanted: int, now: float) -> float:
        """0: they may come, and are counted; else after how many seconds they might."""
        self._left = min(self._burst, self._left + (now - self._at_s) * self._per_s)
        self._at_s = now
        if wanted <= self._left:
            self._left -= wanted
            return 0.0
        return (min(wanted, self._burst) - self._left) / self._per_s
