"""Cuts the Kokoro voices at their length regulator, and lays their styles out as one file.

The published graph rounds the durations inside and repeats every letter's states by a product with
an alignment, whose length it decides itself: no GPU's compiler takes that. Cut there, it leaves the
repetition to the host, as the English voice does, and lips learn how long each phoneme lasts.
The published styles are [510, 1, 256] float32 for each voice, a row for each length of a text: all
in one archive, or a raw file for each voice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper

from visavis.bundles.compile.surgery.editing import GraphEditor, described, expect
from visavis.bundles.hibari import DURATIONS, TEXT_STATES, durations_tensor
from visavis.serving.errors import ModelStoreError, PlanError

TEXT, VOICE, STYLES = "text.onnx", "voice.onnx", "styles.npz"
STYLE_ROWS, STYLE_WIDTH = 510, 256
# American English; the others want a front end for their language.
_SPOKEN = ("af_", "am_")


def prepare(bundle_dir: Path, progress: Callable[[str, float], None]) -> list[str]:
    """Write text.onnx, voice.onnx and styles.npz; return their names.

    The halves are those of `cut`; styles.npz holds [510, 256] float32 by the voice's name. Raises
    ModelStoreError for files that are built otherwise.
    """
    progress("reading the voices", 0.0)
    (source,) = bundle_dir.glob("kokoro-*.onnx")
    styles = {name: rows for name, rows in _styles(bundle_dir) if name.startswith(_SPOKEN)}
    if not styles:
        raise ModelStoreError(f"{bundle_dir.name} has no voice of American English")
    progress("cutting the network at its length regulator", 0.2)
    try:
        text, voice = cut(onnx.load(source), source.name)
    except PlanError as error:
        raise ModelStoreError(f"{source.name} is not built like Kokoro 1.0: {error}") from error
    progress("writing the voices", 0.6)
    onnx.save(text, str(bundle_dir / TEXT))
    onnx.save(voice, str(bundle_dir / VOICE))
    np.savez(bundle_dir / STYLES, allow_pickle=False, **styles)
    progress("voices are ready", 1.0)
    return [TEXT, VOICE, STYLES]


def cut(model: onnx.ModelProto, source: str) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """The network before and behind its length regulator; `model` itself stays as it is.

    The first makes of tokens [1, T] int64, style [1, 256] and speed [1] text_states and
    prosody_states [1, channels, T] and durations [T] int64, in frames of 600 samples. The second
    makes audio [600 F] of style and both states [1, channels, F], every column repeated by its
    duration; all but tokens and durations are float32. Raises ModelStoreError, naming `source`,
    and PlanError where the graph is built otherwise.
    """
    text, voice = onnx.ModelProto(), onnx.ModelProto()
    text.CopyFrom(model)
    voice.CopyFrom(model)
    text = _text_half(text, source)
    widths = _widths(text)
    for states in text.graph.output[: len(TEXT_STATES)]:
        states.type.tensor_type.shape.dim[1].dim_value = widths[states.name]
    return text, _voice_half(voice, source, widths)


def _text_half(model: onnx.ModelProto, source: str) -> onnx.ModelProto:
    editor = GraphEditor(model)
    durations = durations_tensor(model.graph, source)
    for name, product in _products(editor, durations).items():
        # What graph optimisers put in the place of a Transpose and the product behind it.
        turned = any(a.name == "transA" and a.i for a in product.attribute)
        node = _node("Transpose" if turned else "Identity", name, product.input[0])
        node.attribute.extend([helper.make_attribute("perm", [0, 2, 1])] * turned)
        model.graph.node.append(node)
    model.graph.node.append(_node("Identity", DURATIONS, durations))
    tokens = described("tokens", [1, "T"], TensorProto.INT64)
    editor.set_inputs([tokens, _style(), described("speed", [1])])
    states = [described(name, [1, "channels", "T"]) for name in TEXT_STATES]
    editor.set_outputs([*states, described(DURATIONS, ["T"], TensorProto.INT64)])
    return editor.finished_model()


def _voice_half(model: onnx.ModelProto, source: str, widths: Mapping[str, int]) -> onnx.ModelProto:
    editor = GraphEditor(model)
    products = _products(editor, durations_tensor(model.graph, source))
    for name, product in products.items():
        editor.read_instead(product.output[0], name)
    states = [described(name, [1, widths[name], "F"]) for name in products]
    editor.set_inputs([_style(), *states])
    editor.set_outputs([described("audio", ["samples"])])
    return editor.finished_model()


def _style() -> onnx.ValueInfoProto:
    return described("style", [1, STYLE_WIDTH])


def _products(editor: GraphEditor, durations: str) -> dict[str, onnx.NodeProto]:
    """The two products with the alignment, by the names of the states that they repeat."""
    alignment, found = {durations}, []
    for node in editor.nodes:
        if not alignment.intersection(node.input):
            continue
        if node.op_type in ("MatMul", "FusedMatMul"):
            found.append(node)
        else:
            alignment.update(node.output)
    styled = editor.made_of(["style"])
    prosody = [node for node in found if node.input[0] in styled]
    text = [node for node in found if node.input[0] not in styled]
    expect(len(text) == len(prosody) == 1, "length regulator for text and prosody")
    return dict(zip(TEXT_STATES, (*text, *prosody), strict=True))


def _widths(text: onnx.ModelProto) -> dict[str, int]:
    """Channels of the states, found by running the half that makes them."""
    session = onnxruntime.InferenceSession(
        text.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    given = {
        "tokens": np.zeros((1, 3), np.int64),
        "style": np.zeros((1, STYLE_WIDTH), np.float32),
        "speed": np.ones(1, np.float32),
    }
    states = session.run(list(TEXT_STATES), given)
    return {name: array.shape[1] for name, array in zip(TEXT_STATES, states, strict=True)}


def kokoro_voice(model: onnx.ModelProto) -> onnx.ModelProto:
    """voice.onnx in a form that TensorRT compiles; its inputs and outputs stay."""
    editor = GraphEditor(model)
    _divide_by_constant(editor)
    _resize_pictures(editor)
    return editor.finished_model()


def _divide_by_constant(editor: GraphEditor) -> None:
    """Its inverse transform divides the first samples by the sum of its windows, where that is not
    zero, and collects these places by their value, which no plan can. The sum is a constant."""
    scatters = [node for node in editor.nodes if node.op_type == "ScatterND"]
    places = [node for node in editor.nodes if node.op_type == "NonZero"]
    expect(len(scatters) == len(places) == 1, "single division by its windows")
    (scatter,), above = scatters, editor.maker(places[0].input[0])
    begun = editor.maker(above.input[0]) if above is not None else None
    sums = editor.constant(begun.input[0]) if begun is not None else None
    least = editor.constant(above.input[1]) if above is not None else None
    if sums is None or least is None or sums.ndim != 1:
        raise PlanError("the graph has no constant sum of its windows")
    sums = sums.astype(np.float32)
    divisors = np.where(sums > least.astype(np.float32), sums, np.float32(1))
    bounds = [0, len(sums), np.iinfo(np.int64).max]
    start, middle, end = (editor.add_weight(f"window_{n}", np.array([n])) for n in bounds)
    axis, signal = editor.add_weight("window_axis", np.array([1])), scatter.input[0]
    divisor = editor.add_weight("window_sums", divisors)
    editor.put_before(
        scatter,
        [
            _node("Slice", "window_begun", signal, start, middle, axis),
            _node("Slice", "window_rest", signal, middle, end, axis),
            _node("Div", "window_divided", "window_begun", divisor),
        ],
    )
    editor.replace(scatter, "Concat", ["window_divided", "window_rest"])
    scatter.attribute.append(helper.make_attribute("axis", 1))


def _resize_pictures(editor: GraphEditor) -> None:
    """Rows become pictures of one row while they are resized: TensorRT-RTX fails on a Resize of
    three dimensions that stands behind an LSTM."""
    height = editor.add_weight("row_axis", np.array([2]))
    for node in editor.nodes:
        scales = editor.constant(node.input[2]) if node.op_type == "Resize" else None
        if scales is None or scales.shape != (3,):
            continue
        made = node.output[0]
        rows, resized = f"{made}_rows", f"{made}_resized"
        factors = editor.add_weight(f"{made}_scales", np.insert(scales, 2, np.float32(1)))
        picture = _node("Resize", resized, rows, "", factors)
        picture.attribute.extend(node.attribute)
        editor.put_before(node, [_node("Unsqueeze", rows, node.input[0], height), picture])
        editor.replace(node, "Squeeze", [resized, height])


def _node(operator: str, output: str, *inputs: str) -> onnx.NodeProto:
    return helper.make_node(operator, inputs, [output], name=output)


def _styles(bundle_dir: Path) -> list[tuple[str, NDArray[np.float32]]]:
    found: list[tuple[str, NDArray[np.float32]]] = []
    for path in bundle_dir.glob("voices-*.bin"):
        with np.load(path, allow_pickle=False) as archive:
            found += [(name, _rows(archive[name], name)) for name in archive.files]
    for path in sorted(bundle_dir.glob("voices/*.bin")):
        found.append((path.stem, _rows(np.fromfile(path, "<f4"), path.stem)))
    return found


def _rows(values: NDArray[np.float32], name: str) -> NDArray[np.float32]:
    if values.size != STYLE_ROWS * STYLE_WIDTH:
        raise ModelStoreError(f"the voice {name} has {values.size} numbers: wrong version?")
    return np.ascontiguousarray(values.reshape(STYLE_ROWS, STYLE_WIDTH), np.float32)
