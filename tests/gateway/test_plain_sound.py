"""A session's sound as plain samples: what was said, as long as it was, at the rate asked for."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
import websockets

from tests.gateway.doubles import Doubles
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


@pytest.mark.parametrize(
    ("query", "status"), [("rate_hz=8000", 422), ("rate_hz=fast", 422), ("role=dancer", 422)]
)
async def test_what_there_is_not_is_refused(client: GatewayClient, query: str, status: int) -> None:
    async with client.session() as session:
        with pytest.raises(websockets.InvalidStatus) as refused:
            await client.connect(f"/v1/sessions/{session.id}/audio?{query}")
        assert refused.value.response.status_code == status
