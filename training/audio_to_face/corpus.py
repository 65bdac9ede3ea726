"""Spoken sentences with a mouth shape for every hundredth of a second.

The voices are the product's own, so the durations of their phonemes are known exactly and the
network learns the lips that the product shows where it knows the durations.

    python -m training.audio_to_face.corpus --output corpus.npz
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soxr
from numpy.typing import NDArray

from services.face.lips.audio_to_face import (
    HOP_SAMPLES,
    N_MELS,
    SAMPLE_RATE_HZ,
    SILENCE_LOG,
    log_mel,
    output_times_s,
)
from services.face.lips.visemes import (
    LIP_COEFFICIENTS,
    close_gaps,
    frame_visemes,
    lip_coefficients,
    segments,
)
from services.tts.synthesizer import Synthesizer
from services.tts.voices.opening import open_synthesizer
from training.audio_to_face.sentences import HELD_OUT, training_sentences
from visavis.wire.media import PhonemeSpan

NETWORK_COEFFICIENTS = LIP_COEFFICIENTS[:5]
LANGUAGES = ("en", "zh")
PAUSE_FRAMES = 40
TRAINING_SPEEDS = (1.0, 0.85, 1.1, 1.0, 1.25, 0.95)


@dataclass(frozen=True)
class Utterance:
    """One spoken sentence. pcm: [N] float32 in -1..1; the spans count its samples."""

    pcm: NDArray[np.float32]
    sample_rate_hz: int
    spans: Sequence[PhonemeSpan]


@dataclass(frozen=True)
class Example:
    """features: [T, 40] float32, visemes: [T] int64, coefficients: [T, 5] float32."""

    features: NDArray[np.float32]
    visemes: NDArray[np.int64]
    coefficients: NDArray[np.float32]


def spoken(synthesizer: Synthesizer, text: str, language: str, speed: float) -> Utterance:
    """`text` as the product says it."""
    pieces = list(synthesizer.speak(text, language=language, speed=speed))
    voice = [piece.voice for piece in pieces] or [np.zeros(0, np.int16)]
    spans = [span for piece in pieces for span in piece.phonemes]
    pcm = np.concatenate(voice).astype(np.float32) / 32768.0
    return Utterance(pcm, synthesizer.sample_rate_hz, spans)


def example_of(utterance: Utterance) -> Example:
    """Features of the sound, and what the mouth does in the middle of each window."""
    pcm = utterance.pcm
    if utterance.sample_rate_hz != SAMPLE_RATE_HZ:
        pcm = soxr.resample(pcm, utterance.sample_rate_hz, SAMPLE_RATE_HZ)
    features = log_mel(np.asarray(pcm, np.float32))
    times = output_times_s(0, len(features))
    shapes = close_gaps(segments(utterance.spans, utterance.sample_rate_hz))
    lips = lip_coefficients(shapes, times, frame_s=HOP_SAMPLES / SAMPLE_RATE_HZ)
    return Example(features, frame_visemes(shapes, times), lips[:, : len(NETWORK_COEFFICIENTS)])


def examples(
    synthesizer: Synthesizer, texts: Iterable[str], language: str, speeds: Sequence[float] = (1.0,)
) -> Iterator[Example]:
    """One example per text; the speeds are taken in turn. What is too short is left out."""
    for index, text in enumerate(texts):
        utterance = spoken(synthesizer, text, language, speeds[index % len(speeds)])
        if len(utterance.pcm) >= utterance.sample_rate_hz // 2:
            yield example_of(utterance)


def training_examples(
    synthesizer: Synthesizer, language: str, count: int, seed: int
) -> Iterator[Example]:
    texts = training_sentences(language, count, seed)
    return examples(synthesizer, texts, language, TRAINING_SPEEDS)


def held_out_examples(synthesizer: Synthesizer, language: str) -> Iterator[Example]:
    return examples(synthesizer, HELD_OUT[language], language)


def joined(parts: Iterable[Example]) -> Example:
    """All examples behind one another, with silence between them."""
    width = len(NETWORK_COEFFICIENTS)
    features, visemes, coefficients = [], [], []
    for part in parts:
        features += [np.full((PAUSE_FRAMES, N_MELS), SILENCE_LOG, np.float32), part.features]
        visemes += [np.zeros(PAUSE_FRAMES, np.int64), part.visemes]
        coefficients += [np.zeros((PAUSE_FRAMES, width), np.float32), part.coefficients]
    return Example(np.concatenate(features), np.concatenate(visemes), np.concatenate(coefficients))


def save(corpus: Example, path: Path) -> None:
    np.savez_compressed(
        path,
        features=corpus.features,
        visemes=corpus.visemes.astype(np.int8),
        coefficients=corpus.coefficients.astype(np.float16),
    )


def load(path: Path) -> Example:
    with np.load(path) as arrays:
        return Example(
            arrays["features"],
            arrays["visemes"].astype(np.int64),
            arrays["coefficients"].astype(np.float32),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=int, default=1500, help="per language")
    parser.add_argument("--languages", nargs="+", default=LANGUAGES, choices=LANGUAGES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("corpus.npz"))
    options = parser.parse_args()
    with open_synthesizer() as synthesizer:
        parts = [
            example
            for language in options.languages
            for example in training_examples(synthesizer, language, options.sentences, options.seed)
        ]
    save(joined(parts), options.output)


if __name__ == "__main__":
    main()
