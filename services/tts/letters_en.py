"""English text -> phoneme letters, one for each sound, with stress marks, blanks, punctuation."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from hibari.g2p import G2P
from hibari.tts import ASSETS

from services.tts.going_on_en import going_on
from services.tts.spoken_urls import say_addresses
from services.tts.surroundings import ALONE, Surroundings
from services.tts.word_ends import last_spoken_words, owners_within

log = logging.getLogger(__name__)

_SPLIT = re.compile(r"(?<=[,;:—.!?…])\s+|\s+")
_LONG_NUMBER = re.compile(r"\d{16,}")
_ENDINGS = frozenset(".,;:!?…—")


@cache
def letter_ids() -> dict[str, int]:
    """Every letter with its number in the English voice."""
    return dict(json.loads((Path(ASSETS) / "vocab.json").read_text("utf-8")))


class SpokenPart(NamedTuple):
    """Letters for a voice, and which of their words are to be heard."""

    letters: str
    owners: list[int | None]
    """For every word of the text the last of its spoken words, counted from `first`; None where
    that is in another part or unknown."""
    first: int
    """Spoken words before it were said already."""
    stop: int
    """So many spoken words up to the last one to be heard."""
    goes_on: bool
    """The words from `stop` on are there for the sentence to go on."""


class EnglishLetters:
    """Says how text is pronounced."""

    def __init__(self) -> None:
        self._grapheme_to_phoneme = G2P()

    def parts(self, text: str, longest: int) -> list[str]:
        """Letters of `text`, in parts of at most `longest`; none where it has no sound."""
        return _parts(_ended(self._known(text)), longest)

    def spoken(self, text: str, longest: int, around: Surroundings = ALONE) -> Iterator[SpokenPart]:
        """`text` in parts of at most `longest` letters; what is around it only where that fits."""
        part = self._within(text, around)
        if part is not None and len(part.letters) <= longest:
            yield part
            return
        parts = self.parts(text, longest)
        counts = [len(ends_of_spoken_words(part)) for part in parts]
        owners = last_spoken_words(text, sum(counts))
        spoken = 0
        for letters, count in zip(parts, counts, strict=True):
            yield SpokenPart(letters, owners_within(owners, spoken, count), 0, count, False)
            spoken += count

    def _within(self, text: str, around: Surroundings) -> SpokenPart | None:
        """`text` with what is around it; None where that is nothing, or `text` has no sound."""
        before, ahead = self._known(around.before), self._known(going_on(around.ahead))
        said = self._known(text)
        if not said or not (before or ahead):
            return None
        first, count = (len(ends_of_spoken_words(letters)) for letters in (before, said))
        letters = _ended(" ".join(filter(None, (before, said, ahead))))
        owners = last_spoken_words(text, count)
        return SpokenPart(letters, owners, first, first + count, bool(ahead))

    def _known(self, text: str) -> str:
        """Letters of `text` that the voices have; "" where it has no sound."""
        if not text:
            return ""
        letters = self._letters(_LONG_NUMBER.sub(_spell_digits, say_addresses(text)))
        known = "".join(letter for letter in letters if letter in letter_ids()).strip()
        return known if any(letter.isalpha() for letter in known) else ""

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


def ends_of_spoken_words(letters: str) -> list[int]:
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


def _ended(letters: str) -> str:
    """They go on: without a comma the voice drops as at the end of a sentence."""
    return letters + "," if letters and letters[-1] not in _ENDINGS else letters


def _parts(letters: str, longest: int) -> list[str]:
    parts, current = [], ""
    for word in _SPLIT.split(letters):
        for start in range(0, len(word), longest):
            piece = word[start : start + longest]
            if current and len(current) + 1 + len(piece) > longest:
                parts.append(current)
                current = piece
            else:
                current = f"{current} {piece}" if current else piece
    return [*parts, current] if current else parts


def _spell_digits(match: re.Match[str]) -> str:
    return " ".join(match.group())
