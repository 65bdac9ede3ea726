"""Words that are neither read aloud nor answered, in whatever form they are written.

A list cannot know what is meant, and whoever wants to can write around it: it keeps what is
plainly not to be said from being said. The lists that ship are short; an operator adds his own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from gateway.room.choosing.cleaning import folded, letters_joined, with_digits_as_letters
from visavis.serving.errors import InvalidInputError

MOST_WORDS = 5000
LONGEST_WORD = 60
_LISTS = ("words_en.txt", "words_zh.txt")
_LATIN = re.compile(r"[a-z' ]+\*?")
# Letters that stand alone, three or more with one sign between each: f u c k, f.u.c.k
_SPELT = re.compile(r"(?<![a-z0-9])[a-z0-9](?:[^a-z0-9\n][a-z0-9]){2,}(?![a-z0-9])")
_SIGN_WITHIN = re.compile(r"(?<=[a-z])[*_.\-'~+]+(?=[a-z])")
_RUN = re.compile(r"(.)\1*")
_BETWEEN = r"[\W_]{0,3}"


class WordList:
    """Finds blocked words in what viewers write, in their names and in answers. Unchanging.

    words: entries as the files that ship explain them.
    """

    def __init__(self, words: Iterable[str]) -> None:
        """Raises InvalidInputError where an entry is too long, or there are too many."""
        kept = sorted({entry for word in words if (entry := folded(word).strip())})
        if len(kept) > MOST_WORDS:
            raise InvalidInputError(f"blocked_words: {len(kept)}, at most {MOST_WORDS} are allowed")
        if long := next((word for word in kept if len(word) > LONGEST_WORD), ""):
            raise InvalidInputError(f"blocked_words: {long[:20]!r}… is too long to be a word")
        allowed = [word[1:] for word in kept if word.startswith("!")]
        self._allowed = _pattern(map(re.escape, allowed), "(?<![a-z])(?:{})(?![a-z])")
        kept = [word for word in kept if not word.startswith("!")]
        latin = [word for word in kept if _LATIN.fullmatch(word)]
        others = [squashed for word in kept if word not in latin if (squashed := _squashed(word))]
        self._latin = _pattern(map(_latin_pattern, latin), "(?<![a-z])(?:{})")
        # Where words are spelt, nobody sees where one begins: "a f o o l".
        spelt = (word.removesuffix("*").replace(" ", "") for word in latin)
        self._spelt = _pattern((_RUN.sub(_or_oftener, word) for word in spelt), "{}")
        self._others = _pattern(map(re.escape, others), "{}")

    def find(self, text: str) -> str:
        """The first blocked word in a text, as far as it is told; "": there is none."""
        plain = folded(text)
        if self._allowed is not None:
            plain = self._allowed.sub(" ", plain)
        found = self._others.search(_squashed(plain)) if self._others is not None else None
        if found is None and self._latin is not None and self._spelt is not None:
            forms = _forms(plain)
            found = next(filter(None, map(self._latin.search, forms)), None)
            found = found or next(filter(None, map(self._spelt.search, _spelt(forms))), None)
        return "" if found is None else found[0]


@cache
def shipped_words() -> tuple[str, ...]:
    """The entries of the lists that ship, English and Mandarin."""
    here = Path(__file__).parent
    return tuple(word for name in _LISTS for word in read_words(here / name))


def read_words(file: Path) -> list[str]:
    """The entries of a file: one a line, `#` begins a remark. Raises InvalidInputError."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"room_words: {file} cannot be read: {error}") from error
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return [line for line in lines if line]


def _forms(plain: str) -> set[str]:
    """A folded text as it stands, and as it reads with what hides words undone."""
    forms = {plain, letters_joined(plain)}
    forms |= {with_digits_as_letters(form) for form in forms}
    return forms | {_SIGN_WITHIN.sub("", form) for form in forms}


def _spelt(forms: Iterable[str]) -> list[str]:
    """What is spelt letter by letter, the letters together."""
    return [spelt[::2] for form in forms for spelt in _SPELT.findall(form)]


def _squashed(plain: str) -> str:
    """Letters and digits alone, so that signs between them hide nothing."""
    return "".join(c for c in plain if c.isalnum())


def _latin_pattern(entry: str) -> str:
    words = (_RUN.sub(_or_oftener, word) for word in entry.removesuffix("*").split())
    return _BETWEEN.join(words) + ("" if entry.endswith("*") else "(?![a-z])")


def _or_oftener(run: re.Match[str]) -> str:
    """A letter as often as it stands there, or oftener."""
    return f"{run[1]}{{{len(run[0])},}}"


def _pattern(parts: Iterable[str], frame: str) -> re.Pattern[str] | None:
    joined = "|".join(parts)
    return re.compile(frame.format(joined)) if joined else None
