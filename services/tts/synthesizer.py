"""Text -> speech: voice, mel and phonemes of a whole answer under one clock.

Offline use:

    with open_synthesizer() as synthesizer:
        for piece in synthesizer.speak("Hello. 你好。", language="en"):
            piece.voice, piece.mel, piece.phonemes, piece.pts_samples
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from services.tts.english import EnglishVoice
from services.tts.mandarin import MandarinVoice
from services.tts.phrase_cache import PhraseCache, PhraseKey
from services.tts.script_runs import split_by_script
from services.tts.sound import HOP_SAMPLES, SAMPLE_RATE_HZ, Block, limit, silence, to_pcm
from services.tts.text_chunker import Pause, Phrase, TextChunker
from services.tts.text_cleaner import clean
from services.tts.voices import language_of, voice_named, voices_for
from services.tts.word_ends import WordEnd, ends_of_words
from visavis.engine import Engine, EngineState, joined_state, open_engine
from visavis.errors import InvalidInputError
from visavis.media import PhonemeSpan, TextMark
from visavis.models import bundle_path

MIN_SPEED, MAX_SPEED = 0.5, 2.0
MAX_VOLUME = 2.0
# The first piece leaves early; the others are a quarter of a second.
_FIRST_PIECE_HOPS = 8
_PIECE_HOPS = 20
_PAUSE_HOPS = {Pause.NONE: 1, Pause.CLAUSE: 12, Pause.SENTENCE: 26, Pause.PARAGRAPH: 36}
_RUN_PAUSE_HOPS = 3


class Voice(Protocol):
    """One voice of one language."""

    language: str

    def speak(self, text: str, *, speed: float = 1.0) -> Iterator[Block]:
        """Blocks of sound, each as soon as it is made."""


@dataclass(frozen=True, slots=True)
class SpeechOptions:
    """How an answer is spoken. Check with `checked` before use."""

    language: str = ""
    """Of text whose script does not tell, such as digits alone."""
    voice: str = ""
    speed: float = 1.0
    volume: float = 1.0

    def checked(self) -> SpeechOptions:
        """These options with a plain language. Raises InvalidInputError or UnknownNameError."""
        if not MIN_SPEED <= self.speed <= MAX_SPEED:
            raise InvalidInputError(f"speed: {self.speed:g} is not from {MIN_SPEED} to {MAX_SPEED}")
        if not 0.0 <= self.volume <= MAX_VOLUME:
            raise InvalidInputError(f"volume: {self.volume:g} is not from 0 to {MAX_VOLUME}")
        language = language_of(self.language)
        if self.voice:
            languages = voice_named(self.voice).languages
            if not self.language:
                language = languages[0]
        return SpeechOptions(language, self.voice, self.speed, self.volume)


@dataclass(frozen=True, slots=True)
class SpeechPiece:
    """A quarter of a second of speech or less.

    voice: [N] int16 at 24 kHz, N a multiple of 300; mel: [N / 300, 80] float32, see sound.log_mel;
    phonemes: those that start in this piece, counted from the answer's first sample (their ends may
    lie in a later piece); pts_samples: place of the piece's first sample in the answer; marks:
    where words of the text end in it, and the phrase before it.
    """

    voice: NDArray[np.int16]
    mel: NDArray[np.float32]
    phonemes: tuple[PhonemeSpan, ...]
    pts_samples: int
    marks: tuple[TextMark, ...] = ()

    @property
    def pts_hops(self) -> int:
        return self.pts_samples // HOP_SAMPLES


class Answer:
    """The speech of one turn, phrase after phrase. Holds the place in time and nothing else."""

    def __init__(
        self,
        voices: Mapping[str, Voice],
        options: SpeechOptions,
        phrases: PhraseCache | None = None,
    ) -> None:
        self._voices = voices
        self._options = options.checked()
        self._phrases = phrases
        self._pause = Pause.NONE
        self._said = 0
        """Characters of all phrases so far."""
        self._phrase_end: tuple[TextMark, ...] = ()
        """Goes out with the piece that follows the phrase."""
        self.produced_samples = 0

    def speak(self, phrase: Phrase) -> Iterator[SpeechPiece]:
        """Pieces of a phrase, with the silence that parts it from the one before in front.

        Nothing for a phrase without anything to say; its pause still counts.
        """
        text = clean(phrase.text)
        ends = self._word_ends(phrase.text, text)
        self._said += len(phrase.text)
        blocks = self._blocks(text) if text else iter(())
        spoken = False
        for block in blocks:
            if not spoken and self.produced_samples:
                yield from self._pieces(silence(self._pause_hops(_PAUSE_HOPS[self._pause])), ends)
            yield from self._pieces(block, ends)
            spoken = True
        if spoken:
            self._phrase_end = (TextMark(self._said, self.produced_samples),)
        self._pause = phrase.pause if spoken else max(self._pause, phrase.pause)

    def _word_ends(self, raw: str, text: str) -> list[int]:
        """Where the words of `text`, which is `raw` without its markup, end in the answer."""
        ends = ends_of_words(raw)
        if len(ends) != len(ends_of_words(text)):
            return []
        return [self._said + end for end in ends]

    def prerender(self, phrase: Phrase) -> Iterator[Block]:
        """Make the phrase's sound and keep it; nothing where it is kept already."""
        text = clean(phrase.text)
        if not text or self._phrases is None or self._key(text) in self._phrases:
            return
        blocks = []
        for block in self._synthesise(text):
            blocks.append(block)
            yield block
        self._phrases.keep(self._key(text), blocks)

    def _key(self, text: str) -> PhraseKey:
        options = self._options
        voice = options.voice or voices_for(options.language)[0].name
        return PhraseKey(text, options.language, voice, round(options.speed, 3))

    def _blocks(self, text: str) -> Iterator[Block]:
        kept = self._phrases.find(self._key(text)) if self._phrases is not None else None
        return iter(kept) if kept is not None else self._synthesise(text)

    def _synthesise(self, text: str) -> Iterator[Block]:
        joined = False
        before = 0
        for run in split_by_script(text, self._options.language):
            first = True
            for block in self._voices[run.language].speak(run.text, speed=self._options.speed):
                if joined and first:
                    yield silence(self._pause_hops(_RUN_PAUSE_HOPS))
                words = tuple(WordEnd(before + word, hops) for word, hops in block.words)
                yield replace(block, words=words)
                first, joined = False, True
            before += len(ends_of_words(run.text))

    def _pause_hops(self, hops: int) -> int:
        return max(1, round(hops / self._options.speed))

    def _pieces(self, block: Block, ends: Sequence[int]) -> Iterator[SpeechPiece]:
        """ends: characters of the answer up to the end of each word that the block may name."""
        pcm = to_pcm(limit(block.voice * np.float32(self._options.volume)))
        start, hops = 0, len(block.mel)
        origin = self.produced_samples
        while start < hops:
            size = _PIECE_HOPS if self.produced_samples else _FIRST_PIECE_HOPS
            end = min(hops, start + size)
            spans = tuple(
                PhonemeSpan(
                    span.symbol, origin + span.start_hops * HOP_SAMPLES, span.hops * HOP_SAMPLES
                )
                for span in block.spans
                if start <= span.start_hops < end
            )
            words = tuple(
                TextMark(ends[word], origin + hops * HOP_SAMPLES)
                for word, hops in block.words
                if start < hops <= end and word < len(ends)
            )
            marks, self._phrase_end = (*self._phrase_end, *words), ()
            voice = pcm[start * HOP_SAMPLES : end * HOP_SAMPLES]
            pts_samples = self.produced_samples
            self.produced_samples += len(voice)
            yield SpeechPiece(voice, block.mel[start:end], spans, pts_samples, marks)
            start = end


