"""A face that others draw: VMC and Live Link Face by the byte, a session's by UDP, and poses that
come with the sound's own times.
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
import socket
import struct
from collections.abc import AsyncIterator, Iterator
from itertools import pairwise
from typing import Any

import httpx
import numpy as np
import pytest
import pytest_asyncio
import websockets

from gateway.faces import live_link, vmc
from gateway.faces.destinations import Destination, destination
from gateway.faces.poses import REST, Pose, pose_of
from gateway.settings import GatewaySettings
from tests.gateway.conftest import RunningGateway, until
from tests.gateway.doubles import Doubles
from tests.gateway.media import JAW_OPEN, film
from visavis.arkit import APPLE_NAMES, ARKIT_NAMES
from visavis.client import GatewayClient, GatewayError
from visavis.wire.media import BLENDSHAPES_BYTES, VideoCodec

pytestmark = pytest.mark.asyncio(loop_scope="module")


def pose(yaw: float = 0.0, pitch: float = 0.0, roll: float = 0.0, **weights: float) -> Pose:
    values = np.zeros(52, np.float32)
    for name, value in weights.items():
        values[ARKIT_NAMES.index(name)] = value
    return Pose(values, yaw, pitch, roll)


def read_osc(bundle: bytes) -> Iterator[tuple[Any, ...]]:
    """The messages of a bundle, read by the specification."""
    assert bundle[:16] == b"#bundle\0" + bytes(7) + b"\1"
    at = 16
    while at < len(bundle):
        (size,) = struct.unpack_from(">i", bundle, at)
        element, at = bundle[at + 4 : at + 4 + size], at + 4 + size
        assert size % 4 == 0 and len(element) == size
        address, place = padded(element, 0)
        tags, place = padded(element, place)
        values: list[Any] = []
        for tag in tags[1:]:
            if tag == "s":
                value, place = padded(element, place)
            else:
                (value,) = struct.unpack_from(f">{tag}", element, place)
                place += 4
            values.append(value)
        assert place == size
        yield (address, *values)


def padded(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(b"\0", at)
    return data[at:end].decode(), at + (end - at) // 4 * 4 + 4


async def test_open_sound_control_by_the_byte() -> None:
    """The examples of the specification of OSC 1.0."""
    assert vmc.osc_message("/oscillator/4/frequency", 440.0) == (
        b"/oscillator/4/frequency\0,f\0\0\x43\xdc\0\0"
    )
    assert vmc.osc_message("/foo", 1000, -1, "hello", 1.234, 5.678) == (
        b"/foo\0\0\0\0,iisff\0\0\0\0\x03\xe8\xff\xff\xff\xffhello\0\0\0"
        b"\x3f\x9d\xf3\xb6\x40\xb5\xb2\x2d"
    )


@pytest.mark.parametrize(
    ("names", "jaw", "count"),
    [("ARKit", "JawOpen", 52), ("arkit", "jawOpen", 52), ("vrm1", "aa", 10), ("vrm0", "A", 10)],
)
async def test_vmc_says_each_value_then_applies_them(names: str, jaw: str, count: int) -> None:
    sender = vmc.VmcSender(names)
    first = sender.frame(pose(jawOpen=0.4), 10.0)
    assert max(map(len, first)) <= vmc.MOST_BYTES
    messages = [m for bundle in first for m in read_osc(bundle)]
    assert messages[:2] == [("/VMC/Ext/OK", 1), ("/VMC/Ext/T", 10.0)]
    assert messages[2][:2] == ("/VMC/Ext/Bone/Pos", "Head") and len(messages[2]) == 9
    values = {m[1]: m[2] for m in messages if m[0] == "/VMC/Ext/Blend/Val"}
    assert len(values) == count and values[jaw] == pytest.approx(0.4 if count == 52 else 0.6)
    assert messages[-1] == ("/VMC/Ext/Blend/Apply",)
    assert [m[0] for m in messages].count("/VMC/Ext/Blend/Apply") == 1
    again = [m[0] for bundle in sender.frame(REST, 10.5) for m in read_osc(bundle)]
    assert "/VMC/Ext/OK" not in again
    later = [m[0] for bundle in sender.frame(REST, 11.1) for m in read_osc(bundle)]
    assert later[0] == "/VMC/Ext/OK"
    rest = [m for bundle in sender.rest() for m in read_osc(bundle)]
    assert not any(m[2] for m in rest if m[0] == "/VMC/Ext/Blend/Val")
    assert rest[0][-4:] == (0, 0, 0, 1)


async def test_a_figures_head_turns_as_the_picture_does() -> None:
    """Unity: left-handed, y up, the figure looks along z and has x at its right."""

    def turned(by: Pose, vector: tuple[float, float, float]) -> np.ndarray:
        *axis, w = vmc.head_rotation(by)
        axis, v = np.array(axis), np.array(vector)
        t = 2 * np.cross(axis, v)
        return v + w * t + np.cross(axis, t)

    ahead, up = (0.0, 0.0, 1.0), (0.0, 1.0, 0.0)
    assert turned(pose(yaw=0.2), ahead)[0] == pytest.approx(-math.sin(0.2)), "to its left"
    assert turned(pose(pitch=0.1), ahead)[1] == pytest.approx(-math.sin(0.1)), "down"
    assert turned(pose(roll=0.1), up)[0] == pytest.approx(-math.sin(0.1)), "clockwise to us"
    all_of = vmc.head_rotation(pose(0.2, 0.1, 0.3))
    assert math.hypot(*all_of) == pytest.approx(1.0)


async def test_live_link_by_the_byte() -> None:
    sender = live_link.LiveLinkSender("Ada")
    shown = pose(yaw=0.25, pitch=-0.125, jawOpen=0.5, eyeLookOutLeft=0.75, eyeLookInRight=0.5)
    (data,) = sender.frame(shown, 2.0)
    assert data[0] == 6 and data[1:5] == b"\0\0\0\x24"
    assert len(data[5:41].decode().split("-")) == 5
    assert data[41:48] == b"\0\0\0\x03Ada"
    frame, within, rate, per = struct.unpack_from(">ifii", data, 48)
    assert (frame, within, rate, per) == (50, 0.0, 25, 1)
    assert data[64] == 61 and len(data) == 65 + 4 * 61
    values = dict(zip(live_link.NAMES, struct.unpack_from(">61f", data, 65), strict=True))
    assert values["JawOpen"] == 0.5 and list(values)[17] == "JawOpen"
    assert (values["HeadYaw"], values["HeadPitch"], values["HeadRoll"]) == (0.25, -0.125, 0.0)
    assert (values["LeftEyeYaw"], values["RightEyeYaw"]) == (0.75, 0.5)
    (rest,) = sender.rest()
    assert struct.unpack_from(">i", rest, 48) == (51,) and not any(rest[65:])


async def test_a_take_is_a_table_with_names() -> None:
    lines = list(live_link.table([(0, pose(jawOpen=0.5)), (24, REST), (25 * 61 + 3, REST)]))
    assert lines[0].split(",")[:3] == ["Timecode", "BlendShapeCount", "EyeBlinkLeft"]
    assert lines[0].strip().split(",")[2:54] == list(APPLE_NAMES)
    first = dict(zip(lines[0].strip().split(","), lines[1].strip().split(","), strict=True))
    assert (first["Timecode"], first["BlendShapeCount"]) == ("00:00:00:00.000", "61")
    assert float(first["JawOpen"]) == 0.5
    assert [line.split(",")[0] for line in lines[2:]] == ["00:00:00:24.000", "00:01:01:03.000"]


async def test_destinations_are_named_by_the_operator_alone() -> None:
    assert destination("a", "vmc://10.0.0.5") == Destination("a", "vmc", "10.0.0.5", 39_539)
    found = destination("b", "livelink://[::1]:9?subject=Ada")
    assert (found.host, found.port, found.subject) == ("::1", 9, "Ada")
    assert destination("c", "vmc://h?names=vrm0").names == "vrm0"
    for name, url in (
        ("", "vmc://h"),
        ("a/b", "vmc://h"),
        ("a", "http://h"),
        ("a", "vmc://"),
        ("a", "vmc://h/path"),
        ("a", "vmc://h:99999"),
        ("a", "vmc://studio..lan"),
        ("a", f"livelink://{'h' * 64}.lan"),
        ("a", "vmc://h?names=mmd"),
        ("a", "vmc://h?subject=x"),
        ("a", "livelink://h?subject=%0a"),
    ):
        with pytest.raises(ValueError):
            destination(name, url)
    with pytest.raises(ValueError, match="names"):
        GatewaySettings(face_outputs={"a": "vmc://h?names=mmd"})


VALUES_BYTES = 4 * len(live_link.NAMES)


class Engine(asyncio.DatagramProtocol):
    """What has come to a UDP port."""

    def __init__(self) -> None:
        self.came: list[bytes] = []

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.came.append(data)

    def jaws(self) -> list[float]:
        at = live_link.NAMES.index("JawOpen")
        return [struct.unpack(">61f", data[-VALUES_BYTES:])[at] for data in self.came]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine() -> AsyncIterator[tuple[Engine, int]]:
    loop = asyncio.get_running_loop()
    listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listening.bind(("127.0.0.1", 0))
    transport, engine = await loop.create_datagram_endpoint(Engine, sock=listening)
    yield engine, listening.getsockname()[1]
    transport.close()


@pytest.fixture(scope="module")
def settings(engine: tuple[Engine, int]) -> dict[str, Any]:
    return {"face_outputs": {"unreal": f"livelink://127.0.0.1:{engine[1]}"}}


async def test_a_sessions_face_goes_where_the_operator_has_said(
    client: GatewayClient, gateway: RunningGateway, engine: tuple[Engine, int]
) -> None:
    ours = (await client.call("POST", "/v1/sessions", json={})).json()["id"]
    other = (await client.call("POST", "/v1/sessions", json={})).json()["id"]
    path = f"/v1/sessions/{ours}/face-outputs/unreal"
    assert (await client.call("PUT", path)).status_code == 204
    assert (await client.call("PUT", path)).status_code == 204, "harmless"
    for refused, code in (
        (f"/v1/sessions/{other}/face-outputs/unreal", "already_exists"),
        (f"/v1/sessions/{ours}/face-outputs/elsewhere", "not_found"),
    ):
        with pytest.raises(GatewayError) as error:
            await client.call("PUT", refused)
        assert error.value.code == code
    listed = (await client.call("GET", "/v1/face-outputs")).json()["outputs"]
    assert listed == [{"name": "unreal", "kind": "livelink", "session": ours}]
    came = engine[0]
    said = (await client.call("POST", f"/v1/sessions/{ours}/text", json={"text": "Hi?"})).json()
    await until(lambda: len(set(came.jaws())) > 4)  # its jaw moves
    session = gateway.inside.sessions.get(ours)
    await until(lambda: getattr(session.records.get(said["turn"]), "state", "") == "finished")
    table = await client.call("GET", f"/v1/sessions/{ours}/turns/{said['turn']}/livelink.csv")
    rows = table.text.splitlines()
    assert table.headers["Content-Type"].startswith("text/csv") and len(rows) > 5
    assert len({row.split(",")[2 + APPLE_NAMES.index("JawOpen")] for row in rows[1:]}) > 4
    with pytest.raises(GatewayError) as error:
        await client.call("GET", f"/v1/sessions/{other}/turns/1/livelink.csv")
    assert error.value.code == "not_found"
    assert (await client.call("DELETE", path)).status_code == 204
    await until(lambda: came.came and not any(came.came[-1][-VALUES_BYTES:]))  # and rests
    await client.call("PUT", f"/v1/sessions/{other}/face-outputs/unreal")
    await client.call("DELETE", f"/v1/sessions/{other}")
    listed = (await client.call("GET", "/v1/face-outputs")).json()["outputs"]
    assert listed[0]["session"] == ""


async def test_a_head_in_the_browser_gets_sound_and_poses_together(
    client: GatewayClient, doubles: Doubles
) -> None:
    made = (await client.call("POST", "/v1/sessions", json={"drawn_by": "client"})).json()
    path = f"/v1/sessions/{made['id']}"
    with pytest.raises(websockets.InvalidStatus):
        await client.connect(f"{path}/face?form=puppet")
    told: list[dict[str, Any]] = []
    async with client.connect(f"{path}/face?form=talkinghead") as face, asyncio.timeout(30):
        await client.call("POST", f"{path}/text", json={"text": "How are you?"})
        while not told or told[-1]["type"] != "end":
            told.append(json.loads(await face.recv()))
        doubles.script.voice_s = 5.0
        await client.call("POST", f"{path}/text", json={"text": "And you?"})
        second = [json.loads(await face.recv()) for _ in range(2)]
        await client.call("POST", f"{path}/interrupt")
        while second[-1]["type"] == "audio":
            second.append(json.loads(await face.recv()))
    start, *audio, _end = told
    assert start == {
        "type": "start",
        "turn": audio[0]["turn"],
        "sampleRate": 24_000,
        "lipsyncType": "blendshapes",
    }
    assert {message["type"] for message in audio} == {"audio"}
    sounds = [base64.b64decode(message["audio"]) for message in audio]
    lead_ms = 100
    assert not any(sounds[0][: 2 * 24 * lead_ms]), "what comes a little late is no gap"
    length_ms = sum(map(len, sounds)) / 2 / 24 - lead_ms
    anims = [anim for message in audio for anim in message["anims"]]
    lasts_ms = sum(sum(anim["dt"]) for anim in anims)
    assert len(sounds) > 2 and abs(lasts_ms - length_ms) < 100
    ends_ms = float(lead_ms)  # each goes on where the one before it ends
    for anim in anims:
        assert anim["name"] == "blendshapes" and abs(anim["delay"] - ends_ms) < 50
        ends_ms = anim["delay"] + sum(anim["dt"])
        assert {len(anim["dt"])} == {len(values) for values in anim["vs"].values()}
    assert len({jaw for anim in anims for jaw in anim["vs"].get("jawOpen", [])}) > 4
    assert second[0]["type"] == "start" and second[-1]["type"] == "interrupt"


async def test_poses_are_read_as_they_are_written() -> None:
    payload = bytearray(64)
    payload[JAW_OPEN] = 255
    struct.pack_into("<3h", payload, 52, 2000, -1000, 500)
    read = pose_of(bytes(payload))
    assert read is not None and read["jawOpen"] == 1.0
    assert (read.yaw, read.pitch, read.roll) == pytest.approx((0.2, -0.1, 0.05))
    assert pose_of(b"\0" * 63) is None


# ------------------------------------------------------------ a face that the client draws

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
