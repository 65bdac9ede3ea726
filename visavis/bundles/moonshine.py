"""Moonshine's merged decoder, parted into the first step and the next ones.

The published graph is one `If` on `use_cache_branch`, which TensorRT does not take: in the first
step the keys and values of the sound are computed, later they are handed back in with the growing
cache of the text. The two branches become two graphs of fixed structure.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx

from visavis.bundles.compile.surgery.editing import GraphEditor, expect

_FIRST, _NEXT = "else_branch", "then_branch"


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
