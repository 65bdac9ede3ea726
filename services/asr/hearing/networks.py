"""The loaded networks of the service, and which recogniser hears which language."""

from __future__ import annotations

import logging
from collections.abc import (
    AsyncGenerator,
    Callable,
    Generator,
    Hashable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, cast
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from services.asr.hearing.cutter import CutRules, Span, cut_at_pauses
from services.asr.hearing.detectors import (
    FRAME_SAMPLES,
    SAMPLE_RATE_HZ,
    TurnDetector,
    VadAsk,
    VadState,
    VoiceDetector,
)
from services.asr.hearing.listeners import sound_model
from services.asr.hearing.moonshine import Moonshine
from services.asr.hearing.transcript import Order, Transcriber, Transcript, join
from services.asr.hearing.whisper import Whisper
from visavis.bundles.store.lookup import family_of, task_of
from visavis.engine import (
    Engine,
    EngineLane,
    EngineState,
    SharedRuns,
    Urgency,
    joined_state,
)
from visavis.engine.rows import RowAsk
from visavis.serving.errors import EngineLoadError, SettingsError, UnknownNameError
from visavis.wire.clock import MonotonicClock

log = logging.getLogger(__name__)

Open = Callable[[Path], Engine]

_CLOCK = MonotonicClock()
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
    pcm: NDArray[np.float32], detector: Vad, block_frames: int = 300
) -> Iterator[list[float]]:
    """Probability per VAD frame of a whole recording, block by block.

    pcm: [N] float32 at 16 kHz; the last frame is filled up with silence.
    """
    state = VadState()
    padded = np.pad(pcm, (0, -len(pcm) % FRAME_SAMPLES)).reshape(-1, FRAME_SAMPLES)
    for start in range(0, len(padded), block_frames):
        (block,) = detector.probabilities([VadAsk(padded[start : start + block_frames], state)])
        yield block


def pieces_of(pcm: NDArray[np.float32], speech: Sequence[float]) -> list[Span]:
    """Spans of samples worth recognising, each short enough for a recogniser.

    pcm: [N] float32 at 16 kHz; speech: probability per VAD frame.
    """
    if not len(pcm) or float(np.abs(pcm).max()) <= _SILENCE:
        return []
    spans = (Span(s.start, min(s.end, len(pcm))) for s in cut_at_pauses(speech))
    return [span for span in spans if span.length > 0]


_VAD_FILES, _TURN_FILES = ("silero_vad.onnx",), ("smart-turn.onnx",)
_EAR_FILES = ("encoder.onnx", "decoder.onnx")
_AT_ONCE = Urgency()
_RECORDING = Urgency(Order.RECORDING)
_RECORDED_FRAMES = 32
"""Of a recording at a time: the frames of those who speak wait for no more, some 10 ms."""


def _timed(
    judge: Callable[[Sequence[NDArray[np.float32]]], list[float]],
) -> Callable[[Sequence[NDArray[np.float32]]], list[tuple[float, float]]]:
    """The same, and how long each answer was computed."""

    def timed(turns: Sequence[NDArray[np.float32]]) -> list[tuple[float, float]]:
        started = _CLOCK.now()
        odds = judge(turns)
        seconds = _CLOCK.now() - started
        return [(each, seconds) for each in odds]

    return timed


def _costed(
    steps: Generator[RowAsk, Any, Transcript],
) -> Generator[RowAsk | tuple[Transcript, float], Any, None]:
    """The asks of a transcriber's steps, and in the end the text with the seconds that were
    computed for it: between its asks, and by the runs that answered them."""
    seconds, answer = 0.0, None
    while True:
        began_s = _CLOCK.now()
        try:
            ask = steps.send(answer)
        except StopIteration as end:
            yield end.value, seconds + _CLOCK.now() - began_s
            return
        seconds += _CLOCK.now() - began_s
        answer = yield ask
        seconds += answer.seconds


class _Place:
    """How urgent a text is whenever one of its steps is asked for."""

    def __init__(self, urgency: Urgency) -> None:
        self._urgency = urgency

    def hasten(self, order: Order) -> None:
        self._urgency = replace(self._urgency, priority=order)

    def by_now(self) -> Urgency:
        """Only the first step supersedes others: what waits by the next one is newer."""
        urgency, self._urgency = self._urgency, replace(self._urgency, supersedes=None)
        return urgency


@dataclass(frozen=True, slots=True)
class NetworkNames:
    """Names of networks by what they are for."""

    vad: str
    turn: str
    ears: tuple[str, ...]
    all: tuple[str, ...]
    """In the order in which they are told."""

    @classmethod
    def of(cls, bundles: Mapping[str, Path]) -> NetworkNames:
        tasks = {name: task_of(folder) for name, folder in bundles.items()}
        ears = tuple(name for name, task in tasks.items() if task == "asr")
        vad = next((name for name, task in tasks.items() if task == "vad"), "")
        turn = next((name for name, task in tasks.items() if task == "turn"), "")
        if not (vad and turn and ears):
            raise EngineLoadError(
                f"profile: {', '.join(bundles)} lacks a VAD, a turn detector or a recogniser"
            )
        return cls(vad, turn, ears, tuple(bundles))


