"""A session's media over WebRTC, as the page uses it: Opus out and in.

Packets are timed as they arrive, before any jitter buffer, so that the figure holds nothing
that a player adds. Pictures are counted as arriving but not held against the sound: their
clocks share no origin.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from fractions import Fraction
from typing import Any, TypeAlias

import av
import numpy as np
from aiortc import (
    MediaStreamTrack,
    RTCConfiguration,
    RTCPeerConnection,
    RTCSessionDescription,
)
from aiortc.mediastreams import MediaStreamError
from aiortc.rtp import RtpPacket
from numpy.typing import NDArray

from visavis.client import GatewayClient, GatewayError
from visavis.serving.aiortc_private.incoming import take_packets
from visavis.serving.aiortc_private.known import check as check_aiortc
from visavis.serving.aiortc_private.outgoing import PacketSender
from visavis.tools.bench.visitor.media import MIC_SAMPLES, HeardSound, MediaLostError, Role
from visavis.wire.clock import Clock

_RATE_HZ = 48_000
_MIC_RATE_HZ = 16_000
_MIC_BIT_RATE = 32_000
_CONNECT_TIMEOUT_S = 20.0
# Ten seconds of sound: more means that nobody reads.
_WAITING_PACKETS = 500
_WRAP = 1 << 32

Answering: TypeAlias = Callable[[dict[str, str]], Awaitable[dict[str, str]]]
"""Brings an offer, {"sdp", "type"}, to whoever is called, and back what he answers."""


class _Microphone(MediaStreamTrack):
    """Sends what it is given as Opus, as soon as it is, with its level, as browsers do (RFC 6464).

    aiortc would encode too, but resamples before and so holds 20 ms back, which no browser does.
    """

    kind = "audio"

    def __init__(self) -> None:
        super().__init__()
        self._encoder = av.CodecContext.create("libopus", "w")
        self._encoder.sample_rate = _MIC_RATE_HZ
        self._encoder.layout = "mono"
        self._encoder.format = "s16"
        self._encoder.bit_rate = _MIC_BIT_RATE
        self._encoder.time_base = Fraction(1, _MIC_RATE_HZ)
        packet_ms = str(1000 * MIC_SAMPLES // _MIC_RATE_HZ)
        self._encoder.options = {"application": "voip", "frame_duration": packet_ms}
        self._samples = 0

    async def recv(self) -> Any:
        """Nothing comes from here. Raises MediaStreamError."""
        raise MediaStreamError

    def send(self, pcm_s16le: bytes, way: PacketSender) -> None:
        """MIC_SAMPLES leave."""
        pcm = np.frombuffer(pcm_s16le, "<i2")
        frame = av.AudioFrame.from_ndarray(pcm[None], format="s16", layout="mono")
        frame.sample_rate, frame.pts = _MIC_RATE_HZ, self._samples
        frame.time_base = Fraction(1, _MIC_RATE_HZ)
        self._samples += len(pcm)
        (packet,) = self._encoder.encode(frame)
        packet.pts = (packet.pts or 0) * _RATE_HZ // _MIC_RATE_HZ
        way.send(packet, level_dbov=_level_dbov(pcm))


def _level_dbov(pcm: NDArray[np.int16]) -> int:
    """How far [N] samples are below the loudest that there can be, in dB, 0 to 127."""
    mean_square = float(np.mean(pcm.astype(np.float64) ** 2)) / 32768**2
    return 127 if mean_square == 0 else min(127, round(-10 * math.log10(mean_square)))


class WebRtcMedia:
    """A visitor's connection over WebRTC: Opus out and in. Made by `connect` or `call`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._made_s = clock.now()
        self._microphone = _Microphone()
        self._way: PacketSender | None = None
        # Without this, aiortc would ask a public STUN server.
        self._pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self._arrived: asyncio.Queue[HeardSound | None] = asyncio.Queue(_WAITING_PACKETS)
        self._decoder = av.AudioCodecContext.create("opus", "r")
        self._decoder.sample_rate = _RATE_HZ
        self._first: int | None = None
        self._connected = asyncio.Event()

    async def open(self, answering: Answering, *, speaks: bool, pictures: bool) -> None:
        """Offer, answer, and the connection that follows. Raises GatewayError."""
        if speaks:
            sound = self._pc.addTransceiver(self._microphone, direction="sendrecv")
            self._way = PacketSender(sound.sender)
        else:
            sound = self._pc.addTransceiver("audio", direction="recvonly")
        # aiortc hands sound on 80 ms late, for players, and decodes pictures that nobody
        # looks at. Its packets are taken where they come in instead.
        take_packets(sound.receiver, self._sound_packet)
        if pictures:
            shown = self._pc.addTransceiver("video", direction="recvonly")
            take_packets(shown.receiver, _ignore)
        self._pc.on("connectionstatechange", self._state_changed)
        await self._pc.setLocalDescription(await self._pc.createOffer())
        answer = await answering({"sdp": self._pc.localDescription.sdp, "type": "offer"})
        await self._pc.setRemoteDescription(RTCSessionDescription(answer["sdp"], answer["type"]))
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                await self._connected.wait()
        except TimeoutError:
            raise GatewayError(
                "unreachable",
                f"WebRTC did not connect within {_CONNECT_TIMEOUT_S:.0f} s; "
                "measure with --transport websocket",
            ) from None

    async def send(self, pcm_s16le: bytes) -> None:
        if self._way is not None:
            self._microphone.send(pcm_s16le, self._way)

    async def arrivals(self) -> AsyncIterator[HeardSound]:
        """Sound as it comes. Raises MediaLostError at the end."""
        while (arrival := await self._arrived.get()) is not None:
            yield arrival
        raise MediaLostError("the WebRTC connection was lost")

    def doubt(self, lost_s: float) -> None:
        """Nobody says so where the other end is gone: it would be missed after half a minute."""
        if self._made_s < lost_s:
            self._end()

    async def close(self) -> None:
        self._microphone.stop()
        await self._pc.close()

    async def _state_changed(self) -> None:
        if self._pc.connectionState == "connected":
            self._connected.set()
        elif self._pc.connectionState in ("failed", "closed"):
            self._end()

    def _end(self) -> None:
        if not self._arrived.full():
            self._arrived.put_nowait(None)

    async def _sound_packet(self, packet: RtpPacket) -> None:
        at_s = self._clock.now()
        if self._first is None:
            self._first = packet.timestamp
        media_s = (packet.timestamp - self._first) % _WRAP / _RATE_HZ
        frames = self._decoder.decode(av.Packet(packet.payload))
        if frames and not self._arrived.full():
            wave = np.concatenate([frame.to_ndarray()[0] for frame in frames])
            pcm = (np.clip(wave, -1, 1) * 32767).astype(np.int16)
            self._arrived.put_nowait(HeardSound(at_s, media_s, pcm, _RATE_HZ))


async def _ignore(packet: RtpPacket) -> None:
    """A picture's packet."""


@contextlib.asynccontextmanager
async def connect(
    client: GatewayClient,
    session: str,
    clock: Clock,
    role: Role = "speaker",
    *,
    pictures: bool = True,
) -> AsyncIterator[WebRtcMedia]:
    """Speaker and viewer of a session, or a viewer without a microphone."""

    async def answering(offer: dict[str, str]) -> dict[str, str]:
        path = f"/v1/sessions/{session}/webrtc"
        told: dict[str, str] = (
            await client.call("POST", path, json={**offer, "role": role})
        ).json()
        return told

    speaks = role == "speaker"
    async with call(answering, clock, speaks=speaks, pictures=pictures) as media:
        yield media


@contextlib.asynccontextmanager
async def call(
    answering: Answering,
    clock: Clock,
    *,
    speaks: bool = True,
    pictures: bool = True,
) -> AsyncIterator[WebRtcMedia]:
    """A connection to whoever answers an offer, with a microphone."""
    check_aiortc()
    media = WebRtcMedia(clock)
    try:
        await media.open(answering, speaks=speaks, pictures=pictures)
        yield media
    finally:
        await media.close()
