"""A voice agent made of Pipecat and our weights; runs inside Pipecat's own environment.

    python -m tests.tools.bench.pipecat_agent JOB.json RESULT.json

Plays each clip in real time into the agent's microphone, with true silence after it, and notes
when which sound left. Nothing is judged here: tests/tools/bench/peer_pipecat.py does that, by the
same rules as for us. Pipecat is used as its documentation does: Silero for speech, its own
strategies for the end of a turn, its own sentence splitting. Recogniser and voice run through
our code, the language model in llama.cpp with our parameters, so that compute is equal.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
import wave
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from loguru import logger
from numpy.typing import NDArray
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
from tests.tools.bench.pipecat_parts import (
    IN_HZ,
    OUT_HZ,
    Desk,
    HibariTts,
    Llm,
    Loudspeaker,
    Microphone,
    MoonshineStt,
    Notes,
    Watcher,
)
from visavis.engine import open_engine

_ANSWER_TIMEOUT_S = 30.0
_LONGEST_TURN_TAIL_S = 0.6


class Agent:
    """The pipeline and the visitor in front of it."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.job = job
        self.desk = Desk()
        params = TransportParams(
            audio_in_enabled=True,
            audio_in_sample_rate=IN_HZ,
            audio_out_enabled=True,
            audio_out_sample_rate=OUT_HZ,
        )
        self.microphone = Microphone(params)
        self.loudspeaker = Loudspeaker(params, self.desk)
        self.worker: PipelineWorker | None = None
        self._context = LLMContext()

    async def run(self) -> list[dict[str, Any]]:
        job, threads = self.job, self.job["threads"]
        backend = LlamaCppBackend(
            Path(job["gguf"]),
            model="model",
            slots=1,
            context_tokens=2048,
            threads=job["llm_threads"],
        )
        await backend.load()
        folder = Path(job["moonshine"])
        with (
            open_engine(folder / "encoder.onnx", threads=threads) as encoder,
            open_engine(folder / "decoder.onnx", threads=threads) as decoder,
            open_engine(Path(job["voice"]), threads=threads) as voice,
        ):
            tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            stt = MoonshineStt(self.desk, Moonshine(encoder, decoder, tokenizer))
            self.worker = self._worker(stt, HibariTts(self.desk, EnglishVoice(voice)), backend)
            runner = WorkerRunner(handle_sigint=False)
            await runner.add_workers(self.worker)
            running = asyncio.create_task(runner.run())
            try:
                await asyncio.sleep(1.0)  # speech before the pipeline has started is lost
                return await self._visit()
            finally:
                await self.worker.cancel()
                await running
                await backend.close()

    def _worker(self, stt: Any, tts: Any, backend: LlamaCppBackend) -> PipelineWorker:
        job = self.job
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
        llm.desk = self.desk
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
        parts = [self.microphone, stt, pair.user(), llm, tts, self.loudspeaker, pair.assistant()]
        return PipelineWorker(
            Pipeline(parts),
            params=PipelineParams(
                audio_in_sample_rate=IN_HZ, audio_out_sample_rate=OUT_HZ, enable_metrics=False
            ),
            observers=[Watcher(self.desk)],
            enable_rtvi=False,
            idle_timeout_secs=None,
        )

    # ------------------------------------------------------------ the visitor

    async def _visit(self) -> list[dict[str, Any]]:
        clips = self.job["clips"]
        done = []
        turns = self.job["turns_per_session"]
        begins_s: float | None = None
        for index, clip in enumerate(clips):
            if index % turns == 0:
                self._begin_conversation()
                # Warm-up, not counted, as for visavis.
                await self._ask(clips[min(index + turns, len(clips)) - 1])
            if every_s := self.job.get("every_s"):
                if begins_s is None:
                    begins_s = await _moment_of_the_others()
                await asyncio.sleep(max(0.0, begins_s + index * every_s - time.monotonic()))
            done.append(await self._ask(clip))
        for clip in self.job["interruptions"]:
            self._begin_conversation()
            done.append(await self._interrupt(clip))
        return done

    def _begin_conversation(self) -> None:
        self._context.set_messages([])

    async def _ask(self, clip: dict[str, Any]) -> dict[str, Any]:
        notes = self.desk.notes = Notes()
        process = psutil.Process()
        before = process.cpu_times()
        await self.microphone.say(_read(clip["path"]))
        end_s = self.microphone.sent_at(clip["end_samples"] - 1)
        await self._until(lambda: self._heard_enough(notes, end_s), _ANSWER_TIMEOUT_S)
        after = process.cpu_times()
        await self._hush()
        return {
            "kind": "question",
            "clip": clip["name"],
            **self._told(notes, clip),
            "cpu_s": after.user + after.system - before.user - before.system,
            "memory_bytes": process.memory_full_info().pss,
        }

    async def _interrupt(self, clip: dict[str, Any]) -> dict[str, Any]:
        """Have a long answer told and speak into its middle."""
        notes = self.desk.notes = Notes()
        assert self.worker is not None
        question = {"role": "user", "content": self.job["long_question"]}
        await self.worker.queue_frame(LLMMessagesAppendFrame([question], run_llm=True))
        await self._until(lambda: _audible_s(notes) >= self.job["spoken_s"], _ANSWER_TIMEOUT_S)
        await self.microphone.say(_read(clip["path"]))
        await asyncio.sleep(self.job["watch_s"])
        await self._hush()
        return {"kind": "interruption", "clip": clip["name"], **self._told(notes, clip)}

    def _told(self, notes: Notes, clip: dict[str, Any]) -> dict[str, Any]:
        return {
            "speech_start_s": self.microphone.sent_at(clip["start_samples"]),
            "speech_end_s": self.microphone.sent_at(clip["end_samples"] - 1),
            "marks": notes.marks,
            "sounds": notes.sounds,
            "transcript": notes.transcript,
            "answer": notes.answer.strip(),
        }

    def _heard_enough(self, notes: Notes, end_s: float) -> bool:
        first = next((at for at, loud, _n in notes.sounds if loud is not None and at > end_s), None)
        if first is None:
            return False
        stopped = notes.last("bot_stopped")
        over = stopped is not None and stopped > first
        return over or time.monotonic() - first >= self.job["listen_s"]

    async def _hush(self) -> None:
        assert self.worker is not None
        await self.worker.queue_frame(InterruptionWorkerFrame())
        await asyncio.sleep(_LONGEST_TURN_TAIL_S)

    async def _until(self, met: Any, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        # What is waited for are marks that other tasks make; none of them is an event.
        while not met() and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def _moment_of_the_others() -> float:
    """When to begin: told on standard input to all agents that say here that they are ready."""
    print("ready", flush=True)  # noqa: T201
    return float(await asyncio.to_thread(sys.stdin.readline))


def _audible_s(notes: Notes) -> float:
    return sum(n for _at, loud, n in notes.sounds if loud is not None) / OUT_HZ


def _read(path: str) -> NDArray[np.int16]:
    with wave.open(path, "rb") as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (IN_HZ, 1, 2)
        return np.frombuffer(file.readframes(file.getnframes()), np.int16)


def main() -> None:
    logger.remove()
    logger.add(sys.stderr, level="WARNING")
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    done = asyncio.run(Agent(job).run())
    Path(sys.argv[2]).write_text(json.dumps(done), encoding="utf-8")


if __name__ == "__main__":
    main()
