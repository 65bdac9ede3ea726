"""The loaded networks of the service, and which recogniser hears which language."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from services.asr.hearing.cutter import Span, cut_at_pauses
from services.asr.hearing.detectors import (
    FRAME_SAMPLES,
    SAMPLE_RATE_HZ,
    TurnDetector,
    VadState,
    VoiceDetector,
)
from services.asr.hearing.moonshine import Moonshine
from services.asr.hearing.transcript import Order, Transcriber, Transcript, join
from services.asr.hearing.whisper import Whisper
from visavis.bundles.store.lookup import family_of, task_of
from visavis.engine import Engine, EngineLane, EngineState, Urgency, joined_state
from visavis.serving.errors import EngineLoadError, SettingsError, UnknownNameError

log = logging.getLogger(__name__)

Open = Callable[[Path], Engine]

# Sound below this is digital silence, or the last bit of a converter.
_SILENCE = 1.5 / 32768
# Names of one language that differ from the code that recognisers use.
_SAME_LANGUAGE = {"cmn": "zh", "jv": "jw", "iw": "he", "in": "id", "nb": "no", "fil": "tl"}


@dataclass(frozen=True, slots=True)
class Ear:
    """A recogniser under the name of its bundle."""

    bundle: str
    transcriber: Transcriber


class Languages:
    """Which recogniser hears which language."""

    def __init__(self, ears: Mapping[str, Ear], default: str) -> None:
        """`ears` by primary language subtag. Raises SettingsError if none hears `default`."""
        self._ears = dict(ears)
        self._default = default
        try:
            self.resolve(default)
        except UnknownNameError as error:
            raise SettingsError(f"default_language does not do: {error}") from None

    @property
    def known(self) -> tuple[str, ...]:
        return tuple(sorted(self._ears))

    def resolve(self, language: str) -> tuple[str, Ear]:
        """BCP 47 tag ("en-GB", "zh", "" for the default) to (code, recogniser).

        Raises UnknownNameError that lists what is known.
        """
        subtag = (language or self._default).replace("_", "-").split("-")[0].lower()
        code = _SAME_LANGUAGE.get(subtag, subtag)
        if code not in self._ears:
            raise UnknownNameError(
                f"language: {language[:40]!r} is not recognised here; "
                f"known are {', '.join(self.known)}"
            )
        return code, self._ears[code]


def speech_probabilities(
    pcm: NDArray[np.float32], detector: VoiceDetector, block_frames: int = 300
) -> Iterator[list[float]]:
    """Probability per VAD frame of a whole recording, block by block.

    pcm: [N] float32 at 16 kHz; the last frame is filled up with silence.
    """
    state = VadState()
    padded = np.pad(pcm, (0, -len(pcm) % FRAME_SAMPLES)).reshape(-1, FRAME_SAMPLES)
    for start in range(0, len(padded), block_frames):
        yield [detector.probability(f, state) for f in padded[start : start + block_frames]]


def pieces_of(pcm: NDArray[np.float32], speech: Sequence[float]) -> list[Span]:
    """Spans of samples worth recognising, each short enough for a recogniser.

    pcm: [N] float32 at 16 kHz; speech: probability per VAD frame.
    """
    if not len(pcm) or float(np.abs(pcm).max()) <= _SILENCE:
        return []
    spans = (Span(s.start, min(s.end, len(pcm))) for s in cut_at_pauses(speech))
    return [span for span in spans if span.length > 0]


def recognize_piece(
    pcm: NDArray[np.float32], span: Span, transcriber: Transcriber, language: str
) -> Transcript:
    """Transcript of one piece of pcm, [N] float32 at 16 kHz, timed from its first sample."""
    return transcriber.transcribe(pcm[span.start : span.end], language).shifted(span.start)


_RECORDING = Urgency(Order.RECORDING)


@dataclass(frozen=True, slots=True)
class _Bundles:
    """Names of the profile's bundles by what they are for."""

    vad: str
    turn: str
    ears: tuple[str, ...]

    @classmethod
    def of(cls, bundles: Mapping[str, Path]) -> _Bundles:
        tasks = {name: task_of(folder) for name, folder in bundles.items()}
        ears = tuple(name for name, task in tasks.items() if task == "asr")
        vad = next((name for name, task in tasks.items() if task == "vad"), "")
        turn = next((name for name, task in tasks.items() if task == "turn"), "")
        if not (vad and turn and ears):
            raise EngineLoadError(
                f"profile: {', '.join(bundles)} lacks a VAD, a turn detector or a recogniser"
            )
        return cls(vad, turn, ears)


