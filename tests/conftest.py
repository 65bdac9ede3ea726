"""Fixtures that every test may use: a real nats-server, real bundles, a real stack."""

from __future__ import annotations

import secrets
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.console import Console

from tests.bundles.compile.float_graphs import FloatGraphs
from tests.parity import PARITIES, Parity, parity_table
from tests.real_tensorrt import RealTensorrt
from tests.running_stack import RunningStack
from visavis.bundles.store import bundle_path, profile
from visavis.serving.errors import ModelStoreError
from visavis.tools.stack.nats_server import NatsServer
from visavis.wire.bus import Bus
from visavis.wire.permissions import Login, User, users_config

PASSWORDS = {user: secrets.token_hex(16) for user in User}


def pytest_configure() -> None:
    """A background job of a script inherits that Ctrl-C is ignored, and so would what it starts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """One real nats-server on a free loopback port for the whole run."""
    with NatsServer(tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest.fixture
async def bus(nats_server: NatsServer) -> AsyncIterator[Bus]:
    connection = await Bus.connect(nats_server.url, name="test")
    yield connection
    await connection.close()


@contextmanager
def server_with_users(folder: Path) -> Iterator[NatsServer]:
    """A real nats-server that lets in the users of `PASSWORDS` alone, and keeps things."""
    server = NatsServer(folder)
    server.process.storage, server.process.users = folder / "kept", folder / "bus.conf"
    server.process.users.write_text(users_config(PASSWORDS))
    with server:
        yield server


async def connected(server: NatsServer, user: User) -> Bus:
    return await Bus.connect(server.url, name="test", login=Login(user, PASSWORDS[user]))


@pytest.fixture(scope="session")
def bundle() -> Callable[[str], Path]:
    """Folder of a pulled bundle by name; skips the test, saying so, if it is not pulled."""

    def path_of(name: str) -> Path:
        try:
            return bundle_path(name)
        except ModelStoreError as error:
            pytest.skip(str(error))

    return path_of


@pytest.fixture(scope="session")
def float_graphs(bundle: Callable[[str], Path]) -> Iterator[FloatGraphs]:
    """A gigabyte: not kept, as pytest's own folders are, for three runs."""
    with tempfile.TemporaryDirectory(prefix="visavis-graphs-") as folder:
        yield FloatGraphs(Path(folder), bundle)


@pytest.fixture(scope="session")
def parities(pytestconfig: pytest.Config) -> list[Parity]:
    """Takes what a comparison measured, for the table at the end."""
    return pytestconfig.stash.setdefault(PARITIES, [])


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if rows := config.stash.get(PARITIES, []):
        terminalreporter.write_line("")
        Console(width=120).print(parity_table(rows))


@pytest.fixture(scope="session")
def tensorrt_11(tmp_path_factory: pytest.TempPathFactory) -> RealTensorrt:
    """The real bindings of TensorRT 11, to be read."""
    return RealTensorrt(tmp_path_factory.mktemp("libraries"))


@pytest.fixture(scope="session")
def stack(
    tmp_path_factory: pytest.TempPathFactory, bundle: Callable[[str], Path]
) -> Iterator[RunningStack]:
    """One stack with the tiny profile for the whole run; tests open sessions of their own."""
    for bundles in profile("tiny").values():
        for name in bundles:
            bundle(name)
    running = RunningStack(tmp_path_factory.mktemp("stack"))
    yield running
    alive = running.stop()
    assert alive == [], f"left behind after Ctrl-C: {alive}"
    assert running.bus_lost() == [], "Ctrl-C ends the bus before those who need it"
    faults = running.faults()
    assert faults == [], "\n\n".join(["the logs show faults of ours:", *faults])
