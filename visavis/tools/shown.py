"""What commands print: tables for terminals of any width, and whole lines for pipes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import rich.progress
import rich.table
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.text import Text

_UNBOUNDED = 10_000
"""Columns where nobody says how many there are. No line of ours is so long."""
_INDENT, _GAP = 2, "  "
_LONGEST_WORD = 24
"""Longer ones are paths and digests, which a column that folds may break."""


def output_console(**options: Any) -> Console:
    """For what a command is asked for. Into a pipe or a file, lines are as long as they are.

    COLUMNS in the environment is obeyed in any case. options: as `Console` takes them.
    """
    console = Console(**options)
    if console.is_terminal or "COLUMNS" in os.environ:
        return console
    return Console(width=_UNBOUNDED, **options)


class Progress(rich.progress.Progress):
    """Bars of a terminal, gone once they have done. Elsewhere there is nothing of them, not even
    the empty line that rich leaves.
    """

    def __init__(self, *columns: rich.progress.ProgressColumn, console: Console) -> None:
        super().__init__(*columns, console=console, transient=True, disable=not console.is_terminal)


class Table(rich.table.Table):
    """One that breaks no word and loses no figure: where there is no room for its columns, each row
    is told line under line, with what has no header beside its name. Its cells are text.
    """

    def __init__(self, *headers: str, title: str = "", **options: Any) -> None:
        """title: as it stands, at the left. options: as rich's table takes them."""
        super().__init__(*headers, **options)
        self._heading = title

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self._heading:  # rich breaks it where the table is narrow
            yield Text(self._heading, "table.title")
        widths = self._widths(console, options)
        if widths is None:
            yield from self._rows(console, options.max_width - _INDENT)
            return
        for column, width in zip(self.columns, widths, strict=True):
            column.width = width
        yield from super().__rich_console__(console, options)

    def _widths(self, console: Console, options: ConsoleOptions) -> list[int] | None:
        """Of each column, all of them within the options' width; None: there are none such."""
        wide = options.update(width=_UNBOUNDED)
        most, least = [], []
        for column in self.columns:
            column.width = None
            header, *cells = (
                Measurement.get(console, wide, told) for told in (column.header, *column.cells)
            )
            most.append(max([header.maximum, *(cell.maximum for cell in cells)]))
            least.append(_least(column, header, cells))
        frame = Measurement.get(console, wide, self).maximum - sum(most)
        spare = options.max_width - frame - sum(least)
        if spare < 0:
            return None
        widths = list(least)
        for _ in range(min(spare, sum(most) - sum(least))):
            neediest = max(range(len(widths)), key=lambda n: most[n] - widths[n])
            widths[neediest] += 1
        return widths

    def _rows(self, console: Console, width: int) -> RenderResult:
        """width: of a row's lines under its name."""
        first, *others = self.columns
        for name, *cells in zip(first.cells, *(other.cells for other in others), strict=True):
            heading, told = [Text(_text(console, name).plain.strip(), "bold")], []
            for other, cell in zip(others, cells, strict=True):
                header, text = _text(console, other.header), _text(console, cell)
                if not header.plain:
                    heading.append(text)
                elif text.plain.strip():
                    told.append(Text.assemble(header, ": ", text))
            if line := Text(_GAP).join(part for part in heading if part.plain):
                yield line
            for line in _packed(told, width):
                yield Padding(line, (0, 0, 0, _INDENT), expand=False)


def _packed(told: Sequence[Text], width: int) -> list[Text]:
    """As few lines as hold all of it in order; longer than the width is only what is so alone."""
    lines: list[Text] = []
    for one in told:
        if lines and lines[-1].cell_len + len(_GAP) + one.cell_len <= width:
            lines[-1] = Text.assemble(lines[-1], _GAP, one)
        else:
            lines.append(one)
    return lines


def _least(column: rich.table.Column, header: Measurement, cells: Sequence[Measurement]) -> int:
    """What a column has to be given. Figures are not parted from their units."""
    if column.no_wrap:
        return max([header.maximum, *(cell.maximum for cell in cells)])
    if column.justify == "right":
        return max([header.minimum, *(cell.maximum for cell in cells)])
    least = max([header.minimum, *(cell.minimum for cell in cells)])
    return min(least, _LONGEST_WORD) if column.overflow == "fold" else least


def _text(console: Console, told: Any) -> Text:
    return told if isinstance(told, Text) else console.render_str(str(told), highlight=False)
