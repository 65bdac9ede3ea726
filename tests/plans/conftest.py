"""What was compiled, shown at the end of the run as `visavis engine check` shows it."""

from __future__ import annotations

import pytest
from rich.console import Console

from visavis.cli.engine_tables import checks_table
from visavis.plans.survey import Checked
from visavis.plans.targets import PORTABLE, flavour_of, load_flavour

_CHECKS = pytest.StashKey[list[Checked]]()


@pytest.fixture(scope="session")
def compiled(pytestconfig: pytest.Config) -> list[Checked]:
    """Takes every compilation of the product's networks, for the table."""
    return pytestconfig.stash.setdefault(_CHECKS, [])


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if checks := config.stash.get(_CHECKS, []):
        terminalreporter.write_line("")
        table = checks_table(checks, flavour_of(load_flavour("rtx")), PORTABLE.name)
        Console(width=100).print(table)
