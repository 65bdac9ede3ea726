"""English text -> phoneme letters, one for each sound, with stress marks, blanks, punctuation."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from hibari.g2p import G2P
from hibari.tts import ASSETS

from services.tts.spoken_urls import say_addresses
from services.tts.word_ends import last_spoken_words, owners_within

log = logging.getLogger(__name__)

_SPLIT = re.compile(r"(?<=[,;:—.!?…])\s+|\s+")
_LONG_NUMBER = re.compile(r"\d{16,}")
_ENDINGS = frozenset(".,;:!?…—")


@cache
def letter_ids() -> dict[str, int]:
    """Every letter with its number in the English voice."""
    return dict(json.loads((Path(ASSETS) / "vocab.json").read_text("utf-8")))


class EnglishLetters:
    """Says how text is pronounced."""

    def __init__(self) -> None:
        self._grapheme_to_phoneme = G2P()

    def parts(self, text: str, longest: int) -> list[str]:
        """Letters of `text`, in parts of at most `longest`; none where it has no sound."""
        letters = self._letters(_LONG_NUMBER.sub(_spell_digits, say_addresses(text)))
        known = "".join(letter for letter in letters if letter in letter_ids()).strip()
        if not any(letter.isalpha() for letter in known):
            return []
        if known[-1] not in _ENDINGS:
            known += ","  # goes on: without it the voice drops as at the end of a sentence
        parts, current = [], ""
        for word in _SPLIT.split(known):
            for start in range(0, len(word), longest):
                piece = word[start : start + longest]
                if current and len(current) + 1 + len(piece) > longest:
                    parts.append(current)
                    current = piece
                else:
                    current = f"{current} {piece}" if current else piece
        return [*parts, current] if current else parts

    def spoken(self, text: str, longest: int) -> Iterator[tuple[str, list[int | None]]]:
        """Each part with, for every word of `text`, the last of its spoken words, counted in the
        part; None where that is in another part or unknown."""
        parts = self.parts(text, longest)
        counts = [len(ends_of_spoken_words(part)) for part in parts]
        owners = last_spoken_words(text, sum(counts))
        spoken = 0
        for letters, count in zip(parts, counts, strict=True):
            yield letters, owners_within(owners, spoken, count)
            spoken += count

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


def _spell_digits(match: re.Match[str]) -> str:
    return " ".join(match.group())
