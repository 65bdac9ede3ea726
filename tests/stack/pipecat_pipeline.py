"""Run by Pipecat's own interpreter: a pipeline with the face of docs/examples in it; prints JSON.

PYTHONPATH=docs/examples:. .venv-frameworks/bin/python tests/stack/pipecat_pipeline.py URL
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import numpy as np
from pipecat.frames.frames import (
    EndFrame,
    Frame,
    InterruptionFrame,
    OutputAudioRawFrame,
    OutputImageRawFrame,
    TTSAudioRawFrame,
    TTSStoppedFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.workers.runner import WorkerRunner
from pipecat_video import VisavisVideoService

RATE_HZ = 24_000


class Seen(FrameProcessor):
    """The end of the pipeline: what a transport would send to the user."""

    def __init__(self) -> None:
        super().__init__()
        self.pictures = 0
        self.size: list[int] = []
        self.loud_samples = 0
        self.changed = asyncio.Event()

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, OutputImageRawFrame):
            self.pictures, self.size = self.pictures + 1, list(frame.size)
        elif isinstance(frame, OutputAudioRawFrame):
            pcm = np.abs(np.frombuffer(frame.audio, np.int16))
            self.loud_samples += int((pcm > 500).sum())
        self.changed.set()
        await self.push_frame(frame, direction)

    async def until(self, met: Any) -> None:
        async with asyncio.timeout(30):
            while not met():
                self.changed.clear()
                await self.changed.wait()


def voice(seconds: float) -> list[TTSAudioRawFrame]:
    """What a voice of the pipeline makes, in pieces of 40 ms."""
    wave = 12_000 * np.sign(np.sin(np.arange(round(seconds * RATE_HZ)) / 8))
    pcm = wave.astype(np.int16)
    step = RATE_HZ // 25
    pieces = (pcm[at : at + step].tobytes() for at in range(0, len(pcm), step))
    return [TTSAudioRawFrame(piece, RATE_HZ, 1) for piece in pieces]


async def main(url: str) -> None:
    seen, told = Seen(), {}
    worker = PipelineWorker(
        Pipeline([VisavisVideoService(url), seen]), cancel_on_idle_timeout=False, enable_rtvi=False
    )

    async def talk() -> None:
        await seen.until(lambda: seen.pictures > 5)
        for frame in [*voice(0.8), TTSStoppedFrame()]:
            await worker.queue_frame(frame)
        await seen.until(lambda: seen.loud_samples > 0.7 * RATE_HZ)
        await asyncio.sleep(0.5)
        told["heard_s"] = seen.loud_samples / RATE_HZ
        for frame in voice(20.0):
            await worker.queue_frame(frame)
        before = seen.loud_samples
        await seen.until(lambda: seen.loud_samples > before + 0.3 * RATE_HZ)
        await worker.queue_frame(InterruptionFrame())
        await asyncio.sleep(2.0)
        told["interrupted_s"] = (seen.loud_samples - before) / RATE_HZ
        told["pictures"], told["size"] = seen.pictures, seen.size
        await worker.queue_frame(EndFrame())

    runner = WorkerRunner()
    await runner.add_workers(worker)
    await asyncio.gather(runner.run(), talk())
    sys.stdout.write(json.dumps(told))


asyncio.run(main(sys.argv[1]))
