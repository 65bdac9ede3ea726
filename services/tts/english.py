"""The English voice: text -> phonemes -> spectra -> sound, with the duration of every phoneme."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from hibari import dsp
from hibari.g2p import G2P
from hibari.tts import ASSETS
from numpy.typing import NDArray

from services.tts.phonemes_en import arpabet_spans
from services.tts.prosody import PLAIN, Prosody
from services.tts.sound import (
    HOP_SAMPLES,
    SILENCE,
    Block,
    Span,
    cut_spans,
    fade,
    log_mel,
    place_spans,
    spoken_hops,
)
from services.tts.spoken_urls import say_addresses
from services.tts.word_ends import last_spoken_words, owners_within, place_words
from visavis.engine import Engine

log = logging.getLogger(__name__)

_SPECTRA = ("lh", "theta", "ln", "lr", "phi", "f0")
# Longer than this the network was not trained on.
_MAX_LETTERS = 380
_PADDING_ID = 0
_NOISE_SEED = 24_000
_SPLIT = re.compile(r"(?<=[,;:—.!?…])\s+|\s+")
_LONG_NUMBER = re.compile(r"\d{16,}")
_ENDINGS = frozenset(".,;:!?…—")
# The durations run this much behind the sound that is made from them: 55 ms over 60 sentences.
_LATE_HOPS = 4
# Below, the vocoder takes a frame for unvoiced.
_VOICED_FROM_HZ = 40.0
_F0_LIMITS_HZ = (80.0, 500.0)
# Brings the voice's speech to the loudness that both voices share.
_GAIN = 1.75


class EnglishVoice:
    """`engine`: hibari-durations.onnx, loaded."""

    language = "en"

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._grapheme_to_phoneme = G2P()
        self._ids: dict[str, int] = json.loads((Path(ASSETS) / "vocab.json").read_text("utf-8"))

    def speak(self, text: str, prosody: Prosody = PLAIN) -> Iterator[Block]:
        """Sound of `text`, trimmed of silence at both ends; nothing where it has no sound."""
        parts = self._phonemes(text)
        counts = [len(_ends_of_spoken_words(part)) for part in parts]
        owners = last_spoken_words(text, sum(counts))
        spoken = 0
        for letters, count in zip(parts, counts, strict=True):
            block = self._synthesise(letters, prosody, owners_within(owners, spoken, count))
            spoken += count
            if block is not None:
                yield block

    def _phonemes(self, text: str) -> list[str]:
        """The voice's phoneme letters of `text`, in parts that the network can take."""
        letters = self._letters(_LONG_NUMBER.sub(_spell_digits, say_addresses(text)))
        known = "".join(letter for letter in letters if letter in self._ids).strip()
        if not any(letter.isalpha() for letter in known):
            return []
        if known[-1] not in _ENDINGS:
            known += ","  # goes on: without it the voice drops as at the end of a sentence
        parts, current = [], ""
        for word in _SPLIT.split(known):
            for start in range(0, len(word), _MAX_LETTERS):
                piece = word[start : start + _MAX_LETTERS]
                if current and len(current) + 1 + len(piece) > _MAX_LETTERS:
                    parts.append(current)
                    current = piece
                else:
                    current = f"{current} {piece}" if current else piece
        return [*parts, current] if current else parts

    def _letters(self, text: str) -> str:
        """Phoneme letters of `text`, as many as can be had."""
        try:
            return str(self._grapheme_to_phoneme(text))
        except Exception as error:  # rules of a library for text that nobody foresaw
            words = text.split()
            if len(words) < 2:
                log.warning("no pronunciation for a word of %d letters: %r", len(text), error)
                return ""
            middle = len(words) // 2
            halves = (" ".join(words[:middle]), " ".join(words[middle:]))
            return " ".join(filter(None, map(self._letters, halves)))

    def _synthesise(
        self, letters: str, prosody: Prosody, owners: Sequence[int | None]
    ) -> Block | None:
        ids = [_PADDING_ID, *(self._ids[letter] for letter in letters), _PADDING_ID]
        outputs = self._engine.infer(
            {"ids": np.array([ids], np.int64), "speed": np.array([prosody.speed], np.float32)}
        )
        # A generator of its own makes the noise in the voice, and so the voice, repeatable.
        noise = np.random.default_rng(_NOISE_SEED)
        outputs["f0"] = bent_melody(outputs["f0"], prosody)
        voice = dsp.synth(*(outputs[name][0] for name in _SPECTRA), noise)
        hops_per_unit = len(voice) // HOP_SAMPLES // int(outputs["durations"].sum())
        hops = (outputs["durations"] * hops_per_unit).tolist()
        spans = cut_spans(arpabet_spans(["", *letters, ""], hops), _LATE_HOPS, sum(hops))
        spans.append(Span(SILENCE, _LATE_HOPS))
        heard_hops = np.cumsum(hops) - _LATE_HOPS
        ends = [int(heard_hops[end]) for end in _ends_of_spoken_words(letters)]
        return _trimmed(np.asarray(voice * _GAIN, np.float32), spans, ends, owners)


def _ends_of_spoken_words(letters: str) -> list[int]:
    """Letters up to the end of each word, marks behind it left out."""
    ends: list[int] = []
    open_word = False
    for position, letter in enumerate(letters, start=1):
        if letter.isalpha():
            if not open_word:
                ends.append(position)
            ends[-1] = position
            open_word = True
        elif letter.isspace():
            open_word = False
    return ends


def bent_melody(f0_hz: NDArray[np.float32], prosody: Prosody) -> NDArray[np.float32]:
    """The melody [1, F] moved by `pitch` and stretched by `pitch_range` around its middle.

    The voice is a source and a filter, and this is the source alone: the formants stay, and with
    them who speaks and what is understood.
    """
    voiced = f0_hz > _VOICED_FROM_HZ
    if not voiced.any() or (prosody.pitch, prosody.pitch_range) == (1.0, 1.0):
        return f0_hz
    logarithm = np.log(np.where(voiced, f0_hz, 1.0))
    middle = logarithm[voiced].mean()
    bent = np.exp(middle + prosody.pitch_range * (logarithm - middle)) * prosody.pitch
    return np.where(voiced, np.clip(bent, *_F0_LIMITS_HZ), f0_hz).astype(np.float32)


def _spell_digits(match: re.Match[str]) -> str:
    return " ".join(match.group())


def _trimmed(
    voice: NDArray[np.float32],
    spans: list[Span],
    word_ends_hops: list[int],
    owners: Sequence[int | None],
) -> Block | None:
    first, end = spoken_hops(voice)
    if first == end:
        return None
    heard = fade(voice[first * HOP_SAMPLES : end * HOP_SAMPLES])
    kept = cut_spans(spans, first, end)
    ends = [min(max(hops, first + 1), end) for hops in word_ends_hops]
    words = place_words(owners, ends, first, end)
    return Block(heard, log_mel(heard), place_spans(kept, 0, end - first), words)
