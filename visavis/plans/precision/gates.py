"""The quality gates: every lower precision of a bundle measured against 32 bits.

Recognisers and voices are run as the services they are, with the plans' graphs put together again
and loaded instead of the bundle's own; the networks of the face and of turn-taking are judged by
their outputs, which is the same. All on ONNX Runtime, on the CPU.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from visavis.errors import PlanError
from visavis.models import bundle_path
from visavis.plans.findings import Finding
from visavis.plans.graphs import graph_for
from visavis.plans.precision.assembled import assembled
from visavis.plans.precision.calibration import recorded
from visavis.plans.precision.mel_cepstrum import distortion_db
from visavis.plans.precision.rounding import with_rounding
from visavis.plans.precision.running import run_float
from visavis.plans.precision.spoken import Speech, hear, recordings, say, sentences
from visavis.plans.precision.variant_bundle import variant_model_dir
from visavis.plans.precision.word_errors import count_errors
from visavis.plans.recipe import PlanRecipe, Precision, recipes_of

WORD_ERRORS_POINTS = 0.2
DISTORTION_DB = 0.8
VISEMES_POINTS = 0.5
TURNS_POINTS = 0.5

_VOICE_SENTENCES = 8
Graphs = dict[str, onnx.ModelProto]
Tell = Callable[[str], None]


class Gates:
    """Measures the bundles of one model folder; the speech it needs is made once.

    `clips`: a folder of people's recordings, see `recordings`; None where there are none.
    `tell` is called with what is being done.
    """

    def __init__(self, model_dir: Path | None, clips: Path | None, tell: Tell) -> None:
        self._model_dir = model_dir
        self._clips = clips
        self._tell = tell
        self._speech: dict[str, list[Speech]] = {}

    def measure(self, bundle: str, precisions: tuple[Precision, ...]) -> Iterator[Finding]:
        """Every gate of `bundle` in those of `precisions` that it offers.

        Raises ModelStoreError if it is not pulled, PlanError if it has no gate.
        """
        recipes = recipes_of(bundle)
        for start, measure in _MEASURES.items():
            if bundle.startswith(start):
                yield from measure(self, _Bundle(bundle, self._model_dir, recipes), precisions)
                return
        raise PlanError(f"there is no quality gate for {bundle}")

    def speech(self, language: str) -> list[Speech]:
        """Sentences by our own voice, and people's recordings."""
        if language not in self._speech:
            self._tell(f"saying sentences ({language})")
            said = say(sentences(language), language, self._model_dir)
            heard = recordings(self._clips, language) if self._clips is not None else []
            self._speech[language] = [*heard, *said]
        return self._speech[language]

    def tell(self, what: str) -> None:
        self._tell(what)


class _Bundle:
    """The graphs of one bundle; those in 32 bits are made once."""

    def __init__(self, name: str, model_dir: Path | None, recipes: list[PlanRecipe]) -> None:
        self.name = name
        self.folder = bundle_path(name, model_dir)
        self.recipes = recipes
        self._float: Graphs = {}

    def float_graphs(self) -> Graphs:
        if not self._float:
            self._float = {r.name: graph_for(self.folder, r, "fp32") for r in self.recipes}
        return dict(self._float)

    def lowered(self, precision: Precision) -> Graphs:
        """Graphs of the plans that are made in `precision`."""
        return {
            r.name: graph_for(self.folder, r, precision)
            for r in self.recipes
            if precision in r.precisions
        }

    def files(self, changed: Graphs) -> AbstractContextManager[Path]:
        """Model folder in which this bundle computes as `changed` says, else in 32 bits."""
        rounded = {name: with_rounding(graph) for name, graph in changed.items()}
        files = assembled(self.name, self.float_graphs() | rounded)
        return variant_model_dir(self.folder, files)


def _recogniser(
    gates: Gates, bundle: _Bundle, precisions: tuple[Precision, ...]
) -> Iterator[Finding]:
    language = "zh" if bundle.name.startswith("whisper") else "en"
    profile = "better" if bundle.name == "moonshine-base-en" else "tiny"
    speech = gates.speech(language)
    said = [spoken.text for spoken in speech]
    people = sum(1 for spoken in speech if spoken.text not in sentences(language))
    reference = None
    for precision, changed in _steps(gates, bundle, precisions, together=True):
        if reference is None:
            with bundle.files({}) as folder:
                reference = count_errors(zip(said, hear(speech, profile, folder), strict=True))
        with bundle.files(changed) as folder:
            count = count_errors(zip(said, hear(speech, profile, folder), strict=True))
        kind = "character" if language == "zh" else "word"
        yield Finding(
            bundle=bundle.name,
            precision=precision,
            graphs=_digests(changed),
            measure=f"{kind} error rate, %",
            sample=f"{len(speech) - people} sentences of our voice, {people} recordings, "
            f"{count.words} {kind}s",
            reference=reference.percent,
            value=count.percent,
            limit=WORD_ERRORS_POINTS,
        )


