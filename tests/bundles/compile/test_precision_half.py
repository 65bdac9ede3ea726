"""FP16 by casts: what is computed in 16 bits, what stays in 32, and that it still computes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from tests.bundles.compile.graph_runs import model_of
from visavis.bundles.compile.precision import to_fp16
from visavis.bundles.compile.precision.calibration import run_float
from visavis.serving.errors import PlanError
from visavis.tools.precision.gates import with_rounding

F32, F16 = TensorProto.FLOAT, TensorProto.FLOAT16


def small(nodes: list[onnx.NodeProto], weights: Mapping[str, NDArray[Any]]) -> onnx.ModelProto:
    """x [2, 4] -> y [2, 4]"""
    return model_of(nodes, {"x": [2, 4]}, {"y": [2, 4]}, weights)


def weight(*shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


def types_in(model: onnx.ModelProto) -> dict[str, int]:
    """Node name -> element type of its first output."""
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph
    kinds = {v.name: v.type.tensor_type.elem_type for v in (*inferred.value_info, *inferred.output)}
    return {node.name: kinds[node.output[0]] for node in inferred.node}


def attention() -> onnx.ModelProto:
    """MatMul -> Add -> Softmax -> MatMul: heavy, follower, sensitive, heavy."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="first"),
        helper.make_node("Add", ["a", "b"], ["c"], name="bias"),
        helper.make_node("Softmax", ["c"], ["d"], name="softmax"),
        helper.make_node("MatMul", ["d", "w"], ["y"], name="second"),
    ]
    return small(nodes, {"w": weight(4, 4), "b": weight(4)})


def test_products_are_halved_and_softmax_inputs_outputs_and_the_given_model_are_not() -> None:
    model = attention()
    before = model.SerializeToString()
    half = to_fp16(model)
    assert model.SerializeToString() == before
    types = types_in(half)
    assert (types["first"], types["bias"], types["second"]) == (F16, F16, F16)
    assert types["softmax"] == F32
    kinds = [v.type.tensor_type.elem_type for v in (*half.graph.input, *half.graph.output)]
    assert kinds == [F32, F32]
    x = {"x": weight(2, 4)}
    wanted, got = (next(run_float(graph, [x]))["y"] for graph in (model, half))
    assert 0 < np.abs(wanted - got).max() < 5e-3


def test_a_node_follows_its_finest_input() -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="product"),
        helper.make_node("ReduceMean", ["a"], ["m"], name="mean", axes=[1]),
        helper.make_node("Sub", ["a", "m"], ["c"], name="centred"),
        helper.make_node("Mul", ["c", "s"], ["d"], name="scaled"),
        helper.make_node("MatMul", ["d", "w"], ["y"], name="next"),
    ]
    types = types_in(to_fp16(small(nodes, {"w": weight(4, 4), "s": weight(4)})))
    assert [types[name] for name in ("centred", "scaled")] == [F32, F32]
    assert types["next"] == F16


@pytest.mark.parametrize("value", [-1e9, 1e-12, np.inf])
def test_constants_that_16_bits_cannot_hold_stay(value: float) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="product"),
        helper.make_node("Add", ["a", "b"], ["y"], name="mask"),
    ]
    weights = {"w": weight(4, 4), "b": np.array([0, value, 0, 0], np.float32)}
    half = to_fp16(small(nodes, weights))
    assert types_in(half)["mask"] == F32
    (out,) = run_float(half, [{"x": weight(2, 4)}])
    assert out["y"][0, 1] == pytest.approx(value, abs=10, rel=1e-3)


def test_globs_keep_nodes_in_32_bits_and_one_that_matches_nothing_is_a_mistake() -> None:
    types = types_in(to_fp16(attention(), ["sec*"]))
    assert (types["first"], types["second"]) == (F16, F32)
    with pytest.raises(PlanError, match="keep_fp32: '/old/name/\\*'"):
        to_fp16(attention(), ["/old/name/*"])


def test_a_graph_with_branches_is_refused() -> None:
    branch = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["z"])],
        "b",
        [],
        [helper.make_tensor_value_info("z", F32, [2, 4])],
    )
    node = helper.make_node("If", ["f"], ["y"], name="step", then_branch=branch, else_branch=branch)
    model = small([node], {"f": np.array(True)})
    with pytest.raises(PlanError, match=r"step .*contains a graph"):
        to_fp16(model)


def test_types_that_do_not_agree_are_told() -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")]
    with pytest.raises(PlanError, match="do not agree"):
        to_fp16(small(nodes, {"w": weight(3, 3)}))


def test_what_overflows_in_16_bits_overflows_on_the_cpu_too() -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="large"),
        helper.make_node("Mul", ["a", "s"], ["b"], name="small"),
        helper.make_node("MatMul", ["b", "w"], ["y"], name="last"),
    ]
    weights = {"w": np.eye(4, dtype=np.float32) * 100, "s": np.full(4, 1e-3, np.float32)}
    half = with_rounding(to_fp16(small(nodes, weights)))
    inputs = [{"x": np.full((2, 4), size, np.float32)} for size in (1.0, 1000.0)]
    fine, overflown = (out["y"] for out in run_float(half, inputs))
    assert fine == pytest.approx(10.0, rel=2e-3)
    assert not np.isfinite(overflown).any()
