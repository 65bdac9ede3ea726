"""Tiny ONNX graphs and their recipes: right ones, and each kind that the compiler refuses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from visavis.bundles.store.recipe import PlanRecipe, ProfileSpec, ShapeRange

FLOAT = TensorProto.FLOAT


def profile(
    low: Sequence[int],
    usual: Sequence[int],
    high: Sequence[int],
    *,
    name: str = "usual",
    tensor: str = "x",
) -> ProfileSpec:
    """A profile of one tensor; unlike a recipe's it may be nonsense."""
    allowed = ShapeRange.model_construct(min=tuple(low), opt=tuple(usual), max=tuple(high))
    return ProfileSpec.model_construct(name=name, shapes={tensor: allowed})


USUAL = profile((1, 8), (4, 8), (16, 8))


def recipe(*profiles: ProfileSpec, name: str = "net") -> PlanRecipe:
    return PlanRecipe(
        name=name,
        graph="net.onnx",
        precisions=("fp32", "fp16"),
        profiles=profiles or (USUAL,),
    )


def linear(*, weight: float = 1.0, dtype: int = FLOAT, weight_dtype: int | None = None) -> bytes:
    """y = x · w, x: [n, 8], w: [8, 4]."""
    kind = helper.tensor_dtype_to_np_dtype(dtype if weight_dtype is None else weight_dtype)
    matrix: NDArray[np.generic] = np.full((8, 4), weight).astype(kind)
    return _model(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")],
        inputs=[_tensor("x", ["n", 8], dtype)],
        outputs=[_tensor("y", ["n", 4], dtype)],
        weights=[numpy_helper.from_array(matrix, "w")],
    )


def deep(layers: int = 60) -> bytes:
    """A chain of products, long enough for the compiler to report many steps."""
    nodes, weights, last = [], [], "x"
    rng = np.random.default_rng(0)
    for index in range(layers):
        matrix = (0.1 * rng.standard_normal((8, 8))).astype(np.float32)
        weights.append(numpy_helper.from_array(matrix, f"w{index}"))
        nodes.append(helper.make_node("MatMul", [last, f"w{index}"], [f"p{index}"]))
        nodes.append(helper.make_node("Tanh", [f"p{index}"], [f"t{index}"]))
        last = f"t{index}"
    return _model(
        nodes,
        inputs=[_tensor("x", ["n", 8])],
        outputs=[_tensor(last, ["n", 8])],
        weights=weights,
    )


def nonzero() -> bytes:
    """An operator that TensorRT-RTX does not have."""
    return _model(
        [helper.make_node("NonZero", ["x"], ["y"], name="places")],
        inputs=[_tensor("x", ["n", 8])],
        outputs=[_tensor("y", [2, "found"], TensorProto.INT64)],
    )


def branches() -> bytes:
    """An `If` whose branches give tensors of different rank."""
    then = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["a"], name="keep")], "then", [], [_tensor("a", None)]
    )
    otherwise = helper.make_graph(
        [helper.make_node("Flatten", ["x"], ["b0"], axis=0, name="flat"),
         helper.make_node("Squeeze", ["b0"], ["b"], name="line")],
        "otherwise", [], [_tensor("b", None)],
    )  # fmt: skip
    return _model(
        [helper.make_node("If", ["flag"], ["y"], name="branch",
                          then_branch=then, else_branch=otherwise)],
        inputs=[_tensor("x", ["n", 8]), _tensor("flag", [], TensorProto.BOOL)],
        outputs=[_tensor("y", None)],
    )  # fmt: skip


def unknown_operator() -> bytes:
    """An operator that nobody has."""
    return _model(
        [helper.make_node("Frobnicate", ["x"], ["y"], name="mystery")],
        inputs=[_tensor("x", ["n", 8])],
        outputs=[_tensor("y", ["n", 8])],
    )


def shape_input() -> bytes:
    """Its second input says how large the output is."""
    return _model(
        [helper.make_node("Expand", ["x", "size"], ["y"], name="grow")],
        inputs=[_tensor("x", [1, 8]), _tensor("size", [2], TensorProto.INT64)],
        outputs=[_tensor("y", ["a", "b"])],
    )


def _tensor(
    name: str, shape: Sequence[int | str] | None, dtype: int = FLOAT
) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def _model(
    nodes: Sequence[onnx.NodeProto],
    *,
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    weights: Sequence[onnx.TensorProto] = (),
) -> bytes:
    graph = helper.make_graph(list(nodes), "small", list(inputs), list(outputs), list(weights))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return model.SerializeToString()
