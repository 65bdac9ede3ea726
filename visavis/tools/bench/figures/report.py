"""What a benchmark found: figures with their spread, and the whole result as JSON types."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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


SCHEMA = 1
_ENGINE = ("model", "file", "backend", "device")


@dataclass(frozen=True)
class Row:
    """A figure's spread under its name. unit: "s", "MB" or ""."""

    name: str
    summary: Summary | None
    unit: str = "s"


def rows_of(turns: Iterable[Mapping[str, float | None]], units: Mapping[str, str]) -> list[Row]:
    """One row for each name of `units`, over all `turns`."""
    known = list(turns)
    return [
        Row(name, summarise(turn.get(name) for turn in known), unit) for name, unit in units.items()
    ]


def report(
    benchmark: str,
    rows: Sequence[Row],
    *,
    counts: Mapping[str, float],
    turns: Sequence[Mapping[str, Any]],
    settings: Mapping[str, Any],
    notes: Sequence[str] = (),
    models: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """The whole result as JSON types. models: what ran, as `models_of` gives it."""
    return {
        "schema": SCHEMA,
        "benchmark": benchmark,
        "machine": machine(),
        "models": list(models),
        "settings": dict(settings),
        "figures": {row.name: row.summary.to_dict() for row in rows if row.summary is not None},
        "counts": dict(counts),
        "notes": list(notes),
        "turns": list(turns),
    }


def machine() -> dict[str, Any]:
    """What the figures depend on; no name that identifies the machine."""
    return {
        "processor": platform.machine(),
        "cores": os.process_cpu_count() if hasattr(os, "process_cpu_count") else os.cpu_count(),
        "python": platform.python_version(),
        "system": platform.system(),
    }


def models_of(services: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Which weights ran where, each once, of the gateway's list of services."""
    told = [
        {"service": service["service"], **{name: engine[name] for name in _ENGINE}}
        for service in services
        for engine in service["engines"]
    ]
    return [entry for place, entry in enumerate(told) if entry not in told[:place]]
