"""Run by Pipecat's own interpreter: its NVIDIA services as they are, by our Riva; prints JSON.

.venv-frameworks/bin/python tests/stack/pipecat_nvidia.py ASR TTS KEY
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from pipecat.frames.frames import (
    EndFrame,
    ErrorFrame,
    Frame,
    InputAudioRawFrame,
    InterimTranscriptionFrame,
    InterruptionFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    TextFrame,
    TranscriptionFrame,
    TTSAudioRawFrame,
    TTSStoppedFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.nvidia.stt import NvidiaSegmentedSTTService, NvidiaSTTService
from pipecat.services.nvidia.tts import NvidiaTTSService, NvidiaTTSSynthesisMode
from pipecat.workers.runner import WorkerRunner

SPOKEN = ("The museum opens at nine. ", "Please take the stairs on the left, and mind the step.")
LONG = "And on the second floor there is a room with clocks, which all tell another time. "
RATE_HZ = 16_000


class Seen(FrameProcessor):
    """The end of a pipeline."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[tuple[float, Frame]] = []
        self.changed = asyncio.Event()

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        self.frames.append((time.monotonic(), frame))
        self.changed.set()
        await self.push_frame(frame, direction)

    def of(self, kind: type[Frame]) -> list[Any]:
        return [frame for _, frame in self.frames if isinstance(frame, kind)]

    async def until(self, met: Callable[[], object]) -> None:
        async with asyncio.timeout(30):
            while not met():
                self.changed.clear()
                await self.changed.wait()


async def within(service: Any, doing: Callable[[PipelineWorker, Seen], Awaitable[None]]) -> Seen:
    """What comes out of a pipeline with this service, while `doing` puts something in."""
    seen = Seen()
    worker = PipelineWorker(
        Pipeline([service, seen]),
        params=PipelineParams(audio_in_sample_rate=RATE_HZ, audio_out_sample_rate=RATE_HZ),
        cancel_on_idle_timeout=False,
        enable_rtvi=False,
    )
    faults: list[str] = []

    async def do() -> None:
        try:
            await doing(worker, seen)
        finally:
            await worker.queue_frame(EndFrame())

    @worker.event_handler("on_pipeline_error")
    async def on_error(_: PipelineWorker, frame: ErrorFrame) -> None:
        faults.append(frame.error)

    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    await asyncio.gather(runner.run(), do())
    assert not faults, faults
    return seen


def answer(texts: Sequence[str]) -> list[Frame]:
    pieces: list[Frame] = [TextFrame(text) for text in texts]
    return [LLMFullResponseStartFrame(), *pieces, LLMFullResponseEndFrame()]


async def voice(tts_at: str, key: str, mode: NvidiaTTSSynthesisMode) -> tuple[bytes, float]:
    """What is spoken of SPOKEN, and seconds until it begins."""
    asked = 0.0

    async def speak(worker: PipelineWorker, seen: Seen) -> None:
        nonlocal asked
        asked = time.monotonic()
        await worker.queue_frames(answer(SPOKEN))
        await seen.until(lambda: seen.of(TTSStoppedFrame))

    seen = await within(speaker(tts_at, key, mode), speak)
    first = next(at for at, frame in seen.frames if isinstance(frame, TTSAudioRawFrame))
    return b"".join(frame.audio for frame in seen.of(TTSAudioRawFrame)), first - asked


async def cut_off(tts_at: str, key: str) -> float:
    """Seconds of a long answer that came although it was interrupted at its first sound."""

    async def speak(worker: PipelineWorker, seen: Seen) -> None:
        await worker.queue_frames(answer([LONG] * 12))
        await seen.until(lambda: seen.of(TTSAudioRawFrame))
        await worker.queue_frame(InterruptionFrame())
        await seen.until(lambda: seen.of(InterruptionFrame))
        await asyncio.sleep(1.0)

    seen = await within(speaker(tts_at, key, NvidiaTTSSynthesisMode.STITCHED), speak)
    return sum(len(frame.audio) for frame in seen.of(TTSAudioRawFrame)) / 2 / RATE_HZ


def speaker(tts_at: str, key: str, mode: NvidiaTTSSynthesisMode) -> NvidiaTTSService:
    settings = NvidiaTTSService.Settings(voice="visavis.heart", synthesis_mode=mode)
    return NvidiaTTSService(server=tts_at, use_ssl=False, api_key=key, settings=settings)


def sound(pcm: bytes) -> list[Frame]:
    """As a transport brings it: pieces of 20 ms, and a second of silence behind them."""
    pcm += bytes(2 * RATE_HZ)
    step = 2 * RATE_HZ // 50
    return [InputAudioRawFrame(pcm[at : at + step], RATE_HZ, 1) for at in range(0, len(pcm), step)]


async def streamed(asr_at: str, key: str, pcm: bytes) -> dict[str, Any]:
    async def listen(worker: PipelineWorker, seen: Seen) -> None:
        await worker.queue_frames(sound(pcm))
        await seen.until(lambda: "step" in text_of(seen).lower())

    service = NvidiaSTTService(server=asr_at, use_ssl=False, api_key=key)
    seen = await within(service, listen)
    return {"text": text_of(seen), "looks": len(seen.of(InterimTranscriptionFrame))}


async def in_segments(asr_at: str, key: str, pcm: bytes) -> str:
    async def listen(worker: PipelineWorker, seen: Seen) -> None:
        await worker.queue_frame(VADUserStartedSpeakingFrame())
        await worker.queue_frames(sound(pcm))
        await worker.queue_frame(VADUserStoppedSpeakingFrame())
        await seen.until(lambda: seen.of(TranscriptionFrame))

    service = NvidiaSegmentedSTTService(server=asr_at, use_ssl=False, api_key=key)
    return text_of(await within(service, listen))


def text_of(seen: Seen) -> str:
    return " ".join(frame.text.strip() for frame in seen.of(TranscriptionFrame))


async def main(asr_at: str, tts_at: str, key: str) -> None:
    told: dict[str, Any] = {}
    pcm = b""
    for mode in NvidiaTTSSynthesisMode:
        pcm, first_s = await voice(tts_at, key, mode)
        told[mode.value] = {"seconds": len(pcm) / 2 / RATE_HZ, "first_s": round(first_s, 3)}
    told["cut_off_s"] = await cut_off(tts_at, key)
    told["streamed"] = await streamed(asr_at, key, pcm)
    told["segmented"] = await in_segments(asr_at, key, pcm)
    sys.stdout.write(json.dumps(told))


asyncio.run(main(*sys.argv[1:]))
