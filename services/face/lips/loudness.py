"""How loud a voice is beside what it was: a jaw opens wider for what is said louder. Pure."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

_SMOOTH_S, _USUAL_S = 0.12, 2.0
_VOICED_WITHIN = 2.5
"""Deviations below the usual level: what is softer than that is a pause, and does not count."""
_LEAST, _MOST, _PER_DEVIATION = 0.82, 1.22, 0.12


class Loudness:
    """Follows the level of one voice, step by step; the same steps give the same gains however they
    are cut into pieces.
    """

    def __init__(self, step_s: float) -> None:
        self._smooth = 1 - math.exp(-step_s / _SMOOTH_S)
        self._usual = 1 - math.exp(-step_s / _USUAL_S)
        self._level: float | None = None
        self._mean = self._square = 0.0
        self._weight = 0.0

    def gains(self, levels: NDArray[np.floating]) -> NDArray[np.float32]:
        """How much wider than usual the jaw opens at each step, about 1: [T] float32.

        levels: [T] of the voice, logarithmic, in any unit.
        """
        return np.array([self._gain(level) for level in levels.tolist()], np.float32)

    def _gain(self, level: float) -> float:
        self._level = level if self._level is None else self._level
        self._level += self._smooth * (level - self._level)
        mean, deviation = self._usually()
        if not self._weight or level > mean - _VOICED_WITHIN * deviation:
            # What was long ago counts less, and at first all of it is little.
            self._mean += self._usual * (level - self._mean)
            self._square += self._usual * (level * level - self._square)
            self._weight += self._usual * (1 - self._weight)
            mean, deviation = self._usually()
        # Before some of the voice has been heard nothing is known of what is usual.
        sure = self._weight * self._weight
        gain = 1 + sure * _PER_DEVIATION * (self._level - mean) / deviation
        return min(_MOST, max(_LEAST, gain))

    def _usually(self) -> tuple[float, float]:
        if not self._weight:
            return 0.0, 1.0
        mean = self._mean / self._weight
        return mean, math.sqrt(max(0.05, self._square / self._weight - mean * mean))
