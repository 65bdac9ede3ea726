"""A running gateway goes live: players that watch by WHEP and HLS, publishers that are not ours,
broadcasts to servers of others.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sys
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import httpx
import numpy as np
import pytest
import pytest_asyncio
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription

from gateway.playout.pacing import RATE_HZ, TICK_S
from tests.fakes import MetricGrowth
from tests.gateway.conftest import Rig, RunningGateway, until
from tests.gateway.live.peers import Received, RtmpServer, WhipEndpoint, free_port
from tests.gateway.visiting import Tone
from visavis.client import GatewayClient, GatewayError
from visavis.wire.subjects import Kind

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEY = "an operator's key"
SETTINGS = {"api_key": KEY, "ice_servers": []}
SDP = {"Content-Type": "application/sdp"}


@pytest_asyncio.fixture(loop_scope="module")
async def viewer(client: GatewayClient) -> AsyncIterator[httpx.AsyncClient]:
    """Somebody who may look on, in the folder of a session."""
    made = (await client.call("POST", "/v1/sessions", json={})).json()
    folder = f"{client.url}/v1/sessions/{made['id']}/"
    told = await client.call("POST", f"{folder}token", json={"role": "viewer"})
    shown = {"Authorization": f"Bearer {told.json()['token']}"}
    async with httpx.AsyncClient(base_url=folder, headers=shown, trust_env=False) as http:
        yield http


def without_candidates(sdp: str) -> tuple[str, str]:
    """An offer as browsers make it that trickle, and what they tell later."""
    lines = sdp.splitlines(keepends=True)
    late = [line for line in lines if line.startswith(("a=candidate", "a=end-of-candidates"))]
    return "".join(line for line in lines if line not in late), "a=mid:0\r\n" + "".join(late)


async def test_a_whep_player_sees_the_face(
    viewer: httpx.AsyncClient, gateway: RunningGateway
) -> None:
    pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    tracks: dict[str, Any] = {}
    pc.on("track", lambda track: tracks.setdefault(track.kind, track))
    try:
        for kind in ("video", "audio"):
            pc.addTransceiver(kind, direction="recvonly")
        await pc.setLocalDescription(await pc.createOffer())
        offer, late = without_candidates(pc.localDescription.sdp)
        assert (await viewer.post("whep", json={"sdp": offer})).status_code == 415
        assert (await viewer.post("whep", content="none", headers=SDP)).status_code == 422
        answer = await viewer.post("whep", content=offer, headers=SDP)
        assert answer.status_code == 201
        assert answer.headers["content-type"].startswith("application/sdp")
        where = answer.url.join(answer.headers["location"])
        await pc.setRemoteDescription(RTCSessionDescription(answer.text, "answer"))
        told = {"Content-Type": "application/trickle-ice-sdpfrag"}
        assert (await viewer.patch(where, content=late, headers=told)).status_code == 204
        restart = "a=ice-ufrag:anew\r\na=ice-pwd:of-22-characters-or-so\r\n"
        assert (await viewer.patch(where, content=restart, headers=told)).status_code == 422
        (own,) = set(re.findall("^a=ice-ufrag:.*", offer, re.M))
        assert (await viewer.patch(where, content=own, headers=told)).status_code == 204
        more = "".join(
            f"a=candidate:1 1 udp 1 127.0.0.2 {port} typ host\r\n" for port in range(2, 52)
        )
        added = [await viewer.patch(where, content=more, headers=told) for _ in range(2)]
        assert [patch.status_code for patch in added] == [204, 422], "each is tried from here"
        async with asyncio.timeout(30):
            assert (await tracks["video"].recv()).width == 64
            assert (await tracks["audio"].recv()).sample_rate == RATE_HZ
        (session,) = gateway.inside.sessions.all()
        assert session.audience.present == 1
        assert (await viewer.delete(where)).status_code == 200
        assert (await viewer.delete(where)).status_code == 404
        await until(lambda: session.audience.present == 0)
    finally:
        await pc.close()
    options = await viewer.options("whep")
    assert options.headers["accept-post"] == "application/sdp"


async def test_a_studio_speaks_by_whip_and_its_pictures_are_not_taken(
    client: GatewayClient, viewer: httpx.AsyncClient, rig: Rig
) -> None:
    assert (await viewer.post("whip", content="none", headers=SDP)).status_code == 403
    folder, key = str(viewer.base_url), client.authorization
    pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    heard: list[Any] = []
    try:
        pc.addTransceiver("video", direction="sendonly")
        pc.addTrack(Tone())
        await pc.setLocalDescription(await pc.createOffer())
        offer = pc.localDescription.sdp
        session = folder.rstrip("/").rpartition("/")[2]
        async with (
            httpx.AsyncClient(base_url=folder, headers=key, trust_env=False) as studio,
            rig.doubles.bus.subscribe(session, Kind.MIC) as mic,
        ):
            answer = await studio.post("whip", content=offer, headers=SDP)
            assert answer.status_code == 201
            assert (await studio.post("whip", content=offer, headers=SDP)).status_code == 409
            await pc.setRemoteDescription(RTCSessionDescription(answer.text, "answer"))
            async with asyncio.timeout(30):
                while len(heard) < 20:
                    heard.append(await anext(mic))
            where = answer.url.join(answer.headers["location"])
            assert (await studio.delete(where)).status_code == 200
    finally:
        await pc.close()
    assert re.findall("^a=(recvonly|inactive)", answer.text, re.M) == ["inactive", "recvonly"]
    assert pitch_hz(heard) == pytest.approx(440, abs=10)


@pytest.mark.skipif("whip" not in av.formats_available, reason="this PyAV's FFmpeg has no WHIP")
@pytest.mark.parametrize("role", ["", "dtls_active"])
async def test_ffmpeg_speaks_by_its_own_whip(
    client: GatewayClient, viewer: httpx.AsyncClient, rig: Rig, tmp_path: Path, role: str
) -> None:
    """role: whether FFmpeg waits for the handshake, as it does unasked, or begins it."""
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    curve = ("ec", "-pkeyopt", "ec_paramgen_curve:P-256")
    made = ("-days", "30", "-subj", "/CN=ffmpeg", "-keyout", key, "-out", certificate)
    await run("openssl", "req", "-x509", "-nodes", "-newkey", *curve, *made)
    options = {"cert_file": str(certificate), "key_file": str(key), "authorization": KEY}
    options["handshake_timeout"] = "30000"  # ms; unasked it gives a busy machine 5 s
    options |= {"whip_flags": role} if role else {}
    session = str(viewer.base_url).rstrip("/").rpartition("/")[2]
    program = (sys.executable, "-m", "tests.gateway.live.ffmpeg_whip")
    heard: list[Any] = []
    async with rig.doubles.bus.subscribe(session, Kind.MIC) as mic, asyncio.TaskGroup() as both:
        both.create_task(run(*program, f"{viewer.base_url}whip", json.dumps(options)))
        async with asyncio.timeout(60):
            while sum(len(chunk.pcm) for chunk in heard) < 8_000:  # which came together is one
                heard.append(await anext(mic))
    assert pitch_hz(heard) == pytest.approx(440, abs=10)
    (inside,) = rig.running.inside.sessions.all()
    await until(lambda: inside.microphone.holder is None)


async def run(*command: str | Path) -> None:
    """Wait for a program's end, which is to be a good one."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    try:
        _, complaints = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        raise
    assert process.returncode == 0, complaints.decode()


