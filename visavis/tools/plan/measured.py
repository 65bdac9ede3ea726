"""What `visavis engine bench` measured, as figures that a plan can be made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from visavis.tools.plan_bench import BenchRow

# What a run of all networks of a bundle comes to, by the bundle's task. A recogniser's networks
# run as often as the words ask for: its runs say how a batch pays, and no time of a stage.
_TIMES: Mapping[str, str] = {"asr": "", "tts": "phrase_s", "face": "frame_s"}
CPU = "cpu"


@dataclass(frozen=True)
class Measured:
    """One bundle's networks on one machine. rows: by plan; all: no plan is left out."""

    bundle: str
    task: str
    rows: Sequence[tuple[str, BenchRow]]
    all: bool
    machine: Mapping[str, Any]
    date: str
    """Of the measurement, as in 2026-05-03."""

    def told(self) -> dict[str, Any]:
        """As a file: every row, and what `visavis plan --profiles` reads of them."""
        rows = [
            {
                "plan": plan,
                "engine": row.engine,
                "batch": row.batch,
                "median_ms": row.median_ms,
                "p95_ms": row.p95_ms,
                "per_second": row.per_second,
                "runs": row.runs,
                "problem": row.problem,
            }
            for plan, row in self.rows
        ]
        about = {"bundle": self.bundle, "date": self.date, "machine": dict(self.machine)}
        return {**about, "rows": rows, "profiles": self._profiles()}

    def _profiles(self) -> dict[str, Any]:
        """By profile: what runs on a CPU is of `cpu`, all else of `gpu`."""
        if self.task not in _TIMES or not self.all:
            return {}
        found: dict[str, tuple[str, dict[int, float]]] = {}
        for engine in dict.fromkeys(row.engine for _, row in self.rows):
            times = self._times(engine)
            profile = CPU if f" {CPU} " in f" {engine} " else "gpu"
            if 1 in times and (profile not in found or times[1] < found[profile][1][1]):
                found[profile] = engine, times
        return {
            profile: {self.task: self._figures(engine, times)}
            for profile, (engine, times) in found.items()
        }

    def _times(self, engine: str) -> dict[int, float]:
        """Batch size to milliseconds of one run of every network, where all could be measured."""
        plans = {plan for plan, _ in self.rows}
        sizes: dict[int, dict[str, float]] = {}
        for plan, row in self.rows:
            if row.engine == engine and not row.problem:
                sizes.setdefault(row.batch, {})[plan] = row.median_ms
        return {
            size: sum(times.values())
            for size, times in sorted(sizes.items())
            if times.keys() == plans
        }

    def _figures(self, engine: str, times: Mapping[int, float]) -> dict[str, Any]:
        where = ", ".join(str(value) for value in self.machine.values())
        source = f"visavis engine bench {self.bundle}, {engine}, {self.date}, {where}"
        # A larger run that was quicker by chance is as long as the smaller one.
        curve = zip(times, accumulate(times.values(), max), strict=True)
        figures: dict[str, Any] = {
            "batches": [[size, round(ms, 4)] for size, ms in curve],
            "batches_source": source,
        }
        if name := _TIMES[self.task]:
            figures[name] = {"value": round(times[1] / 1000, 7), "source": source}
        return figures
