"""Fixtures that every test may use: a real nats-server, real bundles."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from visavis.bus import Bus
from visavis.errors import ModelStoreError
from visavis.stack.nats_server import NatsServer


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


@pytest.fixture(scope="session")
def bundle() -> Callable[[str], Path]:
    """Folder of a pulled bundle by name; skips the test, saying so, if it is not pulled."""

    from visavis.models import bundle_path

    def path_of(name: str) -> Path:
        try:
            return bundle_path(name)
        except ModelStoreError as error:
            pytest.skip(str(error))

    return path_of
