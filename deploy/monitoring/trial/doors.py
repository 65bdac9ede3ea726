"""Clients at the other doors of a stack of our own: all happens that their dashboard counts."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc.aio
import httpx
import websockets
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription

from visavis.client import GatewayClient
from visavis.serving import aiortc_private
from visavis.tools.stack.nats_server import free_port
from visavis.v1 import (
    audio2face_pb2,
    audio2face_pb2_grpc,
    riva_asr_pb2,
    riva_asr_pb2_grpc,
    riva_pb2,
    riva_tts_pb2,
    riva_tts_pb2_grpc,
)

log = logging.getLogger(__name__)

SESSIONS = 3
"""That these clients have at once: one that goes live, one of Realtime, one with a tool."""
CLIENT_KEY = secrets.token_urlsafe(16)
"""What clients of other protocols show to the services."""
_RATE_HZ = 16_000
_SAID = "The museum opens at nine."
_WEATHER = {
    "name": "get_weather",
    "description": "The weather of a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 12}},
        "required": ["city"],
    },
}
_AGAIN_S = 5.0
_LIVE_S, _AWAY_S = 40.0, 6.0
# Takes an RTMP stream, and does nothing with it.
_SINK = "import sys, av\nfor _ in av.open(sys.argv[1], options={'listen': '1'}).demux(): pass"
_COMMENTS = (
    "When are you open?",
    "what is the oldest thing here",
    "https://example.com/ look at this",
    "When are you open ?",
    "Cleo, do you like it here?",
)


@contextlib.asynccontextmanager
async def at_the_doors(url: str, wyoming_port: int) -> AsyncIterator[None]:
    """They come and go for as long as the context lasts; what is refused them they ask again."""
    visits: tuple[Callable[[], Awaitable[None]], ...] = (
        lambda: _go_live(url),
        lambda: _talk_by_realtime(url),
        lambda: _ask_openai(url),
        lambda: _use_a_tool(url),
        lambda: _ask_the_services(url),
        lambda: _ask_wyoming(wyoming_port),
    )
    tasks = [asyncio.create_task(_again(visit)) for visit in visits]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _again(visit: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await visit()
        except Exception:  # whoever is refused comes again, and so does one who was cut off
            log.info("a client was turned away", exc_info=True)
        await asyncio.sleep(_AGAIN_S)


# ------------------------------------------------------------ live, and its room


async def _go_live(url: str) -> None:
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
    port, url = free_port(), f"{client.url}{path}"
    target = {"url": f"rtmp://127.0.0.1:{port}/live", "key": "key"}
    await client.call("POST", f"{path}/broadcasts", json=target)
    await client.call("POST", f"{path}/room", json={"addressed_as": ["Cleo"]})
    async with asyncio.TaskGroup() as group:
        group.create_task(_take_rtmp(f"{target['url']}/key"))
        group.create_task(_watch_by_whep(f"{url}/whep"))
        group.create_task(_watch_by_hls(f"{url}/hls/"))
        group.create_task(_comment(client, path))


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


async def _watch_by_whep(url: str) -> None:
    async def drop(_packet: object) -> None:
        """Nobody looks at it."""

    pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    try:
        for kind in ("video", "audio"):
            receiver = pc.addTransceiver(kind, direction="recvonly").receiver
            aiortc_private.take_packets(receiver, drop)
        await pc.setLocalDescription(await pc.createOffer())
        headers = {"Content-Type": "application/sdp"}
        async with httpx.AsyncClient(trust_env=False, timeout=30) as http:
            told = await http.post(url, content=pc.localDescription.sdp, headers=headers)
        told.raise_for_status()
        await pc.setRemoteDescription(RTCSessionDescription(told.text, "answer"))
        await asyncio.Event().wait()
    finally:
        await pc.close()


async def _watch_by_hls(url: str) -> None:
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=30) as http:
        playlist = (await http.get("index.m3u8")).text.split()[-1]
        while True:
            newest = (await http.get(playlist)).text.split()[-1]
            await http.get(newest)
            await asyncio.sleep(1.0)


async def _comment(client: GatewayClient, path: str) -> None:
    number = 0
    while True:
        text = _COMMENTS[number % len(_COMMENTS)]
        said = {"author": {"name": f"viewer {number % 7}"}, "text": text}
        await client.call("POST", f"{path}/room/comments", json=said)
        number += 1
        await asyncio.sleep(3.0)


# ------------------------------------------------------------ OpenAI's clients, and tools


async def _talk_by_realtime(url: str) -> None:
    """Asks by text again and again, and now and then for what there is not."""
    address = f"ws{url.removeprefix('http')}/v1/realtime?model=gpt-realtime"
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": _SAID}]}
    async with websockets.connect(address, proxy=None, max_size=None) as socket:

        async def read() -> None:
            async for _ in socket:
                pass

        reading = asyncio.create_task(read())
        try:
            while not reading.done():
                for event in (
                    {"type": "conversation.item.create", "item": item},
                    {"type": "response.create"},
                    {"type": "no.such.event"},
                ):
                    await socket.send(json.dumps(event))
                await asyncio.sleep(12.0)
        finally:
            reading.cancel()


async def _ask_openai(url: str) -> None:
    """Has a sentence written, spoken and heard; asks for a model that is not there."""
    async with httpx.AsyncClient(base_url=f"{url}/v1/", trust_env=False, timeout=60) as http:
        messages = [{"role": "user", "content": "Name one city."}]
        chat = {"model": "visavis", "messages": messages, "max_tokens": 12}
        await http.post("chat/completions", json=chat)
        await http.post("chat/completions", json={**chat, "model": "none-such"})
        speech = {"model": "tts-1", "voice": "alloy", "input": _SAID, "response_format": "wav"}
        spoken = await http.post("audio/speech", json=speech)
        files = {"file": ("said.wav", spoken.content)}
        await http.post("audio/transcriptions", data={"model": "whisper-1"}, files=files)


async def _use_a_tool(url: str) -> None:
    chosen = {"name": _WEATHER["name"]}
    async with (
        GatewayClient(url) as client,
        client.session(language="en", tools=[_WEATHER], tool_choice=chosen) as session,
    ):
        await session.ask("How is the weather in Rome?")
        async with asyncio.timeout(60):
            async for event in session.events():
                if event["type"] == "answer.tool_call":
                    await session.tool_result(event["call_id"], "18 degrees and sunny.")
                elif event["type"] == "turn" and event["event"] in ("finished", "failed"):
                    return


# ------------------------------------------------------------ NVIDIA's, and Home Assistant


async def _ask_the_services(url: str) -> None:
    """A sentence to a voice (Riva), to text again (Riva), and to a face (Audio2Face-3D)."""
    async with GatewayClient(url) as client:
        told = (await client.call("GET", "/v1/services")).json()["services"]
    at = {service["service"]: service["address"] for service in told}
    shown = (("authorization", f"Bearer {CLIENT_KEY}"),)
    text = riva_tts_pb2.SynthesizeSpeechRequest(text=_SAID, sample_rate_hz=_RATE_HZ)
    async with grpc.aio.insecure_channel(at["tts"]) as channel:
        tts = riva_tts_pb2_grpc.RivaSpeechSynthesisStub(channel)
        pcm = (await tts.Synthesize(text, metadata=shown)).audio
    config = riva_asr_pb2.RecognitionConfig(
        encoding=riva_pb2.LINEAR_PCM, sample_rate_hertz=_RATE_HZ, language_code="en-US"
    )
    async with grpc.aio.insecure_channel(at["asr"]) as channel:
        asr = riva_asr_pb2_grpc.RivaSpeechRecognitionStub(channel)
        recording = riva_asr_pb2.RecognizeRequest(config=config, audio=pcm)
        await asr.Recognize(recording, metadata=shown)
    form = audio2face_pb2.AudioHeader(
        channel_count=1, samples_per_second=_RATE_HZ, bits_per_sample=16
    )
    part: Any = audio2face_pb2.AudioStream
    clip = (
        part(audio_stream_header=audio2face_pb2.AudioStreamHeader(audio_header=form)),
        part(audio_with_emotion=audio2face_pb2.AudioWithEmotion(audio_buffer=pcm)),
        part(end_of_audio={}),
    )
    async with grpc.aio.insecure_channel(at["face"]) as channel:
        face = audio2face_pb2_grpc.A2FControllerServiceStub(channel)
        async for _ in face.ProcessAudioStream(iter(clip), metadata=shown):
            pass


async def _ask_wyoming(port: int) -> None:
    """As Home Assistant has a sentence spoken."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        data = json.dumps({"text": _SAID}).encode()
        head = {"type": "synthesize", "data_length": len(data)}
        writer.write(json.dumps(head).encode() + b"\n" + data)
        await writer.drain()
        async with asyncio.timeout(30):
            while True:
                told = json.loads(await reader.readline())
                rest = told.get("data_length") or 0
                await reader.readexactly(rest + (told.get("payload_length") or 0))
                if told["type"] in ("audio-stop", "error"):
                    return
    finally:
        writer.close()