def pitch_hz(heard: list[Any]) -> float:
    """The strongest tone in chunks of a microphone, behind their first tenth of a second."""
    pcm = np.concatenate([chunk.pcm for chunk in heard])[1600:].astype(np.float32)
    return float(np.argmax(np.abs(np.fft.rfft(pcm))) * 16_000 / len(pcm))


async def test_a_phone_plays_hls_and_shows_no_header(
    viewer: httpx.AsyncClient, gateway: RunningGateway
) -> None:
    (session,) = gateway.inside.sessions.all()
    refused = httpx.AsyncClient(base_url=viewer.base_url, trust_env=False)
    async with refused as stranger:
        assert (await stranger.get("hls/index.m3u8")).status_code == 401
    index = await viewer.get("hls/index.m3u8")
    assert index.status_code == 200 and 'CODECS="avc1.42' in index.text
    assert "httponly" in index.headers["set-cookie"].lower()
    cookie = index.headers["set-cookie"].partition(";")[0]
    assert session.audience.present == 0, "who has asked once does not watch yet"
    playlist = await viewer.get(index.url.join(index.text.split()[-1]))
    assert playlist.status_code == 200 and "\nsegment-" in playlist.text
    assert session.audience.present == 1
    assert (await viewer.get("hls/stream.m3u8")).status_code == 422

    def play() -> tuple[list[float], int]:
        headers = {"headers": f"Cookie: {cookie}\r\n"}
        with av.open(str(index.url), options=headers, timeout=20) as player:
            pictures, sound = [], 0
            for frame in player.decode(video=0, audio=0):
                if isinstance(frame, av.VideoFrame):
                    pictures.append(float(frame.time or 0.0))
                elif isinstance(frame, av.AudioFrame):
                    sound += frame.samples
                if len(pictures) == 40:
                    return pictures, sound
        raise AssertionError("the stream has ended")

    times, samples = await asyncio.to_thread(play)
    between = [later - earlier for earlier, later in pairwise(times)]
    assert min(between) > 0, "in the order in which they are shown"
    ticks = np.array(between) / TICK_S
    assert ticks == pytest.approx(ticks.round(), abs=0.01), "as they left; a busy face misses some"
    # Of the last segment, of a second, sound may not be read yet.
    assert samples / RATE_HZ == pytest.approx(times[-1] - times[0], abs=1.0)
    assert session.outlets.live.hls.running and session.audience.attending
    assert (await viewer.get("hls/segment-999.m4s")).status_code == 404
    assert (await viewer.get("hls/other")).status_code == 404
    async with httpx.AsyncClient(base_url=viewer.base_url, trust_env=False) as other:
        elsewhere = await other.get("webrtc/x", headers={"Cookie": cookie})
        assert elsewhere.status_code == 401, "the cookie opens that folder alone"