def _voice(gates: Gates, bundle: _Bundle, precisions: tuple[Precision, ...]) -> Iterator[Finding]:
    language = "zh" if bundle.name.endswith("zh") else "en"
    texts = sentences(language, _VOICE_SENTENCES)
    reference: list[Speech] = []
    for precision, changed in _steps(gates, bundle, precisions, together=False):
        if not reference:
            with bundle.files({}) as folder:
                reference = say(texts, language, folder)
        with bundle.files(changed) as folder:
            spoken = say(texts, language, folder)
        apart = [_distortion(a, b) for a, b in zip(reference, spoken, strict=True)]
        yield Finding(
            bundle=bundle.name,
            precision=precision,
            graphs=_digests(changed),
            measure="mel-cepstral distortion, dB",
            sample=f"{len(texts)} sentences, {_seconds(reference):.0f} s",
            value=float(np.mean(apart)),
            limit=DISTORTION_DB,
        )


def _face(gates: Gates, bundle: _Bundle, precisions: tuple[Precision, ...]) -> Iterator[Finding]:
    arrays = recorded("audio_to_face_test")
    names = [name for name in arrays if not name.endswith("_visemes")]
    inputs = [{"mel": arrays[name][None].astype(np.float32)} for name in names]
    labels = np.concatenate([arrays[f"{name}_visemes"] for name in names])

    def wrong_percent(graph: onnx.ModelProto) -> float:
        guessed = [out["visemes"][0].argmax(axis=1) for out in run_float(graph, inputs)]
        return float(100 * np.mean(np.concatenate(guessed) != labels))

    yield from _by_output(
        gates,
        bundle,
        precisions,
        measure="visemes wrong, %",
        sample=f"{len(names)} sentences kept aside, {len(labels)} frames",
        score=wrong_percent,
        limit=VISEMES_POINTS,
    )


def _turns(gates: Gates, bundle: _Bundle, precisions: tuple[Precision, ...]) -> Iterator[Finding]:
    windows = recorded("smart_turn_test").values()
    inputs = [{"input_features": window[None].astype(np.float32)} for window in windows]

    def over(graph: onnx.ModelProto) -> NDArray[np.bool_]:
        return np.array([out["logits"].ravel()[0] > 0.5 for out in run_float(graph, inputs)])

    decided = over(bundle.float_graphs()["detector"])
    yield from _by_output(
        gates,
        bundle,
        precisions,
        measure="turns decided otherwise, %",
        sample=f"{len(inputs)} turns, whole and cut off",
        score=lambda graph: float(100 * np.mean(over(graph) != decided)),
        limit=TURNS_POINTS,
    )


def _by_output(
    gates: Gates,
    bundle: _Bundle,
    precisions: tuple[Precision, ...],
    *,
    measure: str,
    sample: str,
    score: Callable[[onnx.ModelProto], float],
    limit: float,
) -> Iterator[Finding]:
    (whole,) = bundle.float_graphs().values()
    reference = score(whole)
    for precision, changed in _steps(gates, bundle, precisions, together=True):
        (graph,) = changed.values()
        yield Finding(
            bundle=bundle.name,
            precision=precision,
            graphs=_digests(changed),
            measure=measure,
            sample=sample,
            reference=reference,
            value=score(with_rounding(graph)),
            limit=limit,
        )


def _steps(
    gates: Gates, bundle: _Bundle, precisions: tuple[Precision, ...], *, together: bool
) -> Iterator[tuple[Precision, Graphs]]:
    """What is lowered at once: all plans in 16 bits; in 8 bits, where one may be refused and the
    next not, each alone unless `together`."""
    for precision in precisions:
        if precision == "fp32":
            continue
        gates.tell(f"{bundle.name} {precision}")
        lowered = bundle.lowered(precision)
        if together or precision == "fp16":
            parts = [lowered] if lowered else []
        else:
            parts = [{name: graph} for name, graph in lowered.items()]
        for part in parts:
            yield precision, part


def _digests(graphs: Mapping[str, onnx.ModelProto]) -> dict[str, str]:
    return {
        name: hashlib.sha256(graph.SerializeToString(deterministic=True)).hexdigest()
        for name, graph in graphs.items()
    }


def _distortion(reference: Speech, other: Speech) -> float:
    sounds = [np.asarray(s.pcm / np.float32(32768), np.float32) for s in (reference, other)]
    return distortion_db(sounds[0], sounds[1], reference.sample_rate_hz)


def _seconds(speech: list[Speech]) -> float:
    return sum(len(spoken.pcm) / spoken.sample_rate_hz for spoken in speech)


_MEASURES: dict[str, Callable[[Gates, Any, tuple[Precision, ...]], Iterator[Finding]]] = {
    "moonshine": _recogniser,
    "whisper": _recogniser,
    "hibari": _voice,
    "fastspeech2-mbmelgan": _voice,
    "audio-to-face": _face,
    "smart-turn": _turns,
}
