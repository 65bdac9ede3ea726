"""Doubles for what cannot be had in a test: a clock that stands still."""

from __future__ import annotations


class ManualClock:
    """A Clock that moves only when told."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        assert seconds >= 0
        self._now += seconds
