"""The whole way to `services/face/weights/audio_to_face.onnx`, from inputs that are verified.

    python -m training.audio_to_face

Says the sentences with the product's own voices, trains, exports, and prints the figures on
held-out sentences. Needs the voices' bundles and PyTorch; README.md in this folder says more.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

from services.face.lips.audio_to_face import WEIGHTS
from services.tts.voices.opening import open_synthesizer
from training.audio_to_face.corpus import TRAINING_SPEEDS, Example, examples, joined
from training.audio_to_face.evaluate import evaluate
from training.audio_to_face.sentences import training_sentences
from training.inputs import inputs_of, verify
from visavis.serving.errors import VisavisError

_MINUTES = 36.0
_SEED = 1


def spoken_corpus(sentences: dict[str, list[str]]) -> Example:
    """All sentences, said by the voice of their language."""
    with open_synthesizer() as synthesizer:
        return joined(
            example
            for language, texts in sentences.items()
            for example in examples(synthesizer, texts, language, TRAINING_SPEEDS)
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--minutes", type=float, default=_MINUTES, help="of processor time")
    parser.add_argument("--output", type=Path, default=WEIGHTS)
    parser.add_argument("--any-inputs", action="store_true", help="do not compare digests")
    parser.add_argument("--verify-only", action="store_true", help="compare digests and end")
    options = parser.parse_args()
    console = Console(highlight=False)
    inputs = inputs_of("audio_to_face")
    sentences = {
        language: training_sentences(language, wanted.count, wanted.seed)
        for language, wanted in inputs.sentences.items()
    }
    try:
        if not options.any_inputs:
            verify(inputs, sentences=sentences)
            console.print("every input is the one that is listed")
        if options.verify_only:
            return
        # Not before: the check itself needs no PyTorch.
        from training.audio_to_face.train import export, fit

        corpus = spoken_corpus(sentences)
        console.print(f"{len(corpus.visemes) / 6000:.1f} minutes of speech")
        export(fit(corpus, options.minutes, _SEED), options.output)
        console.print_json(data=evaluate(options.output))
    except VisavisError as error:
        sys.exit(f"training: {error}")


if __name__ == "__main__":
    main()
