"""Speech that a client brings: heard, seen and cut as any answer, by WebSocket and by WebRTC; and
as the LiveKit example brings an agent's.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
import tracemalloc
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import grpc
import numpy as np
import pytest
import websockets

from gateway.apps.speech import (
    LEAD_S,
    MOST_WAITING_S,
    SPEECHES_WAITING,
    BroughtSpeech,
    SpeechInTrack,
)
from tests.gateway.conftest import RunningGateway, until
from tests.gateway.doubles import Doubles
from tests.gateway.media import tone
from tests.gateway.visiting import Browser
from visavis.client import GatewayClient, GatewayError, GatewaySession
from visavis.serving.errors import InvalidInputError, OutOfOrderError
from visavis.v1 import face_pb2

pytestmark = pytest.mark.asyncio(loop_scope="module")

RATE_HZ = 16_000


async def bring(socket: Any, seconds: float, text: str = "", *, end: bool = True) -> None:
    """An utterance, as fast as it can be sent."""
    await socket.send(json.dumps({"type": "begin", "rate_hz": RATE_HZ, "text": text}))
    pcm = tone(round(seconds * RATE_HZ), rate_hz=RATE_HZ)
    for at in range(0, len(pcm), RATE_HZ // 4):
        await socket.send(pcm[at : at + RATE_HZ // 4].tobytes())
    if end:
        await socket.send('{"type": "end"}')


async def told(socket: Any, *until: str) -> list[dict[str, Any]]:
    """Messages up to the first turn event, or error, of one of these kinds."""
    seen: list[dict[str, Any]] = []
    async with asyncio.timeout(30):
        while not seen or seen[-1].get("event", seen[-1].get("code")) not in until:
            seen.append(json.loads(await socket.recv()))
    return seen


async def test_what_is_brought_is_said_by_the_face_and_by_nobody_else(
    client: GatewayClient, doubles: Doubles
) -> None:
    async with client.session(spoken_by="client") as session:
        path = f"/v1/sessions/{session.id}"
        assert doubles.seen.attached == {"face": 1}
        (config,) = doubles.seen.of("face", "config")
        assert config.config.face.source == face_pb2.FaceConfig.SOURCE_VOICE
        async with (
            client.connect(f"{path}/speech") as speech,
            client.connect(f"{path}/audio?rate_hz={RATE_HZ}") as sound,
            client.connect(f"{path}/face") as face,
        ):
            await bring(speech, 0.6, "How are you?")
            events = await told(speech, "finished")
            assert [e["event"] for e in events] == ["opened", "speaking", "finished"]
            assert events[-1]["played_ms"] == pytest.approx(600, abs=40)
            pcm = np.zeros(0, np.int16)
            async with asyncio.timeout(30):
                while not (np.abs(pcm) > 1000).any() or pcm[-RATE_HZ // 5 :].any():
                    pcm = np.concatenate([pcm, np.frombuffer(await sound.recv(), "<i2")])
                assert await face.recv()
        loud = np.flatnonzero(np.abs(pcm) > 1000)
        assert (loud[-1] - loud[0]) / RATE_HZ == pytest.approx(0.6, abs=0.03)
        (turn,) = (await client.call("GET", f"{path}/turns")).json()
        assert (turn["answered_by"], turn["answer"]) == ("brought", "How are you?")
        info = (await client.call("GET", path)).json()
        assert info["spoken_by"] == "client" and [*info["stages"]] == ["face"]
    assert doubles.seen.prompts == []


async def test_utterances_follow_each_other_and_all_can_be_cut(client: GatewayClient) -> None:
    async with client.session(spoken_by="client") as session:
        async with client.connect(f"/v1/sessions/{session.id}/speech") as speech:
            for _ in range(2 * SPEECHES_WAITING):
                await bring(speech, 0)  # without sound it holds up nothing
            await bring(speech, 0.2)
            await bring(speech, 0.2)
            first = await told(speech, "finished")
            second = await told(speech, "finished")
            assert second[0]["turn"] > first[0]["turn"]
            await bring(speech, 60.0)
            await bring(speech, 60.0, end=False)
            await told(speech, "speaking")
            await speech.send('{"type": "cut"}')
            (cut,) = await told(speech, "interrupted")
            assert cut["reason"] == "interrupt" and cut["played_ms"] < 5000
            await bring(speech, 0.2)
            events = await told(speech, "finished")
            assert events[0]["event"] == "opened", "nothing of what was cut"
            await bring(speech, MOST_WAITING_S + LEAD_S + 10.0)
            await told(speech, "too_many_waiting")
            await bring(speech, 1.0)
            await told(speech, "too_many_waiting")
            await session.interrupt()
            *before, _ = await told(speech, "interrupted")
            assert before == [], "it is told once for each utterance"
            await bring(speech, 0.2)
            await told(speech, "finished")


async def test_who_brings_speech_is_told_that_the_connection_is_lost(client: GatewayClient) -> None:
    async with client.session(spoken_by="client") as session, session.bring_speech() as speech:
        speech._socket.transport.abort()
        with pytest.raises(GatewayError) as told_of:
            _ = [event async for event in speech.events()]
        assert told_of.value.code == "lost"
    async with client.session(spoken_by="client") as session, session.bring_speech() as speech:
        await client.call("DELETE", f"/v1/sessions/{session.id}")
        last = [event async for event in speech.events()][-1]
        assert last["code"] == "session_closed"


async def test_the_end_may_come_long_after_the_sound(client: GatewayClient) -> None:
    async with client.session(spoken_by="client") as session:
        async with client.connect(f"/v1/sessions/{session.id}/speech") as speech:
            await bring(speech, 0.2, end=False)
            await told(speech, "speaking")
            await speech.send('{"type": "end"}')
            await told(speech, "finished")
            await bring(speech, 0.2, end=False)
            await told(speech, "speaking")
        async with client.connect(f"/v1/sessions/{session.id}/events") as events:
            assert (await told(events, "finished", "failed"))[-1]["event"] == "finished"


async def test_a_track_of_webrtc_is_speech_too(
    client: GatewayClient, gateway: RunningGateway
) -> None:
    made = (await client.call("POST", "/v1/sessions", json={"spoken_by": "client"})).json()
    session = GatewaySession(client, made["id"], None)  # type: ignore[arg-type]
    async with client.connect(f"/v1/sessions/{session.id}/events") as events:
        browser = Browser(client, session)
        try:
            await browser.connect("speaker")
            await told(events, "speaking")
        finally:
            await browser.pc.close()
        inside = gateway.inside.sessions.get(session.id)
        assert inside.state == "speaking"


async def test_mistakes_are_told_and_the_socket_lives(client: GatewayClient) -> None:
    async with client.session(spoken_by="client") as session:
        path = f"/v1/sessions/{session.id}"
        async with client.connect(f"{path}/speech") as speech:
            for message, code in (
                (b"\0\0", "out_of_order"),
                ('{"type": "end"}', "out_of_order"),
                ('{"type": "begin", "rate_hz": 100}', "invalid_input"),
                ('{"type": "sing"}', "invalid_input"),
                ("nonsense", "invalid_input"),
            ):
                await speech.send(message)
                await told(speech, code)
            with pytest.raises(websockets.InvalidStatus) as taken:
                await client.connect(f"{path}/speech")
            assert taken.value.response.status_code == 409
            await bring(speech, 0.1)
            await told(speech, "finished")
        for ask in (session.ask, session.say):
            with pytest.raises(GatewayError, match="spoken_by") as refused:
                await ask("Hello?")
            assert refused.value.code == "invalid_input"
        async with client.connect(f"{path}/events") as events:
            await events.send('{"type": "typing", "text": "Is it open?"}')
            assert "spoken_by" in (await told(events, "invalid_input"))[-1]["message"]
        await client.call("GET", path)
        for where in ("media?role=speaker", "audio?role=speaker"):
            with pytest.raises(websockets.InvalidStatus) as closed:
                await client.connect(f"{path}/{where}")
            assert closed.value.response.status_code == 422
    with pytest.raises(GatewayError, match="welcome"):
        await client.call("POST", "/v1/sessions", json={"spoken_by": "client", "welcome": "Hi."})
    async with client.session() as session:
        with pytest.raises(websockets.InvalidStatus) as not_here:
            await client.connect(f"/v1/sessions/{session.id}/speech")
        assert not_here.value.response.status_code == 422


async def test_a_session_of_a_face_alone_needs_no_other_service(
    client: GatewayClient, doubles: Doubles
) -> None:
    full = grpc.StatusCode.RESOURCE_EXHAUSTED
    doubles.script.refuse = {service: full for service in ("asr", "llm", "tts")}
    with pytest.raises(GatewayError, match="no room"):
        await client.session().__aenter__()
    async with client.session(spoken_by="client") as session:
        async with client.connect(f"/v1/sessions/{session.id}/speech") as speech:
            await bring(speech, 0.1)
            await told(speech, "finished")


# ------------------------------------------------------------ pure


def pieces(speech: BroughtSpeech, played_s: float = 0.0) -> list[tuple[int, int, bool]]:
    return [(piece.pts, len(piece.pcm), piece.last) for piece in speech.due(played_s)]


async def test_no_more_is_handed_on_than_a_little_ahead_of_what_is_heard() -> None:
    speech = BroughtSpeech()
    speech.begin(8_000, "Hello.")
    assert speech.next() is None
    speech.add(np.ones(8_000 * 10, np.int16))
    assert speech.next() == "Hello."
    assert sum(samples for _, samples, _ in pieces(speech)) == LEAD_S * 8_000
    assert pieces(speech) == [] and speech.waiting_s == 10 - LEAD_S
    assert pieces(speech, 0.15) == [(24_000, 800, False), (24_800, 400, False)]
    speech.end()
    handed_on = pieces(speech, 100.0)
    assert handed_on[-1][2] and not speech.waits
    assert sum(samples for _, samples, _ in handed_on) == 8_000 * 10 - 24_000 - 1_200


async def test_it_is_bounded_and_in_order() -> None:
    speech = BroughtSpeech()
    with pytest.raises(OutOfOrderError):
        speech.add(np.ones(1, np.int16))
    with pytest.raises(InvalidInputError):
        speech.begin(7_000)
    speech.begin(8_000)
    with pytest.raises(OutOfOrderError):
        speech.begin(8_000)
    speech.add(np.ones(round(8_000 * MOST_WAITING_S), np.int16))
    assert not speech.full
    speech.add(np.ones(1, np.int16))
    assert speech.full
    speech.drop()
    assert not speech.full and speech.bringing
    speech.add(np.ones(8_000, np.int16))
    assert not speech.waits, "of what was dropped nothing is kept"
    speech.end()
    speech.begin(8_000)
    speech.end()
    assert speech.next() is None and not speech.waits, "there was no sound in it"
    for seconds in (1, 2):  # for a moment the second is as long as the first
        speech.begin(8_000)
        for _ in range(seconds):
            speech.add(np.ones(8_000, np.int16))
        speech.end()
    assert speech.waiting_s == 3


async def test_what_comes_sample_by_sample_takes_no_more_memory_than_in_packets() -> None:
    speech, taken, count = BroughtSpeech(), list[int](), 50_000
    speech.begin(RATE_HZ)
    tracemalloc.start()
    try:
        for n in range(count):
            speech.add(np.frombuffer(n.to_bytes(2, "little"), "<i2"))
        assert tracemalloc.get_traced_memory()[0] < 3 * 2 * count
    finally:
        tracemalloc.stop()
    speech.end()
    speech.next()
    for piece in speech.due(10.0):
        taken += piece.pcm.view(np.uint16).tolist()
    assert taken == list(range(count))


async def test_utterances_are_found_in_a_track() -> None:
    speech = BroughtSpeech()
    track = SpeechInTrack(speech, 8_000)
    loud, quiet = np.full(80, 3000, np.int16), np.zeros(80, np.int16)
    for pcm in [quiet] * 10 + [loud] * 10 + [quiet] * 30 + [loud] * 10:
        track.hear(pcm)
    assert speech.bringing, "a pause of 0.3 s is one of speech"
    for _ in range(61):
        track.hear(quiet)
    assert not speech.bringing
    assert speech.next() == "" and sum(n for _, n, _ in pieces(speech)) == 80 * (10 + 30 + 10 + 61)


# ------------------------------------------------------------ the LiveKit example
# With a room that stands in for LiveKit's: no server of it can be had here. What the room does is
# what its protocol says. `make frameworks` has LiveKit's own agent side.

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "livekit_avatar.py"
AGENT_RATE_HZ = 24_000


class Source:
    """What is published of sound or pictures."""

    def __init__(self, *_shape: int) -> None:
        self.loudest = 0
        self.pictures = 0

    def capture_frame(self, frame: Any) -> Any:
        if frame.kind == "picture":
            self.pictures += 1
            return None
        self.loudest = max(self.loudest, int(np.abs(np.frombuffer(frame.data, np.int16)).max()))
        return asyncio.sleep(0)


def livekit() -> ModuleType:
    """As much of the package as the example uses."""
    rtc: Any = ModuleType("livekit.rtc")
    rtc.AudioSource, rtc.VideoSource = Source, Source
    rtc.LocalAudioTrack = SimpleNamespace(create_audio_track=lambda _name, source: source)
    rtc.LocalVideoTrack = SimpleNamespace(create_video_track=lambda _name, source: source)
    rtc.VideoBufferType = SimpleNamespace(RGBA=0)
    rtc.AudioFrame = lambda data, *_: SimpleNamespace(kind="sound", data=data)
    rtc.VideoFrame = lambda *_: SimpleNamespace(kind="picture")
    package: Any = ModuleType("livekit")
    package.rtc = rtc
    return package


class Room:
    """A room with an agent in it, who speaks and is told."""

    def __init__(self) -> None:
        self.published: list[Source] = []
        self.told: list[dict[str, Any]] = []
        self.methods: dict[str, Callable[[Any], Any]] = {}
        self.streams: dict[str, Callable[[Any, str], None]] = {}
        self.local_participant = self

    async def publish_track(self, track: Source) -> None:
        self.published.append(track)

    def register_byte_stream_handler(self, topic: str, handler: Callable[[Any, str], None]) -> None:
        self.streams[topic] = handler

    def register_rpc_method(self, name: str, method: Callable[[Any], Any]) -> None:
        self.methods[name] = method

    async def perform_rpc(self, *, destination_identity: str, method: str, payload: str) -> str:
        assert (destination_identity, method) == ("agent", "lk.playback_finished")
        self.told.append(json.loads(payload))
        return "ok"

    def speak(self, seconds: float) -> None:
        """The agent's voice, as fast as it is made."""
        pcm = tone(round(seconds * AGENT_RATE_HZ), rate_hz=AGENT_RATE_HZ)
        form = {"sample_rate": str(AGENT_RATE_HZ), "num_channels": "1"}
        about = SimpleNamespace(attributes=form)

        class Reader:
            info = about

            async def __aiter__(self) -> AsyncIterator[bytes]:
                for at in range(0, len(pcm), 7_000):
                    yield pcm[at : at + 7_000].tobytes()

        self.streams["lk.audio_stream"](Reader(), "agent")


