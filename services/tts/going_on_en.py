"""How an English sentence might go on, so that the words before sound as if it did.

Words last twice as long, and fall in pitch, before a comma or an end. Before any words that go on
they are within a tenth of their length in the whole sentence; nearest before some of which the
first begins with the right letter.
"""

from __future__ import annotations

from collections.abc import Mapping

_REST = "world."
_OTHERS = "in the"
_BY_LETTER: Mapping[str, str] = {
    "a": "and a", "b": "by the", "c": "can be", "d": "during the", "e": "each of the",
    "f": "for the", "g": "given the", "h": "has a", "i": "in the", "j": "just a", "k": "kind of",
    "l": "like the", "m": "more than", "n": "near the", "o": "of the", "p": "people",
    "q": "quite a", "r": "rather than", "s": "some of the", "t": "to the", "u": "up to",
    "v": "very", "w": "with a", "y": "you can",
}  # fmt: skip


def going_on(ahead: str) -> str:
    """Words that begin as `ahead` does; "" where that begins with no Latin letter.

    ahead: the first letter of what follows or more; a whole word where a blank is behind it.
    """
    words = ahead.split()
    if not words or not ("a" <= words[0][0].lower() <= "z"):
        return ""
    if len(words) > 1 or ahead[-1].isspace():
        return f"{words[0]} the {_REST}"
    return f"{_BY_LETTER.get(words[0][0].lower(), _OTHERS)} {_REST}"
