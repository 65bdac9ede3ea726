"""The two WebSockets: every bad message is answered, nobody disturbs anybody."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
import websockets

from gateway.api.events import MAX_SOCKET_MESSAGE_BYTES
from gateway.playout.sinks import broadcast
from tests.gateway.conftest import RunningGateway, until
from tests.gateway.doubles import Doubles
from tests.gateway.media import tone
from visavis.client import GatewayClient
from visavis.wire.subjects import Kind

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def session(client: GatewayClient) -> str:
    return str((await client.call("POST", "/v1/sessions", json={})).json()["id"])


@pytest_asyncio.fixture(loop_scope="module")
async def events(client: GatewayClient, session: str) -> AsyncIterator[Any]:
    async with client.connect(f"/v1/sessions/{session}/events") as socket:
        assert json.loads(await socket.recv())["type"] == "session"
        assert json.loads(await socket.recv()) == {"type": "state", "state": "idle"}
        yield socket


async def answer(socket: Any, message: str | bytes) -> dict[str, Any]:
    await socket.send(message)
    async with asyncio.timeout(30):
        reply: dict[str, Any] = json.loads(await socket.recv())
    return reply


async def test_a_bad_message_is_answered_and_the_socket_lives(events: Any) -> None:
    for message, words in (
        ("", "JSON"),
        ("{", "JSON"),
        ("[]", "message"),
        ("null", "message"),
        ("{}", "type"),
        ('{"type": "dance"}', "dance"),
        ('{"type": "text"}', "text"),
        ('{"type": "text", "text": ""}', "text"),
        ('{"type": "text", "text": "x", "loud": true}', "loud"),
        ('{"type": "update", "speed": 9}', "speed"),
        ('{"type": "update", "voice": "bob"}', "bob"),
        ('{"type": "update", "language": "en-\\u0000"}', "language"),
        ('{"type": "update", "avatar": "../eileen"}', "avatar"),
        ('{"type": "text", "text": "%s"}' % ("x" * 100_000), "characters"),
        (b"\x00\x01", "binary"),
    ):
        reply = await answer(events, message)
        assert reply["type"] == "error", message
        assert words in reply["message"], message
        assert await answer(events, '{"type": "ping"}') == {"type": "pong"}, message


@pytest.mark.parametrize("path", ["events", "media?role=speaker"])
async def test_a_message_that_is_far_too_large_closes_the_socket(
    client: GatewayClient, session: str, path: str
) -> None:
    """The only one that does."""
    async with client.connect(f"/v1/sessions/{session}/{path}") as socket:
        await socket.send("x" * MAX_SOCKET_MESSAGE_BYTES)
        async with asyncio.timeout(30):
            while isinstance(reply := await socket.recv(), bytes) or '"error"' not in reply:
                pass
            await socket.send("x" * (MAX_SOCKET_MESSAGE_BYTES + 1))
            with pytest.raises(websockets.ConnectionClosed) as closed:
                while True:
                    await socket.recv()
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1009


async def test_commands(events: Any, doubles: Doubles) -> None:
    changed = await answer(events, '{"type": "update", "language": "zh"}')
    assert (changed["type"], changed["language"]) == ("session", "zh")
    assert (await answer(events, '{"type": "text", "text": "Hi."}'))["type"] == "transcript"
    await events.send('{"type": "interrupt"}')
    seen: list[dict[str, Any]] = []
    async with asyncio.timeout(30):
        while not seen or seen[-1].get("event") != "interrupted":
            seen.append(json.loads(await events.recv()))


async def test_a_session_that_ends_closes_its_sockets(
    events: Any, client: GatewayClient, session: str
) -> None:
    async with client.connect(f"/v1/sessions/{session}/media") as media:
        await client.call("DELETE", f"/v1/sessions/{session}")
        last = json.loads(await events.recv())
        assert (last["type"], last["code"]) == ("error", "session_closed")
        for socket in (events, media):
            with pytest.raises(websockets.ConnectionClosed) as closed:
                while True:
                    await socket.recv()
            assert closed.value.rcvd is not None and closed.value.rcvd.code == 4410


async def test_a_refused_handshake_says_why(
    client: GatewayClient, session: str, caplog: pytest.LogCaptureFixture
) -> None:
    no_socket = f"{session}/event"
    for path in ("nobody/events", "nobody/media", f"{session}/media?role=king", no_socket):
        with pytest.raises(websockets.InvalidStatus) as refusal:
            await client.connect(f"/v1/sessions/{path}")
        response = refusal.value.response
        assert response.status_code in (404, 422), path
        assert response.body is not None
        assert json.loads(response.body)["error"]["message"]
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING], "no fault of ours"


async def test_one_microphone_at_a_time(client: GatewayClient, session: str) -> None:
    path = f"/v1/sessions/{session}/media?role=speaker"
    async with client.connect(path):
        with pytest.raises(websockets.InvalidStatus) as refusal:
            async with client.connect(path):
                pass
        assert refusal.value.response.status_code == 409
        async with client.connect(path.replace("speaker", "viewer")):
            pass
    async with client.connect(path):
        pass


async def test_sound_reaches_the_bus_as_it_was_sent(
    client: GatewayClient, session: str, doubles: Doubles
) -> None:
    pcm = tone(1600, rate_hz=16_000)
    async with doubles.bus.subscribe(session, Kind.MIC) as mic:
        async with client.connect(f"/v1/sessions/{session}/media?role=speaker") as media:
            for start in range(0, 1600, 320):
                await media.send(pcm[start : start + 320].tobytes())
            # Nobody waits for these five packets, whose level is all that is known of the room.
            async with asyncio.timeout(30):
                heard: Any = await anext(mic)
    assert heard.pcm.tolist() == pcm.tolist()
    assert heard.place.pts == 0


async def test_bad_sound_is_answered_and_the_socket_lives(
    client: GatewayClient, session: str
) -> None:
    for role, bad in (
        ("speaker", ((b"\x00", "16-bit"), (bytes(40_000), "one second"), ("hello", "binary"))),
        ("viewer", ((bytes(640), "viewer"),)),
    ):
        async with client.connect(f"/v1/sessions/{session}/media?role={role}") as media:
            for message, words in bad:
                await media.send(message)
                async with asyncio.timeout(30):
                    while not isinstance(reply := await media.recv(), str):
                        pass
                assert words in json.loads(reply)["message"]


async def test_sound_faster_than_time_is_cut(
    client: GatewayClient, session: str, gateway: RunningGateway
) -> None:
    microphone = gateway.inside.sessions.get(session).microphone
    async with client.connect(f"/v1/sessions/{session}/media?role=speaker") as media:
        for _ in range(20):
            await media.send(bytes(32_000))
        await until(lambda: microphone.dropped_samples >= 10 * 16_000)


async def test_a_slow_viewer_loses_pictures_and_nobody_else_does(
    monkeypatch: pytest.MonkeyPatch, session: str, gateway: RunningGateway
) -> None:
    monkeypatch.setattr(broadcast, "QUEUE_LIMIT", 20)
    viewers = gateway.inside.sessions.get(session).outlets.broadcast
    slow, fast = viewers.join(), viewers.join()
    received: list[bytes] = []

    async def read() -> None:
        async for payload in fast:
            received.append(payload)

    reader = asyncio.create_task(read())
    await until(lambda: slow.dropped)
    count = len(received)
    await until(lambda: len(received) > count)
    assert fast.dropped == 0
    first = await anext(slow)
    assert first[4:8] in (b"ftyp", b"moof")
    viewers.leave(slow)
    viewers.leave(fast)
    await reader