class Vad(Protocol):
    """Tells speech from other sound, for several streams in one run."""

    @property
    def rows(self) -> int:
        """Streams in one run."""
        ...

    def probabilities(self, asks: Sequence[VadAsk]) -> list[list[float]]:
        """Of speech, for each frame of each ask: at most `rows`, each of a stream of its own."""
        ...


class TurnJudge(Protocol):
    """Tells by the sound whether speakers have finished, several of them in one run."""

    @property
    def rows(self) -> int:
        """Turns in one run."""
        ...

    def probabilities(self, turns: Sequence[NDArray[np.float32]]) -> list[float]:
        """Of each turn being over; at most `rows`, each [N] float32 at 16 kHz, the turn so far."""
        ...


class Networks(Protocol):
    """Where a Hearing gets its networks from. What makes or closes them blocks."""

    names: NetworkNames

    def at_once(self, name: str) -> int:
        """So many runs of it may be under way at the same time. Raises EngineLoadError."""
        ...

    def vad(self) -> Vad:
        """Loaded. Raises EngineLoadError, as the others do."""
        ...

    def turn_judge(self) -> TurnJudge: ...

    def transcriber(self, name: str) -> Transcriber:
        """The recogniser of that name, loaded."""
        ...

    def state(self, name: str) -> EngineState | None:
        """Where it runs; None before it is loaded."""
        ...

    def close(self) -> None: ...


class BundledNetworks:
    """The networks of a profile, out of their bundles."""

    def __init__(self, bundles: Mapping[str, Path], open_engine: Open) -> None:
        """bundles: folder by name. Raises EngineLoadError if one of the kinds is missing."""
        self._paths = dict(bundles)
        self._open = open_engine
        self._opened: dict[str, list[Engine]] = {}
        self._engines: dict[str, list[Engine]] = {}
        """Those that are loaded."""
        self.names = NetworkNames.of(bundles)

    def at_once(self, name: str) -> int:
        return min(engine.at_once for engine in self._open_all(name))

    def vad(self) -> Vad:
        return VoiceDetector(*self._loaded(self.names.vad))

    def turn_judge(self) -> TurnJudge:
        return TurnDetector(*self._loaded(self.names.turn))

    def transcriber(self, name: str) -> Transcriber:
        tokenizer = Tokenizer.from_file(str(self._paths[name] / "tokenizer.json"))
        encoder, decoder = self._loaded(name)
        family = Moonshine if family_of(self._paths[name]) == "moonshine" else Whisper
        return family(encoder, decoder, tokenizer, listeners=sound_model(name))

    def state(self, name: str) -> EngineState | None:
        engines = self._engines.get(name)
        return joined_state(engine.state for engine in engines) if engines else None

    def close(self) -> None:
        for engines in self._engines.values():
            for engine in engines:
                engine.close()

    def _open_all(self, name: str) -> list[Engine]:
        if name not in self._opened:
            files = {self.names.vad: _VAD_FILES, self.names.turn: _TURN_FILES}
            folder = self._paths[name]
            self._opened[name] = [self._open(folder / f) for f in files.get(name, _EAR_FILES)]
        return self._opened[name]

    def _loaded(self, name: str) -> list[Engine]:
        for engine in self._open_all(name):
            engine.load()
            self._engines.setdefault(name, []).append(engine)
        return self._engines[name]


