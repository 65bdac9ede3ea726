"""Where the eyes rest while somebody is thought for or spoken to. Pure.

People look at whom they listen to and away from whom they speak to (Kendon, "Some functions of
gaze-direction in social interaction", Acta Psychologica 26, 1967), and away to think (Glenberg,
Schroeder and Robertson, "Averting the gaze disengages the environment and facilitates
remembering", Memory & Cognition 26, 1998). How long and how often, and where to, is after Andrist,
Mutlu and Gleicher, "Conversational gaze aversion for virtual agents" (IVA 2013), who counted it in
conversations of people. Gaze is in units of 20 degrees, x to the right of the picture, y down.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

UNIT_DEGREES = 20.0
AT_VIEWER = (0.0, 0.0)
_ON_FACE = 0.06
"""Eyes and mouth of a viewer at arm's length lie so far apart."""
_ON_FACE_S = (0.8, 2.4)
_THINKS_AFTER_S = (0.35, 0.7)
_LOOKS_BACK_S = (0.7, 1.3)


class Phase(StrEnum):
    """What goes on between the face and who is before it."""

    IDLE = "idle"
    LISTENING = "listening"
    THINKING = "thinking"
    SPEAKING = "speaking"


@dataclass(frozen=True, slots=True)
class Look:
    """Where the eyes rest, and how much of their place that is: the rest is their own."""

    x: float
    y: float
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class _Aversions:
    """Means and deviations in seconds; how the directions up, down and aside share them."""

    away_s: tuple[float, float]
    between_s: tuple[float, float]
    ways: tuple[float, float, float]
    reach: tuple[float, float]


_OF = {
    Phase.SPEAKING: _Aversions((1.96, 0.32), (4.75, 1.39), (0.14, 0.29, 0.57), (0.3, 0.55)),
    Phase.THINKING: _Aversions((3.54, 1.26), (1.0, 0.2), (0.39, 0.30, 0.31), (0.4, 0.7)),
}


def saccade(
    before: tuple[float, float], after: tuple[float, float], since_s: float
) -> tuple[float, float]:
    """Where the eyes are so long after they left `before` for `after`.

    How long they take is the main sequence: 21 ms and 2.2 ms for each degree (Carpenter, "Movements
    of the eyes", 1988).
    """
    way = UNIT_DEGREES * math.hypot(after[0] - before[0], after[1] - before[1])
    x = min(1.0, max(0.0, since_s / (0.021 + 0.0022 * way)))
    mix = x * x * (3.0 - 2.0 * x)
    return before[0] + mix * (after[0] - before[0]), before[1] + mix * (after[1] - before[1])


class Fixations:
    """Where the eyes rest in one phase of a talk, from its beginning on: the same for one seed."""

    def __init__(self, phase: Phase, seed: tuple[int, ...]) -> None:
        self._found: list[tuple[float, tuple[float, float]]] = []
        self._more = _fixations(phase, np.random.default_rng(seed))
        self._end_s = 0.0

    def at(self, since_s: float) -> tuple[tuple[float, float], float]:
        """The target so long into the phase, and since when it has been that."""
        while self._end_s <= since_s:
            target, lasts_s = next(self._more)
            self._found.append((self._end_s, target))
            self._end_s += lasts_s
        begun_s, target = next(one for one in reversed(self._found) if one[0] <= since_s)
        return target, begun_s


def _fixations(
    phase: Phase, rng: np.random.Generator
) -> Iterator[tuple[tuple[float, float], float]]:
    """Targets and how long they hold, for ever."""
    habit = _OF[phase]
    if phase is Phase.THINKING:
        yield AT_VIEWER, float(rng.uniform(*_THINKS_AFTER_S))
    elif phase is Phase.SPEAKING and rng.random() < 0.5:
        # What is said is still being planned as it begins.
        yield _aside(habit, rng), float(rng.uniform(0.5, 1.2))
    while True:
        if phase is Phase.THINKING:
            yield from _thoughts(habit, rng)
            yield AT_VIEWER, float(rng.uniform(*_LOOKS_BACK_S))
            continue
        left_s = max(1.5, float(rng.normal(*habit.between_s)))
        while left_s > 0:
            lasts_s = min(left_s, float(rng.uniform(*_ON_FACE_S)))
            x, y = rng.uniform(-_ON_FACE, _ON_FACE, 2)
            yield (float(x), float(y)), lasts_s
            left_s -= lasts_s
        yield _aside(habit, rng), max(0.5, float(rng.normal(*habit.away_s)))


def _thoughts(
    habit: _Aversions, rng: np.random.Generator
) -> Iterator[tuple[tuple[float, float], float]]:
    """One look away, which moves a little while it lasts."""
    x, y = _aside(habit, rng)
    left_s = max(1.2, float(rng.normal(*habit.away_s)))
    while left_s > 0:
        lasts_s = min(left_s, float(rng.uniform(0.9, 1.8)))
        yield (x, y), lasts_s
        left_s -= lasts_s
        x, y = x + float(rng.uniform(-0.1, 0.1)), y + float(rng.uniform(-0.06, 0.06))


def _aside(habit: _Aversions, rng: np.random.Generator) -> tuple[float, float]:
    side = 1.0 if rng.random() < 0.5 else -1.0
    way = float(rng.random())
    reach = float(rng.uniform(*habit.reach))
    up, down, _ = habit.ways
    if way < up:
        return 0.6 * side * reach, -0.7 * reach
    if way < up + down:
        return 0.5 * side * reach, 0.7 * reach
    return side * reach, 0.12 * reach * (2.0 * float(rng.random()) - 1.0)
