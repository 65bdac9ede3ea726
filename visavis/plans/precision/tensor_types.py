"""Which tensors of a graph hold 32-bit floats."""

from __future__ import annotations

import onnx
from onnx import TensorProto, numpy_helper

from visavis.errors import PlanError


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
