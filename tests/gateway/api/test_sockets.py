"""The WebSockets: every bad message is answered, nobody disturbs anybody; sound as plain samples,
as long as what was said and at the rate asked for.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import httpx
import numpy as np
import pytest
import pytest_asyncio
import websockets

from gateway.api.events import MAX_SOCKET_MESSAGE_BYTES
from gateway.playout.audience import Seats
from gateway.playout.pacing import HALF_TICK_SAMPLES, LONG_TICK_SAMPLES, TICK_SAMPLES
from gateway.playout.playout import Tick
from gateway.playout.sinks import broadcast
from gateway.playout.sinks.plain_sound import RATES_HZ, PlainSound
from gateway.session import ticks
from tests.gateway.conftest import RunningGateway, until
from tests.gateway.doubles import Doubles
from tests.gateway.media import tone
from tests.gateway.visiting import new_session
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


# ------------------------------------------------------------ sound as plain samples


@pytest.mark.parametrize("rate_hz", [16_000, 48_000])
async def test_what_is_said_comes_as_samples(
    client: GatewayClient, doubles: Doubles, rate_hz: int
) -> None:
    async with client.session(drawn_by="client") as session:
        path = f"/v1/sessions/{session.id}"
        heard = np.zeros(0, np.int16)
        async with client.connect(f"{path}/audio?rate_hz={rate_hz}") as sound, asyncio.timeout(30):
            await client.call("POST", f"{path}/say", json={"text": "Hello."})
            while not (np.abs(heard) > 1000).any() or heard[-rate_hz // 5 :].any():
                message = await sound.recv()
                assert isinstance(message, bytes)
                heard = np.concatenate([heard, np.frombuffer(message, "<i2")])
        loud = np.flatnonzero(np.abs(heard) > 1000)
        assert (loud[-1] - loud[0]) / rate_hz == pytest.approx(doubles.script.voice_s, abs=0.03)
        assert doubles.seen.of("face", "codecs")[-1].codecs.codecs == [], "nobody looks"


@pytest.mark.parametrize("rate_hz", RATES_HZ)
async def test_messages_are_of_20_ms_also_where_silence_leaves_in_longer_pieces(
    rate_hz: int,
) -> None:
    sound = PlainSound(Seats(1), lambda: None)
    listener = sound.join(rate_hz)
    pieces = [TICK_SAMPLES] * 12 + [LONG_TICK_SAMPLES] * 4
    for number, length in enumerate(pieces):
        sound.push(Tick(number, np.zeros(length, np.int16), silent=True))
    listener.end()
    lengths = [len(message) // 2 async for message in listener]
    assert lengths[-8:] == [rate_hz // 50] * 8


class Ticks(PlainSound):
    """How long each piece of sound is that leaves a session."""

    def __init__(self) -> None:
        super().__init__(Seats(0), lambda: None)
        self.lengths: list[int] = []
        self.silent: list[bool] = []

    def push(self, tick: Tick) -> None:
        self.lengths.append(len(tick.pcm))
        self.silent.append(tick.silent)

    def latest(self, length: int) -> bool:
        """Whether the last ones were as long."""
        return self.lengths[-3:] == [length] * 3


async def test_silence_leaves_in_long_pieces_but_where_somebody_types(
    gateway: RunningGateway, client: GatewayClient
) -> None:
    async with client.session(drawn_by="client") as session:
        left = Ticks()
        gateway.inside.sessions.get(session.id).audience.add(left)
        async with client.connect(f"/v1/sessions/{session.id}/audio"):
            for text, length in (
                ("", LONG_TICK_SAMPLES),
                ("Wh", TICK_SAMPLES),
                ("", LONG_TICK_SAMPLES),
            ):
                await session.typing(text)
                await until(partial(left.latest, length))


async def test_who_has_something_to_say_waits_for_no_long_piece_to_begin(
    gateway: RunningGateway, client: GatewayClient
) -> None:
    async with client.session(drawn_by="client") as session:
        left, path = Ticks(), f"/v1/sessions/{session.id}"
        gateway.inside.sessions.get(session.id).audience.add(left)
        async with client.connect(f"{path}/audio"):
            await until(partial(left.latest, LONG_TICK_SAMPLES))
            await client.call("POST", f"{path}/say", json={"text": "Hello."})
            await until(lambda: not left.silent[-1])
    voice = left.silent.index(False)
    began = next(i for i in range(voice + 1) if left.lengths[i] == HALF_TICK_SAMPLES or i == voice)
    assert left.lengths[began - 1] == TICK_SAMPLES, "the one in which the answer was opened"


async def test_a_rest_begins_behind_a_whole_piece_for_whole_ones_pass_in_it(
    monkeypatch: pytest.MonkeyPatch, gateway: RunningGateway, http: httpx.AsyncClient
) -> None:
    monkeypatch.setattr(ticks, "REST_TICKS", 20)
    inside = gateway.inside.sessions.get(await new_session(http, drawn_by="client"))
    left = Ticks()
    inside.audience.add(left)
    listener = inside.outlets.plain_sound.join(RATES_HZ[0])
    await until(partial(left.latest, LONG_TICK_SAMPLES))
    inside.outlets.plain_sound.leave(listener)
    await until(lambda: inside.rests)
    assert left.latest(TICK_SAMPLES)


async def test_one_socket_listens_and_speaks(client: GatewayClient, doubles: Doubles) -> None:
    doubles.script.hears = "Hello?"
    async with client.session() as session:
        path = f"/v1/sessions/{session.id}"
        async with client.connect(f"{path}/audio?role=speaker") as sound, asyncio.timeout(30):
            for level in (9000, 0):
                for _ in range(15):
                    await sound.send(np.full(320, level, np.int16).tobytes())
            async for event in session.events():
                if event["type"] == "answer" and event["final"]:
                    break
    assert doubles.seen.prompts[0][-1][1] == "Hello?"


async def test_what_there_is_not_is_refused(client: GatewayClient) -> None:
    async with client.session() as session:
        for query in ("rate_hz=8000", "rate_hz=fast", "role=dancer"):
            with pytest.raises(websockets.InvalidStatus) as refused:
                await client.connect(f"/v1/sessions/{session.id}/audio?{query}")
            assert refused.value.response.status_code == 422
