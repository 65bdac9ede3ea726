"""How long it takes until one of the open sessions has ended. Pure: the time is an argument."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

_Times = NDArray[np.float64]
_KEPT = 300
_STEPS = 150
_AS_GOOD_AS_ONE = 0.7
"""Once so much of an end is expected, it is more likely to have come than not: waits are told to be
as long as they mostly are, which is less than their mean."""
_FULL_HOUSES = 10
_SHAPES = np.array([0.7, 1.0, 1.5, 2.5, 4.0])
"""Of Weibull distributions: 1 ends at a constant rate, 4 is nearly a fixed length."""
_SCALES = np.geomspace(1 / 8, 8, 41)
_PRIOR_VISITS = 5
"""The curves count as much as so many visits that were seen to end."""
_SHORTEST_S = 0.5
_TABLE = 1000
_NEGLIGIBLE = 1e-4
_HORIZON_MEANS = 6.0
"""Waits of more than so many mean visits are not told: too much is unknown."""


class Departures:
    """Predicts how long it takes until a number of the open sessions have ended.

    How long visits last is estimated from those that ended and from those that go on (E. Kaplan
    and P. Meier, "Nonparametric Estimation from Incomplete Observations", 1958; W. Weibull, "A
    Statistical Distribution Function of Wide Applicability", 1951). A session that is
    open is as old as it is: what is left of it is what was left of others at its age. Whoever
    leaves is followed by a new visitor, whose visit is as long as any (a renewal process), but not
    at once: fewer sessions than there were as others left are about to be followed by new ones.
    """

    def __init__(self) -> None:
        self._lasted_s: deque[float] = deque(maxlen=_KEPT)
        self._open: dict[str, float] = {}
        self._full: deque[int] = deque(maxlen=_FULL_HOUSES)
        """How many were open as one of them ended while somebody waited."""

    def opened(self, session: str, now_s: float) -> None:
        """A visit begins."""
        self._open[session] = now_s

    def ended(self, session: str, now_s: float, *, awaited: bool = False) -> None:
        """It is over. Nothing if it never began. awaited: somebody stands in line."""
        if awaited:
            self._full.append(len(self._open))
        began_s = self._open.pop(session, None)
        if began_s is not None:
            self._lasted_s.append(now_s - began_s)

    def waits_s(self, most: int, now_s: float) -> list[float | None]:
        """Until the first, the second … of `most` has ended; None: that cannot be told.

        Nothing is told where no visit has ended yet.
        """
        if not self._lasted_s or not self._open or most <= 0:
            return [None] * max(0, most)
        ages_s = now_s - np.fromiter(self._open.values(), np.float64)
        survival = _Survival(np.asarray(self._lasted_s), ages_s)
        step_s = _HORIZON_MEANS * survival.mean_s / _STEPS
        full = sum(self._full) / len(self._full) if self._full else 0.0
        vacant = max(0.0, full - len(self._open))
        newcomers = np.zeros(round(vacant))
        ended = _expected_ends(survival, np.concatenate([ages_s, newcomers]), step_s) + vacant
        counts = np.arange(most) + _AS_GOOD_AS_ONE
        waits_s = np.interp(counts, np.maximum.accumulate(ended), step_s * np.arange(_STEPS + 1))
        return [float(w) if c <= ended[-1] else None for w, c in zip(waits_s, counts, strict=True)]


class _Survival:
    """The share of visits that last longer than some time.

    Of many what was seen counts (Kaplan and Meier's step function), of few the likeliest curves of
    one shape or another: Weibull distributions, each weighed by how well it explains the visits
    that ended and those that go on. By the steps alone the first few ends of visits that are much
    alike would make them twice as long as they are.
    """

    def __init__(self, lasted_s: _Times, ages_s: _Times) -> None:
        """lasted_s: [L] float64, of visits that ended; ages_s: [N] float64, of those that go on."""
        length_s = np.sort(lasted_s)
        # At risk at the end of a visit: those that lasted as long, and those that are as old.
        as_long = len(length_s) - np.arange(len(length_s))
        as_old = len(ages_s) - np.searchsorted(np.sort(ages_s), length_s)
        share = np.cumprod(1.0 - 1.0 / (as_long + as_old))
        self._at_s = np.concatenate([[0.0], length_s])
        self._share = np.concatenate([[1.0], share])
        self._fit(np.maximum(lasted_s, _SHORTEST_S), ages_s)
        self._seen = len(length_s) / (len(length_s) + _PRIOR_VISITS)
        # It is asked of hundreds of sessions at a hundred times each.
        longest_s = max(float(ages_s.max()), self._at_s[-1], self.mean_s)
        table_s = np.geomspace(_SHORTEST_S, 20.0 * longest_s, _TABLE)
        self._table_s = np.concatenate([[0.0], table_s])
        self._table = self._tabled(self._table_s)

    def _fit(self, lasted_s: _Times, ages_s: _Times) -> None:
        mean_s = max(1.0, float(lasted_s.sum() + ages_s.sum()) / len(lasted_s))
        shape, scale_s = (
            grid.reshape(-1, 1) for grid in np.meshgrid(_SHAPES, mean_s * _SCALES, indexing="ij")
        )
        likely = np.log(shape / scale_s) + (shape - 1.0) * np.log(lasted_s / scale_s)
        likely = (likely - (lasted_s / scale_s) ** shape).sum(axis=1)
        likely -= ((ages_s / scale_s) ** shape).sum(axis=1)
        weight = np.exp(likely - likely.max())
        kept = weight > _NEGLIGIBLE
        self._shape, self._scale_s = shape[kept], scale_s[kept]
        self._weight = weight[kept] / weight[kept].sum()
        self.mean_s = float(self._weight @ self._scale_s[:, 0])
        """About as long as visits are."""

    def beyond(self, time_s: _Times) -> _Times:
        """Share of visits that last longer than `time_s`."""
        share: _Times = np.interp(time_s, self._table_s, self._table)
        return share

    def _tabled(self, time_s: _Times) -> _Times:
        curve, last_s = self._curve(time_s), self._at_s[-1:]
        # Of those that are left nothing is known but the curve.
        left = max(float(self._share[-1]), 0.5 / (len(self._at_s) + 1))
        tail = left * np.minimum(1.0, curve / max(float(self._curve(last_s)[0]), _NEGLIGIBLE))
        steps = np.where(time_s >= last_s, tail, np.interp(time_s, self._at_s, self._share))
        share: _Times = self._seen * steps + (1.0 - self._seen) * curve
        return share

    def _curve(self, time_s: _Times) -> _Times:
        curve: _Times = self._weight @ np.exp(-((time_s / self._scale_s) ** self._shape))
        return curve


def _expected_ends(survival: _Survival, ages_s: _Times, step_s: float) -> _Times:
    """How many sessions have ended by each step, newcomers in the place of those that left.

    ages_s: [N] float64. Returns [_STEPS + 1] float64.
    """
    times_s: _Times = np.linspace(0.0, _STEPS * step_s, _STEPS + 1)
    left = np.maximum(1e-9, survival.beyond(ages_s))
    later_s: _Times = np.add.outer(ages_s, times_s)
    ended: _Times = (1.0 - survival.beyond(later_s) / left[:, None]).sum(axis=0)
    gone = 1.0 - survival.beyond(times_s)
    # Those who came as others left, of whom some have left again by each step.
    newly = np.diff(ended, prepend=0.0)
    for _ in range(round(_HORIZON_MEANS)):
        newly = np.diff(np.convolve(newly, gone)[: _STEPS + 1], prepend=0.0)
        ended = ended + np.cumsum(newly)
    return ended
