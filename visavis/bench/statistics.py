"""Medians and percentiles of a list of figures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Summary:
    """How a figure is spread. Percentiles are interpolated between neighbours."""

    count: int
    p50: float
    p90: float
    p95: float
    max: float

    def to_dict(self) -> dict[str, float]:
        return {
            "count": self.count,
            "p50": round(self.p50, 4),
            "p90": round(self.p90, 4),
            "p95": round(self.p95, 4),
            "max": round(self.max, 4),
        }


def summarise(values: Iterable[float | None]) -> Summary | None:
    """Summary of what was measured; None where nothing was. Missing values are left out."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    p50, p90, p95 = np.percentile(known, [50, 90, 95])
    return Summary(len(known), float(p50), float(p90), float(p95), float(max(known)))
