"""Texts as sequences of words, or of characters where a language puts no spaces.

Two looks at the same speech differ in case and punctuation more often than in
words; what is compared here are the words alone.
"""

import re

from services.asr.transcript import UNSPACED

_SPACED_UNITS = re.compile(r"\s*\S+")
# Latin words inside Chinese text stay whole; marks go with what they follow.
_UNSPACED_UNITS = re.compile(r"\s*(?:[A-Za-z']+|\S)[^\w\s]*")
_TAIL = re.compile(r"[^\w]*$")


def units_of(text: str, language: str) -> list[str]:
    """Words or characters with the space before them and the marks after them.

    Joined they give the text again, but for space at its end.
    """
    pattern = _UNSPACED_UNITS if language in UNSPACED else _SPACED_UNITS
    return pattern.findall(text)


def word_of(unit: str) -> str:
    """What counts of a unit when texts are compared."""
    return "".join(char for char in unit.casefold() if char.isalnum())


def without_marks(text: str) -> str:
    """The text less the marks and spaces at its end."""
    return _TAIL.sub("", text)


def agreement(one: list[str], other: list[str]) -> int:
    """How many units from the beginning are the same words."""
    count = 0
    for left, right in zip(one, other, strict=False):
        if word_of(left) != word_of(right):
            break
        count += 1
    return count


def continued(kept: str, text: str, language: str) -> str:
    """A text that begins with `kept` and goes on as `text` does after the same words.

    Where `text` has other words at its beginning, the shortest edit distance says
    how many of them stand for those of `kept`.
    """
    if not kept or text.startswith(kept):
        return text or kept
    before, units = units_of(kept, language), units_of(text, language)
    same = agreement(before, units) == len(before)
    taken = len(before) if same else counterpart(before, units)
    rest = "".join(units[taken:])
    if taken and word_of(units[taken - 1]) == word_of(before[-1]) and without_marks(kept) == kept:
        rest = _TAIL.findall(units[taken - 1])[0] + rest
    if rest[:1].isalnum() and language not in UNSPACED:
        rest = " " + rest
    return kept + rest


def counterpart(before: list[str], units: list[str]) -> int:
    """Length of the beginning of `units` that is nearest to `before` in edit distance."""
    wanted, words = [word_of(u) for u in before], [word_of(u) for u in units]
    row = list(range(len(words) + 1))
    for i, word in enumerate(wanted, 1):
        above, row = row, [i]
        for j, other in enumerate(words, 1):
            row.append(min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (word != other)))
    return min(range(len(row)), key=lambda j: (row[j], abs(j - len(wanted))))
