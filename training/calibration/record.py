"""Record the real inputs that INT8 plans are calibrated and judged on.

    python -m training.calibration.record

Says sentences with the product's own voices, hears the recordings of tests/clips, and keeps what
the networks are given in visavis/bundles/compile/precision/sets, small and in the form that they
take it.
Needs the voices' bundles.
"""

from __future__ import annotations

import argparse
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import soxr
from numpy.typing import NDArray

from services.asr.hearing.detectors import TurnDetector
from services.face.lips.audio_to_face import CONTEXT_FRAMES, LOOK_AHEAD_FRAMES, SILENCE_LOG
from services.tts.synthesizer import Synthesizer
from services.tts.voices.opening import open_synthesizer
from training.audio_to_face.corpus import LANGUAGES, Example, example_of, spoken
from training.audio_to_face.sentences import HELD_OUT, training_sentences
from visavis.bundles.compile.precision.calibration import SETS
from visavis.bundles.store import bundle_path
from visavis.engine import Engine, Tensors, TensorSpec, open_engine
from visavis.engine.rows import alone

_RATE_HZ = 16_000
_SEED = 5
_CALIBRATION_SENTENCES = 8
_TURN_SENTENCES = 6
_TEST_SENTENCES = 10
# Log-mel features are kept this fine: 1/64 of a natural logarithm.
_STEPS = 64.0
_CLIPS = Path("tests/clips")


class _Tap(Engine):
    """An engine that keeps the inputs that are given to another one."""

    backend = "tap"

    def __init__(self, inner: Engine) -> None:
        super().__init__(inner.model, device=inner.device, threads=inner.threads)
        self._inner = inner
        self.seen: list[Tensors] = []

    def _load(self) -> tuple[dict[str, TensorSpec], dict[str, TensorSpec]]:
        return dict(self._inner.inputs), dict(self._inner.outputs)

    def _infer(self, inputs: Tensors) -> dict[str, NDArray[Any]]:
        self.seen.append(dict(inputs))
        return self._inner.infer(inputs)

    def _close(self) -> None:
        self._inner.close()


def _texts(language: str) -> list[str]:
    return list(training_sentences(language, _CALIBRATION_SENTENCES, _SEED))


def _symbols(synthesizer: Synthesizer) -> dict[str, dict[str, NDArray[Any]]]:
    """Phoneme ids of the calibration sentences, as the voices' first networks take them."""
    found = {}
    for language, name in (("en", "english_voice"), ("zh", "mandarin_voice")):
        voice: Any = synthesizer._voices[language]
        engine = "_engine" if language == "en" else "_encoder"
        with _Tap(getattr(voice, engine)) as tap:
            setattr(voice, engine, tap)
            for text in _texts(language):
                list(alone(voice.speak(text)))
            setattr(voice, engine, tap._inner)
            found[name] = {
                f"ids_{number}": np.asarray(seen["ids"], np.int16)
                for number, seen in enumerate(tap.seen)
            }
            tap._close = lambda: None  # type: ignore[method-assign]
    return found


def _rounded(features: NDArray[np.float32]) -> NDArray[np.float16]:
    return np.asarray(np.rint(features * _STEPS) / _STEPS, np.float16)


def _faces(synthesizer: Synthesizer) -> dict[str, dict[str, NDArray[Any]]]:
    """Mel of whole sentences, and of sentences kept aside together with their visemes."""
    calibration = {}
    test = {}
    for language in LANGUAGES:
        for number, text in enumerate(_texts(language)):
            example = example_of(spoken(synthesizer, text, language, 1.0))
            calibration[f"{language}_{number}"] = _rounded(_surrounded(example))
        for number, text in enumerate(HELD_OUT[language][:_TEST_SENTENCES]):
            example = example_of(spoken(synthesizer, text, language, 1.0))
            test[f"{language}_{number}"] = _rounded(_surrounded(example))
            test[f"{language}_{number}_visemes"] = example.visemes.astype(np.int8)
    return {"audio_to_face": calibration, "audio_to_face_test": test}


def _surrounded(example: Example) -> NDArray[np.float32]:
    silence = np.full((CONTEXT_FRAMES, example.features.shape[1]), SILENCE_LOG, np.float32)
    before, after = silence[LOOK_AHEAD_FRAMES:], silence[:LOOK_AHEAD_FRAMES]
    return np.concatenate([before, example.features, after])


def _turns(synthesizer: Synthesizer) -> dict[str, dict[str, NDArray[Any]]]:
    """The turn detector's windows: whole sentences, and the same cut off in the middle."""
    found: dict[str, dict[str, NDArray[Any]]] = {}
    with (
        open_engine(bundle_path("smart-turn") / "smart-turn.onnx") as engine,
        _Tap(engine) as tap,
    ):
        detector = TurnDetector(tap)
        for name in ("smart_turn", "smart_turn_test"):
            tap.seen.clear()
            for pcm in _utterances(synthesizer, name.endswith("test")):
                detector.probability(pcm)
                detector.probability(pcm[: int(0.6 * len(pcm))])
            found[name] = {
                f"window_{number}": _rounded(np.asarray(seen["input_features"])[0])
                for number, seen in enumerate(tap.seen)
            }
        tap._close = lambda: None  # type: ignore[method-assign]
    return found


def _utterances(synthesizer: Synthesizer, test: bool) -> Iterator[NDArray[np.float32]]:
    for language in LANGUAGES:
        texts = HELD_OUT[language] if test else _texts(language)
        for text in texts[:_TURN_SENTENCES]:
            utterance = spoken(synthesizer, text, language, 1.0)
            yield np.asarray(
                soxr.resample(utterance.pcm, utterance.sample_rate_hz, _RATE_HZ), np.float32
            )
    for path in () if test else sorted(_CLIPS.rglob("*.wav")):
        with wave.open(str(path)) as file:
            pcm = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32)
            yield np.asarray(soxr.resample(pcm / 32768.0, file.getframerate(), _RATE_HZ))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=SETS)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    with open_synthesizer() as synthesizer:
        recorded = {**_symbols(synthesizer), **_faces(synthesizer), **_turns(synthesizer)}
    for name, arrays in recorded.items():
        np.savez_compressed(options.output / f"{name}.npz", **arrays)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
