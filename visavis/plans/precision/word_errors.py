"""Word error rate: what a recogniser got wrong, as a share of what was said."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from visavis.edit_distance import edits


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
