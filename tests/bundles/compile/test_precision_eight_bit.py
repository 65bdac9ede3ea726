"""INT8 as Q/DQ pairs, in the form that TensorRT parses."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.bundles.compile.graph_runs import model_of
from visavis.bundles.compile.precision import calibration_for, to_int8
from visavis.bundles.compile.precision.calibration import Tensors, recorded, run_float
from visavis.bundles.store import recipes_of
from visavis.bundles.store.recipe import PlanRecipe
from visavis.serving.errors import PlanCancelledError, PlanError


def convolutions() -> onnx.ModelProto:
    generator = np.random.default_rng(3)
    weights: Tensors = {
        "w1": generator.normal(size=(8, 4, 3)).astype(np.float32),
        "b1": generator.normal(size=8).astype(np.float32),
        "w2": generator.normal(size=(2, 8, 3)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["a"], name="first", pads=[1, 1]),
        helper.make_node("Relu", ["a"], ["r"], name="relu"),
        helper.make_node("Conv", ["r", "w2"], ["y"], name="second", pads=[1, 1]),
    ]
    return model_of(nodes, {"x": [1, 4, "T"]}, {"y": [1, 2, "T"]}, weights)


def samples() -> list[Tensors]:
    """Of different lengths, as speech is."""
    generator = np.random.default_rng(4)
    return [{"x": generator.normal(size=(1, 4, t)).astype(np.float32)} for t in (40, 25, 60)]


def quantised_weights(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    names = {w.name for w in model.graph.initializer}
    nodes = model.graph.node
    return [n for n in nodes if n.op_type == "QuantizeLinear" and n.input[0] in names]


def test_it_computes_about_the_same() -> None:
    """On every processor: 0.019 of the spread. 0.15 it was where AVX2 without VNNI clips sums of
    products, which the engine sees to (tests/engine/test_engine.py)."""
    wanted = np.concatenate([out["y"].ravel() for out in run_float(convolutions(), samples())])
    int8 = to_int8(convolutions(), samples())
    got = np.concatenate([out["y"].ravel() for out in run_float(int8, samples())])
    error = np.sqrt(np.mean((wanted - got) ** 2)) / wanted.std()
    assert 0 < error < 0.03


def test_everything_is_symmetric_weights_are_per_channel_and_biases_stay_floats(
    capsys: pytest.CaptureFixture[str],
) -> None:
    int8 = to_int8(convolutions(), samples())
    values = {w.name: numpy_helper.to_array(w) for w in int8.graph.initializer}
    pairs = [n for n in int8.graph.node if n.op_type in ("QuantizeLinear", "DequantizeLinear")]
    assert pairs
    for node in pairs:
        assert not np.any(values[node.input[2]])
        assert values[node.input[2]].dtype == np.int8
    assert sorted(values[n.input[1]].size for n in quantised_weights(int8)) == [2, 8]
    (first,) = [node for node in int8.graph.node if node.name == "first"]
    assert values[first.input[2]].dtype == np.float32
    assert capsys.readouterr().out == "", "the quantiser is silent"


def test_nodes_can_be_left_out() -> None:
    assert len(quantised_weights(to_int8(convolutions(), samples(), ["sec*"]))) == 1


@pytest.mark.parametrize(
    ("inputs", "kept", "said"),
    [
        (samples(), ["/gone/*"], r"'/gone/\*'"),
        ([], [], "there are none"),
        ([{"sound": np.zeros((1, 4, 9), np.float32)}], [], "not quantised"),
    ],
    ids=["a glob that matches nothing", "no inputs", "inputs that do not fit"],
)
def test_what_cannot_be_quantised_is_told(
    inputs: list[Tensors], kept: list[str], said: str
) -> None:
    with pytest.raises(PlanError, match=said):
        to_int8(convolutions(), inputs, kept)


@pytest.mark.parametrize("asked_before", [0, 5])
def test_calibration_ends_at_once_when_it_is_cancelled(
    asked_before: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    asked = 0

    def cancelled() -> bool:
        nonlocal asked
        asked += 1
        return asked > asked_before

    with pytest.raises(PlanCancelledError):
        to_int8(convolutions(), samples(), (), cancelled)
    assert asked == asked_before + 1
    assert list(tmp_path.glob("visavis-*")) == []


def int8_recipes() -> list[tuple[str, PlanRecipe]]:
    names = ("audio-to-face", "fastspeech2-mbmelgan-zh", "hibari-en", "smart-turn")
    return [(name, r) for name in names for r in recipes_of(name) if "int8" in r.precisions]


@pytest.mark.parametrize(("name", "recipe"), int8_recipes(), ids=lambda v: getattr(v, "name", v))
def test_every_recipe_is_calibrated_on_inputs_that_its_profile_takes(
    name: str, recipe: PlanRecipe, bundle: Callable[[str], Path]
) -> None:
    inputs = calibration_for(bundle(name), recipe)
    for _ in range(2):
        sample = next(iter(inputs))
        assert recipe.check({key: value.shape for key, value in sample.items()}) == 0
        assert all(np.isfinite(value).all() for value in sample.values())


def test_a_set_that_is_unknown_or_not_there_is_named() -> None:
    recipe = int8_recipes()[0][1].model_copy(update={"calibration": "birdsong"})
    with pytest.raises(PlanError, match="'birdsong'; there are audio_to_face"):
        calibration_for(Path(), recipe)
    with pytest.raises(PlanError, match=r"birdsong\.npz cannot be read"):
        recorded("birdsong")
