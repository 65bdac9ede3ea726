"""How far rebuilt graphs are from the published ones: figures of the tests, shown at the end."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from rich import box
from rich.table import Table


@dataclass(frozen=True)
class Parity:
    """One comparison on ONNX Runtime. What passed is in the test; this is what it measured."""

    network: str
    change: str
    """The pass, or what rebuilt the graph."""
    on: str
    error: float | None
    """Largest difference of any output; None where rounding that was taken out differs anyway."""
    end_to_end: str = ""


PARITIES = pytest.StashKey[list[Parity]]()


def parity_table(rows: list[Parity]) -> Table:
    table = Table(
        "network",
        "change",
        "on",
        title="Rebuilt graphs against the published ones, on ONNX Runtime",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("max error", justify="right", no_wrap=True)
    table.add_column("end to end")
    for row in rows:
        error = "" if row.error is None else f"{row.error:.1e}"
        table.add_row(row.network, row.change, row.on, error, row.end_to_end)
    return table
