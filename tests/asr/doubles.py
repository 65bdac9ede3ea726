"""Stand-ins for the networks: loud sound is speech, and its text says how long it is."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from services.asr.hearing.detectors import FRAME_SAMPLES, VadState
from services.asr.hearing.networks import Ear, Languages
from services.asr.hearing.transcript import Order, Segment, Transcriber, Transcript
from visavis.engine import EngineState, Urgency

SPEECH = 0.5
"""Amplitude of what the fake VAD takes for speech."""
COUGH = 0.25
"""Amplitude of what the fake VAD takes for speech, but which has no words."""


def loud(frames: int, level: float = SPEECH) -> NDArray[np.float32]:
    """[frames * FRAME_SAMPLES] of sound that counts as speech."""
    return np.full(frames * FRAME_SAMPLES, level, np.float32)


def quiet(frames: int) -> NDArray[np.float32]:
    return np.zeros(frames * FRAME_SAMPLES, np.float32)


def pcm16(sound: NDArray[np.float32]) -> NDArray[np.int16]:
    return (sound * 32767).astype(np.int16)


def voiced_frames(pcm: NDArray[np.float32]) -> int:
    """Whole frames' worth of samples that hold words."""
    return int((np.abs(pcm) >= SPEECH - 0.05).sum()) // FRAME_SAMPLES


class CountingTranscriber(Transcriber):
    """The text is the number of frames that hold words; none: nothing was said."""

    languages = ("en", "zh")
    text: str | None = None
    """What it says instead, of whatever holds words."""

    def transcribe(self, pcm: NDArray[np.float32], language: str, draft: str = "") -> Transcript:
        n = voiced_frames(pcm)
        if not n:
            return Transcript("", language)
        text = str(n) if self.text is None else self.text
        return Transcript(text, language, (Segment(text, 0, len(pcm)),))


class FakeHearing:
    """The same questions as services.asr.hearing.Hearing, answered without networks."""

    def __init__(self, end_of_turn: float = 1.0) -> None:
        self.answer = end_of_turn
        self.bundles = ("fake",)
        self.transcriber = CountingTranscriber()
        ear = Ear("fake", self.transcriber)
        self.languages = Languages({"en": ear, "zh": ear}, "en")
        self.known_languages = self.languages.known
        self.error: Exception | None = None
        self.hold = asyncio.Event()
        self.hold.set()
        self.asked = asyncio.Event()
        self.speaking: set[object] = set()

    async def load(self) -> None:
        pass

    def close(self) -> None:
        pass

    def state(self, bundle: str) -> EngineState | None:
        return EngineState("onnxruntime", "cpu", f"{bundle} stepped down")

    async def speech(self, frames: NDArray[np.float32], state: VadState) -> list[float]:
        return [1.0 if np.abs(f).mean() > COUGH / 2 else 0.0 for f in frames]

    async def end_of_turn(self, pcm: NDArray[np.float32], urgency: Urgency) -> tuple[float, float]:
        return self.answer, 0.0

    def requeue(self, key: Hashable, order: Order | None) -> None:
        pass

    async def transcribe(
        self,
        pcm: NDArray[np.float32],
        language: str,
        draft: str = "",
        urgency: Urgency | None = None,
    ) -> tuple[Transcript, float]:
        self.asked.set()
        await self.hold.wait()
        if self.error is not None:
            raise self.error
        return self.transcriber.transcribe(pcm, language), 0.0

    async def recognize(self, pcm: NDArray[np.float32], language: str) -> Transcript:
        self.asked.set()
        await self.hold.wait()
        return self.transcriber.transcribe(pcm, language)
