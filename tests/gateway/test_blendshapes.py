"""A face that the client draws: poses come with the sound's own times, and no pictures at all."""

from __future__ import annotations

import asyncio
import struct
from itertools import pairwise

import httpx
import pytest

from tests.gateway.doubles import Doubles
from tests.gateway.media import JAW_OPEN, film
from visavis.client import GatewayClient
from visavis.wire.media import BLENDSHAPES_BYTES, VideoCodec

pytestmark = pytest.mark.asyncio(loop_scope="module")

RECORD = struct.Struct(f"<I{BLENDSHAPES_BYTES}s")
IDLE = 40
"""How far the double's jaw is open while nothing is said; then it opens with each picture."""


async def test_a_client_that_draws_gets_poses_in_step_with_the_sound_and_no_pictures(
    client: GatewayClient, doubles: Doubles
) -> None:
    made = (await client.call("POST", "/v1/sessions", json={"drawn_by": "client"})).json()
    assert made["drawn_by"] == "client"
    path = f"/v1/sessions/{made['id']}"
    poses: list[tuple[int, int]] = []
    sound = bytearray()
    async with (
        client.connect(f"{path}/face") as face,
        client.connect(f"{path}/media") as media,
        asyncio.timeout(30),
    ):

        async def hear() -> None:
            while True:
                sound.extend(await media.recv())

        hearing = asyncio.create_task(hear())
        await client.call("POST", f"{path}/text", json={"text": "How are you?"})
        while not (poses and poses[-1][1] == IDLE and max(jaw for _, jaw in poses) > IDLE):
            message = await face.recv()
            poses += [(time_ms, pose[JAW_OPEN]) for time_ms, pose in RECORD.iter_unpack(message)]
        hearing.cancel()
    assert all(earlier <= later for (earlier, _), (later, _) in pairwise(poses))
    with film(bytes(sound)) as heard:
        assert [stream.type for stream in heard.streams] == ["audio"]
        loud_s = [
            float(frame.pts * frame.time_base)
            for frame in heard.decode(audio=0)
            if abs(frame.to_ndarray()).max() > 0.05
        ]
    # The jaw opens with the voice, which waits for a late pose for 40 ms at most; a pose is 40 ms
    # long, a packet of sound 21.
    opens_ms = next(time_ms for time_ms, jaw in poses if jaw > IDLE)
    assert abs(opens_ms - 1000 * loud_s[0]) <= 101
    asked = [config.config.face.codecs for config in doubles.seen.of("face", "config")]
    asked += [request.codecs.codecs for request in doubles.seen.of("face", "codecs")]
    assert {codec for codecs in asked for codec in codecs} == {VideoCodec.BLENDSHAPES}


async def test_each_connection_may_say_who_draws(client: GatewayClient, doubles: Doubles) -> None:
    made = (await client.call("POST", "/v1/sessions", json={"drawn_by": "client"})).json()
    path = f"/v1/sessions/{made['id']}"
    async with client.connect(f"{path}/media?drawn_by=server") as media, asyncio.timeout(30):
        first = await media.recv()
        assert b"avc1" in first and b"mp4a" in first
    answer = await client.call("PATCH", path, json={"drawn_by": "server"})
    assert answer.json()["drawn_by"] == "server"
    async with client.connect(f"{path}/media") as media, asyncio.timeout(30):
        assert b"avc1" in await media.recv()


async def test_a_head_is_kept_by_its_digest(http: httpx.AsyncClient) -> None:
    for file, content, media_type in (
        ("head.glb", b"glTF of eve", "model/gltf-binary"),
        ("head.json", b'{"title": "Eve"}', "application/json"),
        ("background.png", b"wall of eve", "image/png"),
    ):
        url = f"/v1/avatars/eve/{file}"
        head = await http.get(url)
        assert (head.status_code, head.content) == (200, content)
        assert head.headers["Content-Type"] == media_type
        again = await http.get(url, headers={"If-None-Match": head.headers["ETag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert (await http.get(url.replace("eve", "bob"))).status_code == 404
