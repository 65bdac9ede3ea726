"""How likely a turn ends with these words, learnt from whole sentences and their beginnings.

A logistic regression over hashed word features (Weinberger et al. 2009, "Feature hashing for
large scale multitask learning"); `training/turn_taking/finished_words.py` fits its weights to
sentences of Tatoeba (tatoeba.org, CC BY 2.0 FR).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from services.asr.turns.languages import language_of

WEIGHTS_PATH = Path(__file__).parents[1] / "weights" / "finished_words.npz"
N_BUCKETS = 32_768
# One weight is told in steps of its scale, -127 to 127.
_SUREST = 5.0
_LONGEST_COUNTED = 12
# Nobody waits on what was said long ago, and features need no more.
_WORDS_READ = 40


@dataclass(frozen=True, slots=True)
class WordModel:
    """Weighs the last words of a turn in one language.

    weights: [N_BUCKETS] int8, to be multiplied by `scale`.
    """

    weights: NDArray[np.int8]
    scale: float
    bias: float

    def odds(self, words: Sequence[str], language: str) -> float:
        """Log odds that a turn ends with `words`, from `words_of`; -5 to 5."""
        if not words:
            return 0.0
        buckets = buckets_of(words, language)
        total = int(self.weights[buckets].sum(dtype=np.int64))
        return max(-_SUREST, min(_SUREST, total * self.scale + self.bias))


@cache
def word_model(language: str) -> WordModel | None:
    """None for a language that none was fitted for."""
    with np.load(WEIGHTS_PATH) as kept:
        if language not in kept:
            return None
        scale, bias = kept[f"{language}_scale_bias"].tolist()
        return WordModel(kept[language], scale, bias)


def buckets_of(words: Sequence[str], language: str) -> list[int]:
    """Where the weights of the features of `words` lie; always as many for one language."""
    return [zlib.crc32(feature.encode()) % N_BUCKETS for feature in _features(words, language)]


def _features(words: Sequence[str], language: str) -> list[str]:
    recent = ["<", "<", "<", *words[-_WORDS_READ:]]
    first, second = words[0], words[1] if len(words) > 1 else ""
    before, last = recent[-2:]
    length = min(len(words), _LONGEST_COUNTED)
    return [
        f"last {last}",
        f"last two {before} {last}",
        f"last three {recent[-3]} {before} {last}",
        f"before {before}",
        f"length {length}",
        f"first and last {first} {last}",
        f"first two {first} {second}",
        *language_of(language).features(words, recent, length),
    ]