class Synthesizer:
    """All voices. Not safe for concurrent use: put an EngineLane in front of it."""

    sample_rate_hz = SAMPLE_RATE_HZ
    hop_samples = HOP_SAMPLES

    def __init__(
        self,
        voices: Mapping[str, Voice],
        engines: Mapping[str, Sequence[Engine]] | None = None,
        *,
        phrases: PhraseCache | None = None,
    ) -> None:
        """`voices` by language: "en" and "zh"; `engines`: theirs, by the bundle's name.

        phrases: sound that was made before.
        """
        self._voices = voices
        self._engines = dict(engines or {})
        self.phrases = phrases

    def state(self, bundle: str) -> EngineState | None:
        """Where the networks of a bundle run; None where none of its engines are known."""
        engines = self._engines.get(bundle)
        return joined_state(engine.state for engine in engines) if engines else None

    @property
    def languages(self) -> tuple[str, ...]:
        return tuple(self._voices)

    def answer(self, options: SpeechOptions) -> Answer:
        """Speech of a new turn. Raises InvalidInputError or UnknownNameError."""
        return Answer(self._voices, options, self.phrases)

    def speak(
        self,
        text: str,
        *,
        language: str = "",
        voice: str = "",
        speed: float = 1.0,
        volume: float = 1.0,
    ) -> Iterator[SpeechPiece]:
        """Speech of a whole text, piece by piece. The same text gives the same speech."""
        answer = self.answer(SpeechOptions(language, voice, speed, volume))
        chunker = TextChunker()
        for phrase in chunker.push(text) + chunker.flush():
            yield from answer.speak(phrase)

    def warm_up(self) -> None:
        """Speak a word with every voice, so that the first visitor does not wait for it."""
        for text in ("Hello, xqzt.", "你好。"):
            for _ in self.speak(text):
                pass


@contextmanager
def open_synthesizer(
    *,
    model_dir: Path | None = None,
    open_engine: Callable[[Path], Engine] = open_engine,
    phrases: PhraseCache | None = None,
) -> Iterator[Synthesizer]:
    """Synthesizer with its engines loaded; they are closed at the end.

    Raises ModelStoreError where a bundle is not pulled, EngineLoadError where it cannot be loaded.
    """
    english = bundle_path("hibari-en", model_dir)
    mandarin = bundle_path("fastspeech2-mbmelgan-zh", model_dir)
    files = (
        english / "hibari-durations.onnx",
        mandarin / "encoder.onnx",
        mandarin / "decoder.onnx",
        mandarin / "vocoder.onnx",
    )
    with ExitStack() as stack:
        hibari, encoder, decoder, vocoder = (
            stack.enter_context(open_engine(file)) for file in files
        )
        voices: dict[str, Voice] = {
            "en": EnglishVoice(hibari),
            "zh": MandarinVoice(encoder, decoder, vocoder, mandarin / "mapper.json"),
        }
        engines = {english.name: [hibari], mandarin.name: [encoder, decoder, vocoder]}
        yield Synthesizer(voices, engines, phrases=phrases)
