"""Servers of others for the tests: FFmpeg as one of RTMP, aiortc behind a WHIP endpoint."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import av
import numpy as np
import uvicorn
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from av.codec.context import CodecContext
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.gateway.conftest import until


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@dataclass
class Received:
    """What has come: times in seconds of the stream, brightness and loudness."""

    pictures: list[tuple[float, float]] = field(default_factory=list)
    keyframes: list[float] = field(default_factory=list)
    sound: list[tuple[float, float]] = field(default_factory=list)
    captions: list[str] = field(default_factory=list)
    """Both rows, each time before they change."""
    _captions: Any = field(default_factory=lambda: CodecContext.create("eia_608", "r"))

    def take(self, frame: Any) -> None:
        time_s = float(frame.time or 0.0)
        if isinstance(frame, av.VideoFrame):
            self.pictures.append((time_s, float(frame.to_ndarray(format="gray").mean())))
            self.keyframes += [time_s] if frame.key_frame else []
            for told in frame.side_data:
                if told.type.name == "A53_CC":
                    self._take_captions(bytes(told), time_s)
        else:
            samples = frame.to_ndarray().astype(np.float64)
            scale = 1.0 if np.issubdtype(frame.to_ndarray().dtype, np.floating) else 32768.0
            self.sound.append((time_s, float(np.abs(samples).max() / scale)))

    def _take_captions(self, pairs: bytes, time_s: float) -> None:
        packet = av.Packet(pairs)
        packet.pts, packet.time_base = round(1000 * time_s), Fraction(1, 1000)
        for subtitle in self._captions.decode(packet):
            rows = re.sub("{.*?}", "", subtitle.ass.decode().split(",,", 2)[-1])
            self.captions.append(rows.replace("\\N", "\n"))


class RtmpServer:
    """FFmpeg, which takes one stream and ends with it."""

    def __init__(self, port: int, path: str) -> None:
        self.received = Received()
        self.codecs: list[str] = []
        self.metadata: dict[str, str] = {}
        self._url = f"rtmp://127.0.0.1:{port}{path}"
        self._leave = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    async def stop(self) -> None:
        """Hang up, as a server that ends."""
        self._leave.set()
        await self.ended()

    async def ended(self) -> None:
        """Once whoever publishes has hung up."""
        await asyncio.to_thread(self._thread.join, 10)

    def _run(self) -> None:
        options = {"listen": "1", "analyzeduration": "300000"}
        with (
            contextlib.suppress(av.FFmpegError),
            av.open(self._url, options=options, timeout=20) as stream,
        ):
            self.codecs = [s.codec_context.name for s in stream.streams]
            self.metadata = dict(stream.metadata)
            for frame in stream.decode(video=0, audio=0):
                self.received.take(frame)
                if self._leave.is_set():
                    return


class WhipEndpoint:
    """Takes whoever publishes, if he shows the token."""

    def __init__(self, token: str, port: int = 0) -> None:
        """port: 0: a free one."""
        self.location = "/resource/1"
        self.told: Callable[[str], str] = lambda sdp: sdp
        """What is answered in the place of the right answer."""
        self.received: Any = Received()
        self.offers: list[str] = []
        self.deleted = 0
        self._token = token
        self._pcs: list[RTCPeerConnection] = []
        self._tasks: set[asyncio.Task[None]] = set()
        app = Starlette(
            routes=[
                Route("/go", self._redirect, methods=["POST"]),
                Route("/whip", self._publish, methods=["POST"]),
                Route("/resource/1", self._delete, methods=["DELETE"]),
            ]
        )
        config = uvicorn.Config(app, port=port, log_level="warning", lifespan="off")
        self._server = uvicorn.Server(config)

    async def start(self) -> None:
        self._serving = asyncio.create_task(self._server.serve())
        await until(lambda: self._server.started)

    async def stop(self) -> None:
        self._server.should_exit = True
        await self._serving
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*(pc.close() for pc in self._pcs))

    @property
    def url(self) -> str:
        port = self._server.servers[0].sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}/go"

    async def _redirect(self, request: Request) -> Response:
        return Response(status_code=307, headers={"Location": "/whip"})

    async def _publish(self, request: Request) -> Response:
        if request.headers.get("authorization") != f"Bearer {self._token}":
            return Response("who are you?", 401)
        if request.headers.get("content-type") != "application/sdp":
            return Response(status_code=415)
        self.offers.append((await request.body()).decode())
        pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self._pcs.append(pc)
        pc.on("track", self._track)
        await pc.setRemoteDescription(RTCSessionDescription(self.offers[-1], "offer"))
        await pc.setLocalDescription(await pc.createAnswer())
        headers = {"Location": self.location}
        return Response(self.told(pc.localDescription.sdp), 201, headers, "application/sdp")

    async def _delete(self, request: Request) -> Response:
        self.deleted += 1
        return Response(status_code=200)

    def _track(self, track: Any) -> None:
        task = asyncio.create_task(self._receive(track))
        self._tasks.add(task)

    async def _receive(self, track: Any) -> None:
        while True:
            self.received.take(await track.recv())
