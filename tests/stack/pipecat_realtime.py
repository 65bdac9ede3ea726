"""Run by Pipecat's own interpreter: its service of OpenAI's Realtime API, as it is; prints JSON.

.venv-frameworks/bin/python tests/stack/pipecat_realtime.py URL
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable

from pipecat.frames.frames import (
    EndFrame,
    ErrorFrame,
    Frame,
    LLMContextFrame,
    LLMFullResponseEndFrame,
    TTSAudioRawFrame,
    TTSTextFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.openai.realtime import events
from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService
from pipecat.workers.runner import WorkerRunner

RATE_HZ = 24_000


class Seen(FrameProcessor):
    """An end of the pipeline: errors go to its beginning, the rest to its other end."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[Frame] = []
        self.changed = asyncio.Event()

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        self.frames.append(frame)
        self.changed.set()
        await self.push_frame(frame, direction)

    async def until(self, met: Callable[[], object]) -> None:
        async with asyncio.timeout(60):
            while not met():
                self.changed.clear()
                await self.changed.wait()


async def main(url: str) -> None:
    hears = events.AudioInput(transcription=events.InputAudioTranscription())
    properties = events.SessionProperties(audio=events.AudioConfiguration(input=hears))
    service = OpenAIRealtimeLLMService(
        api_key="anything",
        base_url=f"ws{url.removeprefix('http')}/v1/realtime",
        settings=OpenAIRealtimeLLMService.Settings(session_properties=properties),
    )
    first, seen = Seen(), Seen()
    worker = PipelineWorker(
        Pipeline([first, service, seen]), cancel_on_idle_timeout=False, enable_rtvi=False
    )

    def of(kind: type[Frame], where: Seen = seen) -> list[Frame]:
        return [frame for frame in where.frames if isinstance(frame, kind)]

    async def talk() -> None:
        asked = {"role": "user", "content": "What is the capital of France?"}
        await worker.queue_frame(LLMContextFrame(LLMContext([asked])))
        try:
            await seen.until(lambda: of(LLMFullResponseEndFrame))
        finally:
            await worker.queue_frame(EndFrame())

    runner = WorkerRunner()
    await runner.add_workers(worker)
    await asyncio.gather(runner.run(), talk())
    voice = sum(len(frame.audio) for frame in of(TTSAudioRawFrame)) / 2 / RATE_HZ
    said = "".join(frame.text for frame in of(TTSTextFrame))
    errors = [frame.error for frame in of(ErrorFrame, first)]
    sys.stdout.write(json.dumps({"seconds": voice, "said": said, "errors": errors}))


asyncio.run(main(sys.argv[1]))
