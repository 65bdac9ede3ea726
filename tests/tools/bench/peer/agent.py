"""A voice agent made of Pipecat and our weights; runs inside Pipecat's own environment.

Pipecat is used as its documentation does: Silero for speech, its own strategies for the end of a
turn, its own sentence splitting. Recogniser and voice run through our code, the language model in
llama.cpp with our parameters, so that compute is equal.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from loguru import logger
from pipecat.audio.turn.smart_turn.local_smart_turn_v3 import LocalSmartTurnAnalyzerV3
from pipecat.audio.vad.silero import SileroVADAnalyzer
from pipecat.frames.frames import InterruptionWorkerFrame, LLMMessagesAppendFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import (
    LLMContextAggregatorPair,
    LLMUserAggregatorParams,
)
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.transports.base_transport import TransportParams
from pipecat.turns.user_stop import (
    SpeechTimeoutUserTurnStopStrategy,
    TurnAnalyzerUserTurnStopStrategy,
)
from pipecat.turns.user_turn_strategies import UserTurnStrategies
from pipecat.workers.runner import WorkerRunner
from tokenizers import Tokenizer

from services.asr.hearing.moonshine import Moonshine
from services.llm.backends.llamacpp import LlamaCppBackend
from services.tts.voices.english import EnglishVoice
from tests.tools.bench.peer.parts import (
    IN_HZ,
    OUT_HZ,
    Desk,
    HibariTts,
    Llm,
    MoonshineStt,
    Watcher,
)
from visavis.engine import open_engine

# Speech before the pipeline has started is lost.
_STARTED_S = 1.0
PARAMS = TransportParams(
    audio_in_enabled=True,
    audio_in_sample_rate=IN_HZ,
    audio_out_enabled=True,
    audio_out_sample_rate=OUT_HZ,
)


@dataclass(frozen=True)
class Models:
    """What an agent computes with, loaded."""

    moonshine: Moonshine
    voice: EnglishVoice
    backend: LlamaCppBackend


class Agent:
    """The pipeline, between a microphone and a loudspeaker. Made by `agent`."""

    def __init__(self, job: dict[str, Any], desk: Desk, models: Models) -> None:
        self._job = job
        self._desk = desk
        self._models = models
        self._context = LLMContext()
        self._worker: PipelineWorker | None = None

    @contextlib.asynccontextmanager
    async def running(
        self, microphone: FrameProcessor, loudspeaker: FrameProcessor
    ) -> AsyncIterator[None]:
        """Hear and speak from when it is entered until it ends."""
        worker = self._worker = self._made(microphone, loudspeaker)
        runner = WorkerRunner(handle_sigint=False)
        await runner.add_workers(worker)
        running = asyncio.create_task(runner.run())
        try:
            await asyncio.sleep(_STARTED_S)
            yield
        finally:
            await worker.cancel()
            await running

    def begin_conversation(self) -> None:
        """What was said so far is forgotten."""
        self._context.set_messages([])

    async def tell_a_long_story(self) -> None:
        """Answer the long question, which nobody has spoken."""
        assert self._worker is not None
        question = {"role": "user", "content": self._job["long_question"]}
        await self._worker.queue_frame(LLMMessagesAppendFrame([question], run_llm=True))

    async def hush(self) -> None:
        """Be silent."""
        assert self._worker is not None
        await self._worker.queue_frame(InterruptionWorkerFrame())

    def _made(self, microphone: FrameProcessor, loudspeaker: FrameProcessor) -> PipelineWorker:
        job, backend = self._job, self._models.backend
        llm = Llm(
            api_key=backend._api_key,
            base_url=f"{backend._server.listening_address}/v1",
            settings=Llm.Settings(
                model="model",
                temperature=job["temperature"],
                max_tokens=job["max_tokens"],
                system_instruction=job["persona"],
            ),
        )
        llm.desk = self._desk
        stop = (
            TurnAnalyzerUserTurnStopStrategy(turn_analyzer=LocalSmartTurnAnalyzerV3())
            if job["mode"] == "smart"
            else SpeechTimeoutUserTurnStopStrategy(user_speech_timeout=0.0)
        )
        pair = LLMContextAggregatorPair(
            self._context,
            user_params=LLMUserAggregatorParams(
                vad_analyzer=SileroVADAnalyzer(),
                user_turn_strategies=UserTurnStrategies(stop=[stop]),
            ),
        )
        stt = MoonshineStt(self._desk, self._models.moonshine)
        tts = HibariTts(self._desk, self._models.voice)
        parts = [microphone, stt, pair.user(), llm, tts, loudspeaker, pair.assistant()]
        return PipelineWorker(
            Pipeline(parts),
            params=PipelineParams(
                audio_in_sample_rate=IN_HZ, audio_out_sample_rate=OUT_HZ, enable_metrics=False
            ),
            observers=[Watcher(self._desk)],
            enable_rtvi=False,
            idle_timeout_secs=None,
        )


@contextlib.asynccontextmanager
async def agent(job: dict[str, Any], desk: Desk) -> AsyncIterator[Agent]:
    """An agent whose models are loaded."""
    threads = job["threads"]
    backend = LlamaCppBackend(
        Path(job["gguf"]), model="model", slots=1, context_tokens=2048, threads=job["llm_threads"]
    )
    await backend.load()
    folder = Path(job["moonshine"])
    try:
        with (
            open_engine(folder / "encoder.onnx", threads=threads) as encoder,
            open_engine(folder / "decoder.onnx", threads=threads) as decoder,
            open_engine(Path(job["voice"]), threads=threads) as voice,
        ):
            tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            moonshine = Moonshine(encoder, decoder, tokenizer)
            yield Agent(job, desk, Models(moonshine, EnglishVoice(voice), backend))
    finally:
        await backend.close()


class Cost:
    """What this process has used since now."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._before_s = self._used_s()

    def told(self) -> dict[str, Any]:
        return {
            "cpu_s": self._used_s() - self._before_s,
            "memory_bytes": self._process.memory_full_info().pss,
        }

    def _used_s(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)


def read_job() -> dict[str, Any]:
    """The job of the command line; log lines go to standard error."""
    logger.remove()
    logger.add(sys.stderr, level="WARNING")
    job: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    return job
