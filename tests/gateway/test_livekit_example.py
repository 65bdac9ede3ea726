"""The LiveKit example with a room that stands in for LiveKit's: no server of it can be had here.

What the room does is what its protocol says. `make frameworks` has LiveKit's own agent side.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.gateway.conftest import RunningGateway, until
from tests.gateway.media import tone

pytestmark = pytest.mark.asyncio(loop_scope="module")

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "livekit_avatar.py"
RATE_HZ = 24_000


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
        pcm = tone(round(seconds * RATE_HZ), rate_hz=RATE_HZ)

        class Reader:
            info = SimpleNamespace(attributes={"sample_rate": str(RATE_HZ), "num_channels": "1"})

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
