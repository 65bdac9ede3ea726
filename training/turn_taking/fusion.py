"""Weighs words, marks and the turn detector against each other, on pauses that `pauses` noted.

    python -m training.turn_taking.fusion pauses.jsonl

Cross-validated: what is fitted is asked about sentences, and voices, that it was not fitted to.
The coefficients printed last are where those of services/asr/turns/completeness.py come from, but
for the constant (finished and broken-off turns are equally many here) and the comma.
"""

from __future__ import annotations

import argparse
import json
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from services.asr.turns.completeness import finished_odds, fused, ruled_odds
from services.asr.turns.finished_words import word_model
from services.asr.turns.languages import words_of
from training.turn_taking.logistic import (
    Vector,
    area_under_curve,
    fit,
    log_loss,
    odds_by,
    sigmoid,
)
from training.turn_taking.pauses import SpokenPause

_FOLDS = 5
Features = Callable[[SpokenPause], list[float]]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("pauses", type=Path)
    lines = options.parse_args().pauses.read_text("utf-8").splitlines()
    noted = [SpokenPause(**json.loads(line)) for line in lines]
    noted = [p for p in noted if p.text.strip()]
    free = [p for p in noted if ruled_odds(p.text, p.language) is None]
    say(f"{len(noted)} pauses with words, {len(free)} that no rule decides")
    label = np.array([float(p.finished) for p in free])
    deployed = [fused(p.end_of_turn, finished_odds(p.text, p.language), p.language) for p in free]
    say("as deployed      " + figures(free, label, np.array(deployed)))
    for name, features in candidates().items():
        say(f"{name:16} " + figures(free, label, cross_validated(free, label, features)))
    columns = np.array([with_marks(p) for p in free])
    known = np.array([0.3 * clamped(p.end_of_turn) for p in free])
    say(f"words, asks (en), asks (zh), comma, zh, constant: {fit(columns, label, known).round(2)}")


def candidates() -> Mapping[str, Features]:
    return {
        "turn detector": lambda p: [clamped(p.end_of_turn)],
        "words": lambda p: [learnt(p)],
        "words, detector": lambda p: [learnt(p), clamped(p.end_of_turn)],
        "words, marks": with_marks,
    }


def cross_validated(free: Sequence[SpokenPause], label: Vector, features: Features) -> Vector:
    """Probability of each pause, by a fit that knows neither its sentence nor its voice."""
    columns = np.array([features(p) for p in free])
    fold = np.array([zlib.crc32(p.sentence.encode()) % _FOLDS for p in free])
    voice = np.array([p.voice for p in free])
    none = np.zeros(len(free))
    guessed = np.zeros(len(free))
    for name in np.unique(voice):
        for number in range(_FOLDS):
            taught = (voice != name) & (fold != number)
            asked = (voice == name) & (fold == number)
            coefficients = fit(columns[taught], label[taught], none[taught])
            guessed[asked] = sigmoid(odds_by(coefficients, columns[asked], none[asked]))
    return guessed


def figures(free: Sequence[SpokenPause], label: Vector, probability: Vector) -> str:
    """Of all, and of each voice."""
    told = [_figures("all", label, probability)]
    voice = np.array([p.voice for p in free])
    for name in np.unique(voice):
        told.append(_figures(name, label[voice == name], probability[voice == name]))
    return "; ".join(told)


def _figures(name: str, label: Vector, probability: Vector) -> str:
    area, loss = area_under_curve(label, probability), log_loss(label, probability)
    return f"{name} {len(label)}: area {area:.3f}, log loss {loss:.3f}"


def learnt(pause: SpokenPause) -> float:
    model = word_model(pause.language)
    assert model is not None
    return model.odds(words_of(pause.text, pause.language), pause.language)


def with_marks(pause: SpokenPause) -> list[float]:
    text, zh = pause.text.strip(), float(pause.language == "zh")
    asks, comma = float(text.endswith(("?", "？"))), float(text.endswith((",", "，", "、")))
    return [learnt(pause), asks * (1 - zh), asks * zh, comma, zh]


def clamped(probability: float) -> float:
    sure = min(0.95, max(0.05, probability))
    return math.log(sure / (1 - sure))


def say(line: str) -> None:
    print(line)  # noqa: T201


if __name__ == "__main__":
    main()
