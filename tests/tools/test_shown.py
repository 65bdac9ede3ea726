"""Tables on terminals of any width, and in pipes."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console
from rich.progress import TextColumn
from rich.text import Text

from visavis.tools.shown import Progress, Table, output_console

WHAT = "en: hears English at the pace of speech, and what is said in a full room"
FOUND = "/home/ann/.cache/visavis/models/moonshine-tiny-en/encoder.onnx"


def table() -> Table:
    shown = Table(title="Bundles in /home/ann/.cache/visavis/models")
    shown.add_column("bundle", no_wrap=True)
    shown.add_column("what it is", overflow="fold")
    shown.add_column("MB", justify="right")
    shown.add_column("")
    shown.add_column("lies in", overflow="fold")
    shown.add_row("moonshine-tiny-en", WHAT, "1,046 of 2,000", "ready", Text(FOUND, "green"))
    return shown


def printed(width: int) -> list[str]:
    file = StringIO()
    Console(file=file, width=width).print(table())
    lines = [line.rstrip() for line in file.getvalue().splitlines()]
    assert all(len(line) <= width for line in lines)
    return lines


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
def test_no_word_is_broken_and_no_figure_lost(width: int) -> None:
    words = " ".join(printed(width)).split()
    assert not {"moonshine-tiny-en", *WHAT.split(), "1,046", "2,000"} - set(words)
    assert any("1,046 of 2,000" in line for line in printed(width))


def test_where_there_is_no_room_for_columns_each_row_is_told_line_under_line() -> None:
    shown = printed(48)
    title, name = "Bundles in /home/ann/.cache/visavis/models", "moonshine-tiny-en  ready"
    assert shown[:2] == [title, name]
    assert "  MB: 1,046 of 2,000" in shown
    assert any("┃" in line for line in printed(100))


def test_a_row_is_one_line_of_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    output_console().print(table())
    (row,) = [line for line in capsys.readouterr().out.splitlines() if "moonshine" in line]
    assert WHAT in row and FOUND in row


def test_nothing_is_left_of_a_bar_where_no_terminal_shows_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Progress(TextColumn("{task.description}"), console=output_console()) as progress:
        progress.update(progress.add_task("Part 1", total=2), completed=2)
    assert capsys.readouterr().out == ""
