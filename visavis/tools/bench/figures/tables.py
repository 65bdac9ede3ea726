"""What the benchmarks print: tables of figures and counts, and how far they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from visavis.tools.bench.figures.report import Row
from visavis.tools.shown import Progress, Table

_MEGABYTE = 1e6


def figures_table(title: str, rows: Iterable[Row]) -> Table:
    """One line for each figure; one that was not measured says so."""
    table = Table("figure", title=title, box=None)
    for column in ("n", "P50", "19 times of 20", "P90", "P95", "max"):
        table.add_column(column, justify="right")
    for row in rows:
        summary = row.summary
        if summary is None:
            table.add_row(_name(row), "0", *["-"] * 5)
            continue
        values = (summary.p50, summary.p90, summary.p95, summary.max)
        median, *cells = [written(value, row.unit) for value in values]
        ends = [written(v, row.unit) for v in summary.p50_interval or ()]
        if len(ends) == 2 and " " in ends[1]:  # the unit once
            ends[0] = ends[0].removesuffix(ends[1][ends[1].index(" ") :])
        within = " – ".join(ends) or "-"
        table.add_row(_name(row), str(summary.count), median, within, *cells)
    return table


def parts_table(rows: Iterable[tuple[Row, float]]) -> Table:
    """Where the time went: means, which add up, and how they are spread."""
    title = "Where the time went, against the ideal: all work hidden in the pause"
    table = Table("", title=title)
    for column in ("mean", "P50", "P90"):
        table.add_column(column, justify="right")
    for row, mean in rows:
        spread = (row.summary.p50, row.summary.p90) if row.summary else ()
        table.add_row(_name(row), *(written(value, row.unit) for value in (mean, *spread)))
    return table


def _name(row: Row) -> str:
    """In words, which a narrow terminal can break."""
    return row.name.replace("_", " ")


def written(value: float, unit: str) -> str:
    """Seconds to the millisecond, bytes in MB, shares in per cent."""
    if unit == "CPU s":
        return f"{value:.2f} s"
    if unit == "s":
        return f"{round(value, 3) + 0.0:.3f} s"
    if unit == "MB":
        return f"{value / _MEGABYTE:.0f} MB"
    if unit == "%":
        return f"{value:.1%}"
    return f"{value:g}"


def counts_table(counts: Mapping[str, float]) -> Table:
    """What happened how often."""
    table = Table("count", "", box=None, show_header=False)
    for name, value in counts.items():
        table.add_row(name.replace("_", " "), f"{value:g}")
    return table


class Steps:
    """How far a long measurement is: a bar on a terminal, lines in a log file."""

    def __init__(self, console: Console, total: int, begins: str) -> None:
        self._console, self._total = console, total
        self._count = 0
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self._bar = Progress(*columns, TimeRemainingColumn(), console=console)
        self._task = self._bar.add_task(begins, total=total)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def tell(self, line: str) -> None:
        """What the present step is busy with; of interest to those who watch alone."""
        self._bar.update(self._task, description=line)

    def done(self, line: str) -> None:
        """One more step is done; `line` tells what came of it."""
        self._count += 1
        self._bar.update(self._task, advance=1, description=line)
        if not self._console.is_terminal:
            self._console.print(Text(f"{self._count}/{self._total} {line}"))
