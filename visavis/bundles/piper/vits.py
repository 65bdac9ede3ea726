"""A VITS voice (Kim et al. 2021, arXiv:2106.06103), as Piper exports it, cut in two.

Such a graph draws noise twice and decides the length of its own output, which no compiler takes and
no test can repeat. Cut at its length regulator, it leaves to the host to draw the noise, to round
the durations, which lips need too, and to repeat every symbol's row by its duration.

Both halves take several rows of different lengths, with a mask that is 1 where a row goes on and 0
behind its end, and make of each what they make of it alone. As exported, the generator of the sound
has no mask: its convolutions would hear at a row's end what the rows before them made of nothing.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from visavis.bundles.compile.surgery.editing import (
    GraphEditor,
    described,
    expect,
    looks_around,
)

_MASK = "mask"
_MASK_MAKERS = ("Unsqueeze", "Less", "Cast")
_SPEAKER = "sid"


def vits_text(model: onnx.ModelProto) -> onnx.ModelProto:
    """ids [B, T] int64, duration_noise [B, 2, T] and mask [B, 1, T] -> durations [B, 1, T], means
    and log_spreads [B, T, C]; all but ids float32. Durations are in frames, before scaling and
    rounding up."""
    editor = GraphEditor(model)
    latents = _Latents(editor)
    scaled = editor.maker(latents.durations.input[0])
    expect(scaled is not None and scaled.op_type == "Mul", "scale of the durations")
    assert scaled is not None
    durations = _other(editor, scaled, scales=True)
    noise = _only_reader(editor, latents.duration_noise.output[0], "Mul")
    editor.read_instead(noise.output[0], "duration_noise")
    editor.read_instead(_mask_after(editor, "input_lengths"), _MASK)
    _rename_input(editor, "input", "ids")
    editor.set_inputs(
        [
            described("ids", ["batch", "symbols"], TensorProto.INT64),
            described("duration_noise", ["batch", 2, "symbols"]),
            described(_MASK, ["batch", 1, "symbols"]),
            *_speaker(model),
        ]
    )
    width = latents.width
    for name, tensor in (
        ("durations", durations),
        ("means", latents.means),
        ("log_spreads", latents.log_spreads),
    ):
        model.graph.node.append(onnx.helper.make_node("Identity", [tensor], [name]))
    editor.set_outputs(
        [
            described("durations", ["batch", 1, "symbols"]),
            described("means", ["batch", "symbols", width]),
            described("log_spreads", ["batch", "symbols", width]),
        ]
    )
    return GraphEditor(model).finished_model()


def vits_voice(model: onnx.ModelProto) -> onnx.ModelProto:
    """latents [B, C, F], one column for each frame, and mask [B, 1, F] -> voice [B, samples]; all
    float32."""
    editor = GraphEditor(model)
    latents = _Latents(editor)
    behind = editor.made_of(latents.sum.output)
    lengths = editor.made_of(latents.durations.output)
    masks = {
        name
        for node in editor.nodes
        if node.output[0] in behind and node.output[0] != latents.sum.output[0]
        for name in node.input
        if name not in behind and name in lengths
    }
    expect(len(masks) == 1, "single mask behind its length regulator")
    editor.read_instead(masks.pop(), _MASK)
    editor.read_instead(latents.sum.output[0], "latents")
    _drop_neutral(editor)
    _mask_the_generator(editor)
    (sound,) = model.graph.output
    flat = editor.add_weight("flat", np.array([0, -1], np.int64))
    model.graph.node.append(onnx.helper.make_node("Reshape", [sound.name, flat], ["voice"]))
    editor.set_inputs(
        [
            described("latents", ["batch", latents.width, "frames"]),
            described(_MASK, ["batch", 1, "frames"]),
            *_speaker(model),
        ]
    )
    editor.set_outputs([described("voice", ["batch", "samples"])])
    return GraphEditor(model).finished_model()


class _Latents:
    """The places around the length regulator: latents = means + noise * exp(log spreads) * scale,
    with means and spreads repeated by a product with the alignment."""

    def __init__(self, editor: GraphEditor) -> None:
        ceils = [node for node in editor.nodes if node.op_type == "Ceil"]
        expect(len(ceils) == 1, "single rounding of durations")
        self.durations = ceils[0]
        noises = [node for node in editor.nodes if node.op_type == "RandomNormalLike"]
        expect(len(noises) == 2, "two sources of noise")
        before = [n for n in noises if self.durations.output[0] in editor.made_of(n.output)]
        expect(len(before) == 1, "noise in front of its durations")
        self.duration_noise = before[0]
        noise = noises[1] if noises[0] is before[0] else noises[0]
        spread = _only_reader(editor, noise.output[0], "Mul")
        scaled = _only_reader(editor, spread.output[0], "Mul")
        self.sum = _only_reader(editor, scaled.output[0], "Add")
        exponent = editor.maker(_different(spread, noise.output[0]))
        expect(exponent is not None and exponent.op_type == "Exp", "spread of the latents")
        assert exponent is not None
        self.means = _repeated(editor, _different(self.sum, scaled.output[0]))
        self.log_spreads = _repeated(editor, exponent.input[0])
        self.width = _width(editor, self.means)


def _mask_the_generator(editor: GraphEditor) -> None:
    """Silence behind each row's end in front of every convolution from the first longer one on."""
    rates: dict[str, int] = {}
    masks = {1: _MASK}
    for node in editor.nodes:
        rate = max((rates[name] for name in node.input if name in rates), default=0)
        if node.op_type == "ConvTranspose":
            rate = rate or 1
            _mask_input(editor, node, rate, masks)
            rate *= next((a.ints[0] for a in node.attribute if a.name == "strides"), 1)
        elif rate and node.op_type == "Conv" and looks_around(editor, node):
            _mask_input(editor, node, rate, masks)
        if rate:
            rates.update(dict.fromkeys(node.output, rate))


