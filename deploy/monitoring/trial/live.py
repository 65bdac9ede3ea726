"""A session that goes live, and all who come to it: also over networks that lose and stall."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import socket
import sys
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import httpx
import websockets
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import AudioStreamTrack

from visavis.client import GatewayClient
from visavis.serving.aiortc_private.incoming import take_packets
from visavis.tools.stack.nats_server import free_port

log = logging.getLogger(__name__)

_AGAIN_S = 5.0
_COMMENT_EVERY_S = 5.0
_LIVE_S, _AWAY_S = 40.0, 6.0
# Takes an RTMP stream, and does nothing with it.
_SINK = "import sys, av\nfor _ in av.open(sys.argv[1], options={'listen': '1'}).demux(): pass"
# Its network goes so long, and then stands for longer than a target may lag behind.
_GOES_S, _STANDS_S = 20.0, 8.0
_READS_NOTHING_S = 12.0
# As those of a network; a loopback's hold megabytes before anybody has to wait.
_SEGMENT_BYTES, _BUFFER_BYTES = 536, 4096
_LOST_EVERY = 40
"""Packets of the microphone, of which one is lost."""
# What was answered is not answered again: most of them differ in their number.
_COMMENTS = (
    "What is in room {number}?",
    "Cleo, who made picture number {number}?",
    "https://example.com/ look at this",
    "When are you open?",
)


async def again(visit: Callable[[], Awaitable[None]]) -> None:
    """Whoever is refused comes again, and so does one who was cut off, until it is cancelled."""
    while True:
        try:
            await visit()
        except Exception:
            log.info("a client was turned away", exc_info=True)
        await asyncio.sleep(_AGAIN_S)


async def go_live(url: str) -> None:
    """One session: pushed to a server that is away now and then, watched, and asked by comments."""
    async with GatewayClient(url) as client:
        # As an operator, who may broadcast: not by the session's token.
        made = (await client.call("POST", "/v1/sessions", json={"language": "en"})).json()
        path = f"/v1/sessions/{made['id']}"
        try:
            await _show(client, path)
        finally:
            await client.call("DELETE", path)


async def _show(client: GatewayClient, path: str) -> None:
    near, far, url = free_port(), free_port(), f"{client.url}{path}"
    target = {"url": f"rtmp://127.0.0.1:{near}/live", "key": "key"}
    await client.call("POST", f"{path}/broadcasts", json=target)
    await client.call("POST", f"{path}/room", json={"addressed_as": ["Cleo"]})
    # What goes wrong with one of them is no reason for the others to leave.
    async with asyncio.TaskGroup() as group:
        for visit in (
            lambda: _stalling_network(near, far),
            lambda: _take_rtmp(f"rtmp://127.0.0.1:{far}/live/key"),
            lambda: _watch_by_whep(f"{url}/whep"),
            lambda: _watch_by_hls(f"{url}/hls/"),
            lambda: _listen_to_nothing(url),
            lambda: _speak_by_whip(f"{url}/whip"),
            lambda: _comment(client, path),
        ):
            group.create_task(again(visit))


# ------------------------------------------------------------ the target of its broadcast


async def _take_rtmp(url: str) -> None:
    while True:
        server = await asyncio.create_subprocess_exec(sys.executable, "-c", _SINK, url)
        try:
            await asyncio.sleep(_LIVE_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                server.kill()
            await server.wait()
        await asyncio.sleep(_AWAY_S)


async def _stalling_network(near: int, far: int) -> None:
    """Carries what comes at one port to another one, but for some seconds now and then."""

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            from_far, to_far = await asyncio.open_connection("127.0.0.1", far)
            back = asyncio.create_task(_copy(from_far, writer))
            stands_s = loop.time() + _GOES_S
            try:
                while sent := await reader.read(_BUFFER_BYTES):
                    to_far.write(sent)
                    await to_far.drain()
                    if loop.time() > stands_s:
                        await asyncio.sleep(_STANDS_S)
                        stands_s = loop.time() + _GOES_S
            finally:
                back.cancel()
                to_far.close()
        writer.close()

    listening = _small(socket.socket())
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", near))
    server = await asyncio.start_server(carry, sock=listening, limit=_BUFFER_BYTES)
    async with server:
        await server.serve_forever()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while sent := await reader.read(_BUFFER_BYTES):
            writer.write(sent)
            await writer.drain()


def _small(made: socket.socket) -> socket.socket:
    """The socket, to which little can be sent that is not read."""
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, _SEGMENT_BYTES)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
    return made


# ------------------------------------------------------------ who watches, listens and speaks


async def _watch_by_whep(url: str) -> None:
    async def drop(_packet: object) -> None:
        """Nobody looks at it."""

    pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    try:
        for kind in ("video", "audio"):
            receiver = pc.addTransceiver(kind, direction="recvonly").receiver
            take_packets(receiver, drop)
        await _connect(pc, url)
        await asyncio.Event().wait()
    finally:
        await pc.close()


async def _speak_by_whip(url: str) -> None:
    """A microphone at which nobody speaks, over a network that loses packets of it."""
    pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    try:
        transport: Any = pc.addTrack(AudioStreamTrack()).transport
        send, numbers = transport._send_rtp, itertools.count(1)

        async def send_most(packet: bytes) -> None:
            if next(numbers) % _LOST_EVERY:
                await send(packet)

        transport._send_rtp = send_most
        await _connect(pc, url)
        await asyncio.Event().wait()
    finally:
        await pc.close()


async def _connect(pc: RTCPeerConnection, url: str) -> None:
    await pc.setLocalDescription(await pc.createOffer())
    headers = {"Content-Type": "application/sdp"}
    async with httpx.AsyncClient(trust_env=False, timeout=30) as http:
        told = await http.post(url, content=pc.localDescription.sdp, headers=headers)
    told.raise_for_status()
    await pc.setRemoteDescription(RTCSessionDescription(told.text, "answer"))


async def _watch_by_hls(url: str) -> None:
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=30) as http:
        playlist = (await http.get("index.m3u8")).text.split()[-1]
        while True:
            newest = (await http.get(playlist)).text.split()[-1]
            await http.get(newest)
            await asyncio.sleep(1.0)


async def _listen_to_nothing(url: str) -> None:
    """Asks for the sound alone, and reads none of it for a while."""
    place = urlsplit(url)
    made = _small(socket.socket())
    made.setblocking(False)
    await asyncio.get_running_loop().sock_connect(made, (place.hostname, place.port))
    address = f"ws://{place.netloc}{place.path}/audio?rate_hz=48000"
    async with websockets.connect(address, sock=made, max_queue=1, close_timeout=1.0):
        await asyncio.sleep(_READS_NOTHING_S)


async def _comment(client: GatewayClient, path: str) -> None:
    for number in itertools.count(1):
        text = _COMMENTS[number % len(_COMMENTS)].format(number=number)
        said = {"author": {"name": f"viewer {number % 7}"}, "text": text}
        await client.call("POST", f"{path}/room/comments", json=said)
        await asyncio.sleep(_COMMENT_EVERY_S)
