"""Weights that a graph unpacks itself, unpacked beforehand.

Quantisers that know no integer convolution keep its weight in 8 bits and write `Cast -> Mul -> Add`
behind it. TensorRT takes such a constant for a quantised tensor and misses its DequantizeLinear.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from visavis.plans.surgery.editing import GraphEditor, expect

_OPERATORS = ("Cast", "Mul", "Add", "Sub")


def fold_constant_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Arithmetic on nothing but constants becomes a constant."""
    editor = GraphEditor(model)
    folded = 0
    for node in editor.nodes:
        values = [editor.constant(name) for name in node.input]
        if node.op_type not in _OPERATORS or any(value is None for value in values):
            continue
        inputs = dict(zip(node.input, values, strict=True))
        (result,) = ReferenceEvaluator(node).run(None, inputs)
        weight = editor.add_weight(f"{node.output[0]}_folded", np.asarray(result))
        editor.read_instead(node.output[0], weight)
        folded += 1
    expect(folded > 0, "arithmetic on constants")
    return editor.finish()
