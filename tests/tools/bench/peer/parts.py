"""What Pipecat needs to work with our weights and to be watched; see agent.py."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pipecat.frames.frames import (
    BotStoppedSpeakingFrame,
    Frame,
    InputAudioRawFrame,
    InterruptionFrame,
    LLMTextFrame,
    OutputAudioRawFrame,
    StartFrame,
    TranscriptionFrame,
    TTSAudioRawFrame,
    UserStoppedSpeakingFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.observers.base_observer import BaseObserver, FramePushed
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.services.openai.llm import OpenAILLMService
from pipecat.services.settings import STTSettings, TTSSettings
from pipecat.services.stt_service import SegmentedSTTService
from pipecat.services.tts_service import TTSService
from pipecat.transcriptions.language import Language
from pipecat.transports.base_input import BaseInputTransport
from pipecat.transports.base_output import BaseOutputTransport
from pipecat.transports.base_transport import TransportParams
from pipecat.utils.time import time_now_iso8601

from services.asr.hearing.moonshine import Moonshine
from services.tts.sound import to_pcm
from services.tts.voices.english import EnglishVoice
from visavis.engine.rows import alone

IN_HZ, OUT_HZ = 16_000, 24_000
CHUNK = IN_HZ // 50
_AUDIBLE = 328


class Notes:
    """What happened when, on the monotonic clock; one exchange at a time."""

    def __init__(self) -> None:
        self.marks: list[tuple[str, float]] = []
        self.sounds: list[tuple[float, int | None, int]] = []
        """When a piece of sound left, its first audible sample, its samples."""
        self.transcript = ""
        self.answer = ""

    def mark(self, name: str) -> None:
        self.marks.append((name, time.monotonic()))

    def told(self) -> dict[str, Any]:
        """All but the sounds."""
        return {
            "marks": self.marks,
            "transcript": self.transcript,
            "answer": self.answer.strip(),
        }

    def last(self, name: str) -> float | None:
        return next((at for mark, at in reversed(self.marks) if mark == name), None)


class Desk:
    """The notes of the present exchange, where every part finds them."""

    def __init__(self) -> None:
        self.notes = Notes()


_FRAMES: dict[type[Frame], str] = {
    VADUserStartedSpeakingFrame: "vad_started",
    VADUserStoppedSpeakingFrame: "vad_stopped",
    UserStoppedSpeakingFrame: "turn_ended",
    LLMTextFrame: "token",
    InterruptionFrame: "interrupted",
    BotStoppedSpeakingFrame: "bot_stopped",
}


class Watcher(BaseObserver):
    """Marks the frames that tell the stages apart."""

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self._desk = desk

    async def on_push_frame(self, data: FramePushed) -> None:
        if not data.first_push:
            return
        notes = self._desk.notes
        name = _FRAMES.get(type(data.frame))
        if name is not None:
            notes.mark(name)
        if isinstance(data.frame, TranscriptionFrame):
            notes.transcript = f"{notes.transcript} {data.frame.text}".strip()
        elif isinstance(data.frame, LLMTextFrame):
            notes.answer += data.frame.text


class Microphone(BaseInputTransport):
    """Sends silence in real time, and a clip when there is one."""

    def __init__(self, params: TransportParams) -> None:
        super().__init__(params)
        self._pcm: NDArray[np.int16] = np.zeros(0, np.int16)
        self._at = 0
        self.sent: list[float] = []
        self._spoken = asyncio.Event()
        self._pumping: asyncio.Task[None] | None = None

    async def say(self, pcm: NDArray[np.int16]) -> None:
        """Returns when the clip has been sent."""
        self._spoken.clear()
        self._pcm, self._at, self.sent = pcm, 0, []
        await self._spoken.wait()

    def sent_at(self, sample: int) -> float:
        return self.sent[sample // CHUNK]

    async def start(self, frame: StartFrame) -> None:
        await super().start(frame)
        await self.set_transport_ready(frame)
        self._pumping = self.create_task(self._pump())

    async def cleanup(self) -> None:
        if self._pumping is not None:
            await self.cancel_task(self._pumping)
            self._pumping = None
        await super().cleanup()

    async def _pump(self) -> None:
        started, count = time.monotonic(), 0
        while True:
            await asyncio.sleep(max(0.0, started + count * 0.02 - time.monotonic()))
            piece = self._pcm[self._at : self._at + CHUNK]
            if len(piece):
                self.sent.append(time.monotonic())
                self._at += CHUNK
                if self._at >= len(self._pcm):
                    self._spoken.set()
            audio = np.pad(piece, (0, CHUNK - len(piece))).tobytes()
            await self.push_audio_frame(InputAudioRawFrame(audio, IN_HZ, 1))
            count += 1


class Loudspeaker(BaseOutputTransport):
    """Takes sound in real time, as a sound card does."""

    def __init__(self, params: TransportParams, desk: Desk) -> None:
        super().__init__(params)
        self._desk = desk
        self._free_s = 0.0

    async def start(self, frame: StartFrame) -> None:
        await super().start(frame)
        await self.set_transport_ready(frame)

    async def write_audio_frame(self, frame: OutputAudioRawFrame) -> bool:
        now = time.monotonic()
        pcm = np.frombuffer(frame.audio, np.int16)
        loud = np.flatnonzero(np.abs(pcm.astype(np.int32)) > _AUDIBLE)
        first = int(loud[0]) if len(loud) else None
        self._desk.notes.sounds.append((now, first, len(pcm)))
        self._free_s = max(now, self._free_s) + len(pcm) / frame.sample_rate
        await asyncio.sleep(max(0.0, self._free_s - time.monotonic()))
        return True


class MoonshineStt(SegmentedSTTService):
    """Our recogniser. It pads sound by itself, so Pipecat need not."""

    def __init__(self, desk: Desk, moonshine: Moonshine) -> None:
        settings = STTSettings(model="moonshine", language=Language.EN)
        super().__init__(sample_rate=IN_HZ, trailing_silence_secs=0.0, settings=settings)
        self._desk, self._moonshine = desk, moonshine

    @property
    def wants_wav_segments(self) -> bool:
        return False

    async def run_stt(self, audio: bytes) -> AsyncGenerator[Frame | None, None]:
        self._desk.notes.mark("stt_begins")
        pcm = np.frombuffer(audio, np.int16).astype(np.float32) / np.float32(32768)
        heard = await asyncio.to_thread(self._moonshine.transcribe, pcm[-30 * IN_HZ :])
        self._desk.notes.mark("stt_ends")
        if heard.text:
            yield TranscriptionFrame(heard.text, "", time_now_iso8601(), Language.EN)


class HibariTts(TTSService):
    """Our English voice, a sentence at a time as Pipecat cuts them."""

    def __init__(self, desk: Desk, voice: EnglishVoice) -> None:
        settings = TTSSettings(model="hibari", voice="heart", language=Language.EN)
        super().__init__(
            sample_rate=OUT_HZ, push_start_frame=True, push_stop_frames=True, settings=settings
        )
        self._desk, self._voice = desk, voice

    async def run_tts(self, text: str, context_id: str) -> AsyncGenerator[Frame | None, None]:
        self._desk.notes.mark("tts_begins")
        blocks = alone(self._voice.speak(text))
        while (block := await asyncio.to_thread(next, blocks, None)) is not None:
            self._desk.notes.mark("tts_sound")
            yield TTSAudioRawFrame(to_pcm(block.voice).tobytes(), OUT_HZ, 1, context_id=context_id)


class Llm(OpenAILLMService):
    """Pipecat's own client of an OpenAI-compatible server; tells when it asks."""

    desk: Desk

    async def get_chat_completions(self, context: LLMContext) -> Any:
        self.desk.notes.mark("llm_asked")
        return await super().get_chat_completions(context)
