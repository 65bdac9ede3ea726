"""The words of a text by which it is found. Pure.

Words of an alphabet count by their stem, without those that every question has. Where writing has
no spaces, each two neighbouring characters count as one: that finds words without a dictionary.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from functools import lru_cache
from itertools import pairwise

import snowballstemmer
from bm25s.stopwords import STOPWORDS_EN_PLUS

_UNSPACED = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_PART = re.compile(rf"[{_UNSPACED}]+|[^\W_{_UNSPACED}]+")
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


def terms(text: str) -> list[str]:
    """In order, as often as they stand there."""
    found: list[str] = []
    for part in _PART.findall(unicodedata.normalize("NFKC", text).casefold()):
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
