"""Hibari, the English voice: its durations made an output, and its graph cut for TensorRT.

hibari.onnx rounds the durations inside, right before its length regulator; here that tensor becomes
an output, and nothing else of the graph changes. How many frames the network makes is decided by
these durations. TensorRT sizes its buffers before it runs, so that the repetition of every
phoneme's state happens on the host (`numpy.repeat`), between two graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from visavis.bundles.compile.surgery.editing import (
    GraphEditor,
    described,
    expect,
    looks_around,
)
from visavis.serving.errors import ModelStoreError, PlanError

SOURCE = "hibari.onnx"
TARGET = "hibari-durations.onnx"
OUTPUT = "durations"


def prepare(bundle_dir: Path, progress: Callable[[str, float], None]) -> list[str]:
    """Write hibari-durations.onnx next to hibari.onnx; return its name.

    The new output `durations` is [L] int64, one per input id, at least 1; the voice has a fixed
    number of frames per unit. Raises ModelStoreError where the graph has no such place.
    """
    progress("reading the English voice", 0.0)
    model = onnx.load(bundle_dir / SOURCE)
    durations = durations_tensor(model.graph, SOURCE)
    model.graph.node.append(helper.make_node("Identity", [durations], [OUTPUT]))
    model.graph.output.append(helper.make_tensor_value_info(OUTPUT, TensorProto.INT64, ["L"]))
    onnx.checker.check_model(model)
    target = bundle_dir / TARGET
    partial = target.with_name(TARGET + ".part")
    onnx.save(model, str(partial))
    partial.replace(target)
    progress("voice is ready", 1.0)
    return [TARGET]


def durations_tensor(graph: onnx.GraphProto, source: str) -> str:
    """The integer durations: what follows the graph's only Round, up to the cumulated sum.

    Raises ModelStoreError, naming `source`, where there is no such place.
    """
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    rounds = [node for node in graph.node if node.op_type == "Round"]
    if len(rounds) == 1:
        tensor = rounds[0].output[0]
        for _ in range(4):
            following = readers.get(tensor, [])
            if any(node.op_type == "CumSum" for node in following):
                return str(tensor)
            if not following or following[0].op_type not in ("Clip", "Cast", "Gather", "Squeeze"):
                break
            tensor = following[0].output[0]
    raise ModelStoreError(f"{source} has no length regulator where one is expected: wrong version?")


TEXT_STATES = ("text_states", "prosody_states")
"""[B, channels, L]: one column per phoneme; the voice takes them as [B, channels, U] by unit."""
DURATIONS = "durations"

# As exported, the network takes one text. Each half is given rows, and makes of each what it makes
# of it alone: behind a row's end convolutions see the zeros that they see there alone, and
# attention sees nothing. No other operator looks beyond its own column.

_FRAMES_PER_UNIT = 2
_UNHEEDED = -1e4
"""Of attention: its exponential is 0. Within 16 bits."""


def hibari_text(model: onnx.ModelProto) -> onnx.ModelProto:
    """ids [B, L] int64, -1 behind a row's end, and speed [B] -> text_states and prosody_states
    [B, channels, L], durations [B, L] int64 in units, 0 behind a row's end."""
    editor = GraphEditor(model)
    gathers = _gathers(editor)
    widths = [_channels(editor, gather) for gather in gathers]
    for gather, name in zip(gathers, TEXT_STATES, strict=True):
        model.graph.node.append(_node("Identity", name, gather.input[0]))
    expect(any(output.name == DURATIONS for output in model.graph.output), f"output {DURATIONS}")
    editor.set_inputs([described("ids", ["B", "L"], TensorProto.INT64), described("speed", ["B"])])
    states = [described(n, ["B", width, "L"]) for n, width in zip(TEXT_STATES, widths, strict=True)]
    editor.set_outputs([*states, described(DURATIONS, ["B", "L"], TensorProto.INT64)])
    editor = GraphEditor(editor.finished_model())
    _read_rows(editor)
    _keep_rows_apart(editor)
    for node in editor.nodes:
        if node.op_type == "Conv" and looks_around(editor, node):
            _mask(editor, node, "present", np.float32(0))
        elif node.op_type == "Softmax":
            _mask(editor, node, "present_to_heads", np.float32(_UNHEEDED))
    return editor.finished_model()


