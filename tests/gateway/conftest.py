"""A gateway with doubles of the services behind it, on a bus of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from gateway.app import create_app
from gateway.settings import GatewaySettings
from gateway.state import Gateway
from tests.gateway.doubles import Doubles
from visavis.bus import Bus
from visavis.client import GatewayClient
from visavis.stack.nats_server import NatsServer


class RunningGateway:
    """The real web server on a free port of the loopback interface."""

    def __init__(self, settings: GatewaySettings) -> None:
        self.app = create_app(settings)
        config = uvicorn.Config(
            self.app,
            port=0,
            log_config=None,
            ws="websockets-sansio",
            ws_per_message_deflate=False,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._server.serve())
        await until(lambda: self._server.started)

    async def stop(self) -> None:
        self._server.should_exit = True
        assert self._task is not None
        await self._task

    @property
    def url(self) -> str:
        port = self._server.servers[0].sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}"

    @property
    def inside(self) -> Gateway:
        gateway: Gateway = self.app.state.gateway
        return gateway


async def until(met: Callable[[], Any], timeout_s: float = 5.0) -> Any:
    """Returns what `met` says once that is true."""
    async with asyncio.timeout(timeout_s):
        # What is waited for is another process's or task's doing and sets no event here.
        while not (result := met()):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    return result


@pytest.fixture
async def own_nats(tmp_path: Path) -> AsyncIterator[NatsServer]:
    with NatsServer(tmp_path) as server:
        yield server


@pytest.fixture
async def doubles(own_nats: NatsServer) -> AsyncIterator[Doubles]:
    bus = await Bus.connect(own_nats.url, name="doubles")
    doubles = Doubles(bus)
    await doubles.start()
    yield doubles
    await doubles.stop()
    await bus.close()


@pytest.fixture
def settings() -> dict[str, Any]:
    """Settings of the gateway; a test may override this fixture's values."""
    return {"session_idle_s": 60.0, "answer_timeout_s": 5.0, "max_sessions": 3}


@pytest.fixture
async def gateway(
    own_nats: NatsServer, doubles: Doubles, settings: dict[str, Any]
) -> AsyncIterator[RunningGateway]:
    running = RunningGateway(GatewaySettings(nats_url=own_nats.url, **settings))
    await running.start()
    yield running
    await running.stop()


@pytest.fixture
async def client(gateway: RunningGateway) -> AsyncIterator[GatewayClient]:
    async with GatewayClient(gateway.url) as client:
        yield client


@pytest.fixture
async def http(gateway: RunningGateway) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=gateway.url, trust_env=False) as http:
        yield http
