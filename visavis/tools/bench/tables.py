"""What the benchmarks print and draw."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from xml.sax.saxutils import escape

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from visavis.tools.bench.report import Row, write, write_report

# ------------------------------------------------------------ picture
# The picture of a benchmark: each figure's median, 90th percentile and maximum, as SVG.

_WIDTH, _LEFT, _RIGHT, _TOP, _LINE = 860, 210, 110, 58, 26
_BAR, _WHISKER, _GRID, _INK = "#2a6f97", "#c1562c", "#dddddd", "#222222"


def draw(title: str, rows: Sequence[Row]) -> str:
    """SVG text. Rows that are not in seconds or were not measured are left out."""
    shown = [row for row in rows if row.summary is not None and row.unit == "s"]
    height = _TOP + _LINE * max(1, len(shown)) + 50
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        _text(20, 26, title, size=15),
    ]
    longest = max((row.summary.max for row in shown if row.summary is not None), default=1.0)
    scale = (_WIDTH - _LEFT - _RIGHT) / (longest or 1.0)
    bottom = _TOP + _LINE * len(shown)
    for tick in _ticks(longest):
        x = _LEFT + tick * scale
        parts.append(_line(x, _TOP - 8, x, bottom, _GRID, 1))
        parts.append(_text(x, bottom + 18, f"{tick:g} s", anchor="middle"))
    for index, row in enumerate(shown):
        parts += _row(row, _TOP + _LINE * index, scale)
    parts.append(_text(_LEFT, bottom + 38, "bar: median   line: to the 90th percentile   dot: max"))
    return "\n".join([*parts, "</svg>", ""])


def _row(row: Row, y: float, scale: float) -> list[str]:
    assert row.summary is not None
    low, p50, p90, largest = (
        _LEFT + max(0.0, value) * scale
        for value in (0.0, row.summary.p50, row.summary.p90, row.summary.max)
    )
    middle = y + 7
    return [
        _text(_LEFT - 10, y + 11, row.name.replace("_", " "), anchor="end"),
        f'<rect x="{low:.1f}" y="{y}" width="{p50 - low:.1f}" height="14" fill="{_BAR}"/>',
        _line(p50, middle, p90, middle, _WHISKER, 3),
        f'<circle cx="{largest:.1f}" cy="{middle:.1f}" r="3.5" fill="{_WHISKER}"/>',
        _text(largest + 8, y + 11, f"{row.summary.p50:.3f} / {row.summary.p90:.3f}"),
    ]


def _ticks(longest: float) -> list[float]:
    """About five round values up to `longest`."""
    step = 0.001
    for candidate in (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50):
        step = candidate
        if longest / candidate <= 6:
            break
    return [round(i * step, 6) for i in range(int(longest / step) + 1)]


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: int) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        f'stroke="{colour}" stroke-width="{width}"/>'
    )


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
        f'fill="{_INK}">{escape(text)}</text>'
    )


# ------------------------------------------------------------ bench tables
# What the benchmarks print.

_MEGABYTE = 1e6


def figures_table(title: str, rows: Iterable[Row]) -> Table:
    """One line for each figure; one that was not measured says so."""
    table = Table("figure", title=title, title_justify="left")
    for column in ("n", "P50", "P90", "P95", "max"):
        table.add_column(column, justify="right")
    for row in rows:
        summary = row.summary
        if summary is None:
            table.add_row(row.name, "0", *["-"] * 4)
            continue
        values = (summary.p50, summary.p90, summary.p95, summary.max)
        cells = [written(value, row.unit) for value in values]
        table.add_row(row.name, str(summary.count), *cells)
    return table


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
    table = Table("count", "", box=None, show_header=False)
    for name, value in counts.items():
        table.add_row(name.replace("_", " "), f"{value:g}")
    return table


_LOG_WIDTH = 132


def wide_console() -> Console:
    """The terminal as it is; wide enough for every table where it is a log file."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_LOG_WIDTH)


class Steps:
    """How far a long measurement is: a bar on a terminal, lines in a log file."""

    def __init__(self, console: Console, total: int, begins: str) -> None:
        self._console, self._total = console, total
        self._count = 0
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self._bar = Progress(
            *columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal
        )
        self._task = self._bar.add_task(begins, total=total)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def done(self, line: str) -> None:
        """One more step is done; `line` tells what came of it."""
        self._count += 1
        self._bar.update(self._task, advance=1, description=line)
        if not self._console.is_terminal:
            self._console.print(Text(f"{self._count}/{self._total} {line}"))


def hand_out(
    console: Console,
    title: str,
    rows: Sequence[Row],
    result: Mapping[str, Any],
    json_path: Path | None,
    picture: Path | None,
) -> None:
    """Print the result and write what was asked for."""
    console.print(figures_table(title, rows))
    console.print(counts_table(result["counts"]))
    for note in result["notes"]:
        console.print(Text(f"Note: {note}", "yellow"))
    if json_path is not None:
        write_report(json_path, result)
        console.print(Text(f"Figures: {json_path}"))
    if picture is not None:
        write(picture, draw(title, rows))
        console.print(Text(f"Picture: {picture}"))
