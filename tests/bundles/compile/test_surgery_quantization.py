"""Quantisation folded back: exact on small graphs, within the rounding on the real ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from services.asr.hearing.detectors import TurnDetector
from tests.bundles.compile.graph_runs import GraphEngine, GraphRun, Tensors, model_of, operators
from tests.bundles.compile.speech import CLIPS, sound
from tests.parity import Parity
from visavis.bundles.compile.surgery.passes import apply_passes
from visavis.serving.errors import PlanError

RNG = np.random.default_rng(7)


def dynamic(
    product: str, weight: NDArray[np.int8], scale: NDArray[np.float32], zero: NDArray[np.int8]
) -> onnx.ModelProto:
    """x -> product with an 8-bit weight, as quantisers write it."""
    rank = weight.ndim
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "step", "shift"]),
        helper.make_node(product, ["q", "w", "shift", "zero"], ["sums"], name="layer_quant"),
        helper.make_node("Cast", ["sums"], ["wide"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Mul", ["step", "scale"], ["scales"]),
        helper.make_node("Mul", ["wide", "scales"], ["y"]),
    ]
    free: list[int | str] = [f"d{axis}" for axis in range(rank)]
    weights: Tensors = {"w": weight, "scale": scale, "zero": zero}
    return model_of(nodes, {"x": free}, {"y": free}, weights)


@pytest.mark.parametrize("by_column", [False, True])
def test_a_product_on_integers_becomes_one_on_floats(by_column: bool) -> None:
    weight = RNG.integers(-127, 127, (6, 4)).astype(np.int8)
    scale = (RNG.random(4 if by_column else ()) + 0.1).astype(np.float32)
    zero = np.array([3, -2, 0, 5] if by_column else 3, np.int8)
    model = dynamic("MatMulInteger", weight, scale, zero)
    before = model.SerializeToString()
    folded = apply_passes(model, ["fold_dynamic_quantization"])
    assert operators(folded) == {"MatMul"}
    assert model.SerializeToString() == before, "what is given stays as it is"
    x = RNG.normal(size=(2, 6)).astype(np.float32)
    expected = x @ ((weight.astype(np.float32) - zero.astype(np.float32)) * scale)
    np.testing.assert_allclose(GraphRun(folded)({"x": x})["y"], expected, rtol=1e-5, atol=1e-5)


def test_a_convolution_on_integers_becomes_one_on_floats() -> None:
    weight = RNG.integers(-127, 127, (4, 2, 3)).astype(np.int8)
    model = dynamic("ConvInteger", weight, np.array(0.02, np.float32), np.array(1, np.int8))
    model.graph.node[1].attribute.append(helper.make_attribute("pads", [1, 1]))
    folded = apply_passes(model, ["fold_dynamic_quantization"])
    assert operators(folded) == {"Conv"}
    x = RNG.normal(size=(1, 2, 9)).astype(np.float32)
    kernel = (weight.astype(np.float32) - 1) * np.float32(0.02)
    padded = np.pad(x[0], ((0, 0), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, 3, axis=1)
    expected = np.einsum("oik,itk->ot", kernel, windows)
    np.testing.assert_allclose(GraphRun(folded)({"x": x})["y"][0], expected, rtol=1e-4, atol=1e-4)


def test_a_product_that_is_read_otherwise_is_refused() -> None:
    model = dynamic(
        "MatMulInteger", np.ones((2, 2), np.int8), np.ones((), np.float32), np.zeros((), np.int8)
    )
    model.graph.node[4].op_type = "Add"
    with pytest.raises(PlanError, match="layer_quant is not followed by Cast and Mul"):
        apply_passes(model, ["fold_dynamic_quantization"])


def test_a_graph_without_integers_is_refused_by_name_of_the_pass() -> None:
    model = model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": ["n"]}, {"y": ["n"]}, {})
    with pytest.raises(PlanError, match=r"fold_dynamic_quantization does not fit: .* no product"):
        apply_passes(model, ["fold_dynamic_quantization"])
    with pytest.raises(PlanError, match="no DequantizeLinear"):
        apply_passes(model, ["fold_static_quantization"])
    with pytest.raises(PlanError, match="no graph pass 'fold_all'; there are "):
        apply_passes(model, ["fold_all"])


def static() -> tuple[onnx.ModelProto, Tensors]:
    """table[indices] of one scale, then a layer with weights by row, rounded activations, and a
    bias of 32 bits."""
    weights: Tensors = {
        "table": RNG.integers(0, 255, (5, 4)).astype(np.uint8),
        "table_scale": np.array(0.03, np.float32),
        "table_zero": np.array(120, np.uint8),
        "w": RNG.integers(-127, 127, (3, 4)).astype(np.int8),
        "w_scale": np.array([0.1, 0.2, 0.05], np.float32),
        "w_zero": np.zeros(3, np.int8),
        "b": RNG.integers(-9000, 9000, 3).astype(np.int32),
        "b_scale": np.array([1e-4, 2e-4, 3e-4], np.float32),
        "b_zero": np.zeros(3, np.int32),
        "x_scale": np.array(0.05, np.float32),
        "x_zero": np.array(128, np.uint8),
        "indices": np.array([4, 0, 2]),
    }
    nodes = [
        helper.make_node("Gather", ["table", "indices"], ["rows_q"], name="rows"),
        helper.make_node("DequantizeLinear", ["rows_q", "table_scale", "table_zero"], ["rows"]),
        helper.make_node("Add", ["rows", "x"], ["sum"]),
        helper.make_node("QuantizeLinear", ["sum", "x_scale", "x_zero"], ["sum_q"]),
        helper.make_node("DequantizeLinear", ["sum_q", "x_scale", "x_zero"], ["rounded"]),
        helper.make_node("DequantizeLinear", ["w", "w_scale", "w_zero"], ["w_f"], axis=0),
        helper.make_node("DequantizeLinear", ["b", "b_scale", "b_zero"], ["b_f"], axis=0),
        helper.make_node("Gemm", ["rounded", "w_f", "b_f"], ["y"], transB=1),
    ]
    return model_of(nodes, {"x": [3, 4]}, {"y": [3, 3]}, weights), weights


def test_quantised_weights_and_activations_become_floats() -> None:
    model, w = static()
    folded = apply_passes(model, ["fold_static_quantization"])
    assert operators(folded) == {"Gather", "Add", "Gemm"}
    x = RNG.normal(size=(3, 4)).astype(np.float32)
    rows = ((w["table"].astype(np.float32) - 120) * np.float32(0.03))[w["indices"]] + x
    kernel = w["w"].astype(np.float32) * w["w_scale"][:, None]
    expected = rows @ kernel.T + w["b"] * w["b_scale"]
    np.testing.assert_allclose(GraphRun(folded)({"x": x})["y"], expected, rtol=1e-4, atol=1e-4)


def test_arithmetic_on_constants_is_done_beforehand() -> None:
    weights: Tensors = {
        "w": np.array([1, 2], np.int8),
        "s": np.array([0.5], np.float32),
        "o": np.array([1], np.float32),
    }
    nodes = [
        helper.make_node("Cast", ["w"], ["wide"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Mul", ["wide", "s"], ["scaled"]),
        helper.make_node("Add", ["scaled", "o"], ["kernel"]),
        helper.make_node("Mul", ["x", "kernel"], ["y"]),
    ]
    folded = apply_passes(
        model_of(nodes, {"x": [2]}, {"y": [2]}, weights), ["fold_constant_weights"]
    )
    assert operators(folded) == {"Mul"}
    (kernel,) = (numpy_helper.to_array(weight) for weight in folded.graph.initializer)
    assert kernel.tolist() == [1.5, 2.0]


def test_smart_turn_decides_as_it_did_wherever_it_was_sure(
    bundle: Callable[[str], Path], parities: list[Parity]
) -> None:
    """Undecided turns move: there the quantised network differs from itself, too, by 0.3, when
    ONNX Runtime's optimisations are off."""
    original = onnx.load(bundle("smart-turn") / "smart-turn.onnx")
    folded = apply_passes(original, ["fold_static_quantization"])
    assert not operators(folded) & {"QuantizeLinear", "DequantizeLinear"}
    before, after = (TurnDetector(GraphEngine(model)) for model in (original, folded))
    sure, error = 0, 0.0
    for name in CLIPS:
        heard = sound(name)[: int(len(sound(name)) * 0.8)]
        was, now = before.probability(heard), after.probability(heard)
        if not 0.05 < was < 0.95:
            sure += 1
            assert abs(was - now) < 0.1, (name, was, now)
            error = max(error, abs(was - now))
    assert sure >= 3
    on, told = f"{sure} turns", "same decisions"
    parities.append(Parity("smart-turn", "fold_static_quantization", on, error, told))
