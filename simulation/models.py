"""Simulated models behind the seams of asr, llm and tts: a device's time, and words that tell.

Each takes its time on the replica's device and gives what can be checked at the other end: the
recogniser what it read from the sound, the language model words with a number each, the voice
these words as pairs of tones.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

import numpy as np
from numpy.typing import NDArray

from services.asr.hearing.detectors import SAMPLE_RATE_HZ, VadAsk
from services.asr.hearing.networks import NetworkNames
from services.asr.hearing.transcript import Segment, Transcriber, Transcript
from services.llm.backends.base import BackendRequest, Delta
from services.tts.prosody import PLAIN, Prosody
from services.tts.sound import HOP_SAMPLES, N_MELS, SILENCE, Block, PlacedSpan, VoiceSteps
from services.tts.sound import SAMPLE_RATE_HZ as VOICE_RATE_HZ
from services.tts.text.surroundings import ALONE, Surroundings
from services.tts.word_ends import WordEnd, ends_of_words
from simulation.occupied import Device
from visavis.engine import EngineState
from visavis.tools.bench.simulate import words
from visavis.tools.bench.simulate.plan import StageTimes

SIMULATED = "simulated"

# ------------------------------------------------------------ asr

_SPEECH_LEVEL = 0.02


# Streams and turns in one run: it costs nothing, however many they are.
_ROWS = 64


class LoudnessVad:
    """Takes what is loud for speech: simulated visitors are silent otherwise. Costs nothing."""

    rows = _ROWS

    def probabilities(self, asks: Sequence[VadAsk]) -> list[list[float]]:
        return [[_loud(frame) for frame in ask.frames] for ask in asks]


def _loud(frame: NDArray[np.float32]) -> float:
    return 1.0 if float(np.sqrt(np.mean(frame * frame))) > _SPEECH_LEVEL else 0.0


class FinishedJudge:
    """Takes every pause for the end: simulated visitors make no others. Costs nothing."""

    rows = _ROWS

    def probabilities(self, turns: Sequence[NDArray[np.float32]]) -> list[float]:
        return [0.99] * len(turns)


class ToneTranscriber(Transcriber):
    """Reads words from pairs of tones, in the time that the device takes for so much sound."""

    languages = ("en",)

    def __init__(self, device: Device, times: StageTimes) -> None:
        self._device, self._times = device, times

    def transcribe(self, pcm: NDArray[np.float32], language: str, draft: str = "") -> Transcript:
        self._device.work("transcribe", self._times.asr_s_per_s * len(pcm) / SAMPLE_RATE_HZ)
        text = words.understood([word.pair for word in words.read_sound(pcm, SAMPLE_RATE_HZ)])
        return Transcript(text, language, (Segment(text, 0, len(pcm)),) if text else ())


class SimulatedNetworks:
    """What `Hearing` asks for its networks."""

    names = NetworkNames(
        "simulated-vad",
        "simulated-turn",
        ("simulated-asr",),
        ("simulated-vad", "simulated-turn", "simulated-asr"),
    )

    def __init__(self, device: Device, times: StageTimes) -> None:
        self._device, self._times = device, times

    def at_once(self, name: str) -> int:
        return 1

    def vad(self) -> LoudnessVad:
        return LoudnessVad()

    def turn_judge(self) -> FinishedJudge:
        return FinishedJudge()

    def transcriber(self, name: str) -> ToneTranscriber:
        return ToneTranscriber(self._device, self._times)

    def state(self, name: str) -> EngineState | None:
        return EngineState(SIMULATED, "cpu")

    def close(self) -> None:
        """There is nothing to free."""


# ------------------------------------------------------------ llm


class CountingBackend:
    """Answers each question with its words, one to a token, of which no other question has any."""

    name = SIMULATED
    model = "simulated-llm"
    file = ""
    device = "cpu"
    keeps_prefix = False
    resumes = False
    in_turn = False
    """Its device mixes reading and writing, as a GPU's engine does."""

    def __init__(
        self, device: Device, times: StageTimes, *, slots: int, context_tokens: int, mean_words: int
    ) -> None:
        """mean_words: length of an answer."""
        self.slots, self.context_tokens = slots, context_tokens
        self._on, self._times, self._mean_words = device, times, mean_words

    async def load(self) -> None:
        """There is nothing to load."""

    async def stream(self, request: BackendRequest) -> AsyncGenerator[Delta, None]:
        tokens = self._tokens(request)
        async for step in self._on.steps("token", self._times.token_s, len(tokens)):
            yield Delta(tokens[step - 1]) if step else Delta()
        counts = (sum(len(message.content) for message in request.messages) // 4, len(tokens))
        yield Delta("", "stop", *counts)

    def count_tokens(self, text: str) -> int:
        return len(text) // 4 + 1

    async def close(self) -> None:
        """There is nothing to free."""

    def _tokens(self, request: BackendRequest) -> list[str]:
        """Behind those that are written."""
        asked = words.asked_in(request.messages[-1].content)
        if asked is None:
            return ["Pardon?"]
        answer = words.answer_text(words.answer_pairs(*asked, self._mean_words))
        tokens = [f"{'' if n == 0 else ' '}{word}" for n, word in enumerate(answer.split(" "))]
        written = len(request.written.split())
        return tokens[written : written + max(1, request.sampling.max_tokens)] or [""]


# ------------------------------------------------------------ tts

_HOP_S = HOP_SAMPLES / VOICE_RATE_HZ
_WORD_HOPS, _GAP_HOPS = round(words.WORD_S / _HOP_S), round(words.GAP_S / _HOP_S)
_QUIET_MEL = -5.0
_PHONEME = "AA1"


class ToneVoice:
    """Says each word as its pair of tones, a phrase in the time that the device takes for one."""

    def __init__(self, device: Device, times: StageTimes, language: str) -> None:
        self.language = language
        self._device, self._times = device, times

    def speak(
        self, text: str, prosody: Prosody = PLAIN, around: Surroundings = ALONE
    ) -> VoiceSteps:
        self._device.work("phrase", self._times.phrase_s)
        ends = ends_of_words(text)
        starts = [0, *ends[:-1]]
        spoken = [words.read_word(text[a:b]) for a, b in zip(starts, ends, strict=True)]
        if not spoken:
            return
        gap = np.zeros(_GAP_HOPS * HOP_SAMPLES, np.float32)
        parts = [
            part
            for pair in spoken
            for part in (words.tones(pair, VOICE_RATE_HZ, words.WORD_S), gap)
        ]
        each = _WORD_HOPS + _GAP_HOPS
        spans = [
            span
            for n in range(len(spoken))
            for span in (
                PlacedSpan(_PHONEME, n * each, _WORD_HOPS),
                PlacedSpan(SILENCE, n * each + _WORD_HOPS, _GAP_HOPS),
            )
        ]
        marks = tuple(WordEnd(n, n * each + _WORD_HOPS) for n in range(len(spoken)))
        mel = np.full((each * len(spoken), N_MELS), _QUIET_MEL, np.float32)
        yield Block(np.concatenate(parts), mel, tuple(spans), marks)
