"""Renders one part: text -> voice and mel (tts) -> pictures (face), as both stream."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import grpc.aio
import numpy as np

from visavis.errors import VisavisError
from visavis.lecture.parts import LectureOptions, Part, Picture
from visavis.media import MelChunk, PcmChunk, VideoChunk
from visavis.v1 import face_pb2, face_pb2_grpc, tts_pb2, tts_pb2_grpc

log = logging.getLogger(__name__)

SAMPLE_RATE_HZ = 24_000
FPS = 25
SAMPLES_PER_FRAME = SAMPLE_RATE_HZ // FPS
# Chunks that may wait for the face: the synthesis waits rather than runs ahead.
_WAITING = 64

_Sound = MelChunk | PcmChunk


async def render_part(
    text: str,
    start_frame: int,
    options: LectureOptions,
    tts: grpc.aio.Channel,
    face: grpc.aio.Channel,
) -> Part:
    """The part for `text`. Raises VisavisError with the service's own words."""
    sounds: asyncio.Queue[_Sound | None] = asyncio.Queue(_WAITING)
    try:
        async with asyncio.TaskGroup() as tasks:
            voice = tasks.create_task(_speak(text, options, tts, sounds))
            pictures = tasks.create_task(_animate(start_frame, options, face, sounds))
    except* grpc.aio.AioRpcError as group:
        error = group.exceptions[0]
        assert isinstance(error, grpc.aio.AioRpcError)
        raise VisavisError(error.details() or error.code().name) from None
    return _in_step(voice.result(), pictures.result())


async def _speak(
    text: str,
    options: LectureOptions,
    channel: grpc.aio.Channel,
    sounds: asyncio.Queue[_Sound | None],
) -> list[PcmChunk]:
    config = tts_pb2.SynthesisConfig(
        language=options.language, voice=options.voice, speed=options.speed
    )

    async def requests() -> AsyncIterator[tts_pb2.SynthesizeRequest]:
        yield tts_pb2.SynthesizeRequest(config=config)
        yield tts_pb2.SynthesizeRequest(text=text)

    voice: list[PcmChunk] = []
    async for answer in tts_pb2_grpc.SpeechSynthesisStub(channel).Synthesize(requests()):
        if answer.HasField("voice"):
            voice.append(PcmChunk.of(answer.voice))
            await sounds.put(voice[-1])
        elif answer.HasField("notice"):
            log.warning("%s", answer.notice.message)
        else:
            await sounds.put(MelChunk.of(answer.mel))
    await sounds.put(None)
    return voice


async def _animate(
    start_frame: int,
    options: LectureOptions,
    channel: grpc.aio.Channel,
    sounds: asyncio.Queue[_Sound | None],
) -> list[VideoChunk]:
    config = face_pb2.FaceConfig(avatar=options.avatar, seed=options.seed, start_frame=start_frame)

    async def requests() -> AsyncIterator[face_pb2.AnimateRequest]:
        yield face_pb2.AnimateRequest(config=config)
        # Most faces move their lips by the durations in the mel, some are drawn from the voice.
        while (sound := await sounds.get()) is not None:
            if isinstance(sound, MelChunk):
                yield face_pb2.AnimateRequest(mel=sound.to_message())
            else:
                yield face_pb2.AnimateRequest(voice=sound.to_message())

    answers = face_pb2_grpc.FaceAnimationStub(channel).Animate(requests())
    return [VideoChunk.of(answer.video) async for answer in answers if answer.HasField("video")]


def _in_step(voice: list[PcmChunk], video: list[VideoChunk]) -> Part:
    """Fill the sound up to whole pictures, so that parts join without drift."""
    pictures = [Picture(chunk.payload, chunk.keyframe) for chunk in video]
    pcm = np.concatenate([chunk.pcm for chunk in voice] or [np.zeros(0, np.int16)])
    samples = len(pictures) * SAMPLES_PER_FRAME
    return Part(pictures, np.pad(pcm[:samples], (0, max(0, samples - len(pcm)))))
