"""16 bits on a machine that computes in 32, with every rounding and overflow in place.

ONNX Runtime has few 16-bit kernels for CPUs. It computes in 32 bits instead and takes out the casts
between two such nodes, so that what overflows on a GPU comes out right there. Casts that stand in
the graph itself it leaves alone.
"""

from __future__ import annotations

import onnx
from onnx import TensorProto, helper

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
