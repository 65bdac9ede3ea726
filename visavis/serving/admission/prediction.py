"""Whether a stage holds its deadlines with one more session. Pure: figures in, figures out."""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass, replace

from visavis.serving.admission.meter import DUTY, Measured

STAGE_FACTOR = 2.0
"""So many times its P95 alone a stage's first unit may take, where nothing else is set."""
STAGE_EXTRA_S = 0.2
"""And so much longer than alone in any case: a stage that is quick by itself is a small part of the
answer, which has a limit of its own, and what asr does is hidden in the pause that ends a turn."""
UNCOMPUTED_S = 0.1
"""Of an answer, what no stage works on: until a pause is noticed, the tick, the way to the ear."""
ANSWER_FACTOR = 1.5
"""And the whole from a question to its answer: what `visavis bench load` allows."""
LANES_SHARE = 0.85
"""Of the lanes, what may be taken: the rest is for units that cost more than others."""
_SIGMAS = 2.0
_P95_SIGMAS = 1.645
_FULL = 0.95
"""More is not told apart: a queue has no mean there."""
_CROWDED = 0.8
"""Of a machine more is not told apart either: what is too much for some seconds ends before the
queue is as long as a queue's mean."""
_MOST_ROOM = 64


@dataclass(frozen=True, slots=True)
class Machine:
    """The processor cores that a stage shares with others, and what is asked of them."""

    cores: float
    sessions: float
    """How many are here; a session whose stages are on several machines counts for its part."""
    session_cores: float
    """What one asks for over time, of all processes here."""
    foreign: float = 0.0
    """Cores that work of others takes."""
    duty: float = DUTY
    """Share of the time in which a session is at work."""

    def stretch(self, more: int = 0) -> float:
        """How much longer work takes with so many more sessions than on an idle machine.

        Now many are at work, now few, each by itself: the mean over a normal distribution, by
        Gauss-Hermite quadrature with three points.
        """
        sessions = self.sessions + more
        mean = self.foreign + sessions * self.session_cores
        sigma = self.session_cores * math.sqrt(sessions * (1.0 - self.duty) / self.duty)
        points = ((0.0, 2 / 3), (-math.sqrt(3.0), 1 / 6), (math.sqrt(3.0), 1 / 6))
        cores = self.cores
        return sum(w * stretch_of((mean + x * sigma) / cores, cores) for x, w in points)

    def lone_stretch(self) -> float:
        """The same with a lone visitor, and nobody's work else: his own stages share its cores."""
        return replace(self, sessions=1.0, foreign=0.0).stretch()


