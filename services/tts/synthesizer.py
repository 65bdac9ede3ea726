"""Text -> speech: voice, mel and phonemes of a whole answer under one clock.

Offline use:

    with services.tts.voices.opening.open_synthesizer() as synthesizer:
        for piece in synthesizer.speak("Hello. 你好。", language="en"):
            piece.voice, piece.mel, piece.phonemes, piece.pts_samples
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from services.tts.phrase_cache import PhraseCache, PhraseKey
from services.tts.phrase_feed import phrases_of
from services.tts.prosody import (
    CONTROL_NAMES,
    PLAIN,
    SPEED_LIMITS,
    Prosody,
    needs,
    prosody_of,
)
from services.tts.sound import (
    HOP_SAMPLES,
    SAMPLE_RATE_HZ,
    Block,
    VoiceSteps,
    limit,
    silence,
    to_pcm,
)
from services.tts.speech_options import SpeechOptions
from services.tts.text.chunker import Pause, Phrase
from services.tts.text.script_runs import clean, is_unknown, split_by_script
from services.tts.text.surroundings import ALONE, Surroundings
from services.tts.voices.base import VOICES, VoiceInfo, voice_named, voices_for
from services.tts.voices.joining import Sentence
from services.tts.word_ends import WordEnd, ends_of_kept_words, ends_of_words
from visavis.engine import Engine, EngineState, joined_state
from visavis.engine.rows import RowAsk, alone, step_of
from visavis.styles import NEUTRAL
from visavis.wire.media import PhonemeSpan, TextMark

# The first piece leaves early; the others are a quarter of a second.
_FIRST_PIECE_HOPS = 8
_PIECE_HOPS = 20
_PAUSE_HOPS = {Pause.NONE: 1, Pause.CLAUSE: 12, Pause.SENTENCE: 26, Pause.PARAGRAPH: 36}
_RUN_PAUSE_HOPS = 3
# Said once in an answer, for a phrase in letters that no voice knows.
_UNREAD = {"en": "I can write this, but not say it.", "zh": "这些文字我会写，但念不出来。"}


class Voice(Protocol):
    """What speaks one language; every voice is one."""

    language: str

    def speak(
        self, text: str, prosody: Prosody = PLAIN, around: Surroundings = ALONE
    ) -> VoiceSteps:
        """Blocks of sound, each as soon as it is made, and asks of the networks that sessions
        share.

        prosody: within what the voice can do; its energy is no business of the voice. around: the
        first block has a lead where the voice could mind what was before, the last one a tail
        where it could mind that the sentence goes on.
        """


@dataclass(frozen=True, slots=True)
class SpeechPiece:
    """A quarter of a second of speech or less.

    voice: [N] int16 at 24 kHz, N a multiple of 300; mel: [N / 300, 80] float32, see sound.log_mel;
    phonemes: those that start in this piece, counted from the answer's first sample (their ends may
    lie in a later piece); pts_samples: place of the piece's first sample in the answer; marks:
    where words of the text end in it, and the phrase before it; style: how it is said; notices:
    what of that cannot be done, each told once in an answer.
    """

    voice: NDArray[np.int16]
    mel: NDArray[np.float32]
    phonemes: tuple[PhonemeSpan, ...]
    pts_samples: int
    marks: tuple[TextMark, ...] = ()
    style: str = NEUTRAL
    notices: tuple[str, ...] = ()

    @property
    def pts_hops(self) -> int:
        return self.pts_samples // HOP_SAMPLES


@dataclass(frozen=True, slots=True)
class Spoken:
    """So much of an answer has a voice already: characters of its text without tags, and samples
    at 24 kHz, whole hops of 300.
    """

    chars: int = 0
    samples: int = 0


PieceSteps: TypeAlias = Generator[Sequence[SpeechPiece] | RowAsk, Any, None]
"""The pieces of each block together, and asks of networks that several sessions share."""


class Answer:
    """Speaks one turn, phrase after phrase, and knows how far it has come."""

    def __init__(
        self,
        voices: Mapping[str, Voice],
        infos: Mapping[str, VoiceInfo],
        options: SpeechOptions,
        phrases: PhraseCache | None = None,
        spoken: Spoken | None = None,
    ) -> None:
        """`voices` and what is known of them, `infos`, by language; `options` as checked.

        spoken: by somebody else; None: nothing.
        """
        self._voices = voices
        self._infos = infos
        self._options = options
        self._phrases = phrases
        self._style = self._options.style or NEUTRAL
        self._told: set[tuple[str, str]] = set()
        self._notices: list[str] = []
        self._unread_told = False
        self._pause = Pause.NONE
        self._sentence = Sentence()
        spoken = spoken or Spoken()
        self._said = spoken.chars
        """Characters of all phrases so far."""
        self._phrase_end: tuple[TextMark, ...] = ()
        """Goes out with the piece that follows the phrase."""
        self.produced_samples = spoken.samples

    def say(self, phrase: Phrase) -> Iterator[SpeechPiece]:
        """Pieces of a phrase, with the silence that parts it from the one before in front.

        Nothing for a phrase without anything to say; its pause still counts.
        """
        for pieces in alone(self.steps(phrase)):
            yield from pieces

    def steps(self, phrase: Phrase) -> PieceSteps:
        """The same for a lane, the pieces of a block together: only blocks cost anything."""
        self._style = phrase.style or self._style
        text = self._readable(clean(phrase.text))
        ends = self._word_ends(phrase.text, text)
        self._said += len(phrase.text)
        last = answer = None
        runs = split_by_script(text, self._options.language) if text else []
        around = self._sentence.around(runs, phrase) if runs else ALONE
        steps = self._blocks(text, around) if runs else None
        while steps is not None and (block := step_of(steps, answer)) is not None:
            answer = None
            if isinstance(block, RowAsk):
                answer = yield block
                continue
            pieces: list[SpeechPiece] = []
            if last is None:
                taken_up = self._sentence.takes_up(block)
                if taken_up is None:
                    pieces += self._apart(ends)
                block = taken_up or block
            yield [*pieces, *self._pieces(block, ends)]
            last = block
        if last is not None:
            pause = phrase.pause is not Pause.NONE
            self._phrase_end = (TextMark(self._said, self.produced_samples, pause),)
            self._sentence.said(runs, around, last)
        elif phrase.pause is not Pause.NONE:
            self._sentence.ended()
        self._pause = phrase.pause if last is not None else max(self._pause, phrase.pause)

    def finish(self) -> Iterator[SpeechPiece]:
        """What is left at the end, where the last phrase was made to go on."""
        block = self._sentence.let_go()
        if block is not None:
            yield from self._pieces(block, ())

    def _readable(self, text: str) -> str:
        """`text`; where no voice knows a letter of it that is told in its place, once."""
        if not is_unknown(text):
            return text
        told, self._unread_told = self._unread_told, True
        return "" if told else _UNREAD[self._options.language]

    def _apart(self, ends: Sequence[int]) -> Iterator[SpeechPiece]:
        """The silence before a phrase that does not go on with the one before."""
        yield from self.finish()
        if self.produced_samples:
            yield from self._pieces(silence(self._pause_hops(_PAUSE_HOPS[self._pause])), ends)

    def _word_ends(self, raw: str, text: str) -> list[int]:
        """Where the words of `text`, which is `raw` without its markup, end in the answer."""
        return [self._said + end for end in ends_of_kept_words(raw, text)]

    def prerender(self, phrase: Phrase) -> VoiceSteps:
        """Make the phrase's sound and keep it; nothing where it is kept already."""
        self._style = phrase.style or self._style
        text = clean(phrase.text)
        if not text or self._phrases is None:
            return
        runs = split_by_script(text, self._options.language)
        around = self._sentence.around(runs, phrase)
        key = self._key(text, around)
        blocks = list(self._phrases.kept(key))
        if not blocks:
            steps, answer = self._synthesise(text, around), None
            while (block := step_of(steps, answer)) is not None:
                answer = yield block
                if not isinstance(block, RowAsk):
                    blocks.append(block)
            self._phrases.keep(key, blocks)
        if blocks:
            self._sentence.said(runs, around, blocks[-1])

    @property
    def _prosody(self) -> Prosody:
        """Of what is said now, were there a voice that can do it."""
        prosody = prosody_of(self._style).times(self._options.prosody)
        return replace(prosody, speed=min(max(prosody.speed, SPEED_LIMITS[0]), SPEED_LIMITS[1]))

    def _key(self, text: str, around: Surroundings) -> PhraseKey:
        options, prosody = self._options, self._prosody
        voice = options.voice or voices_for(options.language)[0].name
        factors = (prosody.speed, prosody.pitch, prosody.pitch_range, prosody.voicing)
        speed, pitch, pitch_range, voicing = (round(factor, 3) for factor in factors)
        return PhraseKey(text, options.language, voice, speed, pitch, pitch_range, voicing, around)

    def _blocks(self, text: str, around: Surroundings) -> VoiceSteps:
        self._note_what_is_lacking(text)
        kept = self._phrases.find(self._key(text, around)) if self._phrases is not None else None
        yield from (kept if kept is not None else self._synthesise(text, around))

    def _synthesise(self, text: str, around: Surroundings) -> VoiceSteps:
        joined = False
        before = 0
        runs = split_by_script(text, self._options.language)
        for number, run in enumerate(runs):
            here = Surroundings(
                around.before if number == 0 else "",
                around.ahead if number == len(runs) - 1 else "",
            )
            first = True
            prosody = self._prosody.within(self._infos[run.language].controls)
            steps, answer = self._voices[run.language].speak(run.text, prosody, here), None
            while (block := step_of(steps, answer)) is not None:
                answer = None
                if isinstance(block, RowAsk):
                    answer = yield block
                    continue
                if joined and first:
                    yield silence(self._pause_hops(_RUN_PAUSE_HOPS))
                words = tuple(WordEnd(before + word, hops) for word, hops in block.words)
                yield replace(block, words=words)
                first, joined = False, True
            before += len(ends_of_words(run.text))

    def _note_what_is_lacking(self, text: str) -> None:
        """Tell what the voices that speak `text` cannot do of the style and the options."""
        wanted = needs(self._style) | self._options.prosody.controls()
        for language in sorted(
            {run.language for run in split_by_script(text, self._options.language)}
        ):
            voice = self._infos[language]
            lacking = sorted(wanted - voice.controls)
            if lacking and (voice.name, self._style) not in self._told:
                self._told.add((voice.name, self._style))
                cannot = " and ".join(CONTROL_NAMES[name] for name in lacking)
                self._notices.append(
                    f"style {self._style!r}: voice {voice.name!r} cannot change {cannot}; "
                    "the rest of the style holds"
                )

    def _take_notices(self) -> tuple[str, ...]:
        notices, self._notices = tuple(self._notices), []
        return notices

    def _pause_hops(self, hops: int) -> int:
        return max(1, round(hops / self._prosody.speed))

    def _pieces(self, block: Block, ends: Sequence[int]) -> Iterator[SpeechPiece]:
        """ends: characters of the answer up to the end of each word that the block may name."""
        gain = self._options.volume * self._prosody.energy
        pcm = to_pcm(limit(block.voice * np.float32(gain)))
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
            yield SpeechPiece(
                voice,
                block.mel[start:end],
                spans,
                pts_samples,
                marks,
                self._style,
                self._take_notices(),
            )
            start = end


