"""How exact a figure is that few measurements gave: intervals that hold it 19 times of 20.

No distribution is assumed: latencies have long tails. Pure; the same values give the same interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

Interval: TypeAlias = tuple[float, float]

_OUTSIDE = 0.05
_RESAMPLES = 2000
# Fewer pairs say nothing of how a ratio is spread.
_FEWEST_PAIRS = 6


def median_interval(values: Sequence[float]) -> Interval | None:
    """Between which two of the values the median of all that might be measured lies.

    By order statistics: so many of n values are below the median as heads fall in n throws (David &
    Nagaraja, "Order Statistics", 2003, section 7.1). None for fewer than six values, whose widest
    interval holds it less often.
    """
    count = len(values)
    below, rank = 0.0, 0
    while rank < count:
        below += math.comb(count, rank) / 2**count
        if 2 * below > _OUTSIDE:
            break
        rank += 1
    if not rank:
        return None
    ordered = sorted(values)
    return ordered[rank - 1], ordered[count - rank]


def ratio_interval(
    ours: Sequence[float], theirs: Sequence[float], percentile: float
) -> Interval | None:
    """Of the ratio of a percentile of both, which stem from the same questions in the same order.

    Percentile bootstrap over questions (Efron & Tibshirani, "An Introduction to the Bootstrap",
    1993, section 13.3). None for fewer than six pairs. Raises ValueError for unequal lengths.
    """
    if len(ours) != len(theirs):
        raise ValueError(f"{len(ours)} values of ours and {len(theirs)} of theirs are no pairs")
    if len(ours) < _FEWEST_PAIRS:
        return None
    random = np.random.default_rng(1)
    drawn = random.integers(0, len(ours), (_RESAMPLES, len(ours)))
    a = np.percentile(np.asarray(ours)[drawn], percentile, axis=1)
    b = np.percentile(np.asarray(theirs)[drawn], percentile, axis=1)
    low, high = np.percentile(a / b, [100 * _OUTSIDE / 2, 100 * (1 - _OUTSIDE / 2)])
    return float(low), float(high)