class Hearing:
    """What sound can be asked: is it speech, is the turn over, what was said.

    Each bundle works on a thread of its own: a frame of turn-taking never waits behind a
    recording, nor one language behind another. Every question raises EngineLoadError before
    `load`, and UnknownNameError for a language that nobody here hears.
    """

    def __init__(self, bundles: Mapping[str, Path], open_engine: Open, default_language: str):
        """bundles: folder by name. Raises EngineLoadError if one of the kinds is missing."""
        self._paths = dict(bundles)
        self._names = _Bundles.of(bundles)
        self._open = open_engine
        self._default_language = default_language
        self._lanes: dict[str, EngineLane] = {}
        self._engines: dict[str, list[Engine]] = {}
        self._detector: VoiceDetector | None = None
        self._turn: TurnDetector | None = None
        self._languages: Languages | None = None
        self._ears: dict[str, Ear] = {}

    @property
    def bundles(self) -> tuple[str, ...]:
        return tuple(self._paths)

    def state(self, bundle: str) -> EngineState | None:
        """Where a bundle's networks run; None before `load`."""
        engines = self._engines.get(bundle)
        return joined_state(engine.state for engine in engines) if engines else None

    @property
    def languages(self) -> Languages:
        """Raises EngineLoadError before `load`."""
        if self._languages is None:
            raise EngineLoadError("speech recognition is not loaded yet")
        return self._languages

    @property
    def known_languages(self) -> tuple[str, ...]:
        """Empty before `load`."""
        return self._languages.known if self._languages else ()

    def ear(self, bundle: str) -> Ear:
        """The loaded recogniser of one bundle. Raises UnknownNameError."""
        if bundle not in self._ears:
            raise UnknownNameError(f"bundle: {bundle!r} is none of {', '.join(self._ears)}")
        return self._ears[bundle]

    async def load(self) -> None:
        """Load and warm everything. Raises EngineLoadError or UnknownNameError."""
        names = self._names
        self._detector = VoiceDetector(*await self._loaded(names.vad, "silero_vad.onnx"))
        self._turn = TurnDetector(*await self._loaded(names.turn, "smart-turn.onnx"))
        by_language: dict[str, Ear] = {}
        for name in names.ears:
            encoder, decoder = await self._loaded(name, "encoder.onnx", "decoder.onnx")
            transcriber = await self._lanes[name].run(self._transcriber, name, encoder, decoder)
            self._ears[name] = Ear(name, transcriber)
            for language in transcriber.languages:
                # The first bundle of the profile that knows a language keeps it.
                by_language.setdefault(language, self._ears[name])
        self._languages = Languages(by_language, self._default_language)
        await self._warm()

    async def speech(self, frames: NDArray[np.float32], state: VadState) -> list[float]:
        """frames: [K, FRAME_SAMPLES] float32 -> probability of speech per frame."""
        detector = self._voice_detector()

        def work() -> list[float]:
            return [detector.probability(frame, state) for frame in frames]

        return await self._lanes[self._names.vad].run(work)

    async def end_of_turn(self, pcm: NDArray[np.float32]) -> tuple[float, float]:
        """Probability that the speaker of pcm [N] float32 has finished, and seconds of computing.

        The recogniser works at the same time, on a lane of its own. Raises EngineLoadError before
        the detector is loaded.
        """
        detector = self._turn
        if detector is None:
            raise EngineLoadError("the turn detector is not loaded yet")

        def work() -> tuple[float, float]:
            started = time.monotonic()
            return detector.probability(pcm), time.monotonic() - started

        return await self._lanes[self._names.turn].run(work)

    async def transcribe(
        self,
        pcm: NDArray[np.float32],
        language: str,
        draft: str = "",
        urgency: Urgency = _RECORDING,
    ) -> tuple[Transcript, float]:
        """Text of pcm [N] float32 (one piece), and the seconds that it cost to compute.

        draft: a guess at the text, which makes it cheaper; urgency: its class is one of `Order`.
        Raises AtCapacityError where too many ask at once, SupersededError where a newer question
        took its place.
        """
        code, ear = self.languages.resolve(language)

        def work() -> tuple[Transcript, float]:
            started = time.monotonic()
            text = ear.transcriber.transcribe(pcm, code, draft)
            return text, time.monotonic() - started

        return await self._lanes[ear.bundle].run(work, urgency=urgency)

    async def recognize(self, pcm: NDArray[np.float32], language: str) -> Transcript:
        """Text of a whole recording, pcm [N] float32 at 16 kHz of any length.

        Between its pieces the work of others gets its turn.
        """
        code, ear = self.languages.resolve(language)
        speech: list[float] = []
        blocks = speech_probabilities(pcm, self._voice_detector())
        while block := await self._lanes[self._names.vad].run(
            next, blocks, None, urgency=_RECORDING
        ):
            speech += block
        lane = self._lanes[ear.bundle]
        parts = [
            await lane.run(recognize_piece, pcm, span, ear.transcriber, code, urgency=_RECORDING)
            for span in pieces_of(pcm, speech)
        ]
        return join(parts, code)

    def close(self) -> None:
        """Free threads and networks. Blocks until what has begun is finished."""
        for lane in self._lanes.values():
            lane.close()
        for engines in self._engines.values():
            for engine in engines:
                engine.close()

    def _voice_detector(self) -> VoiceDetector:
        if self._detector is None:
            raise EngineLoadError("the VAD is not loaded yet")
        return self._detector

    async def _loaded(self, bundle: str, *files: str) -> list[Engine]:
        """The networks of a bundle, loaded by the lane that they have from now on."""
        engines = [self._open(self._paths[bundle] / file) for file in files]
        at_once = min(engine.at_once for engine in engines)
        lane = self._lanes[bundle] = EngineLane(f"asr-{bundle}", at_once=at_once)
        for engine in engines:
            await lane.run(engine.load)
            self._engines.setdefault(bundle, []).append(engine)
        return engines

    def _transcriber(self, bundle: str, encoder: Engine, decoder: Engine) -> Moonshine | Whisper:
        tokenizer = Tokenizer.from_file(str(self._paths[bundle] / "tokenizer.json"))
        kind = Moonshine if family_of(self._paths[bundle]) == "moonshine" else Whisper
        return kind(encoder, decoder, tokenizer)

    async def _warm(self) -> None:
        """The first run of a network allocates and is slow: let nobody wait for it."""
        started = time.monotonic()
        second = np.zeros(SAMPLE_RATE_HZ, np.float32)
        await self.speech(second[:FRAME_SAMPLES][None], VadState())
        await self.end_of_turn(second)
        for ear in self._ears.values():
            language = ear.transcriber.languages[0]
            await self._lanes[ear.bundle].run(ear.transcriber.transcribe, second, language)
        log.info("warmed %s in %.2f s", ", ".join(self._paths), time.monotonic() - started)
