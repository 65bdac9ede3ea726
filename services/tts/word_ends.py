"""Which spoken word is which word of the text, so that it is known what has been heard.

A voice knows where the words of its phonemes end; most are one word of the text each. A number or
an address becomes several: where there is one such, all that is left over belongs to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from services.tts.text.script_runs import is_han

_PART_OF_WORD = frozenset("'’-‑_*`~")


class WordEnd(NamedTuple):
    """Word `word` of a text, counted from 0, ends `hops` after the first of its block."""

    word: int
    hops: int


def ends_of_words(text: str) -> list[int]:
    """Characters of `text` up to the end of each word: what blanks part, or a Chinese character.

    Marks behind a word belong to it; what has neither letter nor digit is no word.
    """
    ends: list[int] = []
    open_word = False
    for position, char in enumerate(text):
        if is_han(char):
            ends.append(position + 1)
            open_word = False
        elif char.isspace():
            open_word = False
        elif open_word:
            ends[-1] = position + 1
        elif char.isalnum():
            ends.append(position + 1)
            open_word = True
        elif ends and ends[-1] == position:
            ends[-1] = position + 1
    return ends


def ends_of_kept_words(raw: str, text: str) -> list[int]:
    """Characters of `raw` up to the end of each word of `text`, which is `raw` without some of its
    words; none where it has others.
    """
    ends, kept = ends_of_words(raw), _words(text)
    if len(ends) == len(kept):
        return ends
    words = zip(_words(raw), ends, strict=True)
    found = [next((end for word, end in words if _core(word) == _core(w)), None) for w in kept]
    return [end for end in found if end is not None] if None not in found else []


def last_spoken_words(text: str, n_spoken: int) -> list[int | None]:
    """For each word of `text` the last of `n_spoken` spoken words that belong to it; None: unknown.

    Words are matched from both ends; in between, where several may be read as more than one word,
    nothing is known but the last of them.
    """
    words = _words(text)
    surplus = n_spoken - len(words)
    if surplus == 0:
        return list(range(n_spoken))
    several = [index for index, word in enumerate(words) if not _is_one_word(word)]
    if surplus < 0 or not several:
        return [None] * len(words)
    first, last = several[0], several[-1]
    known: list[int | None] = [None] * len(words)
    known[:first] = range(first)
    known[last:] = range(last + surplus, n_spoken)
    return known


def _words(text: str) -> list[str]:
    words, start = [], 0
    for end in ends_of_words(text):
        words.append(text[start:end].strip())
        start = end
    return words


def _is_one_word(word: str) -> bool:
    return all(char.isalpha() or char in _PART_OF_WORD for char in _core(word))


def _core(word: str) -> str:
    return word.strip("\"'“”‘’()[],.;:!?…—，。！？；：、*_`~")


def owners_within(owners: Sequence[int | None], first: int, count: int) -> list[int | None]:
    """Of `last_spoken_words` what lies in a part of `count` spoken words, counted from it."""
    return [
        word - first if word is not None and first <= word < first + count else None
        for word in owners
    ]


def place_words(
    owners: Sequence[int | None], ends_hops: Sequence[int], first: int, stop: int
) -> tuple[WordEnd, ...]:
    """Words whose spoken end lies behind `first` and up to `stop`, in hops from `first`."""
    return tuple(
        WordEnd(word, min(ends_hops[spoken], stop) - first)
        for word, spoken in enumerate(owners)
        if spoken is not None and first < ends_hops[spoken] <= stop
    )