@dataclass(frozen=True, slots=True)
class Promise:
    """What a stage has to hold."""

    lanes: int = 1
    budget_s: float = 0.0
    """A first unit's P95 of latency; 0: STAGE_FACTOR times what it takes alone, or STAGE_EXTRA_S
    more than that."""
    pace_hz: float = 0.0
    """Units that a session at work asks for each second, as pictures; 0: they come as they do."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """A stage with some number of sessions. load: what is predicted, of what is allowed."""

    load: float
    why: str
    first_p95_s: float = 0.0
    """Of its first units; 0: none counts here."""
    alone_p95_s: float = 0.0
    """The same for a lone visitor, on a machine where nothing else is."""

    @property
    def slack(self) -> float:
        """Share of what is allowed that is left; negative: deadlines would be missed."""
        return 1.0 - self.load


def predict(now: Measured, promise: Promise, machine: Machine, more: int = 1) -> Prediction:
    """The stage with `more` sessions than now."""
    if promise.pace_hz:
        return _predict_lanes(now, promise, machine, more)
    sessions, stretch = now.sessions + more, machine.stretch(more)
    latency_s = first_p95_s(now, promise, sessions, stretch) * now.correction
    # On a machine that is slower than the budget was made for, the first visitors count as well.
    alone_s = alone_p95_s(now, promise, machine)
    budget_s = max(promise.budget_s, STAGE_FACTOR * alone_s, alone_s + STAGE_EXTRA_S)
    load = latency_s / budget_s
    why = f"the first of an answer after {latency_s:.2f} s (P95), {budget_s:.2f} s are allowed"
    busy = busy_share(now, promise, sessions, stretch)
    if load <= busy / LANES_SHARE:
        # Even where a lone visitor is too many by himself.
        load = busy / LANES_SHARE
        why = f"lanes at work {busy:.0%} of the time, {LANES_SHARE:.0%} are allowed"
    return Prediction(load, why, latency_s, alone_s)


def room(now: Measured, promise: Promise, machine: Machine, free_slots: int) -> int:
    """How many more sessions the stage can take; nobody else counts at an idle stage."""
    most = min(free_slots, _MOST_ROOM)
    if most <= 0:
        return 0
    mores = range(1, most + 1)
    found = bisect.bisect(mores, 1.0, key=lambda more: predict(now, promise, machine, more).load)
    return max(found, 0 if now.sessions else 1)


def first_p95_s(now: Measured, promise: Promise, sessions: int, stretch: float) -> float:
    """P95 of a first unit's latency with so many sessions, before any correction.

    What it takes where nothing is in its way, and the wait for a lane that others are at work on
    (P95 of an M/G/1 queue, all lanes taken for one that is as quick), stretched by what the machine
    is asked for.
    """
    busy = busy_share(now, promise, sessions - 1, stretch)
    # Units are taken to vary as much as what first ones take alone.
    variation = now.first_sd_s / now.first_s if now.first_s else 0.0
    wait_s = wait_p95_s(busy, now.unit_cost_s / promise.lanes, variation)
    # Two that do not depend on each other seldom come at their worst together.
    return stretch * (now.first_s + math.hypot(_P95_SIGMAS * now.first_sd_s, wait_s))


def alone_p95_s(now: Measured, promise: Promise, machine: Machine) -> float:
    """The same for a lone visitor, on a machine where nothing else is."""
    return first_p95_s(now, promise, 1, machine.lone_stretch())


def busy_share(now: Measured, promise: Promise, sessions: int, stretch: float) -> float:
    """Share of the time in which a stage's lanes are at work, of units that come as they do."""
    return sessions * now.units_per_s * now.unit_cost_s * stretch / promise.lanes


def wait_p95_s(busy: float, unit_s: float, variation: float) -> float:
    """P95 of the wait in an M/G/1 queue: who waits at all does for an exponential time.

    busy: share of the time in which it works. variation: standard deviation of a unit over its mean
    (Pollaczek and Khinchine: on average half as much is left of units that are alike).
    """
    busy = min(busy, _FULL)
    if busy <= 0.05:
        return 0.0
    left_s = unit_s * (1.0 + variation**2) / 2.0
    return left_s * math.log(busy / 0.05) / (1.0 - busy)


def stretch_of(busy: float, cores: float) -> float:
    """Time in a machine of `cores`, against the work alone (M/M/c queue, Sakasegawa 1977)."""
    busy = min(max(busy, 0.0), _CROWDED)
    waiting = math.pow(busy, math.sqrt(2.0 * (cores + 1.0)) - 1.0)
    return 1.0 + waiting / (cores * (1.0 - busy))


def _predict_lanes(now: Measured, promise: Promise, machine: Machine, more: int) -> Prediction:
    """Units come at a pace while a session is at work: by how many are at work at once."""
    sessions = now.sessions + more
    activity = min(1.0, now.units_per_s / promise.pace_hz)
    lanes_at_work = now.unit_cost_s * promise.pace_hz * machine.stretch(more)
    mean = sessions * activity * lanes_at_work
    sigma = lanes_at_work * math.sqrt(sessions * activity * (1.0 - activity))
    need, allowed = mean + _SIGMAS * sigma, LANES_SHARE * promise.lanes
    why = f"{need:.2f} lanes are needed (2σ), {allowed:.2f} are allowed"
    return Prediction(need / allowed, why)


def share_of_allowed(alone_s: float, predicted_s: float) -> float:
    """Of what the whole from a question to its answer may take, what it is predicted to take.

    Both: P95s of all the stages in between, together, seconds.
    """
    return (UNCOMPUTED_S + predicted_s) / (ANSWER_FACTOR * (UNCOMPUTED_S + alone_s))
