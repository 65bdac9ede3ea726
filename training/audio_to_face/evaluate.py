"""How often the audio-to-face network is right on held-out sentences of the product's voices.

    python -m training.audio_to_face.evaluate

Says the sentences with the product's own voices and compares what the network hears with what
their phoneme durations say. Runs on ONNX Runtime alone; needs the voices' bundles.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from services.face.lips.audio_to_face import (
    CONTEXT_FRAMES,
    LOOK_AHEAD_FRAMES,
    LOOK_AHEAD_S,
    N_MELS,
    SILENCE_LOG,
    WEIGHTS,
    AudioToFace,
)
from services.face.lips.phonemes import VISEMES
from services.tts.voices.opening import open_synthesizer
from training.audio_to_face.corpus import (
    LANGUAGES,
    NETWORK_COEFFICIENTS,
    Example,
    held_out_examples,
)
from visavis.engine import open_engine

TARGET = 0.90
VIDEO_FRAME = 4
"""Network frames of 10 ms in a picture of 40 ms."""


@dataclass
class Score:
    """What was right, over all frames (10 ms each) of one language.

    Told beside it, and more lenient: how many pictures (40 ms) show a viseme that the durations
    put somewhere into them.
    """

    confusion: NDArray[np.int64] = field(
        default_factory=lambda: np.zeros((len(VISEMES), len(VISEMES)), np.int64)
    )
    near_borders: int = 0
    pictures: int = 0
    pictures_right: int = 0
    wanted: list[NDArray[np.float32]] = field(default_factory=list)
    given: list[NDArray[np.float32]] = field(default_factory=list)

    def add(self, network: AudioToFace, example: Example) -> None:
        before, after = CONTEXT_FRAMES - LOOK_AHEAD_FRAMES, LOOK_AHEAD_FRAMES
        heard = [np.full((n, N_MELS), SILENCE_LOG, np.float32) for n in (before, after)]
        visemes, coefficients = network.infer(
            np.concatenate([heard[0], example.features, heard[1]])
        )
        for first in range(0, len(visemes) - VIDEO_FRAME + 1, VIDEO_FRAME):
            shown = slice(first, first + VIDEO_FRAME)
            likeliest = visemes[shown].mean(axis=0).argmax()
            self.pictures += 1
            self.pictures_right += int(likeliest in example.visemes[shown])
        guessed = visemes.argmax(axis=1)
        np.add.at(self.confusion, (example.visemes, guessed), 1)
        borders = np.flatnonzero(np.diff(example.visemes)) + 0.5
        away = np.abs(np.arange(len(guessed))[:, None] - borders[None, :]).min(axis=1)
        self.near_borders += int(((guessed != example.visemes) & (away <= 2)).sum())
        self.wanted.append(example.coefficients)
        self.given.append(coefficients)

    @property
    def frames(self) -> int:
        return int(self.confusion.sum())

    @property
    def accuracy(self) -> float:
        return float(np.trace(self.confusion) / self.frames)

    def summary(self) -> dict[str, object]:
        wanted, given = np.concatenate(self.wanted), np.concatenate(self.given)
        error = np.sqrt(np.mean((wanted - given) ** 2, axis=0))
        like = [np.corrcoef(wanted[:, i], given[:, i])[0, 1] for i in range(wanted.shape[1])]
        recall = np.diag(self.confusion) / np.maximum(self.confusion.sum(axis=1), 1)
        return {
            "viseme_frame_accuracy": round(self.accuracy, 4),
            "frames": self.frames,
            "pictures_with_a_viseme_of_theirs": round(self.pictures_right / self.pictures, 4),
            "errors_within_20_ms_of_a_border": round(self.near_borders / self.frames, 4),
            "recall": _rounded(VISEMES, recall),
            "coefficient_rmse": _rounded(NETWORK_COEFFICIENTS, error),
            "coefficient_correlation": _rounded(NETWORK_COEFFICIENTS, like),
        }


def _rounded(names: Iterable[str], values: Iterable[float]) -> dict[str, float]:
    return {name: round(float(value), 3) for name, value in zip(names, values, strict=True)}


def evaluate(weights: Path) -> dict[str, object]:
    """Scores by language. ModelStoreError where the voices are not pulled."""
    scores: dict[str, object] = {"look_ahead_s": LOOK_AHEAD_S, "frame_s": 0.01}
    with open_engine(weights) as engine, open_synthesizer() as synthesizer:
        network = AudioToFace(engine)
        for language in LANGUAGES:
            score = Score()
            for example in held_out_examples(synthesizer, language):
                score.add(network, example)
            scores[language] = score.summary()
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", type=Path, default=WEIGHTS)
    parser.add_argument("--json", type=Path, help="also write the scores to this file")
    options = parser.parse_args()
    scores = evaluate(options.weights)
    table = Table("language", "viseme frame accuracy", "frames", "target", "pictures")
    for language in LANGUAGES:
        score = scores[language]
        assert isinstance(score, dict)
        accuracy = score["viseme_frame_accuracy"]
        reached = "reached" if accuracy >= TARGET else "missed"
        table.add_row(
            language,
            f"{accuracy:.1%}",
            str(score["frames"]),
            f"{TARGET:.0%} {reached}",
            f"{score['pictures_with_a_viseme_of_theirs']:.1%}",
        )
    console = Console()
    console.print(table)
    console.print_json(data=scores)
    if options.json:
        options.json.write_text(json.dumps(scores, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
