"""The passages that a question asks for, by BM25, and none where nothing fits. Pure.

BM25 (Robertson and Zaragoza, 2009) says which passage fits best, and not whether it fits at all:
its scores mean nothing by themselves. So a passage also has to hold a good part of what the
question asks with, each word weighed by how rare it is; a word that no text has weighs as much as
the rarest.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import bm25s
import numpy as np

from gateway.knowledge.passages import Passage
from gateway.knowledge.terms import terms

MOST = 3
"""Passages for one question."""
COVERED = 0.38
"""Share of the question's weight that a passage has to hold."""
_NEAR_BEST = 0.5
"""Of the best passage's score, what another one has to have."""
_LOOKED_AT = 10
_FEW_TERMS = 2
"""A question of fewer leans on the one before it."""


class Search:
    """Finds passages. Made once for a set of them; a search takes about a millisecond."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages = tuple(passages)
        # The file's name and the heading say what it is about.
        words = [
            terms(f"{p.file.rpartition('.')[0]} {p.heading} {p.heading} {p.text}") for p in passages
        ]
        self._terms = [frozenset(of) for of in words]
        holding = Counter(term for of in self._terms for term in of)
        self._weights = {term: self._weight(count) for term, count in holding.items()}
        self._rarest = self._weight(1)
        self._ranking: bm25s.BM25 | None = None
        if holding:
            self._ranking = bm25s.BM25(method="lucene")
            self._ranking.index(words, show_progress=False)

    def find(self, question: str, before: str = "") -> list[Passage]:
        """At most MOST, the best first. before: the question before it."""
        own = frozenset(terms(question))
        if self._ranking is None or not own & self._weights.keys():
            return []
        wanted = own | frozenset(terms(before)) if len(own) < _FEW_TERMS else own
        known = sorted(wanted & self._weights.keys())
        scores = self._ranking.get_scores(known)
        best = np.argsort(-scores, kind="stable")[:_LOOKED_AT]
        fitting = [
            at for at in map(int, best) if own & self._terms[at] and self._covers(at, wanted)
        ]
        if not fitting:
            return []
        least = scores[fitting[0]] * _NEAR_BEST
        return [self.passages[at] for at in fitting[:MOST] if scores[at] >= least]

    def _covers(self, at: int, wanted: frozenset[str]) -> bool:
        weights = {term: self._weights.get(term, self._rarest) for term in wanted}
        held = sum(weight for term, weight in weights.items() if term in self._terms[at])
        return held >= COVERED * sum(weights.values())

    def _weight(self, holding: int) -> float:
        """Of a term, by how many passages hold it: Lucene's inverse document frequency."""
        return math.log(1 + (len(self.passages) - holding + 0.5) / (holding + 0.5))
