"""Whisper's decoder for its first step, when nothing is cached yet.

With an empty cache the `past_*` inputs have length 0. TensorRT's profiles begin at 1, so the first
step gets a graph of its own, without them.
"""

from __future__ import annotations

import numpy as np
import onnx

from visavis.plans.surgery.editing import GraphEditor, expect

_PAST = "past_"


def drop_empty_cache(model: onnx.ModelProto) -> onnx.ModelProto:
    """The decoder without its `past_*` inputs, as it computes when they are empty.

    What was joined to the cache stands alone; a length read off the cache is 0.
    """
    editor = GraphEditor(model)
    past = {given.name for given in model.graph.input if given.name.startswith(_PAST)}
    expect(bool(past), f"{_PAST}* input")
    zero = editor.add_weight("no_cache", np.zeros(1, np.int64))
    for name in sorted(past):
        for reader in editor.readers(name):
            if reader.op_type == "Concat":
                (new,) = [tensor for tensor in reader.input if tensor != name]
                editor.replace(reader, "Identity", [new])
            else:
                _take_length_as(editor, reader, zero)
    editor.set_inputs(given for given in list(model.graph.input) if given.name not in past)
    return editor.finish()


def _take_length_as(editor: GraphEditor, shape: onnx.NodeProto, length: str) -> None:
    slices = editor.readers(shape.output[0])
    expect(
        shape.op_type == "Shape" and all(node.op_type == "Slice" for node in slices),
        "cache that is only joined and measured",
    )
    for node in slices:
        editor.replace(node, "Identity", [length])
