"""Clients at the other doors of a stack of our own: all happens that their dashboard counts."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc.aio
import httpx
import websockets

from deploy.monitoring.trial.crowd import KNOWN_QUESTION
from deploy.monitoring.trial.live import again, go_live
from visavis.client import GatewayClient, GatewaySession
from visavis.serving.way_out import PAST_PROXIES
from visavis.v1 import (
    audio2face_pb2,
    audio2face_pb2_grpc,
    riva_asr_pb2,
    riva_asr_pb2_grpc,
    riva_pb2,
    riva_tts_pb2,
    riva_tts_pb2_grpc,
)

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
# The first result comes at once. The smallest model then calls again and never says a word: it has
# to wait, so that the gateway says some meanwhile.
_FIRST_RESULT_S, _NEXT_RESULT_S = 0.3, 2.5
_OVER = ("finished", "failed", "interrupted")
# In which the face comes to rest, and a loop may show it.
_ASKS_AFTER_S = 6.0


@contextlib.asynccontextmanager
async def at_the_doors(url: str, wyoming_port: int) -> AsyncIterator[None]:
    """They come and go for as long as the context lasts; what is refused them they ask again.

    Three of them have sessions, and stay: who goes live, one of Realtime, one with a tool.
    """
    visits: tuple[Callable[[], Awaitable[None]], ...] = (
        lambda: go_live(url),
        lambda: _talk_by_realtime(url),
        lambda: _ask_openai(url),
        lambda: _use_a_tool(url),
        lambda: _ask_the_services(url),
        lambda: _ask_wyoming(wyoming_port),
    )
    tasks = [asyncio.create_task(again(visit)) for visit in visits]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


# ------------------------------------------------------------ OpenAI's clients, and tools


async def _talk_by_realtime(url: str) -> None:
    """Asks by text again and again, and now and then for what there is not."""
    address = f"ws{url.removeprefix('http')}/v1/realtime?model=gpt-realtime"
    async with websockets.connect(address, proxy=None, max_size=None) as socket:

        async def read() -> None:
            async for _ in socket:
                pass

        reading = asyncio.create_task(read())
        try:
            for text in itertools.cycle((_SAID, KNOWN_QUESTION)):
                if reading.done():
                    return
                content = [{"type": "input_text", "text": text}]
                item = {"type": "message", "role": "user", "content": content}
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
    """Watches, and asks now and then what has to be looked up."""
    chosen = {"name": _WEATHER["name"]}
    async with (
        GatewayClient(url) as client,
        client.session(language="en", tools=[_WEATHER], tool_choice=chosen) as session,
        websockets.connect(
            f"ws{url.removeprefix('http')}/v1/sessions/{session.id}/media", proxy=None
        ) as pictures,
    ):

        async def watch() -> None:
            async for _ in pictures:
                pass

        watching = asyncio.create_task(watch())
        try:
            while not watching.done():
                await asyncio.sleep(_ASKS_AFTER_S)
                await _look_up(session)
        finally:
            watching.cancel()


async def _look_up(session: GatewaySession) -> None:
    waits_s = itertools.chain((_FIRST_RESULT_S,), itertools.repeat(_NEXT_RESULT_S))
    turn = await session.ask("How is the weather in Rome?")
    async with asyncio.timeout(60):
        async for event in session.events():
            if event["type"] == "answer.tool_call":
                await asyncio.sleep(next(waits_s))
                await session.tool_result(event["call_id"], "18 degrees and sunny.")
            elif event["type"] == "turn" and event["turn"] == turn and event["event"] in _OVER:
                return


# ------------------------------------------------------------ NVIDIA's, and Home Assistant


async def _ask_the_services(url: str) -> None:
    """A sentence to a voice (Riva), to text again (Riva), and to a face (Audio2Face-3D)."""
    async with GatewayClient(url) as client:
        told = (await client.call("GET", "/v1/services")).json()["services"]
    at = {service["service"]: service["address"] for service in told}
    shown = (("authorization", f"Bearer {CLIENT_KEY}"),)
    text = riva_tts_pb2.SynthesizeSpeechRequest(text=_SAID, sample_rate_hz=_RATE_HZ)
    async with grpc.aio.insecure_channel(at["tts"], [PAST_PROXIES]) as channel:
        tts = riva_tts_pb2_grpc.RivaSpeechSynthesisStub(channel)
        pcm = (await tts.Synthesize(text, metadata=shown)).audio
    config = riva_asr_pb2.RecognitionConfig(
        encoding=riva_pb2.LINEAR_PCM, sample_rate_hertz=_RATE_HZ, language_code="en-US"
    )
    async with grpc.aio.insecure_channel(at["asr"], [PAST_PROXIES]) as channel:
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
    async with grpc.aio.insecure_channel(at["face"], [PAST_PROXIES]) as channel:
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
