"""What stock clients did and what came of it, as the table of docs/clients/README.md.

Printed at the end of `make clients` and `make frameworks`, which name this plugin
(`-p tests.stack.client_table`).

A test says whose client it tries, and with what, by the mark `client(package, done)`; what it has
measured by `record_property("seen", …)`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator
from importlib.metadata import distributions
from pathlib import Path

import pytest

Record = Callable[[str, object], None]
"""pytest's record_property."""
_ROWS: dict[tuple[str, str], list[str]] = {}
_ENVIRONMENTS = ("VISAVIS_CLIENTS", "VISAVIS_FRAMEWORKS")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    marker = item.get_closest_marker("client")
    if marker is not None and (report.when == "call" or not report.passed):
        package, done = marker.args
        seen = "; ".join(str(text) for name, text in report.user_properties if name == "seen")
        result = seen or "passed"
        if report.skipped:
            result = f"**not tried**: {item.name}"
        elif report.failed:
            result = f"**failed**: {item.name}"
        results = _ROWS.setdefault((package, done), [])
        if result not in results:
            results.append(result)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _ROWS:
        return
    terminalreporter.write_line("\n| client | what was done | result |\n|---|---|---|")
    versions = _versions()
    for client in dict.fromkeys(package for package, _ in _ROWS):
        name = f"{client} {versions.get(client, '')}".strip()
        for (package, done), results in _ROWS.items():
            if package == client:
                terminalreporter.write_line(f"| {name} | {done} | {'; '.join(results)} |")
                name = ""


def _versions() -> dict[str, str]:
    """Of all that is installed in the environments of the clients."""
    found: dict[str, str] = {}
    for root in (Path(os.environ[name]) for name in _ENVIRONMENTS if name in os.environ):
        for told in (
            *root.glob("node_modules/*/package.json"),
            *root.glob("node_modules/@*/*/package.json"),
        ):
            package = json.loads(told.read_bytes())
            found[package["name"]] = package["version"]
        # Last: npm has other packages of the same names.
        folders = [str(folder) for folder in root.glob("lib/python3*/site-packages")]
        found |= {known.name: known.version for known in distributions(path=folders)}
    return found
