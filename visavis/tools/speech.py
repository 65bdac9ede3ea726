"""Text said and sound heard by a service of ours, over its plain gRPC API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import grpc.aio

from visavis.serving.errors import VisavisError
from visavis.v1 import asr_pb2, asr_pb2_grpc, tts_pb2, tts_pb2_grpc
from visavis.wire.media import MelChunk, PcmChunk


async def synthesise(
    tts: grpc.aio.Channel, text: str, language: str, speed: float = 0.0, *, voice_name: str = ""
) -> tuple[list[PcmChunk], list[MelChunk]]:
    """The voice and the mel of `text`; speed 0: the voice's own. Raises VisavisError."""
    config = tts_pb2.SynthesisConfig(language=language, speed=speed, voice=voice_name)

    async def requests() -> AsyncIterator[tts_pb2.SynthesizeRequest]:
        yield tts_pb2.SynthesizeRequest(config=config)
        yield tts_pb2.SynthesizeRequest(text=text)

    voice, mels = [], []
    with service_errors():
        async for answer in tts_pb2_grpc.SpeechSynthesisStub(tts).Synthesize(requests()):
            if answer.HasField("voice"):
                voice.append(PcmChunk.of(answer.voice))
            elif answer.HasField("mel"):
                mels.append(MelChunk.of(answer.mel))
    return voice, mels


async def recognise(
    asr: grpc.aio.Channel, pcm_s16le: bytes, sample_rate_hz: int, language: str
) -> str:
    """The words of a whole recording. Raises VisavisError."""
    config = asr_pb2.RecognitionConfig(sample_rate_hz=sample_rate_hz, language=language)
    request = asr_pb2.RecognizeRequest(config=config, pcm_s16le=pcm_s16le)
    with service_errors():
        heard = await asr_pb2_grpc.SpeechRecognitionStub(asr).Recognize(request)
    return str(heard.text)


@contextmanager
def service_errors(about: str = "") -> Iterator[None]:
    """What a service refuses becomes a VisavisError with its own words, `about` before them."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise VisavisError(about + (error.details() or error.code().name)) from None
