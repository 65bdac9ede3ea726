"""Real inputs by which the ranges of INT8 activations are found, run through ONNX Runtime.

Sound and sentences were recorded once (`training/calibration`) and lie in sets/: phoneme ids of
sentences, log-mel of speech. What a network further on is given is computed from them with the
bundle's own networks in 32 bits, and so fits the weights that are there.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from visavis.bundles.compile.float_graphs import float_graph
from visavis.bundles.store import recipes_of
from visavis.bundles.store.recipe import PlanRecipe
from visavis.engine import open_engine
from visavis.serving.errors import PlanError

Tensors = dict[str, NDArray[Any]]


def run_float(model: onnx.ModelProto, inputs: Iterable[Tensors]) -> Iterator[Tensors]:
    """Outputs of `model` for each of `inputs`, by name, with the shapes and dtypes of the graph.

    Raises EngineError where it does not run.
    """
    with tempfile.TemporaryDirectory(prefix="visavis-graph-") as folder:
        path = Path(folder) / "graph.onnx"
        onnx.save(model, path)
        with open_engine(path) as engine:
            for tensors in inputs:
                wanted = {name: value for name, value in tensors.items() if name in engine.inputs}
                yield engine.infer(wanted)


SETS = Path(__file__).parent / "sets"


_PIECE_FRAMES = 112
"""Of the mel that the Mandarin vocoder is given at once: 64 and 24 to each side."""
_LONGEST_FRAMES = 400


def calibration_for(bundle_dir: Path, recipe: PlanRecipe) -> Iterator[Tensors]:
    """Inputs of the graph of `recipe`, one after the other, with the shapes and dtypes of the
    graph.

    Raises PlanError if the recipe names no known set, or a set is not installed.
    """
    if recipe.calibration not in _CALIBRATIONS:
        raise PlanError(
            f"plan {recipe.name} is calibrated on {recipe.calibration!r}; "
            f"there are {', '.join(_CALIBRATIONS)}"
        )
    return _CALIBRATIONS[recipe.calibration](bundle_dir)


def recorded(name: str) -> dict[str, NDArray[Any]]:
    """The arrays of sets/`name`.npz, with the shapes and dtypes of their graph.

    Raises PlanError if it is not there.
    """
    path = SETS / f"{name}.npz"
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {key: arrays[key] for key in arrays.files}
    except (OSError, ValueError) as error:
        raise PlanError(f"the calibration set {path} cannot be read: {error}") from error


def _english_voice(bundle_dir: Path) -> Iterator[Tensors]:
    """ids -> states of every phoneme -> repeated by their durations."""
    text = _plan_graph("hibari-en", bundle_dir, "text")
    sentences = [ids.astype(np.int64) for ids in recorded("english_voice").values()]
    speed = np.ones(1, np.float32)
    for out in run_float(text, ({"ids": ids, "speed": speed} for ids in sentences)):
        durations = out["durations"][0]
        states = {
            name: np.repeat(out[name], durations, axis=2)
            for name in ("text_states", "prosody_states")
        }
        yield {**states, "mask": np.ones((1, 1, int(durations.sum())), np.float32)}


def _mandarin_decoder(bundle_dir: Path) -> Iterator[Tensors]:
    """ids -> hidden states -> repeated by their durations."""
    sentences = [ids.astype(np.int64) for ids in recorded("mandarin_voice").values()]
    encoder = onnx.load(bundle_dir / "encoder.onnx")
    for out in run_float(encoder, ({"ids": ids} for ids in sentences)):
        durations = np.rint(out["durations"][0]).astype(np.int64)
        hidden = np.repeat(out["hidden"], durations, axis=1)[:, :_LONGEST_FRAMES]
        yield {"hidden": hidden, "mask": np.ones(hidden.shape[:2], np.float32)}


def _mandarin_vocoder(bundle_dir: Path) -> Iterator[Tensors]:
    """The decoder's mel, one piece of each sentence."""
    decoder = onnx.load(bundle_dir / "decoder.onnx")
    for number, out in enumerate(run_float(decoder, _mandarin_decoder(bundle_dir))):
        mel = out["mel"]
        # Beginnings, middles and ends in turn: they do not sound alike.
        room = max(0, mel.shape[1] - _PIECE_FRAMES)
        start = room * (number % 3) // 2
        yield {"mel": mel[:, start : start + _PIECE_FRAMES]}


def _audio_to_face(_: Path) -> Iterator[Tensors]:
    for mel in recorded("audio_to_face").values():
        yield {"mel": mel[None].astype(np.float32)}


def _smart_turn(_: Path) -> Iterator[Tensors]:
    for window in recorded("smart_turn").values():
        yield {"input_features": window[None].astype(np.float32)}


def _plan_graph(bundle: str, bundle_dir: Path, plan: str) -> onnx.ModelProto:
    (recipe,) = [recipe for recipe in recipes_of(bundle) if recipe.name == plan]
    return float_graph(bundle_dir, recipe)


_CALIBRATIONS: dict[str, Callable[[Path], Iterator[Tensors]]] = {
    "audio_to_face": _audio_to_face,
    "english_voice": _english_voice,
    "mandarin_decoder": _mandarin_decoder,
    "mandarin_vocoder": _mandarin_vocoder,
    "smart_turn": _smart_turn,
}
