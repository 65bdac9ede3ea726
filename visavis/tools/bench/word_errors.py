"""Word error rate: what a recogniser got wrong, as a share of what was said."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# ------------------------------------------------------------ edit distance
# How far two sequences of words are apart.


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


# ------------------------------------------------------------ word errors
# How many words of a text were heard wrong: substitutions, insertions, deletions.

_WORD = re.compile(r"[\u3400-\u9fff]|[^\W_]+(?:'[^\W_]+)*")


def words(text: str) -> list[str]:
    """Words without case, punctuation and width; a Chinese character is a word."""
    plain = unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'")
    return _WORD.findall(plain)


def word_error_rate(heard: str, said: str) -> float | None:
    """Edits by words said; None where nothing was said. May exceed 1."""
    wanted = words(said)
    return edits(words(heard), wanted) / len(wanted) if wanted else None


# ------------------------------------------------------------ word errors


@dataclass(frozen=True)
class ErrorCount:
    """Errors in words, or in characters where a language writes no spaces."""

    errors: int
    words: int

    @property
    def percent(self) -> float:
        return 100.0 * self.errors / self.words if self.words else 0.0


def count_errors(pairs: Iterable[tuple[str, str]]) -> ErrorCount:
    """Errors over all pairs of (what was said, what was heard), counted together."""
    errors = words = 0
    for said, heard in pairs:
        wanted, got = words_of(said), words_of(heard)
        errors += edits(wanted, got)
        words += len(wanted)
    return ErrorCount(errors, words)


def words_of(text: str) -> list[str]:
    """Words in lower case without punctuation; each Chinese character is one."""
    words, current = [], ""
    for character in unicodedata.normalize("NFKC", text).lower():
        if "\u3400" <= character <= "\u9fff":
            words += [current, character]
            current = ""
        elif character.isalnum():
            current += character
        elif character not in "'\u2019":  # don't is one word
            words.append(current)
            current = ""
    return [word for word in [*words, current] if word]
