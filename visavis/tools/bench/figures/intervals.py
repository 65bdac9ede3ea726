"""How exact a figure is that few measurements gave: intervals that hold it 19 times of 20, where
nothing else is asked for.

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


def percentile_interval(
    values: Sequence[float], percentile: float, outside: float = _OUTSIDE
) -> Interval:
    """Between which two of the values a percentile of all that might be measured lies.

    By order statistics: so many of n values are below it as coins fall heads that do so with the
    percentile's chance (David & Nagaraja, "Order Statistics", 2003, section 7.1). outside: how
    often it may lie elsewhere, as often below as above. An end is infinite where the values are too
    few to tell: P95 has no upper end of fewer than 72, or with `outside` 0.1 of fewer than 59.
    """
    count, share = len(values), percentile / 100
    ordered = [-math.inf, *sorted(values), math.inf]
    below, low = 0.0, 0
    for rank in range(count + 1):
        ways = math.lgamma(count + 1) - math.lgamma(rank + 1) - math.lgamma(count - rank + 1)
        heads = rank * math.log(share) + (count - rank) * math.log1p(-share)
        below += math.exp(ways + heads)
        if below <= outside / 2:
            low = rank + 1
        if 1 - below <= outside / 2:
            return ordered[low], ordered[rank + 1]
    return ordered[low], math.inf


def median_interval(values: Sequence[float]) -> Interval | None:
    """That of the median; None for fewer than six values, which do not bound it."""
    found = percentile_interval(values, 50)
    return None if math.isinf(found[0]) else found


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
