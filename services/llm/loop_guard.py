"""Ends an answer in which a small model goes round in circles, and one that is long enough."""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

_END = re.compile(r"[.!?。！？；\n]+[\"'”’)）]*\s*")
_ITEM = re.compile(r"\w[\"'”’)）]*[ \t]*\n\s*\Z")
# Points that end no sentence whatever follows, and those that end one before a capital letter.
_NEVER_ENDS = re.compile(r"(?<!\w)(?:[A-Z]|Dr|Mr|Mrs|Ms|Prof|St|Mt|No|vs|approx|e\.g|i\.e)\.$")
_MAY_END = re.compile(r"(?<!\w)(?:[a-z]|etc|Inc|Ltd|Co|Corp|Jr|Sr|Ave|Rd)\.$")
_LONGEST_ABBREVIATION = 8
# "Yes." and "No, thanks!" may be said twice.
_SHORTEST_REPEAT_CHARS = 10
_SHORTEST_REPEAT_WIDE_CHARS = 5
_LONGEST_PERIOD_CHARS = 80
_LETTERS_OF_A_WIDE = 3


class _Rounds(NamedTuple):
    """How often a phrase comes before that is a loop, and how much that is at least."""

    fewest: int
    shortest_chars: int


_SPOKEN_ROUNDS, _READ_ROUNDS = _Rounds(4, 32), _Rounds(24, 240)


class LoopGuard:
    """Passes text through; `looping` turns True when it repeats, and what repeats is dropped.

    A sentence that begins like an earlier one is held back until it differs, so
    a repeated sentence is never heard, nor an item of a list twice in a row; all
    other text passes at once. Within a sentence, a phrase said four times in a row
    ends the answer.

    spoken: False for what is read: code, tables and songs have lines that come again. It ends once
    a phrase has come so often that nothing else will.
    """

    def __init__(self, *, spoken: bool = True) -> None:
        self.looping = False
        self.closing = False
        """The sentence at work is to be the last one."""
        self._spoken = spoken
        self._rounds = _SPOKEN_ROUNDS if spoken else _READ_ROUNDS
        self._said: set[str] = set()
        self._item = ""  # the line before, where that is one of a list
        self._sentence = ""  # the sentence at work, as far as it is known
        self._passed = 0  # characters of it that were let through
        self._tail = ""

    def feed(self, text: str) -> str:
        """The part of `text`, and of what was held back, that is new."""
        if self.looping:
            return ""
        if not self._spoken:
            self._watch(text)
            return text
        self._sentence += text
        ready = ""
        while not self.looping and (end := _end_of_sentence(self._sentence)):
            ready += self._end_sentence(self._sentence[:end])
            self.looping = self.looping or self.closing
        if not self.looping and not self._may_repeat(self._sentence):
            ready += self._sentence[self._passed :]
            self._passed = len(self._sentence)
        self._watch(ready)
        return ready

    def finish(self) -> str:
        """What was held back, unless it is a repetition."""
        if self.looping:
            return ""
        rest = self._sentence
        return self._end_sentence(rest) if rest else ""

    def _end_sentence(self, sentence: str) -> str:
        key = _key(sentence)
        held = sentence[self._passed :]
        self._sentence = self._sentence[len(sentence) :]
        self._passed = 0
        if key in self._said or (key and key == self._item):
            self.looping = True
            return ""
        self._item = key if _ITEM.search(sentence) else ""
        if _is_long(key):
            self._said.add(key)
        return held

    def _may_repeat(self, beginning: str) -> bool:
        if _key(beginning[: self._passed]):
            return False  # A part of it is out already: it cannot be dropped whole.
        key = _key(beginning)
        return bool(key) and any(said.startswith(key) for said in (self._item, *self._said))

    def _watch(self, text: str) -> None:
        if text:
            self._tail = (self._tail + text)[-self._rounds.fewest * _LONGEST_PERIOD_CHARS :]
            self.looping = self.looping or _goes_round(self._tail, self._rounds)


def _end_of_sentence(text: str) -> int:
    """So many characters of `text` are its first sentence; 0: that is not known yet."""
    for match in _END.finditer(text):
        following = text[match.end() : match.end() + 1]
        if not following and not match.group().endswith((" ", "\n")):
            return 0  # the sentence's closing marks may still be coming
        if match.group() == "." and following.isalnum() and following.isascii():
            continue  # "3.5", "www.example.com"
        point = text[max(0, match.start() - _LONGEST_ABBREVIATION) : match.start() + 1]
        if match.group().startswith(".") and _NEVER_ENDS.search(point):
            continue
        if match.group().startswith(".") and _MAY_END.search(point):
            if not following:
                return 0
            if not following.isupper():
                continue
        return match.end()
    return 0


def _goes_round(tail: str, of: _Rounds) -> bool:
    """Whether `tail` ends in one phrase said over and over."""
    for period in range(2, _LONGEST_PERIOD_CHARS + 1):
        phrase = tail[-period:]
        if not tail.endswith(phrase * of.fewest):
            continue  # what follows would be dear for each piece
        spoken = period + (_LETTERS_OF_A_WIDE - 1) * _wide(phrase)
        rounds = max(of.fewest, -(-of.shortest_chars // spoken))
        if tail.endswith(phrase * rounds):
            return True
    return False


def _key(sentence: str) -> str:
    return "".join(char for char in sentence.casefold() if char.isalnum())


def _is_long(key: str) -> bool:
    return len(key) >= _SHORTEST_REPEAT_CHARS or _wide(key) >= _SHORTEST_REPEAT_WIDE_CHARS


def _wide(text: str) -> int:
    """Characters that are as long to say as a few letters."""
    return sum(unicodedata.east_asian_width(char) in "WF" for char in text)
