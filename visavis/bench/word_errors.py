"""How many words of a text were heard wrong: substitutions, insertions, deletions."""

from __future__ import annotations

import re
import unicodedata

from visavis.edit_distance import edits

_WORD = re.compile(r"[\u3400-\u9fff]|[^\W_]+(?:'[^\W_]+)*")


def words(text: str) -> list[str]:
    """Words without case, punctuation and width; a Chinese character is a word."""
    plain = unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'")
    return _WORD.findall(plain)


def word_error_rate(heard: str, said: str) -> float | None:
    """Edits by words said; None where nothing was said. May exceed 1."""
    wanted = words(said)
    return edits(words(heard), wanted) / len(wanted) if wanted else None
