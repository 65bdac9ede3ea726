"""Products on integers that are quantised while running, back to products on floats.

`DynamicQuantizeLinear -> MatMulInteger -> Cast -> Mul` computes (x W) with x rounded to 8 bits by
its own range. TensorRT takes none of these operators. The weights are put back on their own scale
and the activations are no longer rounded at all, so the result differs from the quantised graph's
by that graph's rounding, and is nearer to the network that was quantised.
"""

from __future__ import annotations

import numpy as np
import onnx
from numpy.typing import NDArray

from visavis.errors import PlanError
from visavis.plans.surgery.editing import GraphEditor, expect

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
    return editor.finish()


def _fold(editor: GraphEditor, product: onnx.NodeProto) -> None:
    quantised = editor.maker(product.input[0])
    if quantised is None or quantised.op_type != "DynamicQuantizeLinear":
        raise PlanError(f"{product.name} takes what no DynamicQuantizeLinear makes")
    scaled, scale = _rescaling(editor, product, quantised.output[1])
    values = editor.constant(product.input[1])
    if values is None:
        raise PlanError(f"{product.name} multiplies with what is no weight")
    zero = editor.constant(product.input[3]) if len(product.input) > 3 else None
    weight = _dequantised(values, scale, zero, by_row=product.op_type == "ConvInteger")
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


def _dequantised(
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