# ------------------------------------------------------------ broadcasts

STREAM_KEY = "a-stream-key-that-nobody-else-may-see"


@pytest_asyncio.fixture(loop_scope="module")
async def path(client: GatewayClient) -> AsyncIterator[str]:
    """A session's, which nobody is connected to."""
    made = (await client.call("POST", "/v1/sessions", json={})).json()
    yield f"/v1/sessions/{made['id']}"
    await client.call("DELETE", f"/v1/sessions/{made['id']}")


async def state_of(client: GatewayClient, path: str) -> dict[str, Any]:
    """Of the only broadcast."""
    (told,) = (await client.call("GET", f"{path}/broadcasts")).json()["broadcasts"]
    assert STREAM_KEY not in str(told)
    found: dict[str, Any] = told
    return found


async def reaches(client: GatewayClient, path: str, state: str) -> dict[str, Any]:
    async with asyncio.timeout(20):
        while (told := await state_of(client, path))["state"] != state:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return told


async def received(client: GatewayClient, path: str, port: int, *, sing: bool) -> Received:
    """What a server gets of an answer, or of idle life, until it ends."""
    server = RtmpServer(port, f"/live/{STREAM_KEY}")
    got = server.received
    server.start()
    await reaches(client, path, "live")
    if sing:
        await client.call("POST", f"{path}/text", json={"text": "Sing."})
        # Pictures of a turn get brighter; both begin with the turn.
        await until(lambda: any(light > 60 for _, light in got.pictures))
        await until(lambda: any(loud > 0.3 for _, loud in got.sound))
    else:
        await until(lambda: len(got.pictures) > 5 and got.sound)
    await server.stop()
    await reaches(client, path, "waiting")
    return got


