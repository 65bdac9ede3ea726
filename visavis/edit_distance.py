"""How far two sequences of words are apart."""

from __future__ import annotations

from collections.abc import Sequence


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
