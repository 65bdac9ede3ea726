"""The quality gates: every lower precision of a bundle measured against 32 bits."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from visavis.bundles.compile.graphs import graph_for
from visavis.bundles.compile.plans.findings import Finding
from visavis.bundles.compile.precision.calibration import recorded, run_float
from visavis.bundles.store import bundle_path, recipes_of
from visavis.bundles.store.installed import RECORD_NAME, BundleRecord, FileRecord
from visavis.bundles.store.recipe import PlanRecipe, Precision
from visavis.serving.errors import PlanError
from visavis.tools.bench.figures.word_errors import count_errors
from visavis.tools.precision.assembled import assembled
from visavis.tools.precision.mel_cepstrum import distortion_db
from visavis.tools.precision.spoken import Speech, hear, recordings, say, sentences

# ------------------------------------------------------------ 16 bits computed in 32
# ONNX Runtime has few 16-bit kernels for CPUs. It computes in 32 bits instead and takes out the
# casts between two such nodes, so that what overflows on a GPU comes out right there. Casts that
# stand in the graph itself it leaves alone.

_HALF, _FLOAT = TensorProto.FLOAT16, TensorProto.FLOAT


def with_rounding(model: onnx.ModelProto) -> onnx.ModelProto:
    """`model` with every node computing in 32 bits, and each 16-bit tensor rounded to 16.

    A model without 16-bit tensors stays as it is.
    """
    typed = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    graph = typed.graph
    half = {weight.name for weight in graph.initializer if weight.data_type == _HALF}
    for described in (*graph.value_info, *graph.input, *graph.output):
        if described.type.tensor_type.elem_type == _HALF:
            half.add(described.name)
    if not half:
        return model
    nodes: list[onnx.NodeProto] = []
    read: set[str] = set()
    for node in graph.node:
        if node.op_type == "Cast":
            nodes.append(node)
            continue
        for place, name in enumerate(node.input):
            if name in half:
                node.input[place] = f"{name}/read"
                if name not in read:
                    read.add(name)
                    nodes.append(_cast(name, f"{name}/read", _FLOAT))
        nodes.append(node)
        for place, name in enumerate(node.output):
            if name in half:
                node.output[place] = f"{name}/made"
                nodes.append(_cast(f"{name}/made", name, _HALF))
    del graph.node[:], graph.value_info[:]
    graph.node.extend(nodes)
    return typed


def _cast(source: str, name: str, wanted: int) -> onnx.NodeProto:
    return helper.make_node("Cast", [source], [name], name=f"rounding/{name}", to=wanted)


# ------------------------------------------------------------ a bundle with other graphs


@contextmanager
def variant_model_dir(bundle_dir: Path, files: Mapping[str, onnx.ModelProto]) -> Iterator[Path]:
    """Model folder like the one `bundle_dir` lies in, with `files` instead of the bundle's own.

    Everything else is linked. The folder is gone when the context ends.
    """
    with tempfile.TemporaryDirectory(prefix="visavis-variant-") as folder:
        root = Path(folder)
        for other in bundle_dir.parent.iterdir():
            if other != bundle_dir and other.is_dir():
                (root / other.name).symlink_to(other.resolve(), target_is_directory=True)
        variant = root / bundle_dir.name
        variant.mkdir()
        for path in bundle_dir.iterdir():
            if path.name not in files and path.name != RECORD_NAME:
                (variant / path.name).symlink_to(path.resolve())
        for name, model in files.items():
            onnx.save(model, variant / name)
        record = BundleRecord.model_validate_json((bundle_dir / RECORD_NAME).read_bytes())
        (variant / RECORD_NAME).write_text(_adapted(record, variant, files).model_dump_json())
        yield root


def _adapted(record: BundleRecord, folder: Path, changed: Mapping[str, object]) -> BundleRecord:
    """The record with the sizes of the new files.

    Digests stay: they say which release the bundle is, and only `visavis models verify` reads
    the files again.
    """

    def sized(files: dict[str, FileRecord]) -> dict[str, FileRecord]:
        return {
            path: file.model_copy(update={"size_bytes": (folder / path).stat().st_size})
            if path in changed
            else file
            for path, file in files.items()
        }

    return record.model_copy(
        update={"files": sized(record.files), "prepared": sized(record.prepared)}
    )


# ------------------------------------------------------------ the gates
# Recognisers and voices are run as the services they are, with the plans' graphs put together again
# and loaded instead of the bundle's own; the networks of the face and of turn-taking are judged by
# their outputs, which is the same. All on ONNX Runtime, on the CPU.

WORD_ERRORS_POINTS = 0.2
DISTORTION_DB = 0.8
VISEMES_POINTS = 0.5
TURNS_POINTS = 0.5

_VOICE_SENTENCES = 8
_KOKORO_VOICE = "af_heart"
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
            f"{count.said} {kind}s",
            reference=100 * (reference.rate or 0.0),
            value=100 * (count.rate or 0.0),
            limit=WORD_ERRORS_POINTS,
        )


def _voice(gates: Gates, bundle: _Bundle, precisions: tuple[Precision, ...]) -> Iterator[Finding]:
    language = "zh" if bundle.name.endswith("zh") else "en"
    texts = sentences(language, _VOICE_SENTENCES)
    added = f"{bundle.name}:{_KOKORO_VOICE}" if bundle.name.startswith("kokoro") else ""
    reference: list[Speech] = []
    for precision, changed in _steps(gates, bundle, precisions, together=False):
        if not reference:
            with bundle.files({}) as folder:
                reference = say(texts, language, folder, added)
        with bundle.files(changed) as folder:
            spoken = say(texts, language, folder, added)
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
    "kokoro": _voice,
    "fastspeech2-mbmelgan": _voice,
    "audio-to-face": _face,
    "smart-turn": _turns,
}
