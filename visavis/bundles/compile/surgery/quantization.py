"""Quantised products and weights back to floats; INT8 for TensorRT is made anew from those.

Three habits of quantisers, none of which TensorRT parses: weights that a graph unpacks itself,
products on integers that are quantised while running, weights and activations rounded by Q/DQ.
"""

from __future__ import annotations

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator

from visavis.bundles.compile.surgery.editing import GraphEditor, expect
from visavis.serving.errors import PlanError

# Quantisers that know no integer convolution keep its weight in 8 bits and write `Cast -> Mul ->
# Add` behind it. TensorRT takes such a constant for a quantised tensor and misses its
# DequantizeLinear.
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
    return editor.finished_model()


# `DynamicQuantizeLinear -> MatMulInteger -> Cast -> Mul` computes (x W) with x rounded to 8 bits by
# its own range. TensorRT takes none of these operators. The weights are put back on their own scale
# and the activations are no longer rounded at all, so the result differs from the quantised graph's
# by that graph's rounding, and is nearer to the network that was quantised.


_FLOAT_OPERATORS = {"MatMulInteger": "MatMul", "ConvInteger": "Conv"}


def fold_dynamic_quantization(model: onnx.ModelProto) -> onnx.ModelProto:
    """MatMulInteger and ConvInteger become MatMul and Conv; the nodes around them go.

    Raises PlanError where one of them is fed or read in another way than quantisers write.
    """
    editor = GraphEditor(model)
    products = [node for node in editor.nodes if node.op_type in _FLOAT_OPERATORS]
    expect(bool(products), "product on integers")
    for product in products:
        _fold(editor, product)
    return editor.finished_model()


def _fold(editor: GraphEditor, product: onnx.NodeProto) -> None:
    quantised = editor.maker(product.input[0])
    if quantised is None or quantised.op_type != "DynamicQuantizeLinear":
        raise PlanError(f"{product.name} takes what no DynamicQuantizeLinear makes")
    scaled, scale = _rescaling(editor, product, quantised.output[1])
    values = editor.constant(product.input[1])
    if values is None:
        raise PlanError(f"{product.name} multiplies with what is no weight")
    zero = editor.constant(product.input[3]) if len(product.input) > 3 else None
    weight = _dequantised_weight(values, scale, zero, by_row=product.op_type == "ConvInteger")
    name = editor.add_weight(f"{product.input[1]}_float", weight)
    kept = list(product.attribute)
    editor.replace(scaled, _FLOAT_OPERATORS[product.op_type], [quantised.input[0], name])
    scaled.attribute.extend(kept)
    scaled.name = product.name.removesuffix("_quant")


def _rescaling(
    editor: GraphEditor, product: onnx.NodeProto, activation_scale: str
) -> tuple[onnx.NodeProto, NDArray[np.float32]]:
    """The Mul that brings the product of integers back to its scale, and the weight's scale."""
    casts = editor.readers(product.output[0])
    scaled = editor.readers(casts[0].output[0]) if len(casts) == 1 else []
    if len(scaled) == 1 and scaled[0].op_type == "Mul":
        for factor in scaled[0].input:
            maker = editor.maker(factor)
            if maker is not None and activation_scale in maker.input and maker.op_type == "Mul":
                (other,) = [name for name in maker.input if name != activation_scale]
                scale = editor.constant(other)
                if scale is not None:
                    return scaled[0], scale.astype(np.float32)
    raise PlanError(f"{product.name} is not followed by Cast and Mul with the scales")


def _dequantised_weight(
    values: NDArray[np.generic],
    scale: NDArray[np.float32],
    zero: NDArray[np.generic] | None,
    *,
    by_row: bool,
) -> NDArray[np.float32]:
    """(values - zero) * scale; scales and zeros are one for all, or one per output channel."""
    shape = (-1, *[1] * (values.ndim - 1)) if by_row else (-1,)
    centred = values.astype(np.float32)
    if zero is not None:
        centred -= zero.astype(np.float32).reshape(shape if zero.size > 1 else ())
    folded = centred * scale.reshape(shape if scale.size > 1 else ())
    return np.asarray(folded, np.float32)


# Q/DQ: other quantisers give biases 32-bit DequantizeLinear nodes and zero points, which TensorRT
# does not parse; INT8 is made anew from the float graph, in the form that it takes.

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
    return editor.finished_model()


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
