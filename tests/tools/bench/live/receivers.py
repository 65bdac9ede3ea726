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

from tests.gateway.live.peers import WhipEndpoint
from tests.tools.bench.live.counter import read

_LOUD = 0.05
_QUIET_S = 0.1


class Teller:
    """Looks at frames, and tells."""

    def __init__(self) -> None:
        self._heard_s = -1e9

    def take(self, frame: Any) -> None:
        at = float(frame.time or 0.0)
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
            self._tell("beep", begins)
        self._heard_s = at + float(loud[-1]) / frame.sample_rate

    def _tell(self, what: str, at: float, **more: Any) -> None:
        line = {"what": what, "stream_s": at, "wall_s": time.time(), **more}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def open_stream(url: str, *, listen: bool) -> None:
    """Decode until it ends, as early as can be."""
    # What it has looked at to know the stream is decoded at once: it does not fall behind by it.
    options = {"flags": "low_delay", "analyzeduration": "200000"}
    options |= {"listen": "1"} if listen else {}
    teller = Teller()
    with av.open(url, options=options, timeout=30) as stream:
        stream.streams.video[0].thread_type = "NONE"
        for frame in stream.decode(video=0, audio=0):
            teller.take(frame)


async def whep(url: str, token: str) -> None:
    """As a WHEP player: aiortc, which puts what comes into order and decodes it."""
    pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    teller = Teller()
    tasks: set[asyncio.Task[None]] = set()

    async def follow(track: Any) -> None:
        while True:
            teller.take(await track.recv())

    pc.on("track", lambda track: tasks.add(asyncio.create_task(follow(track))))
    for kind in ("video", "audio"):
        pc.addTransceiver(kind, direction="recvonly")
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
