"""The passages that a question asks for, by BM25, and none where nothing fits. Pure.

BM25 (Robertson and Zaragoza, 2009) says which passage fits best, and not whether it fits at all:
its scores mean nothing by themselves. So a passage also has to hold a good part of what the
question asks with, each word weighed by how rare it is; a word that no text has weighs as much as
the rarest.
"""

from __future__ import annotations

import math
import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import bm25s
import numpy as np
import snowballstemmer
from bm25s.stopwords import STOPWORDS_EN_PLUS

from gateway.knowledge.passages import Passage

MOST = 3
"""Passages for one question."""
COVERED = 0.38
"""Share of the question's weight that a passage has to hold."""
_NEAR_BEST = 0.5
"""Of the best passage's score, what another one has to have."""
_LOOKED_AT = 10
_FEW_TERMS = 2
"""A question of fewer leans on the one before it."""

_UNSPACED = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
# To `re` no part of a word: points of Hebrew and Arabic, mostly left out, and up to Thai, which is
# written without blanks, vowels of Hindi, Tamil and the like.
_SIGNS = "".join(
    c for c in map(chr, range(0x300, 0xE00)) if unicodedata.category(c) in ("Mn", "Mc")
)
_POINTS = dict.fromkeys(ord(c) for c in _SIGNS if "\u0590" < c < "\u0700")
_PART = re.compile(rf"[{_UNSPACED}]+|(?:[^\W_{_UNSPACED}][{_SIGNS}]*)+")
# What a question is asked with, beside what the list has. Only English: what is a mere particle in
# one language is a car in another, and what is common in the texts weighs little anyway.
_ASKING = frozenset(
    "also anything could get give let like many may maybe might much ok okay please shall "
    "something tell thank thanks there us want well would yes".split()
)
_STOPWORDS = _ASKING.union(STOPWORDS_EN_PLUS)
_HAN_ASKING = re.compile(
    "请问|告诉我|告诉|什么时候|什么|怎么样|怎么|怎样|多少|为什么|哪里|哪儿|哪些|哪个|可以|能不能|能否|是不是|有没有|"
    "我们|你们|他们|我想|知道|一下|谢谢|还有|需要|这个|那个|这里|那里|如何|是否|[的了吗呢吧啊呀是在有和与我你您他她它们这那哪个请几]"
)
_stemmer = snowballstemmer.stemmer("english")
_stemming = threading.Lock()
"""The stemmer keeps the word that it is at."""


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


def terms(text: str) -> list[str]:
    """The words of a text by which it is found, in order, as often as they stand there.

    Words of an alphabet count by their stem, without those that every question has. Where writing
    has no spaces, each two neighbouring characters count as one: that finds words without a
    dictionary.
    """
    found: list[str] = []
    plain = unicodedata.normalize("NFKC", text).casefold().translate(_POINTS)
    for part in _PART.findall(plain):
        if "\u3040" <= part[0] <= "\ud7af" and not part[0].isascii():
            for run in _HAN_ASKING.split(part):
                found += [run] if len(run) == 1 else map("".join, pairwise(run))
        elif part not in _STOPWORDS and (len(part) > 1 or part.isdigit()):
            found.append(_stem(part))
    return found


@lru_cache(maxsize=20_000)
def _stem(word: str) -> str:
    with _stemming:
        return str(_stemmer.stemWord(word))
