"""FP16 by casts in the graph: TensorRT 11 computes in the types that the ONNX graph declares.

Every operator belongs to one of three kinds, as in mixed-precision training (Micikevicius et al.
2018, arXiv:1710.03740). Products of matrices and convolutions are computed in 16 bits. Sums over
many numbers, exponentials and normalisations stay in 32. All others follow: 16 bits where all
that they read has 16, so that no cast stands where nothing is gained, and 32 where one input is
finer, so that nothing is lost either.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from visavis.bundles.compile.build_progress import Cancelled, stop_if
from visavis.serving.errors import PlanError


def graph_with_types(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of `model` with every node named, constants as weights and all types inferred.

    Raises PlanError for branches and loops, and where the types do not agree.
    """
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    kept = []
    for number, node in enumerate(whole.graph.node):
        node.name = node.name or f"{node.op_type.lower()}_{number}"
        if any(a.type == onnx.AttributeProto.GRAPH for a in node.attribute):
            raise PlanError(f"{node.name} ({node.op_type}) contains a graph; part it first")
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            values = numpy_helper.to_array(node.attribute[0].t)
            whole.graph.initializer.append(numpy_helper.from_array(values, node.output[0]))
        else:
            kept.append(node)
    del whole.graph.node[:]
    whole.graph.node.extend(kept)
    try:
        return onnx.shape_inference.infer_shapes(whole, strict_mode=True)
    except onnx.shape_inference.InferenceError as error:
        raise PlanError(f"the types of the graph do not agree: {error}") from error


def float_tensors(model: onnx.ModelProto) -> frozenset[str]:
    """Names of the 32-bit floats in a graph of `graph_with_types`.

    Raises PlanError where the type of a tensor stays unknown.
    """
    graph = model.graph
    types = {weight.name: weight.data_type for weight in graph.initializer}
    for described in (*graph.value_info, *graph.input, *graph.output):
        types[described.name] = described.type.tensor_type.elem_type
    for node in graph.node:
        for name in node.output:
            if name and types.get(name, TensorProto.UNDEFINED) == TensorProto.UNDEFINED:
                raise PlanError(f"the type of {name} ({node.op_type}) cannot be told")
    return frozenset(name for name, kind in types.items() if kind == TensorProto.FLOAT)


HEAVY = frozenset(
    {"Conv", "ConvTranspose", "Einsum", "GRU", "Gemm", "LSTM", "MatMul", "PRelu", "RNN"}
)
"""Computed in 16 bits."""

SENSITIVE = frozenset(
    {
        *("Softmax", "LogSoftmax", "LayerNormalization", "InstanceNormalization"),
        *("BatchNormalization", "GroupNormalization", "RMSNormalization", "LpNormalization"),
        *("ReduceMean", "ReduceSum", "ReduceL1", "ReduceL2", "ReduceProd", "ReduceSumSquare"),
        *("ReduceLogSum", "ReduceLogSumExp", "GlobalAveragePool", "AveragePool", "CumSum"),
        *("Exp", "Log", "Pow", "Sqrt", "Reciprocal", "Softplus", "Sin", "Cos", "Tan", "Atan"),
        *("Acos", "Asin", "Sinh", "Cosh", "Range", "Round", "Floor", "Ceil", "Mod", "STFT", "DFT"),
        *("Resize", "GridSample", "RandomNormalLike", "RandomUniformLike", "TopK", "ArgMax"),
        *("QuantizeLinear", "DequantizeLinear"),
    }
)
"""Stay in 32 bits: their sums overflow, or their results are too fine."""

_LARGEST = float(np.finfo(np.float16).max)
_SMALLEST = float(np.finfo(np.float16).smallest_subnormal)


def to_fp16(
    model: onnx.ModelProto, keep_fp32: Iterable[str] = (), cancelled: Cancelled | None = None
) -> onnx.ModelProto:
    """A copy of `model` that computes in 16 bits wherever that is safe; see above.

    Inputs and outputs keep their types. `keep_fp32`: globs of node names that stay in 32 bits
    whatever they compute. Raises PlanError for a glob that no node matches, and for a graph
    with branches or loops in it; PlanCancelledError once `cancelled` says so.
    """
    whole = graph_with_types(model)
    globs = tuple(keep_fp32)
    names = [node.name for node in whole.graph.node]
    for glob in globs:
        if not any(fnmatchcase(name, glob) for name in names):
            raise PlanError(f"keep_fp32: {glob!r} is the name of no node in the graph")
    return _HalfGraph(whole, globs).rewritten(cancelled)


