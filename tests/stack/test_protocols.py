"""Other people's protocols on a real stack: what one of them speaks the others hear and show."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import grpc.aio
import pytest

from gateway.wyoming.events import Event, encoded, read_head, read_rest
from tests.running_stack import CLIENT_KEY, RunningStack
from tests.stack.conftest import likeness
from visavis.arkit import APPLE_NAMES
from visavis.client import GatewayClient
from visavis.v1 import (
    audio2face_pb2,
    audio2face_pb2_grpc,
    riva_asr_pb2,
    riva_asr_pb2_grpc,
    riva_pb2,
    riva_tts_pb2,
    riva_tts_pb2_grpc,
)

SAID = "Please take the stairs on the left."
RATE_HZ = 16_000
SHOWN = (("authorization", f"Bearer {CLIENT_KEY}"),)


async def test_a_voice_is_heard_and_seen_by_clients_of_others(
    stack: RunningStack, gateway: GatewayClient
) -> None:
    told = (await gateway.call("GET", "/v1/services")).json()["services"]
    at = {service["service"]: service["address"] for service in told}
    request = riva_tts_pb2.SynthesizeSpeechRequest(text=SAID, sample_rate_hz=RATE_HZ)
    async with grpc.aio.insecure_channel(at["tts"]) as channel:
        tts = riva_tts_pb2_grpc.RivaSpeechSynthesisStub(channel)
        pcm = (await tts.Synthesize(request, metadata=SHOWN)).audio
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await tts.Synthesize(request)
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
    config = riva_asr_pb2.RecognitionConfig(
        encoding=riva_pb2.LINEAR_PCM, sample_rate_hertz=RATE_HZ, language_code="en-US"
    )
    async with grpc.aio.insecure_channel(at["asr"]) as channel:
        asr = riva_asr_pb2_grpc.RivaSpeechRecognitionStub(channel)
        recording = riva_asr_pb2.RecognizeRequest(config=config, audio=pcm)
        heard = await asr.Recognize(recording, metadata=SHOWN)
    assert likeness(heard.results[0].alternatives[0].transcript, SAID) > 0.8
    async with grpc.aio.insecure_channel(at["face"]) as channel:
        face = audio2face_pb2_grpc.A2FControllerServiceStub(channel)
        seen = [a async for a in face.ProcessAudioStream(iter(list(clip(pcm))), metadata=SHOWN)]
    shapes = [a.animation_data.skel_animation for a in seen if a.HasField("animation_data")]
    jaw = [s.blend_shape_weights[0].values[APPLE_NAMES.index("JawOpen")] for s in shapes]
    assert abs(len(jaw) - 15 * len(pcm) / RATE_HZ) <= 1 and max(jaw) > 0.15
    assert likeness(await home_assistant_hears(stack.wyoming_port, pcm), SAID) > 0.8


def clip(pcm: bytes) -> Iterator[Any]:
    header = audio2face_pb2.AudioHeader(
        channel_count=1, samples_per_second=RATE_HZ, bits_per_sample=16
    )
    stream = audio2face_pb2.AudioStream
    yield stream(audio_stream_header=audio2face_pb2.AudioStreamHeader(audio_header=header))
    yield stream(audio_with_emotion=audio2face_pb2.AudioWithEmotion(audio_buffer=pcm))
    yield stream(end_of_audio={})


async def home_assistant_hears(port: int, pcm: bytes) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    form = {"rate": RATE_HZ, "width": 2, "channels": 1}
    for event in (
        Event("transcribe", {"language": "en"}),
        Event("audio-start", form),
        *(Event("audio-chunk", form, pcm[i : i + 4096]) for i in range(0, len(pcm), 4096)),
        Event("audio-stop"),
    ):
        writer.write(encoded(event))
    async with asyncio.timeout(30):
        while (head := await read_head(reader)) is not None:
            event = await read_rest(reader, head)
            if event.type in ("transcript", "error"):
                break
    writer.close()
    return event.text("text")