async def test_an_agents_voice_gets_a_face_and_the_agent_is_told(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    package: Any = livekit()
    monkeypatch.setitem(sys.modules, "livekit", package)
    monkeypatch.setitem(sys.modules, "livekit.rtc", package.rtc)
    spec = importlib.util.spec_from_file_location("livekit_avatar", EXAMPLE)
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    room = Room()
    async with example.visavis_avatar(room, "agent", gateway.url):
        sound, pictures = room.published
        await until(lambda: pictures.pictures)
        room.speak(0.5)
        await until(lambda: room.told)
        assert room.told[0]["interrupted"] is False
        assert room.told[0]["playback_position"] == pytest.approx(0.5, abs=0.04)
        await until(lambda: sound.loudest > 8000)
        room.speak(20.0)
        (session,) = gateway.inside.sessions.all()
        await until(lambda: session.state == "speaking")
        assert await room.methods["lk.clear_buffer"](None) == "ok"
        await until(lambda: len(room.told) == 2)
        assert room.told[1]["interrupted"] is True and room.told[1]["playback_position"] < 10
    await until(lambda: not gateway.inside.sessions.all())
    with pytest.raises(ExceptionGroup):
        async with example.visavis_avatar(room, "agent", gateway.url), asyncio.timeout(10):
            (session,) = gateway.inside.sessions.all()
            await gateway.inside.sessions.delete(session.id)
            await asyncio.Event().wait()
