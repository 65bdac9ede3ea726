"""Whether two comments ask the same: the share of character n-grams that they have in common.

Resemblance by shingles after A. Broder, "On the resemblance and containment of documents" (1997),
with Dice's coefficient, which is kinder to short texts than Jaccard's. In long sentences one other
word changes little of that and all of the question, so each word has to have its like, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gateway.room.choosing.cleaning import folded

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_HAN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
# "Can you sing?" and "can't you sing?" ask the same; "do" and "do not" want the opposite.
_NOT = re.compile(r"\b(?:not|never|no)\b|n't\b|[不没別别]")
# The verb twice with a "not" between is a question, and denies nothing.
_LIGHT = frozenset(
    "a an the is are am do does did to of in on at it its s re so ok hey hi hello please pls lol"
    " haha and but well oh uh um hmm you u me us just really can could tell everyone sir".split()
)
_ALIKE_WORDS = 0.5
_OR_NOT = re.compile(r"(\w)[不没]\1")


@dataclass(frozen=True, slots=True)
class Shape:
    """What of a text is compared."""

    plain: str
    """Letters and digits alone."""
    grams: frozenset[str]
    numbers: tuple[str, ...]
    """3 + 4 is not 3 + 5, however alike they are."""
    denies: bool
    words: frozenset[str]
    """Those that matter; none where words are not written apart."""


def shape_of(text: str) -> Shape:
    """Of a cleaned comment."""
    plain = folded(text)
    words = "".join(c if c.isalnum() else " " for c in plain).split()
    han = _HAN.search(plain) is not None
    joined = ("" if han else " ").join(words)
    size = 2 if han else 3
    padded = joined if han else f" {joined} "
    grams = frozenset(padded[i : i + size] for i in range(max(1, len(padded) - size + 1)))
    denies = _NOT.search(_OR_NOT.sub("", plain)) is not None
    matter = frozenset() if han else frozenset(words) - _LIGHT
    return Shape(joined, grams, tuple(_NUMBER.findall(plain)), denies, matter)


def likeness(one: Shape, other: Shape, enough: float) -> float:
    """0 to 1; 0 also where that is certainly below `enough`."""
    if one.plain == other.plain:
        return 1.0
    if one.numbers != other.numbers or one.denies != other.denies:
        return 0.0
    a, b = len(one.grams), len(other.grams)
    if 2 * min(a, b) < enough * (a + b):
        return 0.0
    found = 2 * len(one.grams & other.grams) / (a + b)
    if found < enough or not _has_its_like(one.words - other.words, other.words):
        return 0.0
    return found if _has_its_like(other.words - one.words, one.words) else 0.0


def _has_its_like(words: frozenset[str], among: frozenset[str]) -> bool:
    """Whether each of the words is one of the others, written a little otherwise."""
    return all(any(_dice(word, other) >= _ALIKE_WORDS for other in among) for word in words)


def _dice(one: str, other: str) -> float:
    a, b = (_trigrams(f" {word} ") for word in (one, other))
    return 2 * len(a & b) / (len(a) + len(b))


def _trigrams(text: str) -> frozenset[str]:
    return frozenset(text[i : i + 3] for i in range(len(text) - 2))