class Hearing:
    """What sound can be asked: is it speech, is the turn over, what was said.

    Each network works on a thread of its own: a frame of turn-taking never waits behind a
    recording, nor one language behind another. Every question raises EngineLoadError before
    `load`, and UnknownNameError for a language that nobody here hears.
    """

    def __init__(self, networks: Networks, default_language: str) -> None:
        self._networks = networks
        self._names = networks.names
        self._default_language = default_language
        self._lanes: dict[str, EngineLane] = {}
        self._detector: Vad | None = None
        self._frames: SharedRuns[VadAsk, list[float]] | None = None
        self._turns: SharedRuns[NDArray[np.float32], tuple[float, float]] | None = None
        self._languages: Languages | None = None
        self._ears: dict[str, Ear] = {}
        self._places: WeakValueDictionary[Hashable, _Place] = WeakValueDictionary()
        """Of the texts that are being made, by their keys."""
        self.speaking: set[object] = set()
        """The sessions in which somebody is speaking, or awaits what was said."""

    @property
    def bundles(self) -> tuple[str, ...]:
        return self._names.all

    def state(self, bundle: str) -> EngineState | None:
        """Where a bundle's networks run; None before `load`."""
        return self._networks.state(bundle)

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
        names, networks = self._names, self._networks
        # A recogniser answers in the order of its lane: a final must not overtake its pieces.
        at_once = {name: 1 if name in names.ears else networks.at_once(name) for name in names.all}
        self._lanes = {name: EngineLane(f"asr-{name}", at_once=at_once[name]) for name in names.all}
        vad, turn = self._lanes[names.vad], self._lanes[names.turn]
        self._detector = detector = await vad.run(networks.vad)
        self._frames = vad.shared(
            detector.probabilities,
            largest=detector.rows,
            length=lambda ask: len(ask.frames),
            short=True,
        )
        judge = await turn.run(networks.turn_judge)
        self._turns = turn.shared(_timed(judge.probabilities), largest=judge.rows)
        by_language: dict[str, Ear] = {}
        for name in names.ears:
            transcriber = await self._lanes[name].run(networks.transcriber, name)
            self._ears[name] = Ear(name, transcriber)
            for language in transcriber.languages:
                # The first bundle of the profile that knows a language keeps it.
                by_language.setdefault(language, self._ears[name])
        self._languages = Languages(by_language, self._default_language)
        await self._warm()

    async def speech(self, frames: NDArray[np.float32], state: VadState) -> list[float]:
        """frames: [K, FRAME_SAMPLES] float32 -> probability of speech per frame."""
        if self._frames is None:
            raise EngineLoadError("the VAD is not loaded yet")
        return await self._frames.ask(VadAsk(frames, state), Urgency(owner=id(state)))

    async def end_of_turn(
        self, pcm: NDArray[np.float32], urgency: Urgency = _AT_ONCE
    ) -> tuple[float, float]:
        """Probability that the speaker of pcm [N] float32 has finished, and seconds of computing.

        The recogniser works at the same time, on a lane of its own. Raises EngineLoadError before
        the detector is loaded, SupersededError where a newer question took its place.
        """
        if self._turns is None:
            raise EngineLoadError("the turn detector is not loaded yet")
        return await self._turns.ask(pcm, urgency)

    def requeue(self, key: Hashable, order: Order | None) -> None:
        """What waits under this key is of this class now; None: it leaves, superseded."""
        for lane in self._lanes.values():
            if order is None:
                lane.withdraw(key)
            else:
                lane.hasten(key, order)
        if order is not None and (place := self._places.get(key)) is not None:
            place.hasten(order)

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
        place = _Place(urgency)
        if urgency.key is not None:
            self._places[urgency.key] = place
        steps = ear.transcriber.steps(pcm, code, draft)
        items = self._lanes[ear.bundle].stream(_costed, steps, urgency=place.by_now)
        stream = cast(AsyncGenerator[tuple[Transcript, float], None], items)
        async with aclosing(stream) as texts:
            return await anext(texts)

    async def recognize(self, pcm: NDArray[np.float32], language: str) -> Transcript:
        """Text of a whole recording, pcm [N] float32 at 16 kHz of any length.

        Between its pieces the work of others gets its turn. It is heard as if there had been
        silence before: of a short one that begins with a word, a recogniser may make nothing.
        """
        code, _ = self.languages.resolve(language)
        before = CutRules().margin_frames * FRAME_SAMPLES
        pcm = np.pad(pcm, (before, 0))
        speech: list[float] = []
        blocks = speech_probabilities(pcm, self._voice_detector(), _RECORDED_FRAMES)
        while block := await self._lanes[self._names.vad].run(
            next, blocks, None, urgency=_RECORDING
        ):
            speech += block
        parts = []
        for span in pieces_of(pcm, speech):
            text, _ = await self.transcribe(pcm[span.start : span.end], code)
            parts.append(text.shifted(span.start - before))
        return join(parts, code)

    def close(self) -> None:
        """Free threads and networks. Blocks until what has begun is finished."""
        for lane in self._lanes.values():
            lane.close()
        self._networks.close()

    def _voice_detector(self) -> Vad:
        if self._detector is None:
            raise EngineLoadError("the VAD is not loaded yet")
        return self._detector

    async def _warm(self) -> None:
        """The first run of a network allocates and is slow: let nobody wait for it."""
        started = _CLOCK.now()
        second = np.zeros(SAMPLE_RATE_HZ, np.float32)
        await self.speech(second[:FRAME_SAMPLES][None], VadState())
        await self.end_of_turn(second)
        for ear in self._ears.values():
            language = ear.transcriber.languages[0]
            await self._lanes[ear.bundle].run(ear.transcriber.transcribe, second, language)
        log.info("warmed %s in %.2f s", ", ".join(self._names.all), _CLOCK.now() - started)