async def test_rtmp_to_a_server_that_starts_again(
    client: GatewayClient,
    gateway: RunningGateway,
    path: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway.live.push.flow._RETRIES_S", (0.05,))
    caplog.set_level(logging.INFO)
    lost = MetricGrowth("gateway_broadcasts_lost", protocol="rtmp")
    over = MetricGrowth("gateway_broadcasts_ended_total", protocol="rtmp", how="stopped")
    port = free_port()
    body = {"url": f"rtmp://127.0.0.1:{port}/live", "key": STREAM_KEY}
    made = await client.call("POST", f"{path}/broadcasts", json=body)
    assert made.json()["target"] == f"rtmp://127.0.0.1:{port}/…" and STREAM_KEY not in made.text
    assert "refused" in (await reaches(client, path, "waiting"))["error"]
    assert lost.value == 0, "it was never there"
    got = await received(client, path, port, sing=True)
    assert lost.value == 1
    seen_s = next(at for at, light in got.pictures if light > 44)
    heard_s = next(at for at, loud in got.sound if loud > 0.1)
    assert abs(seen_s - heard_s) < 0.12, "within a picture, and a packet"
    assert (await state_of(client, path))["reconnects"] > 0
    got = await received(client, path, port, sing=False)
    assert got.pictures[0][0] == pytest.approx(0, abs=0.05), "times begin anew"
    told = await state_of(client, path)
    assert told["sent_pictures"] > 10 and told["sent_bytes"] > 1000
    (session,) = gateway.inside.sessions.all()
    assert session.audience.attending
    ended = (await client.call("DELETE", f"{path}/broadcasts/{told['id']}")).json()
    assert ended["state"] == "stopped" and (lost.value, over.value) == (0, 1)
    assert not session.audience.attending
    assert STREAM_KEY not in caplog.text and "broadcast" in caplog.text


async def test_whip_to_an_endpoint(
    client: GatewayClient, gateway: RunningGateway, path: str
) -> None:
    endpoint = WhipEndpoint(STREAM_KEY)
    await endpoint.start()
    try:
        body = {"url": endpoint.url, "key": "wrong"}
        right = body | {"key": STREAM_KEY}
        await client.call("POST", f"{path}/broadcasts", json=body)
        assert "401" in (await reaches(client, path, "failed"))["error"]
        made = (await client.call("POST", f"{path}/broadcasts", json=right)).json()
        await until(lambda: endpoint.received.pictures and endpoint.received.sound)
        (offer,) = endpoint.offers
        assert offer.count("a=sendonly") == 2 and "VP8" not in offer
        assert offer.index("42e01f") < offer.index("42001f")
        ended = (await client.call("DELETE", f"{path}/broadcasts/{made['id']}")).json()
        assert (ended["state"], endpoint.deleted) == ("stopped", 1)
        assert ended["sent_pictures"] > 0
        # Where a Location cannot be read there is nothing to take leave of, and no fault of ours.
        endpoint.location, endpoint.received = "http://127.0.0.1:port/resource/1", Received()
        made = (await client.call("POST", f"{path}/broadcasts", json=right)).json()
        await until(lambda: endpoint.received.pictures)
        await client.call("DELETE", f"{path}/broadcasts/{made['id']}")
        (session,) = gateway.inside.sessions.all()
        assert endpoint.deleted == 1 and not session.failed
    finally:
        await endpoint.stop()


async def test_no_more_targets_than_there_may_be(client: GatewayClient, path: str) -> None:
    body = {"url": "rtmp://127.0.0.1:1/live", "key": STREAM_KEY}
    for _ in range(8):
        await client.call("POST", f"{path}/broadcasts", json=body)
    with pytest.raises(GatewayError, match="8 already"):
        await client.call("POST", f"{path}/broadcasts", json=body)
    with pytest.raises(GatewayError) as refused:
        await client.call("POST", f"{path}/broadcasts", json={"url": f"ftp://{STREAM_KEY}"})
    assert STREAM_KEY not in str(refused.value)
