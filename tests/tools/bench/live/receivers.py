"""Processes that take a stream and tell what they have decoded, and when: a line of JSON for each
picture and for each beep's beginning.

    python -m tests.tools.bench.live.receivers open URL [listen]
    python -m tests.tools.bench.live.receivers whep URL [TOKEN]
    python -m tests.tools.bench.live.receivers whip PORT TOKEN
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

import av
import httpx
import numpy as np
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.rtp import RtcpSrPacket

from gateway.playout.pacing import RATE_HZ, VIDEO_HZ
from tests.gateway.live.peers import WhipEndpoint
from tests.tools.bench.live.counter import read

_LOUD = 0.05
_QUIET_S = 0.1


class Came:
    """How the packets of one track of aiortc's came in, before its buffers hold them back."""

    def __init__(self, receiver: Any, rate_hz: int) -> None:
        """receiver: aiortc's RTCRtpReceiver, of which private parts are looked at."""
        self._receiver = receiver
        self._rate_hz = rate_hz
        self._last_s: dict[int, float] = {}
        self._report: tuple[int, float] | None = None
        handle_rtp, handle_rtcp = receiver._handle_rtp_packet, receiver._handle_rtcp_packet

        async def rtp(packet: Any, arrival_time_ms: int) -> None:
            self._last_s[packet.timestamp] = time.time()
            await handle_rtp(packet, arrival_time_ms)

        async def rtcp(packet: Any) -> None:
            if isinstance(packet, RtcpSrPacket):
                told = packet.sender_info
                self._report = told.rtp_timestamp, told.ntp_timestamp / (1 << 32)
            await handle_rtcp(packet)

        self._receiver._handle_rtp_packet = rtp
        self._receiver._handle_rtcp_packet = rtcp

    def of(self, pts: int) -> dict[str, float]:
        """When the last packet of a frame came, and where the sender's reports put it in time."""
        rtp_time = (pts + self._receiver._RTCRtpReceiver__timestamp_mapper._origin) % (1 << 32)
        told = {}
        if rtp_time in self._last_s:
            told["came_s"] = self._last_s[rtp_time]
        if self._report is not None:
            since = (rtp_time - self._report[0] + (1 << 31)) % (1 << 32) - (1 << 31)
            told["report_s"] = self._report[1] + since / self._rate_hz
        return told


class Teller:
    """Looks at frames, and tells."""

    def __init__(self) -> None:
        self._heard_s = -1e9

    def take(self, frame: Any, came: Came | None = None) -> None:
        """came: what is known of how the frames of its track have come in."""
        at = float(frame.time or 0.0)
        self._more = {} if came is None else came.of(frame.pts)
        if isinstance(frame, av.VideoFrame):
            luma: Any = frame.to_ndarray(format="gray")
            self._tell("picture", at, number=read(luma))
            return
        samples = frame.to_ndarray()
        scale = 1.0 if np.issubdtype(samples.dtype, np.floating) else 32768.0
        channels = 1 if frame.format.is_planar else len(frame.layout.channels)
        loud = np.flatnonzero(np.abs(samples[0][::channels].astype(np.float64)) / scale > _LOUD)
        if not len(loud):
            return
        begins = at + float(loud[0]) / frame.sample_rate
        if begins - self._heard_s > _QUIET_S:
            if "report_s" in self._more:
                self._more["report_s"] += begins - at
            self._tell("beep", begins)
        self._heard_s = at + float(loud[-1]) / frame.sample_rate

    def _tell(self, what: str, at: float, **more: Any) -> None:
        line = {"what": what, "stream_s": at, "wall_s": time.time(), **self._more, **more}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def open_stream(url: str, *, listen: bool) -> None:
    """Decode until it ends, as early as can be."""
    # What it has looked at to know the stream is decoded at once: it does not fall behind by it.
    options = {"flags": "low_delay", "analyzeduration": "200000"}
    options |= {"listen": "1"} if listen else {}
    teller = Teller()
    while True:
        with av.open(url, options=options, timeout=30) as stream:
            if not (stream.streams.video and stream.streams.audio):
                continue  # opened between two key frames: so far there is sound alone
            stream.streams.video[0].thread_type = "NONE"
            for frame in stream.decode(video=0, audio=0):
                teller.take(frame)
            return


async def whep(url: str, token: str) -> None:
    """As a WHEP player: aiortc, which puts what comes into order and decodes it."""
    pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    teller = Teller()
    tasks: set[asyncio.Task[None]] = set()

    came: dict[str, Came] = {}

    async def follow(track: Any) -> None:
        while True:
            teller.take(await track.recv(), came[track.kind])

    pc.on("track", lambda track: tasks.add(asyncio.create_task(follow(track))))
    for kind, rate_hz in (("video", VIDEO_HZ), ("audio", RATE_HZ)):
        came[kind] = Came(pc.addTransceiver(kind, direction="recvonly").receiver, rate_hz)
    await pc.setLocalDescription(await pc.createOffer())
    headers = {"Content-Type": "application/sdp"}
    headers |= {"Authorization": f"Bearer {token}"} if token else {}
    async with httpx.AsyncClient(trust_env=False) as http:
        told = await http.post(url, content=pc.localDescription.sdp, headers=headers)
        told.raise_for_status()
    await pc.setRemoteDescription(RTCSessionDescription(told.text, "answer"))
    await asyncio.Event().wait()


async def whip(port: int, token: str) -> None:
    """As a WHIP endpoint."""
    endpoint = WhipEndpoint(token, port)
    endpoint.received = Teller()
    await endpoint.start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    way, address, *rest = sys.argv[1:]
    if way == "whip":
        asyncio.run(whip(int(address), rest[0]))
    elif way == "whep":
        asyncio.run(whep(address, rest[0] if rest else ""))
    else:
        open_stream(address, listen=bool(rest))
