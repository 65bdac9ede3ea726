"""Messages of a WebSocket come in as a client sends them, and no faster than they are taken."""

from __future__ import annotations

import asyncio
import contextlib
from asyncio.selector_events import _SelectorTransport  # type: ignore[attr-defined]
from collections.abc import AsyncIterator
from pathlib import Path
from socket import SO_SNDBUF, SOL_SOCKET
from typing import Any

import pytest
import websockets
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from gateway.edge import self_signed
from gateway.edge.server import server_config
from gateway.edge.tls import Tls
from gateway.settings import GatewaySettings
from tests.gateway.conftest import served, until
from visavis.serving.lifetime.supervision import end_tasks

PACKET = bytes(640)
"""20 ms of a microphone."""


class Taker:
    """An application that takes messages while it may, and keeps them."""

    def __init__(self) -> None:
        self.may = asyncio.Event()
        self.taken: list[bytes] = []
        self.left = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "websocket":
            return
        await receive()
        await send({"type": "websocket.accept"})
        while True:
            await self.may.wait()
            message = await receive()
            if message["type"] == "websocket.disconnect":
                self.left = True
                return
            self.taken.append(message["bytes"])


@contextlib.asynccontextmanager
async def turns(app: Taker, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[int]]:
    """How many frames were taken apart, and messages taken, each time before another task's turn:
    the most of each.
    """
    apart, most = 0, [0, 0]
    take_apart = WebSocketsSansIOProtocol.handle_bytes

    def counted(self: WebSocketsSansIOProtocol, frame: Any) -> None:
        nonlocal apart
        apart += 1
        take_apart(self, frame)

    async def another() -> None:
        before = [0, 0]
        while True:
            await asyncio.sleep(0)
            now = [apart, len(app.taken)]
            most[:] = [max(m, n - b) for m, n, b in zip(most, now, before, strict=True)]
            before = now

    monkeypatch.setattr(WebSocketsSansIOProtocol, "handle_bytes", counted)
    task = asyncio.create_task(another())
    try:
        yield most
    finally:
        await end_tasks([task])


@contextlib.asynccontextmanager
async def socket_to(
    app: Taker, path: str = "/", tls: Tls | None = None
) -> AsyncIterator[websockets.ClientConnection]:
    """A client of the gateway's web server in front of `app`."""
    config = server_config(app, GatewaySettings(), tls, drain_s=1)
    config.host, config.port, config.lifespan = "127.0.0.1", 0, "off"
    scheme, context = ("wss", tls.peers) if tls is not None else ("ws", None)
    async with (
        served(config) as port,
        websockets.connect(
            f"{scheme}://127.0.0.1:{port}{path}", ssl=context, compression=None
        ) as client,
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


async def test_a_flood_of_tiny_messages_lets_others_in_and_is_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = Taker()
    app.may.set()
    letters = [bytes([n % 251]) for n in range(37_000)]
    flood = b"".join(b"\x82\x81\0\0\0\0" + letter for letter in letters)
    async with socket_to(app) as client, turns(app, monkeypatch) as most:
        client.transport.write(flood)
        await until(lambda: len(app.taken) == len(letters))
        await client.send(b"to the end")  # and it goes on
        await until(lambda: app.taken[-1] == b"to the end")
    assert app.taken[:-1] == letters
    assert most[0] <= 8192 // 7 + 1 and most[1] == 1


async def test_what_came_over_tls_before_a_client_left_is_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    lost: list[object] = []
    lose = WebSocketsSansIOProtocol.connection_lost
    monkeypatch.setattr(
        WebSocketsSansIOProtocol,
        "connection_lost",
        lambda self, error: (lost.append(self), lose(self, error)),
    )
    app = Taker()
    letters = [bytes([n % 251]) for n in range(2_000)]  # in one record of TLS, and in two pieces
    async with socket_to(app, tls=Tls(self_signed.ensure)) as client:
        client.transport.write(b"".join(b"\x82\x81\0\0\0\0" + letter for letter in letters))
        client.transport.close()
        await until(lambda: lost)
        app.may.set()
        await until(lambda: app.left)
    assert app.taken == letters


async def test_a_large_message_is_read_in_pieces_and_whole() -> None:
    app = Taker()
    app.may.set()
    large = bytes(range(256)) * 4_000
    async with socket_to(app, "/v1/realtime") as client:
        for message in (large, PACKET, large):
            await client.send(message)
        await until(lambda: len(app.taken) == 3)
    assert app.taken == [large, PACKET, large]


async def test_who_is_sent_away_in_the_midst_of_a_flood_ends_as_others_do() -> None:
    class Ends(Taker):
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "websocket":
                return
            await receive()
            await send({"type": "websocket.accept"})
            await receive()
            await send({"type": "websocket.close", "code": 4410})

    async with socket_to(Ends()) as client:
        client.transport.write(b"\x82\x81\0\0\0\0x" * 37_000)
        await asyncio.wait_for(client.wait_closed(), 20)
        assert client.close_code == 4410
