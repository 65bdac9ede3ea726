"""Fits the word model of the end of a turn: whole sentences against their beginnings.

    python -m training.turn_taking.finished_words --sentences cmn.txt

The file has pairs of English and Mandarin sentences, tab between them, one pair a line: Tatoeba's
(CC BY 2.0 FR), as manythings.org/anki hands them out. A tenth of the sentences is held out, and
what the model makes of it is printed; the weights that are written are of that same run. What the
benchmarks say (tests/turns, the question set) is left out.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.asr.turns.finished_words import (
    N_BUCKETS,
    WEIGHTS_PATH,
    WordModel,
    buckets_of,
)
from services.asr.turns.languages import words_of
from training.inputs import inputs_of, verify
from training.turn_taking.logistic import area_under_curve, log_loss, sigmoid
from visavis.serving.errors import InvalidInputError
from visavis.tools.bench.questions import BACKCHANNELS, ENGLISH, INTERRUPTIONS, MANDARIN
from visavis.tools.bench.turns import LABELS

LANGUAGES = ("en", "zh")
_LABELS = Path(__file__).parents[2] / "tests" / "turns" / LABELS
_LONGEST_WORDS = 30
_EPOCHS = 6
_BATCH = 512
_RATE = 0.1
_SHRINK = 1e-5
_LARGEST = 127


@dataclass(frozen=True, slots=True)
class Examples:
    """Beginnings of sentences. buckets: [N, features] int64; finished: [N] 0 or 1; weight: [N]."""

    buckets: NDArray[np.int64]
    finished: NDArray[np.float64]
    weight: NDArray[np.float64]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("--sentences", type=Path, required=True, help="pairs, tab between them")
    options.add_argument("--out", type=Path, default=WEIGHTS_PATH)
    options.add_argument("--any-inputs", action="store_true", help="do not compare digests")
    chosen = options.parse_args()
    if not chosen.any_inputs:
        try:
            verify(inputs_of("finished_words"), files={"cmn.txt": chosen.sentences})
        except InvalidInputError as error:
            sys.exit(f"training: {error}")
    arrays: dict[str, Any] = {}
    for language in LANGUAGES:
        taught, held_out = halves(sentences(chosen.sentences, language))
        model = fitted(examples(taught, language))
        sizes = f"{language}: {len(taught)} sentences, {len(held_out)} held out:"
        print(sizes, told(model, examples(held_out, language)))  # noqa: T201
        arrays[language] = model.weights
        arrays[f"{language}_scale_bias"] = np.array([model.scale, model.bias])
    chosen.out.parent.mkdir(exist_ok=True)
    np.savez_compressed(chosen.out, **arrays)


def sentences(path: Path, language: str) -> list[str]:
    """Each once, in an order that does not depend on the file's."""
    column = LANGUAGES.index(language)
    lines = path.read_text("utf-8").splitlines()
    found = sorted({line.split("\t")[column].strip() for line in lines if "\t" in line})
    measured = {tuple(words_of(text, language)) for text in measured_texts()}
    kept = [text for text in found if tuple(words_of(text, language)) not in measured]
    random.Random(1).shuffle(kept)
    return kept


def measured_texts() -> Iterator[str]:
    """What the benchmarks have said: nothing may be fitted to it."""
    yield from (*ENGLISH, *MANDARIN, *INTERRUPTIONS, *BACKCHANNELS)
    for line in _LABELS.read_text("utf-8").splitlines():
        yield str(json.loads(line)["text"])


def halves(found: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """What is learnt from, and a tenth that is not."""
    taught = len(found) * 9 // 10
    return found[:taught], found[taught:]


def examples(found: Sequence[str], language: str) -> Examples:
    """Every beginning of every sentence; those that stop short count as one together."""
    buckets, finished, weight = [], [], []
    for sentence in found:
        words = words_of(sentence, language)
        if not 1 <= len(words) <= _LONGEST_WORDS:
            continue
        for end in range(1, len(words) + 1):
            whole = end == len(words)
            buckets.append(buckets_of(words[:end], language))
            finished.append(float(whole))
            weight.append(1.0 if whole else 1 / (len(words) - 1))
    return Examples(np.array(buckets), np.array(finished), np.array(weight))


def fitted(taught: Examples) -> WordModel:
    """By AdaGrad (Duchi et al. 2011), rounded to eight bits."""
    weights, squares, bias = np.zeros(N_BUCKETS), np.full(N_BUCKETS, 1e-6), 0.0
    random_order = np.random.default_rng(0)
    width = taught.buckets.shape[1]
    for _ in range(_EPOCHS):
        order = random_order.permutation(len(taught.finished))
        for first in range(0, len(order), _BATCH):
            batch = order[first : first + _BATCH]
            rows = taught.buckets[batch]
            guessed = sigmoid(weights[rows].sum(axis=1) + bias)
            error = (guessed - taught.finished[batch]) * taught.weight[batch]
            gradient = np.bincount(rows.ravel(), np.repeat(error, width), N_BUCKETS) / len(batch)
            gradient += _SHRINK * weights
            squares += gradient**2
            weights -= _RATE * gradient / np.sqrt(squares)
            bias -= _RATE * float(error.mean())
    scale = float(np.abs(weights).max()) / _LARGEST
    return WordModel(np.round(weights / scale).astype(np.int8), scale, bias)


def told(model: WordModel, held_out: Examples) -> str:
    """Figures on what the model has not seen."""
    odds = model.weights[held_out.buckets].sum(axis=1, dtype=np.int64) * model.scale + model.bias
    area = area_under_curve(held_out.finished, odds)
    loss = log_loss(held_out.finished, sigmoid(odds), held_out.weight)
    return f"area under the curve {area:.3f}, log loss {loss:.3f}"


if __name__ == "__main__":
    main()
