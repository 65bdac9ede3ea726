"""Cuts the text that a language model streams into phrases, as early as they can be spoken.

Pure and without clock. The text is read character by character, so the phrases do not depend on
how it was split into tokens, and no character is lost: the phrases joined are the text. What
belongs to a language is asked of it: `english.py` where words have blanks between them,
`mandarin.py` between Chinese characters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum

from services.tts.text import english, mandarin
from services.tts.text.english import Point
from services.tts.text.script_runs import ENTITY, is_han


class Pause(IntEnum):
    """How the phrase ends, and so how long the silence behind it is."""

    NONE = 0
    """Cut between two words of a sentence that goes on."""
    CLAUSE = 1
    SENTENCE = 2
    PARAGRAPH = 3


@dataclass(frozen=True, slots=True)
class Phrase:
    """A piece of the text as it came, markup and all."""

    text: str
    pause: Pause
    ahead: str = ""
    """The beginning of what follows, as far as it is known, where that is the same sentence."""
    style: str = ""
    """How it and what follows is said; "": as what came before."""


@dataclass(frozen=True, slots=True)
class PhraseLimits:
    """When a phrase may end. In units of about one spoken word."""

    clause_units: float
    """At a comma from here on."""
    soft_units: float
    """Before a word that opens a new part of the sentence from here on."""
    hard_units: float
    """Between any two words that do not belong together from here on."""
    han_units: float
    """The same between Chinese characters."""
    syllables: int = 0
    """So many Latin ones at least before a cut between words."""


# The first phrase decides how soon the answer is heard, and must last while the second is written;
# each later one is spoken while the one before it is heard, so it can wait longer.
PHRASE_LIMITS = (
    PhraseLimits(1, 3, 3, 2, syllables=4),
    PhraseLimits(3, 5, 6, 6),
    PhraseLimits(7, 20, 30, 15),
)
# Behind a first phrase that was cut short: it lasts half a second.
_NEXT_LIMITS = PhraseLimits(2, 4, 4, 6)
MAX_PHRASE_CHARACTERS = 240

_SENTENCE_ENDS = frozenset("。！？!?…．।")
_CLAUSE_ENDS = frozenset("，、：；,;:—")
_CLOSERS = frozenset("\"'”’)]}」』）】》*_`")
# What comes behind a dash, that goes on with what is before it: "9 – 17", "x - 3", "5月1日—5日".
_RANGE = re.compile(
    r"(?:\d|[AaPp]\.?[Mm]\.?)[^\W\d]{0,2} [-–] [\d$€£¥]$"
    r"|(?:(?:^|[\s(=])[b-z]|[²³]) - \d$"
    r"|[\d年月日号点分元天岁个周%℃一二三四五六七八九十]—[\d周星第公前一二三四五六七八九十]$"
)
_DASH = re.compile(r"\s[-–](\s+\S)$")
_LOOKED_AT = 12
_ENTITY_END = re.compile(f"{ENTITY.pattern}$")
_URL = re.compile(r"://|^www\.|@|[a-z0-9]\.[a-z]{2,}[/?]", re.IGNORECASE)
_HAN_UNITS = 0.5
_HAN_BEFORE = 2
_HAN_LOOKED_AT = 8
_LETTERS_PER_UNIT = 7


def pause_behind(text: str) -> Pause:
    """The silence that follows `text`, whose end is the end of a phrase."""
    said = text.rstrip()
    if "\n\n" in text[len(said) :]:
        return Pause.PARAGRAPH
    said = said.rstrip("".join(_CLOSERS))
    last = said[-1:]
    if last in _SENTENCE_ENDS or (last == "." and english.point_at_end(said) is Point.SENTENCE):
        return Pause.SENTENCE
    return Pause.CLAUSE if last in _CLAUSE_ENDS else Pause.NONE


class TextChunker:
    """Cuts text into phrases: add it as it comes, take what is complete, flush at the end."""

    def __init__(self) -> None:
        self._first_is_short = False
        self._reset(0)

    def _reset(self, spoken: int) -> None:
        self._text = ""
        self._units = 0.0
        self._word_start = 0
        self._spoken = spoken
        # Behind the point of an abbreviation that may also end the sentence; 0: none.
        self._open_abbreviation = 0

    def add(self, text: str) -> list[Phrase]:
        """Phrases that `text` completes; often none."""
        phrases = []
        for char in text:
            phrase = self._take(char)
            if phrase is not None:
                phrases.append(phrase)
        return phrases

    def press(self, syllables: int = 0) -> list[Phrase]:
        """The longest phrase that can be spoken of what is there, though it is short; none where
        what is there leans on what follows. For a voice that would else break off.

        syllables: so many Latin ones at least.
        """
        for start in range(len(self._text) - 1, 0, -1):
            said = self._text[:start]
            speakable = any(c.isalnum() for c in said) and self._may_part(start)
            if speakable and english.syllables(said) >= syllables:
                self._first_is_short |= not self._spoken
                return [self._part(start, Pause.NONE)]
        return []

    def flush(self) -> list[Phrase]:
        """The rest, at the end of the text. The chunker is as new afterwards."""
        rest = self._text
        self._first_is_short = False
        self._reset(0)
        return [Phrase(rest, Pause.SENTENCE)] if rest else []

    def _take(self, char: str) -> Phrase | None:
        self._text += char
        cut = self._cut(char)
        self._count(char)
        if cut is None:
            return None
        position, pause = cut
        speakable = any(c.isalnum() for c in self._text[:position])
        if not speakable and len(self._text) < MAX_PHRASE_CHARACTERS:
            return None  # stray punctuation goes with what follows
        return self._part(position, pause, speakable=speakable)

    def _part(self, position: int, pause: Pause, *, speakable: bool = True) -> Phrase:
        rest = self._text[position:]
        phrase = Phrase(self._text[:position], pause, rest if pause is Pause.NONE else "")
        self._reset(self._spoken + speakable)
        for kept in rest:
            self._text += kept
            self._count(kept)
        return phrase

    def _count(self, char: str) -> None:
        if is_han(char):
            self._units += _HAN_UNITS
            self._word_start = len(self._text)
        elif char.isspace():
            self._word_start = len(self._text)
        elif char.isalnum():
            word_length = len(self._text) - self._word_start
            if word_length % _LETTERS_PER_UNIT == 1:
                self._units += 1

    def _cut(self, char: str) -> tuple[int, Pause] | None:
        """Where to cut now that `char` has come, and which pause follows."""
        length = len(self._text)
        if char == "\n":
            return length, Pause.PARAGRAPH
        ending = self._ending(char)
        if ending is not None:
            return ending
        between = self._cut_between_characters() if is_han(char) else self._cut_between_words(char)
        if between is not None:
            return between, Pause.NONE
        overdue = self._units / self._limits.hard_units if is_han(char) else 0
        if overdue >= 2 and self._may_part_characters(length - 2, counted=True):
            return length - 2, Pause.NONE
        if length >= MAX_PHRASE_CHARACTERS or overdue >= 3:
            blank = max(self._text.rfind(" ", 1), self._text.rfind("\t", 1))
            return (blank if blank > length // 2 else length), Pause.NONE
        return None

    def _ending(self, char: str) -> tuple[int, Pause] | None:
        """The cut at punctuation, if the text ends with any that counts."""
        length = len(self._text)
        if self._open_abbreviation and (cut := self._abbreviation_ends()):
            return cut, Pause.SENTENCE
        if char in _SENTENCE_ENDS and not self._in_url(length - 1):
            return length, Pause.SENTENCE
        if char in _CLAUSE_ENDS and not self._waits(char):
            return self._clause(length)
        mark = length - 1
        while mark > 0 and self._text[mark - 1] in _CLOSERS:
            mark -= 1
        before = self._text[mark - 1] if mark else ""
        if before == "." and (char.isspace() or is_han(char)):
            return self._full_stop(mark, length - 1)
        if before in _SENTENCE_ENDS and before and char.isspace():
            return length - 1, Pause.SENTENCE
        ends = before in _CLAUSE_ENDS and not self._ends_entity(mark)
        if before and ends and not (before in ",:：" and char.isdigit()):
            waited = is_han(char) if before in ",:;" else before in "：—" and not self._in_range
            if char.isspace() or waited:
                return self._clause(length - 1)
        dash = _DASH.search(self._text[-_LOOKED_AT:])
        if dash is not None and not self._in_range:
            return self._clause(length - len(dash[1]))
        return None

    def _abbreviation_ends(self) -> int:
        """Where the sentence ended with the open abbreviation; 0: nowhere, or not known yet."""
        cut = self._open_abbreviation
        following = self._text[cut:].lstrip()
        if not following:
            return 0
        begins = is_han(following[0]) or english.begins_sentence(self._text[:cut], following)
        if begins is not None:
            self._open_abbreviation = 0
        return cut if begins else 0

    @property
    def _in_range(self) -> bool:
        """Whether the last character goes on with a range of numbers or days."""
        return bool(_RANGE.search(self._text[-_LOOKED_AT:]))

    def _waits(self, char: str) -> bool:
        """Only the next character tells whether this one ends a clause."""
        before = self._text[-2:-1]
        if self._ends_entity(len(self._text)):
            return True
        if char in ":;—：":
            return True
        return (char == "," and before.isdigit()) or self._in_url(len(self._text) - 1)

    def _ends_entity(self, position: int) -> bool:
        """Whether what is before `position` is HTML for one sign, such as "&amp;"."""
        return bool(_ENTITY_END.search(self._text[max(0, position - _LOOKED_AT) : position]))

    def _clause(self, position: int) -> tuple[int, Pause] | None:
        if self._units >= self._limits.clause_units:
            return position, Pause.CLAUSE
        return None

    def _full_stop(self, mark: int, position: int) -> tuple[int, Pause] | None:
        """A point at mark - 1 with a blank behind: end of sentence, abbreviation or both?"""
        point = english.point_at_end(self._text[:mark])
        if point is Point.EITHER:
            self._open_abbreviation = position
        return (position, Pause.SENTENCE) if point is Point.SENTENCE else None

    def _cut_between_words(self, char: str) -> int | None:
        """Where to cut in front of a word that is complete with the blank `char`; the first phrase
        does not wait for more than its first letter."""
        new_word = self._text[-2:-1].isspace()
        if char.isspace() and not new_word:
            start, before = self._word_start, self._units - 1
            opens = before >= self._limits.soft_units and english.opens_part(self._text[start:-1])
            if opens or (before >= self._limits.hard_units and self._may_begin(start)):
                return start if self._may_end(start) else None
        if new_word and self._limits.syllables and self._units >= self._limits.hard_units:
            start = len(self._text) - 1
            if self._may_begin(start) and self._may_end(start):
                return len(self._text[:-1].rstrip())
        return None

    def _may_part(self, start: int) -> bool:
        """Whether a word begins at `start` that may be parted from what is before it, by language
        alone."""
        if is_han(self._text[start]):
            return self._may_part_characters(start)
        before = self._text[:start]
        may = before[-1].isspace() and self._may_begin(start)
        return may and english.may_end(before)

    def _may_begin(self, start: int) -> bool:
        return english.may_begin(self._text[:start], self._text[start])

    def _may_end(self, position: int) -> bool:
        """Whether enough was said before `position`, and leans on nothing that follows."""
        said, least = self._text[:position], self._limits.syllables
        return english.may_end(said) and (not least or english.syllables(said) >= least)

    def _cut_between_characters(self) -> int | None:
        """Where to cut in front of the last two characters, which are Chinese."""
        position = len(self._text) - 2
        units = self._units - _HAN_UNITS
        if units >= self._limits.soft_units and mandarin.opens_part(self._text[position:]):
            return position
        if units < self._limits.han_units or not self._may_part_characters(position):
            return None
        return position

    def _may_part_characters(self, position: int, *, counted: bool = False) -> bool:
        """Whether the Chinese before `position` may be parted from the two characters behind it.

        counted: a measure word behind a number is enough of it.
        """
        run, far = position, max(0, position - _HAN_LOOKED_AT)
        while run > far and is_han(self._text[run - 1]):
            run -= 1
        following = self._text[position : position + 2]
        least = 1 if counted and self._text[:run][-1:].isdigit() else _HAN_BEFORE
        if position - run < least or len(following) < 2 or not is_han(following[0]):
            return False
        return mandarin.may_part(self._text[run:position], following)

    def _in_url(self, position: int) -> bool:
        token = self._text[self._word_start : position]
        return bool(_URL.search(token))

    @property
    def _limits(self) -> PhraseLimits:
        if self._spoken == 1 and self._first_is_short:
            return _NEXT_LIMITS
        return PHRASE_LIMITS[min(self._spoken, len(PHRASE_LIMITS) - 1)]
