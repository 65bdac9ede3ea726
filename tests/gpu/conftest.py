"""Tests on real hardware: `make gpu-test`. Without a GPU each is skipped with the reason.

What is measured is collected in `figures` and printed as a table at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from tests.gpu.figures import Figures
from tests.gpus import why_no_backend, why_no_gpu
from visavis.engine import GPU_BACKENDS
from visavis.engine.tensorrt.bindings.device import CudaDevice
from visavis.engine.tensorrt.bindings.selection import open_device

_FIGURES = Figures()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    reason = why_no_gpu()
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.gpu)
            item.add_marker(pytest.mark.timeout(300))  # TensorRT compiles a plan in minutes
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def figures() -> Figures:
    return _FIGURES


@pytest.fixture(scope="session")
def flavour() -> str:
    """The first of TensorRT's modules that is installed; skips the test where none is."""
    reasons = {name: why_no_backend(name) for name in GPU_BACKENDS}
    found = next((name for name, reason in reasons.items() if not reason), None)
    if found is None:
        pytest.skip("; ".join(reasons.values()))
    return found


@pytest.fixture(scope="session")
def cuda() -> Iterator[CudaDevice]:
    device = open_device("cuda:0")
    with device.current():
        yield device


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _FIGURES.rows:
        return
    table = Table(title=_FIGURES.title)
    for column in _FIGURES.columns:
        table.add_column(column, justify="left" if column == "plan" else "right")
    for name, row in _FIGURES.rows.items():
        table.add_row(name, *(row.get(column, "") for column in _FIGURES.columns[1:]))
    terminalreporter.write_line("")
    Console(width=160).print(table)
