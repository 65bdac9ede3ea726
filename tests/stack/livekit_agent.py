"""Run by an interpreter that has LiveKit's packages: an agent's voice gets the face of
docs/examples; prints JSON.

The agent's side is LiveKit's own (`DataStreamAudioOutput` of livekit-agents), and so are the tracks
that the worker publishes, and what reads them here. Between the two there is no server, but a room
in memory: it hands streams and calls over, and nothing else.

PYTHONPATH=docs/examples:. .venv-frameworks/bin/python tests/stack/livekit_agent.py URL
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from livekit import rtc
from livekit.agents.voice.avatar import DataStreamAudioOutput
from livekit_avatar import visavis_avatar

AGENT, AVATAR = "agent", "avatar"
RATE_HZ = 24_000


class Stream:
    """One utterance, written by the agent and read by the avatar."""

    def __init__(self, attributes: dict[str, str]) -> None:
        self.info = SimpleNamespace(attributes=attributes)
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def write(self, piece: bytes) -> None:
        self._pieces.put_nowait(piece)

    async def aclose(self) -> None:
        self._pieces.put_nowait(None)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (piece := await self._pieces.get()) is not None:
            yield piece


class Room(rtc.EventEmitter[str]):
    """A participant's view of a room in memory."""

    def __init__(self, identity: str) -> None:
        super().__init__()
        self.identity, self.local_participant = identity, self
        self.remote_participants: dict[str, Any] = {}
        self.kind = rtc.ParticipantKind.PARTICIPANT_KIND_AGENT
        self.state = rtc.ParticipantState.PARTICIPANT_STATE_ACTIVE
        self.tracks: list[Any] = []
        self._rpc_handlers: dict[str, Callable[[Any], Any]] = {}
        self._streams: dict[str, Callable[[Stream, str], None]] = {}

    def isconnected(self) -> bool:
        return True

    async def publish_track(self, track: Any) -> None:
        self.tracks.append(track)

    def register_rpc_method(self, name: str, method: Callable[[Any], Any]) -> None:
        self._rpc_handlers[name] = method

    def register_byte_stream_handler(
        self, topic: str, handler: Callable[[Stream, str], None]
    ) -> None:
        self._streams[topic] = handler

    async def perform_rpc(self, *, destination_identity: str, method: str, payload: str) -> str:
        call = rtc.RpcInvocationData("1", self.identity, payload, 10.0)
        answer = self.remote_participants[destination_identity]._rpc_handlers[method](call)
        return str(await answer if inspect.isawaitable(answer) else answer)

    async def stream_bytes(
        self, *, topic: str, destination_identities: list[str], attributes: dict[str, str], **_: Any
    ) -> Stream:
        (identity,) = destination_identities
        stream = Stream(attributes)
        self.remote_participants[identity]._streams[topic](stream, self.identity)
        return stream


class Seen:
    """What the avatar has published, as LiveKit's own streams read it."""

    def __init__(self) -> None:
        self.pictures = self.loud_samples = 0
        self.size: list[int] = []
        self.changed = asyncio.Event()

    async def watch(self, track: Any) -> None:
        async for event in rtc.VideoStream(track):
            self.pictures += 1
            self.size = [event.frame.width, event.frame.height]
            self.changed.set()

    async def hear(self, track: Any) -> None:
        async for event in rtc.AudioStream(track, sample_rate=RATE_HZ, num_channels=1):
            pcm = np.abs(np.frombuffer(event.frame.data, np.int16))
            self.loud_samples += int((pcm > 500).sum())
            self.changed.set()

    async def until(self, met: Callable[[], object]) -> None:
        async with asyncio.timeout(30):
            while not met():
                self.changed.clear()
                await self.changed.wait()


async def speak(output: DataStreamAudioOutput, seconds: float) -> None:
    """A voice as it is made, in pieces of 40 ms."""
    wave = 12_000 * np.sign(np.sin(np.arange(round(seconds * RATE_HZ)) / 8))
    pcm, step = wave.astype(np.int16), RATE_HZ // 25
    for at in range(0, len(pcm), step):
        piece = pcm[at : at + step]
        await output.capture_frame(rtc.AudioFrame(piece.tobytes(), RATE_HZ, 1, len(piece)))
    output.flush()


async def main(url: str) -> None:
    agent, avatar = Room(AGENT), Room(AVATAR)
    agent.remote_participants, avatar.remote_participants = {AVATAR: avatar}, {AGENT: agent}
    seen = Seen()
    async with visavis_avatar(avatar, AGENT, url):
        voice, face = avatar.tracks
        watching = [asyncio.create_task(seen.watch(face)), asyncio.create_task(seen.hear(voice))]
        output = DataStreamAudioOutput(agent, destination_identity=AVATAR, sample_rate=RATE_HZ)
        await seen.until(lambda: seen.pictures > 5)
        await speak(output, 0.8)
        played = [await output.wait_for_playout()]
        heard_s = seen.loud_samples / RATE_HZ
        await speak(output, 20.0)
        before = seen.loud_samples
        await seen.until(lambda: seen.loud_samples > before + 0.3 * RATE_HZ)
        output.clear_buffer()
        played.append(await output.wait_for_playout())
        for task in watching:
            task.cancel()
    told = {
        "played": [
            {"position_s": p.playback_position, "interrupted": p.interrupted} for p in played
        ],
        "heard_s": heard_s,
        "pictures": seen.pictures,
        "size": seen.size,
    }
    sys.stdout.write(json.dumps(told))


asyncio.run(main(sys.argv[1]))
