"""How an English sentence might go on, so that the words before sound as if it did.

Words last twice as long, and fall in pitch, before a comma or an end. Before any words that go on
they are within a tenth of their length in the whole sentence; nearest before some of which the
first begins with the right letter.
"""

from __future__ import annotations

from collections.abc import Mapping

_REST = "world."
_OTHERS = "part of the"
# Those of a few that left the word before nearest to its length at 180 cuts in 90 sentences, and
# begin as what follows does: a plosive closes the mouth before its time.
_BY_LETTER: Mapping[str, str] = {
    "a": "at the", "b": "by the", "c": "could be", "d": "due to the", "e": "every",
    "f": "from the", "g": "given the", "h": "here in the", "i": "in the", "j": "just in the",
    "k": "known in the", "l": "like the", "m": "more of the", "n": "near the", "o": "on the",
    "q": "quite a", "r": "right in the", "s": "still in the", "t": "to the", "u": "until the",
    "v": "very much in the", "w": "with the", "y": "you can",
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
