"""The compiler in tests: NVIDIA's own, which needs no GPU."""

from __future__ import annotations

import re
from typing import Any

import onnx
import pytest

from visavis.bundles.compile.surgery.editing import GraphEditor
from visavis.bundles.compile.targets import load_flavour
from visavis.serving.errors import PlanError

# Of the sums in a row by which layers add to what they are given: all of a decoder's layer, and of
# an encoder's one and a half.
_SUMS = 3


def rtx() -> Any:
    """The module tensorrt_rtx; skips the test, saying why, where it cannot be used."""
    try:
        return load_flavour("rtx")
    except PlanError as error:
        pytest.skip(str(error))


def with_few_layers(model: onnx.ModelProto) -> onnx.ModelProto:
    """`model` with the first of each stack of like layers: more of them take the compiler longer,
    and it finds nothing else in them."""
    cut = onnx.ModelProto()
    cut.CopyFrom(model)
    editor = GraphEditor(cut)
    stacks: dict[str, list[str]] = {}
    for node in editor.nodes:
        if node.op_type == "Add":
            before = max((stacks.get(name, []) for name in node.input), key=len)
            stacks[node.output[0]] = [*before, node.output[0]]
    inner = {before for sums in stacks.values() for before in sums[:-1]}
    for last, sums in stacks.items():
        if last not in inner and len(sums) > _SUMS:
            editor.read_instead(last, sums[_SUMS - 1])
    kept = [made for made in cut.graph.output if not re.search(r"\.[1-9]\.", made.name)]
    editor.set_outputs(kept)
    return editor.finished_model()
