"""Kokoro in small: the nodes of the published graph, its widths where it is cut, random weights.

What follows each other, and under which names, is what the published 8-bit file has; inside, layers
have few channels and stand once where Kokoro repeats them. A voice of it says nothing, and takes as
long as its durations say.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from tests.bundles.families.seeded import seeded
from tests.bundles.store.conftest import file_of, to_toml
from visavis.bundles.formats.onnx_graph import GraphBuilder
from visavis.bundles.store.catalogue import pullable_catalog
from visavis.bundles.store.pulling.puller import PullSetup, pull
from visavis.bundles.store.pulling.web import PipSettings

VOICES = ("af_bella", "af_heart", "am_michael", "zf_xiaobei")

SYMBOLS, STYLE, FRAME_SAMPLES = 178, 128, 600
TEXT_WIDTH, PROSODY_WIDTH = 512, 640
_WIDTH, _BINS, _HARMONICS = 8, 11, 9
_HOP, _WINDOW = 5, 20
_LAST = np.iinfo(np.int64).max


class _Graph(GraphBuilder):
    """Nodes by scope, as an export names them."""

    def at(self, scope: str, operator: str, *inputs: str, **attributes: object) -> str:
        return self.node(operator, *inputs, kind=f"{scope}/{operator}", **attributes)

    def scalar(self, value: float) -> str:
        name = self.weight(np.array([value]))
        del self._weights[name].dims[:]
        return name

    def random(self, name: str, *shape: int, scale: float = 0.1) -> str:
        return self.weight(seeded(name, shape, scale))

    def linear(self, scope: str, x: str, n_in: int, n_out: int, bias: float = 0.0) -> str:
        product = self.at(scope, "MatMul", x, self.random(scope, n_in, n_out))
        return self.at(scope, "Add", product, self.weight(np.full(n_out, bias, np.float32)))

    def conv(
        self,
        scope: str,
        x: str,
        n_in: int,
        n_out: int,
        size: int,
        *,
        bias: float = 0.0,
        heard: int = 1024,
        **options: object,
    ) -> str:
        """`heard`: as many of the input's channels have weight."""
        kernel = seeded(f"{scope}.k", (n_out, n_in, size), 0.3 / np.sqrt(n_in))
        kernel[:, heard:] = 0.0
        biases = self.weight(seeded(f"{scope}.b", (n_out,)) + np.float32(bias))
        options = {"strides": [1], "pads": [size // 2] * 2} | options
        return self.at(
            scope, "Conv", x, self.weight(kernel), biases, kernel_shape=[size], **options
        )

    def slice(self, scope: str, x: str, start: int, end: int, axis: int) -> str:
        return self.at(scope, "Slice", x, *(self.weight([n]) for n in (start, end, axis)))

    def length(self, scope: str, x: str, axis: int) -> str:
        """[1]: how long an axis is."""
        size = self.at(scope, "Gather", self.at(scope, "Shape", x), self.scalar(axis), axis=0)
        return self.at(scope, "Unsqueeze", size, self.weight([0]))

    def resize(self, scope: str, x: str, factor: float, mode: str) -> str:
        how = "asymmetric" if mode == "nearest" else "half_pixel"
        rest = {"nearest_mode": "floor"} if mode == "nearest" else {}
        scales = self.weight(np.array([1, 1, factor], np.float32))
        return self.at(
            scope, "Resize", x, "", scales, mode=mode, coordinate_transformation_mode=how, **rest
        )

    def lstm(self, scope: str, x: str, n_in: int, hidden: int) -> str:
        """x [T, 1, n_in] -> [T, 1, 2 hidden], both ways."""
        shape = [self.weight([2]), self.length(scope, x, 1), self.weight([hidden])]
        zeros = self.at(scope, "ConstantOfShape", self.at(scope, "Concat", *shape, axis=0))
        made = self.at(
            scope,
            "LSTM",
            x,
            self.random(f"{scope}.w", 2, 4 * hidden, n_in, scale=0.05),
            self.random(f"{scope}.r", 2, 4 * hidden, hidden, scale=0.05),
            self.random(f"{scope}.b", 2, 8 * hidden),
            "",
            zeros,
            zeros,
            direction="bidirectional",
            hidden_size=hidden,
        )
        turned = self.at(scope, "Transpose", made, perm=[0, 2, 1, 3])
        return self.at(scope, "Reshape", turned, self.weight([0, 0, -1]))

    def styled(self, scope: str, x: str, style: str, width: int, axis: int) -> str:
        """x normalised over its last axis, then scaled and shifted as the style says."""
        fc = self.linear(f"{scope}/fc", style, STYLE, 2 * width)
        fc = self.at(scope, "Unsqueeze", fc, self.weight([3 - axis]))
        scale = self.at(scope, "Add", self.slice(scope, fc, 0, width, axis), self.scalar(1.0))
        shift = self.slice(scope, fc, width, 2 * width, axis)
        mean = self.at(scope, "ReduceMean", x, axes=[2])
        centred = self.at(scope, "Sub", x, mean)
        square = self.at(scope, "Mul", centred, centred)
        spread = self.at(scope, "ReduceMean", square, axes=[2])
        root = self.at(scope, "Sqrt", self.at(scope, "Add", spread, self.scalar(1e-5)))
        normal = self.at(scope, "Div", centred, root)
        return self.at(scope, "Add", self.at(scope, "Mul", scale, normal), shift)

    def doubled(self, scope: str, x: str, style: str, width: int) -> str:
        """A residual block that makes two columns of each."""
        inner = self.styled(f"{scope}/norm1", x, style, width, 1)
        inner = self.at(f"{scope}/actv", "LeakyRelu", inner, alpha=0.2)
        inner = self.at(
            f"{scope}/pool",
            "ConvTranspose",
            inner,
            self.random(f"{scope}.pool", width, 1, 3, scale=0.5),
            group=width,
            kernel_shape=[3],
            strides=[2],
            pads=[1, 1],
            output_padding=[1],
        )
        inner = self.conv(f"{scope}/conv1", inner, width, width, 3)
        shortcut = self.resize(f"{scope}/upsample", x, 2, "nearest")
        shortcut = self.conv(f"{scope}/conv1x1", shortcut, width, width, 1)
        return self.at(scope, "Div", self.at(scope, "Add", inner, shortcut), self.scalar(2**0.5))

    def upsampled(self, scope: str, x: str, width: int, stride: int) -> str:
        active = self.at(scope, "LeakyRelu", x, alpha=0.1)
        kernel = self.random(scope, width, width, 2 * stride, scale=0.3)
        pads = [stride // 2] * 2
        shape = {"kernel_shape": [2 * stride], "strides": [stride], "pads": pads}
        return self.at(scope, "ConvTranspose", active, kernel, **shape)


def small_kokoro(*, fused: bool = False, trimmed: int = _WINDOW // 2) -> onnx.ModelProto:
    """tokens [1, T], style [1, 256], speed [1] -> audio [600 F].

    `fused`: as a graph optimiser leaves its first product. `trimmed`: samples that are taken off
    the end; with other than ten it is no Kokoro.
    """
    g = _Graph("main_graph")
    g.input("tokens", [1, "sequence_length"], TensorProto.INT64)
    g.input("style", [1, 2 * STYLE])
    g.input("speed", [1])
    timbre = g.slice("/decoder", "style", 0, STYLE, 1)
    manner = g.slice("/encoder", "style", STYLE, 2 * STYLE, 1)
    prosody = _prosody_states(g, manner)
    path = _alignment(g, _durations(g, prosody))
    text = _text_states(g)
    turned = g.at("/encoder", "Transpose", prosody, perm=[0, 2, 1])
    columns = g.at("/encoder", "MatMul", turned, path)
    spoken = g.at("/encoder", "MatMul", text, path)
    shared = g.at("/encoder/shared", "Transpose", columns, perm=[2, 0, 1])
    shared = g.lstm("/encoder/shared", shared, PROSODY_WIDTH, _WIDTH // 2)
    shared = g.at("/encoder", "Transpose", shared, perm=[1, 2, 0])
    pitch_hz, loudness = (_curve(g, name, shared, manner) for name in ("F0", "N"))
    hidden = _decoded(g, spoken, pitch_hz, loudness, timbre)
    sound = _inverse_stft(g, _spectra(g, hidden, _source(g, pitch_hz)), trimmed)
    g.output(sound, "audio", ["audio_length"])
    model = g.model()
    return _fused(model, columns, prosody, path) if fused else model


def _fused(model: onnx.ModelProto, product: str, left: str, right: str) -> onnx.ModelProto:
    (node,) = [node for node in model.graph.node if node.output[0] == product]
    node.CopyFrom(
        helper.make_node(
            "FusedMatMul", [left, right], [product], product, domain="com.microsoft", transA=1
        )
    )
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return model


def _text_states(g: _Graph) -> str:
    """[1, 512, T]"""
    scope = "/encoder/text_encoder"
    table = g.random(scope, SYMBOLS, _WIDTH, scale=1.0)
    x = g.at(f"{scope}/embedding", "Gather", table, "tokens", axis=0)
    x = g.at(scope, "Transpose", x, perm=[0, 2, 1])
    x = g.at(f"{scope}/cnn.0", "LeakyRelu", g.conv(f"{scope}/cnn.0", x, _WIDTH, _WIDTH, 5))
    x = g.at(f"{scope}/lstm", "Transpose", x, perm=[2, 0, 1])
    x = g.lstm(f"{scope}/lstm", x, _WIDTH, TEXT_WIDTH // 2)
    return g.at(scope, "Transpose", x, perm=[1, 2, 0])


def _prosody_states(g: _Graph, manner: str) -> str:
    """[1, T, 640]: what was read, and the style beside every letter."""
    bert, scope = "/encoder/bert", "/encoder/predictor/text_encoder"
    x = g.at(bert, "Gather", g.random(bert, SYMBOLS, _WIDTH, scale=1.0), "tokens", axis=0)
    letters = g.length(bert, "tokens", 1)
    places = g.at(
        bert, "Slice", g.weight(np.arange(512)[None]), g.weight([0]), letters, g.weight([1])
    )
    x = g.at(bert, "Add", x, g.at(bert, "Gather", g.random("places", 512, _WIDTH), places, axis=0))
    query, key, value = (
        g.linear(f"{bert}/attention/{name}", x, _WIDTH, _WIDTH)
        for name in ("query", "key", "value")
    )
    scores = g.at(bert, "MatMul", query, g.at(bert, "Transpose", key, perm=[0, 2, 1]))
    x = g.at(bert, "MatMul", g.at(bert, "Softmax", scores, axis=-1), value)
    x = g.linear("/encoder/bert_encoder", x, _WIDTH, _WIDTH)
    shape = g.at(scope, "Concat", g.weight([1]), letters, g.weight([STYLE]), axis=0)
    beside = g.at(scope, "Expand", g.at(scope, "Unsqueeze", manner, g.weight([1])), shape)
    x = g.at(scope, "Concat", x, beside, axis=2)
    x = g.at(f"{scope}/lstms.0", "Transpose", x, perm=[1, 0, 2])
    x = g.lstm(f"{scope}/lstms.0", x, _WIDTH + STYLE, TEXT_WIDTH // 2)
    x = g.at(f"{scope}/lstms.0", "Transpose", x, perm=[1, 0, 2])
    x = g.styled(f"{scope}/lstms.1", x, manner, TEXT_WIDTH, 2)
    return g.at(scope, "Concat", x, beside, axis=2)


def _durations(g: _Graph, prosody: str) -> str:
    """[T] int64"""
    scope = "/encoder/predictor"
    x = g.at(f"{scope}/lstm", "Transpose", prosody, perm=[1, 0, 2])
    x = g.lstm(f"{scope}/lstm", x, PROSODY_WIDTH, _WIDTH)
    x = g.at(f"{scope}/lstm", "Transpose", x, perm=[1, 0, 2])
    x = g.linear(f"{scope}/duration_proj", x, 2 * _WIDTH, 50, bias=-3.0)
    frames = g.at(scope, "ReduceSum", g.at(scope, "Sigmoid", x), g.weight([-1]), keepdims=0)
    rounded = g.at("/encoder", "Round", g.at("/encoder", "Div", frames, "speed"))
    rounded = g.at("/encoder", "Clip", rounded, g.scalar(1.0))
    whole = g.at("/encoder", "Cast", rounded, to=TensorProto.INT64)
    return g.at("/encoder", "Gather", whole, g.scalar(0), axis=0)


def _alignment(g: _Graph, durations: str) -> str:
    """[T, F]: 1 where a frame belongs to a letter."""
    scope = "/encoder"
    ends = g.at(scope, "CumSum", durations, g.scalar(0))
    total = g.at(scope, "Gather", ends, g.scalar(-1), axis=0)
    frames = g.at(scope, "Range", g.scalar(0), total, g.scalar(1))
    frames = g.at(scope, "Unsqueeze", frames, g.weight([0]))
    starts = g.at(scope, "Cast", g.slice(scope, ends, 0, -1, 0), to=TensorProto.FLOAT)
    starts = g.at(scope, "Concat", g.weight(np.zeros(1, np.float32)), starts, axis=0)
    begun = g.at(
        scope,
        "GreaterOrEqual",
        g.at(scope, "Cast", frames, to=TensorProto.FLOAT),
        g.at(scope, "Unsqueeze", starts, g.weight([1])),
    )
    going = g.at(scope, "Less", frames, g.at(scope, "Unsqueeze", ends, g.weight([1])))
    return g.at(scope, "Cast", g.at(scope, "And", begun, going), to=TensorProto.FLOAT)


def _curve(g: _Graph, name: str, shared: str, manner: str) -> str:
    """[1, 2 F]: pitch in hertz, or loudness."""
    x = g.doubled(f"/encoder/{name}.1", shared, manner, _WIDTH)
    middle = 150.0 if name == "F0" else 0.0
    x = g.conv(f"/encoder/{name}_proj", x, _WIDTH, 1, 1, bias=middle)
    x = g.at("/encoder", "Squeeze", x, g.weight([1]))
    return g.at("/encoder", "Reshape", x, g.weight([1, -1]))


def _decoded(g: _Graph, spoken: str, pitch_hz: str, loudness: str, timbre: str) -> str:
    """[1, 8, 2 F]"""
    scope = "/decoder/decoder"
    curves = [
        g.conv(f"{scope}/{name}_conv", g.at(scope, "Unsqueeze", x, g.weight([1])), 1, 1, 3,
               strides=[2])
        for name, x in (("F0", pitch_hz), ("N", loudness))
    ]  # fmt: skip
    x = g.at(scope, "Concat", spoken, *curves, axis=1)
    x = g.conv(f"{scope}/encode/conv1x1", x, TEXT_WIDTH + 2, _WIDTH, 1)
    return g.doubled(f"{scope}/decode.3", x, timbre, _WIDTH)


def _source(g: _Graph, pitch_hz: str) -> str:
    """[1, 22, 120 F + 1]: size and angle of the harmonics' spectrum."""
    scope = "/decoder/decoder/generator/m_source/l_sin_gen"
    f0 = g.at("/decoder/decoder", "Unsqueeze", pitch_hz, g.weight([1]))
    f0 = g.resize("/decoder/decoder/generator/f0_upsamp", f0, 300, "nearest")
    times = g.weight(np.arange(1, _HARMONICS + 1, dtype=np.float32)[None, :, None])
    turns = g.at(scope, "Div", g.at(scope, "Mul", f0, times), g.scalar(24000.0))
    turns = g.at(scope, "Sub", turns, g.at(scope, "Floor", turns))
    turns = g.resize(scope, turns, 1 / 300, "linear")
    turns = g.at(scope, "Transpose", turns, perm=[0, 2, 1])
    angle = g.at(scope, "CumSum", turns, g.scalar(1))
    for factor in (2.0, np.pi, 300.0):
        angle = g.at(scope, "Mul", angle, g.scalar(factor))
    angle = g.resize(scope, g.at(scope, "Transpose", angle, perm=[0, 2, 1]), 300, "linear")
    sine = g.at(scope, "Sin", g.at(scope, "Transpose", angle, perm=[0, 2, 1]))
    sine = g.at(scope, "Mul", sine, g.scalar(0.1))
    voiced = g.at(scope, "Greater", g.at(scope, "Transpose", f0, perm=[0, 2, 1]), g.scalar(10.0))
    sine = g.at(scope, "Mul", sine, g.at(scope, "Cast", voiced, to=TensorProto.FLOAT))
    tone = g.linear("/decoder/decoder/generator/m_source/l_linear", sine, _HARMONICS, 1, bias=-0.03)
    return _spectrum(g, g.at("/decoder/decoder/generator/m_source", "Tanh", tone))


def _spectrum(g: _Graph, tone: str) -> str:
    scope = "/decoder/decoder/generator"
    signal = g.at(scope, "Transpose", tone, perm=[0, 2, 1])
    pads = g.weight([0, 0, _WINDOW // 2, 0, 0, _WINDOW // 2])
    signal = g.at(scope, "Pad", signal, pads, mode="reflect")
    signal = g.at(scope, "Squeeze", signal, g.weight([1]))
    window = g.weight(_hann())
    made = g.at(scope, "STFT", signal, g.scalar(_HOP), window, g.scalar(_WINDOW), onesided=1)
    made = g.at(scope, "Transpose", made, perm=[0, 2, 1, 3])
    real, imaginary = (g.at(scope, "Gather", made, g.scalar(part), axis=3) for part in (0, 1))
    squares = [g.at(scope, "Pow", part, g.scalar(2.0)) for part in (real, imaginary)]
    size = g.at(scope, "Sqrt", g.at(scope, "Add", *squares))
    angle = g.at(scope, "Atan", g.at(scope, "Div", imaginary, real))
    up, pi = g.at(scope, "Greater", imaginary, g.scalar(0.0)), g.scalar(np.pi)
    other = g.at(scope, "Where", up, g.at(scope, "Add", angle, pi), g.at(scope, "Sub", angle, pi))
    angle = g.at(scope, "Where", g.at(scope, "Less", real, g.scalar(0.0)), other, angle)
    return g.at(scope, "Concat", size, angle, axis=1)


def _spectra(g: _Graph, hidden: str, source: str) -> str:
    """[1, 22, 120 F + 1]: logarithms of sizes, and angles."""
    scope = "/decoder/decoder/generator"
    first = g.conv(
        f"{scope}/noise_convs.0",
        source,
        2 * _BINS,
        _WIDTH,
        12,
        heard=_BINS,
        strides=[6],
        pads=[3, 3],
    )
    x = g.at(scope, "Add", g.upsampled(f"{scope}/ups.0", hidden, _WIDTH, 10), first)
    x = g.upsampled(f"{scope}/ups.1", x, _WIDTH, 6)
    x = g.at(f"{scope}/reflection_pad", "Pad", x, g.weight([0, 0, 1, 0, 0, 0]), mode="reflect")
    x = g.at(
        scope,
        "Add",
        x,
        g.conv(f"{scope}/noise_convs.1", source, 2 * _BINS, _WIDTH, 1, heard=_BINS),
    )
    sine = g.at(f"{scope}/resblocks.5", "Sin", x)
    x = g.at(f"{scope}/resblocks.5", "Add", x, g.at(scope, "Pow", sine, g.scalar(2.0)))
    return g.conv(f"{scope}/conv_post", x, _WIDTH, 2 * _BINS, 7)


def _inverse_stft(g: _Graph, spectra: str, trimmed: int) -> str:
    """[samples]; only its first samples are divided by the sum of the windows, as published."""
    scope = "/decoder/decoder/generator/istft/stft"
    size = g.at(scope, "Exp", g.slice(scope, spectra, 0, _BINS, 1))
    angle = g.at(scope, "Sin", g.slice(scope, spectra, _BINS, _LAST, 1))
    parts = [g.at(scope, "Mul", size, g.at(scope, name, angle)) for name in ("Cos", "Sin")]
    basis = g.random("basis", 2 * _BINS, 1, _WINDOW, scale=0.01)
    sound = g.at(
        scope, "ConvTranspose", g.at(scope, "Concat", *parts, axis=1), basis,
        kernel_shape=[_WINDOW], strides=[_HOP],
    )  # fmt: skip
    samples = g.length(scope, sound, 2)
    sound = g.at(scope, "Squeeze", sound, g.weight([1]))
    sums = g.at(scope, "Slice", g.weight(_hann() ** 2), g.weight([0]), samples, g.weight([0]))
    above = g.at(scope, "Greater", sums, g.scalar(float(np.finfo(np.float32).tiny)))
    places = g.at(scope, "Transpose", g.at(scope, "NonZero", above), perm=[1, 0])
    values = g.at(
        scope,
        "Div",
        g.at(scope, "Gather", sound, places, axis=1),
        g.at(scope, "Gather", sums, places, axis=0),
    )
    row = g.at(scope, "Mul", places, g.scalar(0))
    sound = g.at(
        scope,
        "ScatterND",
        sound,
        g.at(scope, "Unsqueeze", g.at(scope, "Concat", row, places, axis=1), g.weight([0])),
        g.at(scope, "Reshape", values, g.weight([1, -1])),
    )
    sound = g.at(scope, "Mul", g.at(scope, "Unsqueeze", sound, g.weight([1])), g.scalar(4.0))
    sound = g.slice(scope, sound, _WINDOW // 2, _LAST, 2)
    sound = g.slice(scope, sound, 0, -trimmed, 2)
    sound = g.at("/decoder", "Reshape", sound, g.weight([1, -1]))
    return g.at("/decoder", "Gather", sound, g.scalar(0), axis=0)


def _hann() -> NDArray[np.float32]:
    turn = 2 * np.pi * np.arange(_WINDOW) / _WINDOW
    return np.asarray(0.5 - 0.5 * np.cos(turn), np.float32)


def pull_kokoro(
    folder: Path, monkeypatch: pytest.MonkeyPatch, kept: str, model: onnx.ModelProto
) -> str:
    """Pull `model` with styles kept "together" or "apart" and the plans of the catalogue's
    kokoro-82m, into folder/models; its name, which is `kept`."""
    plans = [
        plan.model_dump(mode="json") for plan in pullable_catalog().manifest("kokoro-82m").plans
    ]
    source, catalogue = folder / "source", folder / "catalogue"
    for each in (source, catalogue):
        each.mkdir(exist_ok=True)
    (source / "kokoro-small.onnx").write_bytes(model.SerializeToString())
    files = ["kokoro-small.onnx", *_written_styles(source, kept)]
    table = {
        "name": kept,
        "version": "1",
        "task": "tts",
        "family": "kokoro",
        "summary": "random",
        "languages": ["en"],
        "licence": "none",
        "files": [
            file_of(
                name,
                (source / Path(name).name).read_bytes(),
                {"kind": "file", "location": str(source / Path(name).name)},
            )
            for name in files
        ],
        "prepare": [
            {
                "name": "kokoro",
                "inputs": files,
                "outputs": ["text.onnx", "voice.onnx", "styles.npz"],
            }
        ],
        "plans": plans,
    }
    (catalogue / f"{kept}.toml").write_text(to_toml(table), encoding="utf-8")
    monkeypatch.setenv("VISAVIS_CATALOG_DIR", str(catalogue))
    monkeypatch.setenv("VISAVIS_MODEL_DIR", str(folder / "models"))
    # To ask how pip is set up takes a process.
    pull([kept], setup=PullSetup(pip=PipSettings()))
    return kept


def _written_styles(folder: Path, kept: str) -> list[str]:
    rng = np.random.default_rng(1)
    styles = {voice: rng.uniform(0.1, 0.3, (510, 1, 256)).astype(np.float32) for voice in VOICES}
    if kept == "together":
        with (folder / "voices-v1.0.bin").open("wb") as archive:
            np.savez(archive, allow_pickle=False, **styles)
        return ["voices-v1.0.bin"]
    for voice, rows in styles.items():
        rows.tofile(folder / f"{voice}.bin")
    return [f"voices/{voice}.bin" for voice in styles]
