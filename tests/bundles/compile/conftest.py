"""`visavis engine` on small bundles; what was compiled of the product, shown at the end."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from tests.bundles.compile import small_graphs
from tests.bundles.compile.compiling import rtx
from tests.bundles.compile.small_store import PLAN, Engine, Store
from visavis.bundles.compile.survey import Checked
from visavis.bundles.compile.targets import PORTABLE, flavour_of, load_flavour
from visavis.serving.errors import VisavisError
from visavis.tools.cli.engine.output import checks_table
from visavis.tools.cli.main import app

_CHECKS = pytest.StashKey[list[Checked]]()


@pytest.fixture(scope="session")
def compiled(pytestconfig: pytest.Config) -> list[Checked]:
    """Takes every compilation of the product's networks, for the table."""
    return pytestconfig.stash.setdefault(_CHECKS, [])


@pytest.fixture(scope="session")
def pulled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five bundles that are pulled and two that are not, made once and copied for each test."""
    rtx()
    folder = tmp_path_factory.mktemp("pulled")
    store = Store(folder)
    store.add("small-net", small_graphs.linear(), PLAN.format(name="net"))
    half = PLAN.format(name="net").replace('"fp32", ', "")
    store.add("half-net", small_graphs.linear(weight=7.0), half)
    store.add("broken-net", small_graphs.nonzero(), PLAN.format(name="net"))
    store.add("junk-net", b"junk", PLAN.format(name="net"))
    store.add("odd-net", small_graphs.linear(), PLAN.format(name="net").replace("8]", "9]"))
    store.add("far-net", small_graphs.linear(weight=5.0), PLAN.format(name="net"))
    store.add("plain-files", b"no network", '[cpu_only]\n"net.onnx" = "it is small"')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VISAVIS_CATALOG_DIR", str(store.catalogue))
        store.pull("small-net", "half-net", "broken-net", "junk-net", "odd-net")
    return folder


@pytest.fixture
def store(pulled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    shutil.copytree(pulled, tmp_path, dirs_exist_ok=True)
    store = Store(tmp_path)
    monkeypatch.setenv("VISAVIS_CATALOG_DIR", str(store.catalogue))
    monkeypatch.setenv("VISAVIS_MODEL_DIR", str(store.models))
    monkeypatch.setenv("VISAVIS_PLAN_DIR", str(store.plans))
    monkeypatch.setenv("COLUMNS", "160")
    return store


@pytest.fixture
def engine(store: Store) -> Engine:
    def run(*arguments: str, fails: type[VisavisError] | None = None, exit_code: int = 0) -> Result:
        result = CliRunner().invoke(app, ["engine", *arguments])
        if fails is not None:
            assert isinstance(result.exception, fails), result.output
        else:
            assert result.exit_code == exit_code, (result.output, result.exception)
        return result

    return run


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if checks := config.stash.get(_CHECKS, []):
        terminalreporter.write_line("")
        table = checks_table(checks, flavour_of(load_flavour("rtx")), PORTABLE.name)
        Console(width=100).print(table)
