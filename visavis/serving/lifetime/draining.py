"""How a process ends that sessions are with: it takes nothing new, and waits until they have left.

Pure: times are passed in, in seconds of any clock.
"""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    """Where a process stands, once it is ready."""

    SERVING = "serving"
    DRAINING = "draining"
    """It takes no further session, finishes the turns at work, and those it has leave it."""
    ENDED = "ended"
    """It waits for nobody any more."""


class Drain:
    """Says when a process that was told to stop may end.

    It does once no session is left, at its limit, or when it is told again.
    """

    def __init__(self, limit_s: float) -> None:
        """limit_s: longest wait for the sessions to leave."""
        self.phase = Phase.SERVING
        self._limit_s = limit_s
        self._ends_at_s = 0.0

    def told_to_stop(self, now_s: float, *, at_once: bool = False) -> None:
        """The first time it drains; told again, or to stop `at_once`, it waits for nobody."""
        if at_once or self.phase is not Phase.SERVING:
            self.phase, self._ends_at_s = Phase.ENDED, now_s
        else:
            self.phase, self._ends_at_s = Phase.DRAINING, now_s + self._limit_s

    def look(self, now_s: float, sessions: int) -> Phase:
        """Where it stands now, with so many sessions that have not left."""
        if self.phase is Phase.DRAINING and (not sessions or now_s >= self._ends_at_s):
            self.phase = Phase.ENDED
        return self.phase

    def left_s(self, now_s: float) -> float:
        """Until the limit; none where it waits for nobody."""
        return max(0.0, self._ends_at_s - now_s)