class Synthesizer:
    """Speaks with every voice there is. Not safe for concurrent use: put an EngineLane in front."""

    sample_rate_hz = SAMPLE_RATE_HZ
    hop_samples = HOP_SAMPLES

    def __init__(
        self,
        voices: Mapping[str, Voice],
        engines: Mapping[str, Sequence[Engine]] | None = None,
        *,
        phrases: PhraseCache | None = None,
        own: Mapping[str, Voice] | None = None,
        known: Sequence[VoiceInfo] = VOICES,
    ) -> None:
        """`voices` by language: "en" and "zh"; `engines`: theirs, by the bundle's name.

        phrases: sound that was made before; own: the user's voices by name, which speak their
        language where they are asked for; known: every voice.
        """
        self._voices = voices
        self._own = dict(own or {})
        self.known = tuple(known)
        self._engines = dict(engines or {})
        self.phrases = phrases

    def state(self, bundle: str) -> EngineState | None:
        """Where the networks of a bundle run; None where none of its engines are known."""
        engines = self._engines.get(bundle)
        return joined_state(engine.state for engine in engines) if engines else None

    def answer(self, options: SpeechOptions, spoken: Spoken | None = None) -> Answer:
        """Speech of a new turn, or of what is left of one. Raises InvalidInputError or
        UnknownNameError.
        """
        options = options.checked(self.known)
        voices = dict(self._voices)
        infos = {language: voices_for(language)[0] for language in voices}
        if (own := self._own.get(options.voice)) is not None:
            voices[own.language] = own
            infos[own.language] = voice_named(options.voice, self.known)
        return Answer(voices, infos, options, self.phrases, spoken)

    def speak(
        self,
        text: str,
        *,
        language: str = "",
        voice: str = "",
        speed: float = 1.0,
        volume: float = 1.0,
        style: str = "",
        pitch_range: float = 1.0,
        energy: float = 1.0,
    ) -> Iterator[SpeechPiece]:
        """Speech of a whole text, piece by piece. The same text gives the same speech."""
        options = SpeechOptions(language, voice, speed, volume, style, pitch_range, energy)
        answer = self.answer(options)
        for phrase in phrases_of(text):
            yield from answer.say(phrase)
        yield from answer.finish()

    def warm_up(self) -> None:
        """Speak a word with every voice, so that the first visitor does not wait for it."""
        for text in ("Hello, xqzt.", "你好。"):
            for _ in self.speak(text):
                pass
        for name in self._own:
            for _ in self.speak("Hello.", voice=name):
                pass
