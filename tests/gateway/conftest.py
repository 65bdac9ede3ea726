"""A gateway with doubles of the services behind it, on a bus of its own."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
import uvicorn

from gateway.api.app import create_app
from gateway.api.state import Gateway
from gateway.edge.server import server_config
from gateway.edge.tls import open_tls
from gateway.peers.server import listen
from gateway.settings import GatewaySettings
from gateway.stages import registry
from tests.gateway.doubles import KINDS, Double, Doubles
from visavis.client import GatewayClient
from visavis.serving.discovery import discover
from visavis.serving.logs import JsonFormatter
from visavis.tools.stack.nats_server import NatsServer
from visavis.wire.bus import Bus


@pytest.fixture(autouse=True)
def _logs_stay_ours() -> Iterator[None]:
    """A gateway's `main` has all logs written to what is standard error in its test."""
    yield
    for handler in list(logging.root.handlers):
        if isinstance(handler.formatter, JsonFormatter):
            logging.root.removeHandler(handler)


@pytest.fixture(scope="session", autouse=True)
def _answer_at_once() -> Iterator[None]:
    """Whoever is there runs in this very process: nobody is waited for as in a cluster."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "discover", partial(discover, wait_s=0.2))
        yield


class RunningGateway:
    """The real web server on a free port of the loopback interface."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._listening = listen(settings.model_copy(update={"port": 0}))
        tls = open_tls(settings)
        self._scheme = "http" if tls is None else "https"
        self.app = create_app(settings, self._listening.address, tls)
        self._server = uvicorn.Server(server_config(self.app, settings, tls, drain_s=1))
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._server.serve(self._listening.sockets))
        await until(lambda: self._server.started)

    async def stop(self) -> None:
        self._server.should_exit = True
        assert self._task is not None
        await self._task

    @property
    def url(self) -> str:
        port = self._server.servers[0].sockets[0].getsockname()[1]
        return f"{self._scheme}://127.0.0.1:{port}"

    @property
    def requests(self) -> int:
        """How many it is busy with, sockets included."""
        return len(self._server.server_state.tasks)

    @property
    def inside(self) -> Gateway:
        gateway: Gateway = self.app.state.gateway
        return gateway


async def until(met: Callable[[], Any], timeout_s: float = 30.0) -> Any:
    """Returns what `met` says once that is true."""
    async with asyncio.timeout(timeout_s):
        # What is waited for is another process's or task's doing and sets no event here.
        while not (result := met()):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    return result


@asynccontextmanager
async def served(config: uvicorn.Config) -> AsyncIterator[int]:
    """The port of a web server in this loop; it ends with the block."""
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    await until(lambda: server.started)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await serving


async def meets(gateway: RunningGateway, doubles: Doubles, *, gateways: int = 0) -> None:
    """Returns once it knows all services that run, and so many gateways: where the machine is busy,
    somebody may answer too late for one look.
    """
    registry = gateway.inside.registry
    running = {double.instance for double in doubles._all}

    async def look() -> bool:
        await registry.refresh()
        known = {s.replica.instance for name in KINDS for s in registry.replicas(name) if s.healthy}
        return known >= running and len(registry.gateways) >= gateways

    await eventually(look)


async def eventually(met: Callable[[], Awaitable[Any]], timeout_s: float = 30.0) -> None:
    """Returns once `met` says something true."""
    async with asyncio.timeout(timeout_s):
        while not await met():  # noqa: ASYNC110  # asked over HTTP: nothing tells us
            await asyncio.sleep(0.05)


HERE = {"X-Visavis-Passed-On": "1"}
"""With it the gateway that is asked makes a session itself, wherever most room is."""


async def next_event(socket: Any, kind: str) -> dict[str, Any]:
    """The next one of this type that comes over a WebSocket."""
    async with asyncio.timeout(30):
        while (event := json.loads(await socket.recv()))["type"] != kind:
            pass
    return dict(event)


SETTINGS: dict[str, Any] = {
    "session_idle_s": 60.0,
    "answer_timeout_s": 5.0,
    "max_sessions": 3,
    "upload_limit_mb": 1,
}


class Rig:
    """A bus, doubles and a gateway, shared by the tests of a module."""

    kinds: Mapping[str, type[Double]] = KINDS

    def __init__(self, folder: Path) -> None:
        self.nats = NatsServer(folder)
        self.running: RunningGateway

    async def start(self, **settings: Any) -> None:
        await asyncio.to_thread(self.nats.start)
        self.bus = await Bus.connect(self.nats.url, name="doubles")
        self.doubles = Doubles(self.bus, self.kinds)
        await self.doubles.start()
        wanted = {"nats_url": self.nats.url, **SETTINGS, **settings}
        self.running = RunningGateway(GatewaySettings.model_validate(wanted))
        await self.running.start()

    async def reset(self) -> None:
        """As new for the next test: no sessions, well-behaved services."""
        inside = self.running.inside
        for session in inside.sessions.all():
            await inside.sessions.end_for_shutdown(session)  # unless it has ended meanwhile
        await until(lambda: not self.doubles.leases())  # they still hear what was said last
        if await self.doubles.restore():
            await meets(self.running, self.doubles)

    async def stop(self) -> None:
        await self.running.stop()
        await self.doubles.stop()
        await self.bus.close()
        await asyncio.to_thread(self.nats.stop)


@asynccontextmanager
async def another(rig: Rig, **settings: Any) -> AsyncIterator[RunningGateway]:
    """A gateway of these settings alone on the rig's bus; it ends with the block."""
    other = RunningGateway(GatewaySettings.model_validate({"nats_url": rig.nats.url, **settings}))
    await other.start()
    try:
        yield other
    finally:
        await other.stop()


@pytest.fixture(scope="module")
def settings(request: Any) -> dict[str, Any]:
    """Of the module's gateway, over the common ones: its SETTINGS, or what its own fixture says."""
    settings: dict[str, Any] = getattr(request.module, "SETTINGS", {})
    return settings


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(
    request: Any, settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Rig]:
    """Of the module's RIG, where it has a kind of its own."""
    rig: Rig = getattr(request.module, "RIG", Rig)(tmp_path_factory.mktemp("gateway"))
    await rig.start(**settings)
    yield rig
    await rig.stop()


@pytest_asyncio.fixture(loop_scope="module")
async def gateway(rig: Rig) -> AsyncIterator[RunningGateway]:
    yield rig.running
    await rig.reset()


@pytest.fixture
def doubles(rig: Rig) -> Doubles:
    return rig.doubles


@pytest_asyncio.fixture(loop_scope="module")
async def client(gateway: RunningGateway, settings: dict[str, Any]) -> AsyncIterator[GatewayClient]:
    async with GatewayClient(gateway.url, settings.get("api_key", "")) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def http(gateway: RunningGateway) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=gateway.url, trust_env=False, verify=False) as http:
        yield http
