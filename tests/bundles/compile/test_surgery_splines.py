"""The rebuilt spline undoes the spline of the paper, and takes the place of the exported one."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper

from tests.bundles.compile.compiling import rtx
from tests.bundles.compile.graph_runs import GraphEngine, Tensors, model_of, operators
from visavis.bundles.compile.surgery.passes import apply_passes
from visavis.serving.errors import PlanError

BINS, WIDTH, LENGTH = 4, 5, 50
KERNEL = np.random.default_rng(0).normal(size=(3 * BINS - 1, WIDTH, 1)).astype(np.float32) * 3


def exported(outputs: int = 3 * BINS - 1) -> onnx.ModelProto:
    """x [1, 2, T], hidden [1, WIDTH, T] -> y [1, 2, T], joined as an exported flow is; what it
    computes for the picked numbers does not matter, since it is replaced."""
    weights: Tensors = {
        "kernel": KERNEL[:outputs], "shape": np.array([1, 1, outputs, -1]),
        "halves": np.array([1, 1]), "axis": np.array([3]),
    }  # fmt: skip
    nodes = [
        helper.make_node("Split", ["x", "halves"], ["x0", "x1"], axis=1),
        helper.make_node("Conv", ["hidden", "kernel"], ["projected"]),
        helper.make_node("Mul", ["projected", "mask"], ["masked"]),
        helper.make_node("Reshape", ["masked", "shape"], ["reshaped"]),
        helper.make_node("Transpose", ["reshaped"], ["parameters"], perm=[0, 1, 3, 2]),
        helper.make_node("ReduceSum", ["parameters", "axis"], ["summed"], keepdims=0),
        helper.make_node("NonZero", ["summed"], ["places"]),
        helper.make_node("Transpose", ["places"], ["where"], perm=[1, 0]),
        helper.make_node("GatherND", ["x1", "where"], ["picked"]),
        helper.make_node("ScatterND", ["x1", "where", "picked"], ["put"]),
        helper.make_node("Concat", ["x0", "put"], ["y"], axis=1),
    ]
    inputs = {"x": [1, 2, "t"], "hidden": [1, WIDTH, "t"], "mask": [1, 1, "t"]}
    return model_of(nodes, inputs, {"y": [1, 2, "t"]}, weights)


def forward(x: float, parameters: NDArray[np.float64]) -> float:
    """The spline itself (Durkan et al. 2019, eq. 4), bin by bin."""

    def knots(raw: NDArray[np.float64]) -> NDArray[np.float64]:
        shares = np.exp(raw - raw.max())
        shares = 1e-3 + (1 - 1e-3 * BINS) * shares / shares.sum()
        return np.concatenate([[0.0], np.cumsum(shares)]) * 10 - 5

    xs = knots(parameters[:BINS] / np.sqrt(WIDTH))
    ys = knots(parameters[BINS : 2 * BINS] / np.sqrt(WIDTH))
    slopes = np.concatenate([[1.0], 1e-3 + np.log1p(np.exp(parameters[2 * BINS :])), [1.0]])
    k = int(np.clip(np.searchsorted(xs, x, side="right") - 1, 0, BINS - 1))
    s = (ys[k + 1] - ys[k]) / (xs[k + 1] - xs[k])
    t = (x - xs[k]) / (xs[k + 1] - xs[k])
    above = s * t**2 + slopes[k] * t * (1 - t)
    below = s + (slopes[k + 1] + slopes[k] - 2 * s) * t * (1 - t)
    return float(ys[k] + (ys[k + 1] - ys[k]) * above / below)


@pytest.fixture(scope="module")
def rebuilt() -> onnx.ModelProto:
    return apply_passes(exported(), ["vits_splines"])


def test_it_undoes_the_spline(rebuilt: onnx.ModelProto) -> None:
    rng = np.random.default_rng(1)
    hidden = rng.normal(size=(1, WIDTH, LENGTH)).astype(np.float32)
    mask = np.ones((1, 1, LENGTH), np.float32)
    wanted = rng.uniform(-5, 5, LENGTH)
    parameters = (KERNEL[:, :, 0].astype(np.float64) @ hidden[0]).T
    heights = [forward(x, p) for x, p in zip(wanted, parameters, strict=True)]
    x = np.stack([rng.normal(size=LENGTH), heights]).astype(np.float32)[None]
    y = GraphEngine(rebuilt).infer({"x": x, "hidden": hidden, "mask": mask})["y"]
    assert np.array_equal(y[0, 0], x[0, 0])
    assert np.median(np.abs(y[0, 1] - wanted)) < 1e-5
    # Where the spline is nearly flat its inverse is coarse; what it comes from is not.
    again = [forward(x, p) for x, p in zip(y[0, 1], parameters, strict=True)]
    assert np.abs(np.array(again) - heights).max() < 1e-4


def test_beyond_its_range_nothing_changes(rebuilt: onnx.ModelProto) -> None:
    x = np.linspace(-40, 40, 2 * LENGTH, dtype=np.float32).reshape(1, 2, LENGTH)
    x[np.abs(x) <= 5] = 7
    hidden = np.ones((1, WIDTH, LENGTH), np.float32)
    mask = np.ones((1, 1, LENGTH), np.float32)
    y = GraphEngine(rebuilt).infer({"x": x, "hidden": hidden, "mask": mask})["y"]
    assert np.array_equal(x, y)


def test_nothing_is_picked_by_value_any_more(rebuilt: onnx.ModelProto) -> None:
    assert not operators(rebuilt) & {"NonZero", "GatherND", "ScatterND"}
    again = apply_passes(rebuilt, ["vits_splines"])
    assert len(again.graph.node) == len(rebuilt.graph.node)


def test_another_kind_of_spline_is_told() -> None:
    with pytest.raises(PlanError, match="parameters of a spline with linear tails"):
        apply_passes(exported(3 * BINS - 2), ["vits_splines"])


def test_it_compiles_and_the_exported_does_not(rebuilt: onnx.ModelProto) -> None:
    trt = rtx()

    def parses(model: onnx.ModelProto) -> bool:
        logger = trt.Logger(trt.Logger.INTERNAL_ERROR)
        network = trt.Builder(logger).create_network(0)
        return bool(trt.OnnxParser(network, logger).parse(model.SerializeToString()))

    assert parses(rebuilt)
    assert not parses(exported())
