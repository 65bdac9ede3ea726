"""What tests do as a gateway's client: ask, collect what comes, read a refusal, connect."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from fractions import Fraction
from typing import Any

import av
import httpx
from aiortc import (
    MediaStreamTrack,
    RTCConfiguration,
    RTCPeerConnection,
    RTCRtpSender,
    RTCSessionDescription,
)

from gateway.session.session import Session
from tests.gateway.conftest import until
from tests.gateway.doubles import Doubles
from tests.gateway.media import tone
from visavis.client import GatewayClient, GatewaySession
from visavis.wire.media import Place, TranscriptChunk, TranscriptEvent
from visavis.wire.subjects import Kind


async def collect(session: GatewaySession, *until_turn: str) -> list[dict[str, Any]]:
    """Events up to the first turn event of one of these kinds."""
    seen = []
    async with asyncio.timeout(30):
        async for event in session.events():
            seen.append(event)
            if event["type"] == "turn" and event["event"] in until_turn:
                return seen
    return seen


async def new_session(http: httpx.AsyncClient, **options: Any) -> str:
    response = await http.post("/v1/sessions", json=options)
    assert response.status_code == 201, response.text
    return str(response.json()["id"])


def problem(response: httpx.Response, status: int) -> str:
    """The message of an error answer."""
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert error["code"]
    return str(error["message"])


async def first_of(events: AsyncIterator[Any], kind: str, count: int) -> AsyncIterator[Any]:
    """The first `count` events of a kind."""
    while count:
        event = await anext(events)
        if event["type"] == kind:
            count -= 1
            yield event


class Visitor:
    """Says what asr would have understood."""

    def __init__(self, doubles: Doubles, session: GatewaySession | Session) -> None:
        self._bus, self._session, self._seq = doubles.bus, session.id, 0
        self.utterance = 1

    async def does(self, event: TranscriptEvent, text: str = "", **more: Any) -> None:
        place = Place(self._session, 0, self._seq, 0)
        self._seq += 1
        chunk = TranscriptChunk(place, event, self.utterance, text, **more)
        await self._bus.publish(Kind.TRANSCRIPT, chunk)


class Tone(MediaStreamTrack):
    """A microphone that hums, in real time."""

    kind = "audio"

    def __init__(self) -> None:
        super().__init__()
        self._count = 0
        self._second = tone(48_000).reshape(50, 960)
        self._started = asyncio.get_running_loop().time()

    async def recv(self) -> Any:
        due = self._started + self._count * 0.02
        await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()))
        pcm = self._second[self._count % 50][None]  # which goes on where the last one ended
        frame = av.AudioFrame.from_ndarray(pcm, format="s16", layout="mono")
        frame.sample_rate, frame.pts = 48_000, self._count * 960
        frame.time_base = Fraction(1, 48_000)
        self._count += 1
        return frame


class Browser:
    """The client's side of a connection."""

    def __init__(self, client: GatewayClient, session: GatewaySession) -> None:
        self._client, self._path = client, f"/v1/sessions/{session.id}/webrtc"
        self.pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self.tracks: dict[str, Any] = {}
        self.pc.on("track", lambda track: self.tracks.setdefault(track.kind, track))
        self.peer_id = ""

    async def connect(
        self, role: str, *, codec: str | None = None, video: Any = None, hides: bool = False
    ) -> None:
        """video: the transceiver of the pictures, where it is there already. hides: its offer has
        names in place of its addresses, that nobody knows."""
        if role == "speaker":
            self.pc.addTrack(Tone())
        else:
            self.pc.addTransceiver("audio", direction="recvonly")
        video = video or self.pc.addTransceiver("video", direction="recvonly")
        if codec is not None:
            known = RTCRtpSender.getCapabilities("video").codecs
            video.setCodecPreferences([c for c in known if c.mimeType == codec])
        await self.offer(role, hides=hides)

    async def offer(self, role: str, *, hides: bool = False) -> None:
        """What has been added to the connection."""
        await self.pc.setLocalDescription(await self.pc.createOffer())
        local = self.pc.localDescription
        name = "8220e110-90eb-43b7-9bf1-ee24fe09145c.local"
        sdp = re.sub(r"^(a=candidate:(?:\S+ ){4})\S+", rf"\g<1>{name}", local.sdp, flags=re.M)
        offer = {"sdp": sdp if hides else local.sdp, "type": local.type, "role": role}
        answer = (await self._client.call("POST", self._path, json=offer)).json()
        self.peer_id = answer["peer_id"]
        await self.pc.setRemoteDescription(RTCSessionDescription(answer["sdp"], answer["type"]))
        await until(lambda: self.pc.connectionState == "connected")
