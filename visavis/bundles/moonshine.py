"""Moonshine's published graphs, changed: an encoder with masks, and a decoder in two steps.

The encoder was exported for rows of one length. Where a row ends matters to two things only: the
normalisation over all of its time, and the attentions. Its convolutions pad nothing, so that a
frame is made of samples in front of its row's end, and all else looks at one frame.

The merged decoder is one `If` on `use_cache_branch`, which TensorRT does not take: in the first
step the keys and values of the sound are computed, later they are handed back in with the growing
cache of the text. The two branches become two graphs of fixed structure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from visavis.bundles.compile.surgery.editing import GraphEditor, described, expect

_FIRST, _NEXT = "else_branch", "then_branch"
_LENGTHS = "lengths"
_FARTHEST = 1e9
"""Taken off what an attention makes of a frame that it must not see."""


def moonshine_masks(model: onnx.ModelProto) -> onnx.ModelProto:
    """input_values [B, N] and lengths [B, 1] int64, of each row in samples -> last_hidden_state
    [B, T, width]: of each row its own frames, as many as it has alone, and then anything.
    """
    editor = GraphEditor(model)
    convolutions = [node for node in editor.nodes if node.op_type == "Conv"]
    norms = [node for node in editor.nodes if node.op_type == "InstanceNormalization"]
    attentions = [node for node in editor.nodes if node.op_type == "Softmax"]
    expect(len(convolutions) == 3 and len(norms) == 1, "normalisation within three convolutions")
    expect(bool(attentions), "attention")
    _normalise_within(editor, norms[0], convolutions[:1])
    _attend_within(editor, attentions, convolutions)
    # [B, 1] and not [B]: Triton batches no tensor that has a row for each request and nothing else.
    batch = model.graph.input[0].type.tensor_type.shape.dim[0].dim_param
    lengths = described(_LENGTHS, [batch, 1], TensorProto.INT64)
    editor.set_inputs([*model.graph.input, lengths])
    return editor.finished_model()


def _normalise_within(
    editor: GraphEditor, norm: onnx.NodeProto, before: Sequence[onnx.NodeProto]
) -> None:
    """One mean and one variance for all channels and frames of a row, without what stands behind
    its end. before: the convolutions in front of it."""
    flat, shaped = editor.maker(norm.input[0]), editor.readers(norm.output[0])
    expect(
        flat is not None and [flat.op_type, *(n.op_type for n in shaped)] == ["Reshape"] * 2,
        "normalisation of all channels together",
    )
    assert flat is not None
    scale, shift = (editor.constant(name) for name in norm.input[1:])
    kernel = editor.constant(before[-1].input[1])
    expect(
        kernel is not None
        and (scale is not None and scale.tolist() == [1.0])
        and (shift is not None and shift.tolist() == [0.0]),
        "normalisation without a scale of its own",
    )
    assert kernel is not None
    heard = flat.input[0]
    steps = _Steps(editor, "/norm")
    frames = steps.frames(before)
    mask = steps.add("Unsqueeze", steps.within(heard, 2, frames), steps.weight("row", [1]))
    count = steps.add("Cast", frames, to=TensorProto.FLOAT)
    count = steps.add("Mul", count, steps.weight("channels", np.float32(len(kernel))))
    count = steps.add("Unsqueeze", count, steps.weight("row", [1]))
    axes = steps.weight("axes", [1, 2])
    mean = steps.add("Div", steps.add("ReduceSum", steps.add("Mul", heard, mask), axes), count)
    apart = steps.add("Mul", steps.add("Sub", heard, mean), mask)
    spread = steps.add("Div", steps.add("ReduceSum", steps.add("Mul", apart, apart), axes), count)
    (epsilon,) = (a.f for a in norm.attribute if a.name == "epsilon")
    spread = steps.add("Add", spread, steps.weight("epsilon", np.float32(epsilon)))
    normalised = steps.add("Div", apart, steps.add("Sqrt", spread))
    editor.put_before(norm, steps.nodes)
    editor.read_instead(shaped[0].output[0], normalised)


def _attend_within(
    editor: GraphEditor, attentions: Sequence[onnx.NodeProto], before: Sequence[onnx.NodeProto]
) -> None:
    """before: the convolutions in front of them."""
    steps = _Steps(editor, "/attention")
    within = steps.within(attentions[0].input[0], 3, steps.frames(before))
    absent = steps.add("Sub", within, steps.weight("one", np.float32(1)))
    absent = steps.add("Mul", absent, steps.weight("farthest", np.float32(_FARTHEST)))
    absent = steps.add("Unsqueeze", absent, steps.weight("heads", [1, 2]))
    editor.put_before(attentions[0], steps.nodes)
    for softmax in attentions:
        seen = f"{softmax.output[0]}/within"
        added = helper.make_node("Add", [softmax.input[0], absent], [seen], name=seen)
        editor.put_before(softmax, [added])
        softmax.input[0] = seen


class _Steps:
    """Nodes that are to be put into a graph, in the order of computation."""

    def __init__(self, editor: GraphEditor, name: str) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self._editor = editor
        self._name = name

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """The output of one more."""
        name = f"{_LENGTHS}{self._name}/{len(self.nodes)}/{operator}"
        node = helper.make_node(operator, inputs, [name], name=f"/{name}", **attributes)
        self.nodes.append(node)
        return name

    def weight(self, name: str, values: np.float32 | Sequence[int] | int) -> str:
        """Whole numbers are int64."""
        array = np.asarray(values)
        return self._editor.add_weight(f"{_LENGTHS}{self._name}/{name}", array)

    def frames(self, convolutions: Sequence[onnx.NodeProto]) -> str:
        """[B, 1] int64: how many frames convolutions one after the other make of each row."""
        lost, stride = 0, 1
        for node in convolutions:
            told = {a.name: list(a.ints) for a in node.attribute}
            expect(not any(told["pads"]), "convolution without padding")
            (kernel,), (step,) = told["kernel_shape"], told["strides"]
            lost += stride * (kernel - step)
            stride *= step
        whole = self.add("Sub", _LENGTHS, self.weight("lost", lost))
        return self.add("Div", whole, self.weight("stride", stride))

    def within(self, tensor: str, axis: int, frames: str) -> str:
        """[B, F] float32 for the F frames on an axis of `tensor`: 1 where a row has one, else 0."""
        shape = self.add("Shape", tensor)
        last = self.add("Gather", shape, self.weight("axis", axis))
        numbers = self.add("Range", self.weight("zero", 0), last, self.weight("step", 1))
        return self.add("Cast", self.add("Less", numbers, frames), to=TensorProto.FLOAT)


def moonshine_first_step(model: onnx.ModelProto) -> onnx.ModelProto:
    """input_ids [B, N], encoder_hidden_states [B, T, width] -> logits [B, N, V] and every
    `present.*`, those of the sound too. There is no cache to hand in."""
    return _branch(model, _FIRST, lambda name: True)


def moonshine_next_step(model: onnx.ModelProto) -> onnx.ModelProto:
    """input_ids [B, N] after P cached ones, and `past_key_values.*` of text [B, heads, P, width]
    and of sound -> logits and the `present.*.decoder.*` of length P + N.

    The keys and values of the sound do not change: they are inputs only.
    """
    return _branch(model, _NEXT, lambda name: ".encoder." not in name)


def _branch(model: onnx.ModelProto, name: str, wanted: Callable[[str], bool]) -> onnx.ModelProto:
    outer = model.graph
    expect(len(outer.node) == 1 and outer.node[0].op_type == "If", "single `If`")
    (branch,) = [a.g for a in outer.node[0].attribute if a.name == name]
    outputs = {output.name: output for output in outer.output}
    expect(
        [output.name for output in branch.output] == list(outer.node[0].output)
        and set(outputs) == set(outer.node[0].output),
        "branches with the outputs of the whole",
    )
    read = {tensor for node in branch.node for tensor in node.input}
    graph = onnx.helper.make_graph(
        branch.node,
        f"{outer.name}_{name}",
        [given for given in outer.input if given.name in read],
        [output for output in outer.output if wanted(output.name)],
        initializer=[*outer.initializer, *branch.initializer],
    )
    parted = onnx.helper.make_model(graph, opset_imports=model.opset_import)
    parted.ir_version = model.ir_version
    return GraphEditor(parted).finished_model()
