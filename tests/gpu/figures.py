"""Figures of the plans, for the table at the end of a run."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Figures:
    title: str = "On this GPU"
    columns: tuple[str, ...] = (
        "plan",
        "error",
        "GPU ms",
        "no graph ms",
        "CPU ms",
        "speed-up",
        "copies ms",
        "GPU MiB",
        "8 rows ms",
    )
    rows: dict[str, dict[str, str]] = field(default_factory=dict)

    def note(self, plan: str, column: str, value: str) -> None:
        assert column in self.columns, column
        self.rows.setdefault(plan, {})[column] = value
