"""How much of an answer's text has been heard when it is cut off."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

# Seconds that a character takes where the voice has not told yet: about 15 letters or
# 4.5 Chinese characters a second, as measured on ordinary read speech.
_LETTER_S = 1 / 15
_IDEOGRAPH_S = 1 / 4.5
# The very end of a word can be missing and the word is heard.
_TOLERANCE_S = 0.03


@dataclass(frozen=True, slots=True)
class SpokenMark:
    """Once `at_s` seconds of the voice have been heard, the first `chars` characters have."""

    chars: int
    at_s: float


Marks: TypeAlias = Sequence[SpokenMark]


def heard_text(
    text: str, *, played_s: float, voice_s: float | None = None, marks: Sequence[SpokenMark] = ()
) -> str:
    """The beginning of `text` that was audible after `played_s` seconds of its voice.

    voice_s: length of the voice of the whole `text`, None while that is not known.
    marks: what the voice told, in order; between two of them time is shared out by characters.
    Cut at a word's end: a word that was heard in part counts as not heard.
    """
    if played_s <= 0 or not text:
        return ""
    index = _passed(marks, played_s + _TOLERANCE_S)
    start = marks[index - 1] if index else SpokenMark(0, 0.0)
    end = SpokenMark(len(text), voice_s) if voice_s else None
    if index < len(marks):
        end = marks[index]
    part = text[start.chars : end.chars if end else None]
    known_s = end.at_s - start.at_s if end else None
    reached = _reached(part, played_s - start.at_s, known_s)
    position = min(len(text), start.chars + reached)
    if position == len(text):
        return text
    while position > start.chars and _within_word(text, position):
        position -= 1
    return text[:position].rstrip()


def word_start_s(marks: Sequence[SpokenMark], played_s: float) -> float | None:
    """Where the word begins that is being spoken at `played_s`; None where nobody knows."""
    index = _passed(marks, played_s)
    if index == len(marks):
        return None
    return marks[index - 1].at_s if index else 0.0


def _passed(marks: Sequence[SpokenMark], played_s: float) -> int:
    """How many of the marks lie behind."""
    return bisect_right(marks, played_s, key=lambda mark: mark.at_s)


def _reached(text: str, played_s: float, voice_s: float | None) -> int:
    """Characters of `text` that were begun and ended within `played_s`."""
    costs = [_cost_s(character) for character in text]
    scale = max(voice_s, 0.0) / sum(costs) if voice_s is not None and costs else 1.0
    spent_s = 0.0
    for position, cost in enumerate(costs):
        spent_s += cost * scale
        if spent_s > played_s + 1e-6:
            return position
    return len(costs)


def spoken_s(text: str) -> float:
    """About how many seconds it takes to say."""
    return sum(_cost_s(character) for character in text if character.isalnum())


def _cost_s(character: str) -> float:
    return _IDEOGRAPH_S if _is_ideograph(character) else _LETTER_S


def _is_ideograph(character: str) -> bool:
    return "\u3400" <= character <= "\u9fff" or "\U00020000" <= character <= "\U0003ffff"


def _within_word(text: str, position: int) -> bool:
    before, after = text[position - 1], text[position]
    return not (
        before.isspace() or after.isspace() or _is_ideograph(before) or _is_ideograph(after)
    )
