"""How many words of a text were heard wrong: substitutions, insertions, deletions."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_WORD = re.compile(r"[\u3400-\u9fff]|[^\W_]+(?:'[^\W_]+)*")


def words(text: str) -> list[str]:
    """Words without case, punctuation and width; a Chinese character is a word."""
    plain = unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'")
    return _WORD.findall(plain)


def edits(heard: Sequence[str], said: Sequence[str]) -> int:
    """Fewest words to substitute, insert or delete (Levenshtein 1966)."""
    return edits_to_prefixes(heard, said)[-1]


def edits_to_prefixes(heard: Sequence[str], said: Sequence[str]) -> list[int]:
    """Edits from `heard` to each prefix of `said`, the empty one first."""
    row = list(range(len(said) + 1))
    for i, word in enumerate(heard, 1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(said, 1):
            diagonal, row[j] = (
                row[j],
                min(row[j] + 1, row[j - 1] + 1, diagonal + (word != other)),
            )
    return row


def word_error_rate(heard: str, said: str) -> float | None:
    """Edits by words said; None where nothing was said. May exceed 1."""
    wanted = words(said)
    return edits(words(heard), wanted) / len(wanted) if wanted else None