def hibari_voice(model: onnx.ModelProto) -> onnx.ModelProto:
    """text_states and prosody_states [B, channels, U], every column repeated by its duration, and
    mask [B, 1, U], 1 where a row goes on -> lh, theta, ln, lr, phi [B, 601, F], f0 [B, F]; F is
    twice U. All float32."""
    editor = GraphEditor(model)
    inputs = [described("mask", ["B", 1, "U"])]
    for gather, name in zip(_gathers(editor), TEXT_STATES, strict=True):
        inputs.append(described(name, ["B", _channels(editor, gather), "U"]))
        editor.read_instead(gather.output[0], name)
    editor.set_inputs(inputs)
    editor.set_outputs(output for output in list(model.graph.output) if output.name != DURATIONS)
    for output in model.graph.output:
        output.type.tensor_type.shape.dim[0].dim_param = "B"
    editor = GraphEditor(editor.finished_model())
    repeats = [node for node in editor.nodes if node.op_type == "Tile"]
    expect(len(repeats) == 1, "single repetition of units by frame")
    by_frame = editor.made_of(repeats[0].output)
    last = editor.add_weight("last_axis", np.array([3]))
    twice = editor.add_weight("twice", np.array([1, 1, 1, _FRAMES_PER_UNIT]))
    flat = editor.add_weight("flat", np.array([0, 1, -1]))
    editor.put_before(
        editor.nodes[0],
        [
            _node("Cast", "unit_present", "mask", to=TensorProto.BOOL),
            _node("Unsqueeze", "mask_column", "mask", last),
            _node("Expand", "mask_twice", "mask_column", twice),
            _node("Reshape", "mask_by_frame", "mask_twice", flat),
            _node("Cast", "frame_present", "mask_by_frame", to=TensorProto.BOOL),
        ],
    )
    for node in editor.nodes:
        if node.op_type == "Conv" and looks_around(editor, node):
            present = "frame_present" if node.input[0] in by_frame else "unit_present"
            _mask(editor, node, present, np.float32(0))
    return editor.finished_model()


def _read_rows(editor: GraphEditor) -> None:
    """Tensors `present` [B, 1, L] and `present_to_heads` [B, 1, 1, L], bool, made of the ids; a
    speed for each row, and its durations."""
    exponents = [node for node in editor.nodes if node.op_type == "Exp"]
    expect(len(exponents) == 1, "single exponential, of its durations")
    without_rows = logarithm = exponents[0].input[0]
    while (maker := editor.maker(logarithm)) is not None and maker.op_type == "Gather":
        logarithm = maker.input[0]
    expect(logarithm != without_rows, "durations of its only row")
    editor.read_instead(without_rows, logarithm)
    editor.read_instead("ids", "letters")
    editor.read_instead("speed", "speed_by_row")
    least = editor.add_weight("least_id", np.array([0]))
    row, head = editor.add_weight("row", np.array([1])), editor.add_weight("head", np.array([1, 2]))
    editor.put_before(
        editor.nodes[0],
        [
            _node("Max", "letters", "ids", least),
            _node("GreaterOrEqual", "id_present", "ids", least),
            _node("Unsqueeze", "present", "id_present", row),
            _node("Unsqueeze", "present_to_heads", "id_present", head),
            _node("Unsqueeze", "speed_by_row", "speed", head),
        ],
    )
    durations = editor.maker(DURATIONS)
    assert durations is not None
    _mask(editor, durations, "present", np.int64(0))
    editor.replace(durations, "Squeeze", [durations.input[0], row])


def _keep_rows_apart(editor: GraphEditor) -> None:
    """Where a shape begins with one row, as many as there are."""
    as_before = editor.add_weight("as_before", np.array([0]))
    for node in editor.nodes:
        if node.op_type != "Reshape":
            continue
        shape = editor.maker(node.input[1])
        expect(shape is not None and shape.op_type == "Concat", "shape joined of sizes")
        assert shape is not None
        rows = editor.maker(shape.input[0])
        expect(rows is not None and editor.constant(rows.input[0]) == 1, "shape of a single row")
        shape.input[0] = as_before


def _mask(editor: GraphEditor, node: onnx.NodeProto, present: str, otherwise: np.generic) -> None:
    """Let `node` read `otherwise` where nothing is present."""
    masked = f"{node.name}_within"
    value = editor.add_weight(f"{otherwise.dtype}_{otherwise}", np.array(otherwise))
    editor.put_before(node, [_node("Where", masked, present, node.input[0], value)])
    node.input[0] = masked


def _node(operator: str, output: str, *inputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(operator, inputs, [output], name=output, **attributes)


def _gathers(editor: GraphEditor) -> list[onnx.NodeProto]:
    """The two nodes that repeat columns, in the order of TEXT_STATES."""
    found = [
        node
        for node in editor.nodes
        if node.op_type == "Gather"
        and any(a.name == "axis" and a.i == 2 for a in node.attribute)
        and editor.constant(node.input[1]) is None
    ]
    expect(len(found) == 2 and len({node.input[1] for node in found}) == 1, "length regulator")
    return found


def _channels(editor: GraphEditor, gather: onnx.NodeProto) -> int:
    """Height of the columns, read off the normalisation before them."""
    transposed = editor.maker(gather.input[0])
    norm = editor.maker(transposed.input[0]) if transposed is not None else None
    scale = editor.constant(norm.input[1]) if norm is not None else None
    if norm is None or norm.op_type != "LayerNormalization" or scale is None:
        raise PlanError("the graph has no normalised states before its length regulator")
    return int(scale.size)
