"""Hibari, the English voice: its durations made an output, and its graph cut for TensorRT.

hibari.onnx rounds the durations inside, right before its length regulator; here that tensor becomes
an output, and nothing else of the graph changes. How many frames the network makes is decided by
these durations. TensorRT sizes its buffers before it runs, so that the repetition of every
phoneme's state happens on the host (`numpy.repeat`), between two graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
from onnx import TensorProto, helper

from visavis.bundles.compile.surgery.editing import GraphEditor, described, expect
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
"""[1, channels, L]: one column per phoneme; the voice takes them as [1, channels, U] by unit."""
DURATIONS = "durations"


def hibari_text(model: onnx.ModelProto) -> onnx.ModelProto:
    """ids [1, L] int64, speed [1] -> text_states and prosody_states [1, channels, L],
    durations [L] int64 in units."""
    editor = GraphEditor(model)
    gathers = _gathers(editor)
    widths = [_channels(editor, gather) for gather in gathers]
    for gather, name in zip(gathers, TEXT_STATES, strict=True):
        model.graph.node.append(
            onnx.helper.make_node("Identity", [gather.input[0]], [name], name=name)
        )
    durations = [output for output in model.graph.output if output.name == DURATIONS]
    expect(len(durations) == 1, f"output {DURATIONS}")
    states = [described(n, [1, width, "L"]) for n, width in zip(TEXT_STATES, widths, strict=True)]
    editor.set_outputs([*states, *durations])
    return editor.finished_model()


def hibari_voice(model: onnx.ModelProto) -> onnx.ModelProto:
    """text_states and prosody_states [1, channels, U], every column repeated by its duration
    -> lh, theta, ln, lr, phi [1, 601, F], f0 [1, F]; F is twice U."""
    editor = GraphEditor(model)
    states = []
    for gather, name in zip(_gathers(editor), TEXT_STATES, strict=True):
        states.append(described(name, [1, _channels(editor, gather), "U"]))
        editor.read_instead(gather.output[0], name)
    editor.set_inputs(states)
    editor.set_outputs(output for output in list(model.graph.output) if output.name != DURATIONS)
    return editor.finished_model()


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
