"""How long requests have lately taken an engine's thread, and how busy it was. Pure."""

from __future__ import annotations

from collections import deque

_KEPT_RUNS = 256
_SERVICE_S = 30.0
"""What is older says little about now."""
_BUSY_S = 2.0


class LaneLoad:
    """What admission wants to know of a lane: the cost of a request, and the share that is left."""

    def __init__(self) -> None:
        self._runs: deque[tuple[int, int, float, float]] = deque(maxlen=_KEPT_RUNS)
        """Class, requests, beginning and end of each run."""

    def note(self, priority: int, rows: int, began_s: float, ended_s: float) -> None:
        """A run of so many requests, of the class of its most urgent one."""
        self._runs.append((priority, rows, began_s, ended_s))

    def service_s(self, now_s: float, priority: int | None = None) -> float | None:
        """Time of the thread that nine in ten requests took at most, of one class or of any; None:
        not known. Work that comes in steps ends with one that costs nothing: a mean would say
        little.
        """
        each = sorted(
            (ended_s - began_s) / rows
            for of, rows, began_s, ended_s in self._runs
            if now_s - ended_s <= _SERVICE_S and (priority is None or of == priority)
        )
        return each[int(0.9 * (len(each) - 1))] if each else None

    def busy_share(self, now_s: float) -> float:
        """Of the last two seconds, or of those that are known."""
        since_s = now_s - _BUSY_S
        if len(self._runs) == _KEPT_RUNS:
            since_s = max(since_s, self._runs[0][2])
        busy_s = sum(
            max(0.0, ended_s - max(began_s, since_s)) for _, _, began_s, ended_s in self._runs
        )
        return min(1.0, busy_s / (now_s - since_s)) if now_s > since_s else 0.0