def _mask_input(
    editor: GraphEditor, node: onnx.NodeProto, rate: int, masks: dict[int, str]
) -> None:
    """masks: by columns for each frame; one that is not there yet is made here."""
    added = []
    if rate not in masks:
        masks[rate] = f"{_MASK}_{rate}"
        last = editor.add_weight("last_axis", np.array([-1], np.int64))
        wide = editor.add_weight(f"rate_{rate}", np.array([1, 1, 1, rate], np.int64))
        flat = editor.add_weight("joined", np.array([0, 1, -1], np.int64))
        steps = [f"{_MASK}_{rate}_{step}" for step in ("column", "row")]
        added = [
            onnx.helper.make_node("Unsqueeze", [_MASK, last], [steps[0]]),
            onnx.helper.make_node("Expand", [steps[0], wide], [steps[1]]),
            onnx.helper.make_node("Reshape", [steps[1], flat], [masks[rate]]),
        ]
    masked = f"{node.output[0]}_within"
    added.append(onnx.helper.make_node("Mul", [node.input[0], masks[rate]], [masked]))
    editor.put_before(node, added)
    node.input[0] = masked


def _drop_neutral(editor: GraphEditor) -> None:
    """Without sums with zeros of a tensor's own shape and products with ones: TensorRT-RTX takes
    the former for the bias of the convolution in front, and fails."""
    zeros: set[str] = set()
    ones: set[str] = set()
    for node in editor.nodes:
        if node.op_type == "ConstantOfShape" and _fills_with_zero(node):
            zeros.update(node.output)
        elif node.op_type == "Neg" and node.input[0] in zeros:
            zeros.update(node.output)
        elif node.op_type == "Exp" and node.input[0] in zeros:
            ones.update(node.output)
        neutral = {"Add": zeros, "Sub": zeros, "Mul": ones}.get(node.op_type, set())
        kept = [name for name in node.input if name not in neutral]
        if (
            len(node.input) == 2
            and len(kept) == 1
            and (node.op_type != "Sub" or kept[0] == node.input[0])
        ):
            editor.read_instead(node.output[0], kept[0])


def _fills_with_zero(node: onnx.NodeProto) -> bool:
    return not any(np.any(numpy_helper.to_array(filled.t)) for filled in node.attribute)


def _repeated(editor: GraphEditor, tensor: str) -> str:
    """What is repeated by the alignment: the product's right factor, in front of a Transpose."""
    turned = editor.maker(tensor)
    expect(turned is not None and turned.op_type == "Transpose", "turned latents")
    assert turned is not None
    product = editor.maker(turned.input[0])
    expect(product is not None and product.op_type == "MatMul", "product with the alignment")
    assert product is not None
    return str(product.input[1])


def _width(editor: GraphEditor, means: str) -> int:
    """Channels of the latents: half of what the projection in front of their Split makes."""
    turned = editor.maker(means)
    split = editor.maker(turned.input[0]) if turned is not None else None
    product = editor.maker(split.input[0]) if split is not None else None
    while product is not None and product.op_type == "Mul":
        product = editor.maker(product.input[0])
    weight = editor.constant(product.input[1]) if product is not None else None
    expect(weight is not None and product is not None and product.op_type == "Conv", "projection")
    assert weight is not None
    return int(weight.shape[0]) // 2


def _mask_after(editor: GraphEditor, lengths: str) -> str:
    """The mask of a batch's shorter texts, made of their lengths."""
    readers = editor.readers(lengths)
    for _ in range(8):
        expect(len(readers) == 1 and readers[0].op_type in _MASK_MAKERS, f"mask made of {lengths}")
        (node,) = readers
        if node.op_type == "Cast":
            return str(node.output[0])
        readers = editor.readers(node.output[0])
    expect(False, f"mask made of {lengths}")
    return ""


def _only_reader(editor: GraphEditor, tensor: str, operator: str) -> onnx.NodeProto:
    readers = [node for node in editor.readers(tensor) if node.op_type == operator]
    expect(len(readers) == 1, f"{operator} of {tensor}")
    return readers[0]


def _different(node: onnx.NodeProto, tensor: str) -> str:
    return str(node.input[1] if node.input[0] == tensor else node.input[0])


def _other(editor: GraphEditor, node: onnx.NodeProto, *, scales: bool) -> str:
    """The input of a product that is not one of the graph's scales."""
    for place in (0, 1):
        maker = editor.maker(node.input[place])
        if maker is not None and maker.op_type == "Gather" and maker.input[0] == "scales":
            return str(node.input[1 - place])
    expect(not scales, "product with a scale")
    return ""


def _rename_input(editor: GraphEditor, old: str, new: str) -> None:
    expect(bool(editor.readers(old)), f"input {old}")
    editor.read_instead(old, new)


def _speaker(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """Voices of several speakers take which one."""
    return [described(_SPEAKER, ["batch"], TensorProto.INT64)] * any(
        value.name == _SPEAKER for value in model.graph.input
    )
