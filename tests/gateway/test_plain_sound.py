"""A session's sound as plain samples: what was said, as long as it was, at the rate asked for."""

from __future__ import annotations

import asyncio
from functools import partial

import httpx
import numpy as np
import pytest
import websockets

from gateway.playout.audience import Seats
from gateway.playout.pacing import HALF_TICK_SAMPLES, LONG_TICK_SAMPLES, TICK_SAMPLES
from gateway.playout.playout import Tick
from gateway.playout.sinks.plain_sound import RATES_HZ, PlainSound
from gateway.session import ticks
from tests.gateway.conftest import RunningGateway, until
from tests.gateway.doubles import Doubles
from tests.gateway.test_api import new_session
from visavis.client import GatewayClient

pytestmark = pytest.mark.asyncio(loop_scope="module")


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