class _HalfGraph:
    """One rewriting of one graph, node by node in the order of computation."""

    def __init__(self, model: onnx.ModelProto, keep_fp32: tuple[str, ...]) -> None:
        self._model = model
        self._keep = keep_fp32
        self._floats = float_tensors(model)
        self._weights = {weight.name: weight for weight in model.graph.initializer}
        self._half: set[str] = set()
        self._casts: dict[tuple[str, int], str] = {}
        self._nodes: list[onnx.NodeProto] = []
        self._new_weights: list[onnx.TensorProto] = []

    def rewritten(self, cancelled: Cancelled | None) -> onnx.ModelProto:
        graph = self._model.graph
        outputs = {output.name for output in graph.output}
        for node in graph.node:
            stop_if(cancelled)
            half = self._computes_half(node)
            self._read_as(node, TensorProto.FLOAT16 if half else TensorProto.FLOAT)
            made = [name for name in node.output if name in self._floats] if half else []
            self._nodes.append(node)
            for place, name in enumerate(node.output):
                if name in made and name in outputs:
                    node.output[place] = self._out_of_half(name)
                elif name in made:
                    self._half.add(name)
        return self._finished()

    def _computes_half(self, node: onnx.NodeProto) -> bool:
        inputs = [name for name in node.input if name in self._floats]
        if node.op_type in SENSITIVE or not any(name in self._floats for name in node.output):
            return False
        if any(fnmatchcase(node.name, glob) for glob in self._keep):
            return False
        weights = [self._weights[name] for name in inputs if name in self._weights]
        if not inputs or not all(_fits(numpy_helper.to_array(weight)) for weight in weights):
            return False
        computed = [name for name in inputs if name not in self._weights]
        if node.op_type in HEAVY or (node.op_type == "Gather" and not computed):
            return True
        return bool(computed) and all(name in self._half for name in computed)

    def _read_as(self, node: onnx.NodeProto, wanted: int) -> None:
        """Let `node` read every float as `wanted`, through casts where it is the other."""
        for place, name in enumerate(node.input):
            if name in self._weights and name in self._floats:
                if wanted == TensorProto.FLOAT16:
                    node.input[place] = self._half_weight(name)
            elif name in self._floats and (name in self._half) != (wanted == TensorProto.FLOAT16):
                node.input[place] = self._cast(name, wanted)

    def _half_weight(self, name: str) -> str:
        known = self._casts.get((name, TensorProto.FLOAT16))
        if known is None:
            known = self._casts[name, TensorProto.FLOAT16] = f"{name}_fp16"
            values = numpy_helper.to_array(self._weights[name]).astype(np.float16)
            self._new_weights.append(numpy_helper.from_array(values, known))
        return known

    def _cast(self, name: str, wanted: int) -> str:
        known = self._casts.get((name, wanted))
        if known is None:
            known = f"{name}_{'fp16' if wanted == TensorProto.FLOAT16 else 'fp32'}"
            self._casts[name, wanted] = known
            self._nodes.append(_cast_node(name, known, wanted))
        return known

    def _out_of_half(self, name: str) -> str:
        """An output of the graph: computed under another name, cast to its own."""
        inner = f"{name}_fp16_made"
        self._nodes.append(_cast_node(inner, name, TensorProto.FLOAT))
        return inner

    def _finished(self) -> onnx.ModelProto:
        graph = self._model.graph
        read = {name for node in self._nodes for name in node.input}
        read.update(output.name for output in graph.output)
        kept = [weight for weight in graph.initializer if weight.name in read]
        del graph.node[:], graph.initializer[:], graph.value_info[:]
        graph.node.extend(self._nodes)
        graph.initializer.extend([*kept, *self._new_weights])
        onnx.checker.check_model(self._model)
        return self._model


def _cast_node(source: str, name: str, wanted: int) -> onnx.NodeProto:
    return helper.make_node("Cast", [source], [name], name=f"cast/{name}", to=wanted)


def _fits(values: NDArray[np.float32]) -> bool:
    """Can 16 bits hold `values`? Masks of -1e9 overflow, and an epsilon of 1e-12 becomes 0."""
    sizes = np.abs(values)
    if not sizes.size or not np.isfinite(sizes).all():
        return not sizes.size
    largest = float(sizes.max())
    return largest <= _LARGEST and (largest == 0.0 or largest >= _SMALLEST)
