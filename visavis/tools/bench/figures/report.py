"""What a benchmark found: figures with their spread, and the whole result as JSON types."""

from __future__ import annotations

import functools
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from visavis.serving.admission.probes import cores
from visavis.tools.bench.figures.intervals import Interval, median_interval


@dataclass(frozen=True, slots=True)
class Summary:
    """How a figure is spread. Percentiles are interpolated between neighbours."""

    count: int
    p50: float
    p90: float
    p95: float
    max: float
    p50_interval: Interval | None = None
    """Holds the median 19 times of 20; None of too few."""

    def to_dict(self) -> dict[str, Any]:
        told: dict[str, Any] = {
            "count": self.count,
            "p50": round(self.p50, 4),
            "p90": round(self.p90, 4),
            "p95": round(self.p95, 4),
            "max": round(self.max, 4),
        }
        if self.p50_interval is not None:
            told["p50_interval"] = [round(value, 4) for value in self.p50_interval]
        return told


def summarise(values: Iterable[float | None]) -> Summary | None:
    """Summary of what was measured; None where nothing was. Missing values are left out."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    p50, p90, p95 = np.percentile(known, [50, 90, 95])
    within = median_interval(known)
    return Summary(len(known), float(p50), float(p90), float(p95), float(max(known)), within)


SCHEMA = 1
_VECTORS = (
    *("amx_int8", "avx512_vnni", "avx_vnni", "avx512f", "avx2", "avx"),
    *("i8mm", "asimddp", "asimd"),
)
_ENGINE = ("model", "file", "backend", "device")
_SORTED, _SORTS = 1_000_000, 9


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
    groups: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The whole result as JSON types. models: what ran, as `models_of` gives it.

    groups: more by name: the same for each of several sets, where the figures are of one of them,
    or what is no row.
    """
    return {
        "schema": SCHEMA,
        "benchmark": benchmark,
        "machine": machine(),
        "models": list(models),
        "settings": dict(settings),
        "figures": {row.name: row.summary.to_dict() for row in rows if row.summary is not None},
        "counts": dict(counts),
        "notes": list(notes),
        **({} if groups is None else {"groups": dict(groups)}),
        "turns": list(turns),
    }


def machine() -> dict[str, Any]:
    """What the figures depend on; no name that identifies the machine."""
    return {
        "processor": platform.machine(),
        "cores": round(cores(), 2),
        "vectors": _vectors(),
        "yardstick_ms": round(yardstick_ms(), 2),
        "python": platform.python_version(),
        "system": platform.system(),
    }


def machine_kind() -> str:
    """What stands beside a latency: "2 cores, x86_64, avx2, yardstick 21.0 ms"."""
    kind = machine()
    number = f"{kind['cores']:g} core{'s' if kind['cores'] != 1 else ''}"
    yardstick = f"yardstick {kind['yardstick_ms']:.1f} ms"
    words = (number, kind["processor"], kind["vectors"], yardstick)
    return ", ".join(word for word in words if word)


@functools.cache
def yardstick_ms() -> float:
    """How quick this machine is just now: a million float32 sorted on one core, median.

    A machine that is shared differs from hour to hour by more than most of what is improved.
    Measured when it is first asked for, which is after a benchmark's own work.
    """
    mixed = np.random.default_rng(1).random(_SORTED, np.float32)
    took_s = []
    for _ in range(_SORTS):
        began_s = time.perf_counter()
        np.sort(mixed)
        took_s.append(time.perf_counter() - began_s)
    return 1e3 * float(np.median(took_s))


def _vectors() -> str:
    """The widest of the instructions for networks that the processor has; "": nobody knows."""
    try:
        known = set(Path("/proc/cpuinfo").read_text(encoding="utf-8").split())
    except OSError:
        return ""
    return next((name for name in _VECTORS if name in known), "")


def models_of(services: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Which weights ran where, each once, of the gateway's list of services."""
    told = [
        {"service": service["service"], **{name: engine[name] for name in _ENGINE}}
        for service in services
        for engine in service["engines"]
    ]
    return [entry for place, entry in enumerate(told) if entry not in told[:place]]
