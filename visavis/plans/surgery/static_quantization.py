"""Quantised weights and rounded activations (Q/DQ) back to floats.

Other quantisers give biases 32-bit DequantizeLinear nodes and zero points, which TensorRT does not
parse; INT8 is made anew from the float graph, in the form that it takes.
"""

from __future__ import annotations

import numpy as np
import onnx
from numpy.typing import NDArray

from visavis.errors import PlanError
from visavis.plans.surgery.editing import GraphEditor, expect

# They only move numbers, so it is the same whether they are dequantised before or after.
_MOVERS = ("Gather", "Transpose", "Reshape", "Identity")


def fold_static_quantization(model: onnx.ModelProto) -> onnx.ModelProto:
    """Weights become float constants; activations are no longer rounded.

    Raises PlanError where a DequantizeLinear takes neither a weight nor a QuantizeLinear's output.
    """
    editor = GraphEditor(model)
    nodes = [node for node in editor.nodes if node.op_type == "DequantizeLinear"]
    expect(bool(nodes), "DequantizeLinear")
    for node in nodes:
        maker = editor.maker(node.input[0])
        if editor.constant(node.input[0]) is not None:
            weight = editor.add_weight(f"{node.output[0]}_float", _dequantised(editor, node))
            editor.read_instead(node.output[0], weight)
        elif maker is not None and maker.op_type == "QuantizeLinear":
            editor.read_instead(node.output[0], maker.input[0])
        elif maker is not None and maker.op_type in _MOVERS:
            _dequantise_before(editor, node, maker)
        else:
            raise PlanError(f"{node.name} dequantises what is neither weight nor activation")
    return editor.finish()


def _dequantised(editor: GraphEditor, node: onnx.NodeProto) -> NDArray[np.float32]:
    values = editor.constant(node.input[0])
    scale = editor.constant(node.input[1])
    if values is None or scale is None:
        raise PlanError(f"{node.name} has a scale that is no constant")
    axis = next((a.i for a in node.attribute if a.name == "axis"), 1)
    by_channel = [-1 if place == axis else 1 for place in range(values.ndim)]
    centred = values.astype(np.float32)
    zero = editor.constant(node.input[2]) if len(node.input) > 2 else None
    if zero is not None:
        centred -= zero.astype(np.float32).reshape(by_channel if zero.size > 1 else ())
    steps = scale.astype(np.float32).reshape(by_channel if scale.size > 1 else ())
    return np.asarray(centred * steps, np.float32)


def _dequantise_before(editor: GraphEditor, node: onnx.NodeProto, mover: onnx.NodeProto) -> None:
    """weight -> Gather -> DequantizeLinear becomes float weight -> Gather."""
    values, scale = editor.constant(mover.input[0]), editor.constant(node.input[1])
    zero = editor.constant(node.input[2]) if len(node.input) > 2 else np.zeros((), np.int32)
    if values is None or scale is None or zero is None or scale.size != 1 or zero.size != 1:
        raise PlanError(f"{node.name} dequantises more than a moved weight of one scale")
    centred = values.astype(np.float32) - zero.astype(np.float32).reshape(())
    folded = np.asarray(centred * scale.astype(np.float32).reshape(()), np.float32)
    weight = editor.add_weight(f"{mover.input[0]}_float", folded)
    attributes = list(mover.attribute)
    editor.replace(node, mover.op_type, [weight, *mover.input[1:]])
    node.attribute.extend(attributes)
    node.name = mover.name
