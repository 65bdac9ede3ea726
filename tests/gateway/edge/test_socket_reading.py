"""Messages of a WebSocket come in as a client sends them, and no faster than they are taken."""

from __future__ import annotations

import asyncio
import contextlib
from asyncio.selector_events import _SelectorTransport  # type: ignore[attr-defined]
from collections.abc import AsyncIterator
from socket import SO_SNDBUF, SOL_SOCKET
from typing import Any

import pytest
import websockets

from gateway.edge.server import server_config
from gateway.settings import GatewaySettings
from tests.gateway.conftest import served, until

PACKET = bytes(640)
"""20 ms of a microphone."""


class Taker:
    """An application that takes messages while it may, and keeps them."""

    def __init__(self) -> None:
        self.may = asyncio.Event()
        self.taken: list[bytes] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "websocket":
            return
        await receive()
        await send({"type": "websocket.accept"})
        while True:
            await self.may.wait()
            message = await receive()
            if message["type"] == "websocket.disconnect":
                return
            self.taken.append(message["bytes"])


@contextlib.asynccontextmanager
async def socket_to(app: Taker) -> AsyncIterator[websockets.ClientConnection]:
    """A client of the gateway's web server in front of `app`."""
    config = server_config(app, GatewaySettings(), drain_s=1)
    config.host, config.port, config.lifespan = "127.0.0.1", 0, "off"
    async with (
        served(config) as port,
        websockets.connect(f"ws://127.0.0.1:{port}/", compression=None) as client,
    ):
        yield client


@pytest.fixture
def stops(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Grows each time that a side of a connection reads no more for now."""
    stops: list[object] = []
    pause = _SelectorTransport.pause_reading
    monkeypatch.setattr(
        _SelectorTransport, "pause_reading", lambda self: (stops.append(self), pause(self))
    )
    return stops


async def test_packets_that_are_taken_as_they_come_are_read_without_a_stop(
    stops: list[object],
) -> None:
    app = Taker()
    app.may.set()
    async with socket_to(app) as client:
        for count in range(1, 21):
            await client.send(PACKET)
            await until(lambda count=count: len(app.taken) == count)
    assert app.taken == [PACKET] * 20
    assert stops == []


@pytest.mark.parametrize("size", [640, 4100])
async def test_who_sends_faster_than_is_taken_waits_and_nothing_is_lost(
    size: int, stops: list[object]
) -> None:
    app = Taker()
    sent = [n.to_bytes(4, "big") * (size // 4) for n in range(4_000_000 // size)]
    async with socket_to(app) as client:
        # Else the system takes megabytes from the client by itself.
        client.transport.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_SNDBUF, 65_536)

        async def send_all() -> None:
            for message in sent:
                await client.send(message)

        sending = asyncio.create_task(send_all())
        await until(lambda: stops or sending.done())
        assert not sending.done(), "4 MB were taken in, though nobody wants them"
        app.may.set()
        await sending
        await until(lambda: len(app.taken) == len(sent))
    assert app.taken == sent
