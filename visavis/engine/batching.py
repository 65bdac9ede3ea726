"""How many requests go into one run of a network: as many as its own measurements say.

Pure: no I/O, and the time is an argument. A network is measured by the runs that it does anyway,
with what visitors ask of it, and never by runs for the sake of measuring: those would lengthen the
start or hold up whoever comes meanwhile, and would know neither the lengths of real requests nor
what else the machine is busy with. A size that was not tried is tried where there is company for
it, half as large first; on a CPU it mostly turns out that two together take as long as one after
the other, and then runs stay at one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

LONGEST_WAIT_S = 0.05
"""For company, where the deadline leaves it: never a fixed wait."""
WORTH_IT = 1.1
"""Together must do so many times as much in a second as one by one."""

_FEWEST_RUNS = 3
"""Of one size, before it is judged: a single one may have met a neighbour on its core."""
_KEPT_RUNS = 7
_KEPT_S = 120.0
"""A machine gets other neighbours, and an engine steps down: sizes are tried anew after so long."""


class RunCurve:
    """How long a run of so many requests takes: measured, for a request of unit length."""

    def __init__(self) -> None:
        self._runs: dict[int, deque[tuple[float, float]]] = {}
        self._medians: dict[int, tuple[float | None, float]] = {}
        """Of sizes that were asked for since their newest run, and until when that holds."""

    def observe(self, size: int, length: float, seconds: float, now_s: float) -> None:
        """A run of `size` requests, the longest of them of `length`, has taken so long."""
        runs = self._runs.setdefault(size, deque(maxlen=_KEPT_RUNS))
        runs.append((now_s, seconds / length))
        self._medians.pop(size, None)

    def seconds(self, size: int, now_s: float) -> float | None:
        """Of a run of this size at unit length; between sizes that were measured it is taken to
        rise evenly. None: not known (any more)."""
        if (told := self._median(size, now_s)) is not None:
            return told
        measured = {k: each for k in self._runs if (each := self._median(k, now_s)) is not None}
        below = max((k for k in measured if k < size), default=None)
        above = min((k for k in measured if k > size), default=None)
        if below is None or above is None:
            return None
        share = (size - below) / (above - below)
        return measured[below] + share * (measured[above] - measured[below])

    def gain(self, size: int, now_s: float) -> float | None:
        """How many times as much a run of this size does in a second as runs of one."""
        alone, together = self.seconds(1, now_s), self.seconds(size, now_s)
        if alone is None or together is None:
            return None
        return size * alone / together if together else 1.0

    def may_try(self, size: int, now_s: float) -> bool:
        """Whether a size that is not known promises something: half of it does."""
        half = (size + 1) // 2
        gain = self.gain(half, now_s)
        return gain is not None and (half == 1 or gain >= WORTH_IT)

    def _median(self, size: int, now_s: float) -> float | None:
        """Of the runs of exactly this size; None: not known. Each request asks for several: what
        was found is kept while it is true."""
        told, until_s = self._medians.get(size, (None, now_s))
        if now_s < until_s:
            return told
        fresh = [run for run in self._runs.get(size, ()) if now_s - run[0] <= _KEPT_S]
        # One run of a single request is enough: there is nothing to judge yet.
        if len(fresh) < (1 if size == 1 else _FEWEST_RUNS):
            return None
        told = median(seconds for _, seconds in fresh)
        self._medians[size] = told, fresh[0][0] + _KEPT_S
        return told


def _unit(ask: Any) -> float:
    return 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Sharing:
    """Requests that name the same one may go into a run together."""

    largest: int
    """Requests in one run; 1 for a network that takes no more."""
    length: Callable[[Any], float] = _unit
    """Of an ask, above 0, where a run costs by its longest."""
    longest_wait_s: float = LONGEST_WAIT_S
    curve: RunCurve = field(default_factory=RunCurve)

    def promises(self, now_s: float) -> bool:
        """Whether two may do better together than one by one, as far as is known."""
        if self.largest == 1:
            return False
        gain = self.curve.gain(2, now_s)
        return gain is None or gain >= WORTH_IT


def run_size(sharing: Sharing, lengths: Sequence[float], slack_s: float, now_s: float) -> int:
    """How many of those who wait go into the next run.

    lengths: of each, most urgent first; slack_s: how long the answer to the first of them may still
    take. It is the most for which the run is worth it and ends in time. Where it is too late for
    that, it is the most who get their answers sooner together, on average, than one by one.
    """
    curve = sharing.curve
    alone = curve.seconds(1, now_s)
    if alone is None:
        return 1
    late = slack_s < alone * lengths[0]
    best, longest, apart_s, ends_s = 1, lengths[0], alone * lengths[0], alone * lengths[0]
    for size in range(2, min(len(lengths), sharing.largest) + 1):
        longest = max(longest, lengths[size - 1])
        apart_s += alone * lengths[size - 1]
        ends_s += apart_s
        each = curve.seconds(size, now_s)
        if each is None:
            # Untried: at worst it takes as long as one after the other.
            if curve.may_try(size, now_s) and (late or apart_s <= slack_s):
                best = size
            continue
        together_s = each * longest
        in_time = size * together_s <= ends_s if late else together_s <= slack_s
        if in_time and together_s * WORTH_IT <= apart_s:
            best = size
    return best


def company_s(
    sharing: Sharing, lengths: Sequence[float], slack_s: float, waited_s: float, now_s: float
) -> float:
    """How long a run of these may still wait for one more; 0: it shall begin.

    waited_s: how long the first to come has waited. One more must be known to be worth it.
    """
    size = len(lengths) + 1
    each, gain = sharing.curve.seconds(size, now_s), sharing.curve.gain(size, now_s)
    if size > sharing.largest or each is None or gain is None or gain < WORTH_IT:
        return 0.0
    left_s = slack_s - each * max(lengths)
    return max(0.0, min(left_s, sharing.longest_wait_s - waited_s))
