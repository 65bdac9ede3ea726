"""Word errors: what was heard otherwise than it was said, in words or Chinese characters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_WORD = re.compile(r"[\u3400-\u9fff]|[^\W_\u3400-\u9fff]+")
_APOSTROPHES = re.compile("['\u2019]")


@dataclass(frozen=True, slots=True)
class WordErrors:
    """How many words had to be substituted, inserted or deleted, of how many that were said."""

    wrong: int
    said: int

    @property
    def rate(self) -> float | None:
        """Wrong by said; None where nothing was said. May exceed 1."""
        return self.wrong / self.said if self.said else None


def count_errors(pairs: Iterable[tuple[str, str]]) -> WordErrors:
    """Errors over all pairs of (what was said, what was heard), counted together."""
    wrong = said = 0
    for wanted, heard in pairs:
        wrong += edits(words(heard), words(wanted))
        said += len(words(wanted))
    return WordErrors(wrong, said)


def words(text: str) -> list[str]:
    """Words without case, punctuation, width and apostrophes, which nobody hears; a Chinese
    character is a word."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return _WORD.findall(_APOSTROPHES.sub("", plain))


def edits(one: Sequence[str], other: Sequence[str]) -> int:
    """Fewest words to substitute, insert or delete (Levenshtein 1966)."""
    return edits_to_prefixes(one, other)[-1]


def edits_to_prefixes(one: Sequence[str], other: Sequence[str]) -> list[int]:
    """Edits from `one` to each prefix of `other`, the empty one first."""
    row = list(range(len(other) + 1))
    for i, word in enumerate(one, 1):
        diagonal, row[0] = row[0], i
        for j, wanted in enumerate(other, 1):
            diagonal, row[j] = (
                row[j],
                min(row[j] + 1, row[j - 1] + 1, diagonal + (word != wanted)),
            )
    return row
