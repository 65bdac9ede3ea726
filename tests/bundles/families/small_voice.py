"""A voice of Piper in small: the same places around its length regulator, random weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

from tests.bundles.families.seeded import seeded
from visavis.bundles.formats.onnx_graph import GraphBuilder

WIDTH, LATENT, STRIDE = 8, 6, 96
SYMBOLS = " !',.?abdefhijklmnopstuvwzæðŋɑɐɔəɚɛɜɡɪɹɾʃʊʌʒˈˌːθᵻ"


class _Graph(GraphBuilder):
    def split(self, tensor: str) -> tuple[str, str]:
        names = f"{tensor}_a", f"{tensor}_b"
        self._nodes.append(helper.make_node("Split", [tensor], list(names), axis=1))
        return names

    def conv(self, name: str, x: str, n_out: int, n_in: int, size: int = 1) -> str:
        pad = (size - 1) // 2
        kernel, bias = seeded(f"{name}.k", (n_out, n_in, size), 0.4), seeded(f"{name}.b", (n_out,))
        return self.convolve(x, kernel, bias, pads=(pad, pad))

    def cast(self, x: str, dtype: int = TensorProto.FLOAT) -> str:
        return self.node("Cast", x, to=dtype)

    def unsqueeze(self, x: str, axis: int) -> str:
        return self.node("Unsqueeze", x, self.weight([axis]))

    def upto(self, length: str) -> str:
        """0, 1, … below a scalar."""
        return self.node("Range", self.scalar(0), length, self.scalar(1))

    def scalar(self, value: int) -> str:
        return self.node("Squeeze", self.weight([value]))

    def mask(self, length: str, lengths: str) -> str:
        """[B, 1, length] float32: 1 where a text or sound of the batch still goes on."""
        places = self.unsqueeze(self.upto(length), 0)
        return self.cast(self.unsqueeze(self.node("Less", places, self.unsqueeze(lengths, 1)), 1))


def small_voice(*, speakers: int = 1) -> onnx.ModelProto:
    """input, input_lengths, scales (and sid) -> output [B, 1, 1, samples]."""
    g = _Graph("voice")
    g.input("input", ["batch", "phonemes"], TensorProto.INT64)
    g.input("input_lengths", ["batch"], TensorProto.INT64)
    g.input("scales", [3])
    scales = [g.node("Gather", "scales", g.scalar(i)) for i in range(3)]
    table = g.weight(seeded("table", (len(SYMBOLS) + 3, WIDTH), 1.0))
    x = g.transpose(g.node("Gather", table, "input"), (0, 2, 1))
    mask = g.mask(g.node("Gather", g.node("Shape", x), g.scalar(2)), "input_lengths")
    x = g.node("Mul", x, mask)
    means, log_spreads = g.split(g.node("Mul", g.conv("stats", x, 2 * LATENT, WIDTH), mask))
    speaker = ""
    if speakers > 1:
        g.input("sid", ["batch"], TensorProto.INT64)
        known = g.weight(seeded("speakers", (speakers, LATENT), 1.0))
        speaker = g.unsqueeze(g.node("Gather", known, "sid"), 2)
    durations = _durations(g, x, mask, scales, speaker)
    frames, sound_mask = _sound_mask(g, durations)
    path = _alignment(g, durations, frames)
    mean, spread = (
        g.transpose(g.node("MatMul", path, g.transpose(t, (0, 2, 1))), (0, 2, 1))
        for t in (means, log_spreads)
    )
    noise = g.node("Mul", g.node("RandomNormalLike", mean), g.node("Exp", spread))
    z = g.node("Add", mean, g.node("Mul", noise, scales[0]))
    _sound(g, z, sound_mask, speaker)
    return g.model()


def _durations(g: _Graph, x: str, mask: str, scales: list[str], speaker: str) -> str:
    pair = g.node("Slice", x, g.weight([0]), g.weight([2]), g.weight([1]))
    noise = g.node("Mul", g.node("RandomNormalLike", pair), scales[2])
    x = g.conv("dp.in", g.node("Concat", x, noise, axis=1), LATENT, WIDTH + 2)
    if speaker:
        x = g.node("Add", x, speaker)
    seconds = g.node("Exp", g.conv("dp.out", x, 1, LATENT))
    scaled = g.node("Mul", g.node("Mul", seconds, mask), scales[1])
    return g.node("Ceil", scaled)


def _sound_mask(g: _Graph, durations: str) -> tuple[str, str]:
    total = g.node("ReduceSum", durations, g.weight([1, 2]), keepdims=0)
    lengths = g.cast(g.node("Clip", total, g.node("Squeeze", g.weight(1.0))), TensorProto.INT64)
    longest = g.node("ReduceMax", lengths, keepdims=0)
    return longest, g.mask(longest, lengths)


def _alignment(g: _Graph, durations: str, frames: str) -> str:
    """[B, frames, symbols]: 1 where a frame belongs to a symbol."""
    ends = g.node("CumSum", durations, g.scalar(2))
    starts = g.node("Sub", ends, durations)
    places = g.unsqueeze(g.cast(g.upto(frames)), 1)
    begun, over = g.node("Less", places, starts), g.node("Less", places, ends)
    return g.node("Sub", g.cast(over), g.cast(begun))


def _sound(g: _Graph, z: str, mask: str, speaker: str) -> None:
    z = g.node("Mul", g.conv("flow", z, LATENT, LATENT, 3), mask)
    z = g.node("Add", z, g.node("ConstantOfShape", g.node("Shape", z)))
    z = g.node("Mul", z, mask)
    if speaker:
        z = g.node("Add", z, speaker)
    kernel = g.weight(seeded("up", (LATENT, 4, 2 * STRIDE), 0.4))
    pads = [STRIDE // 2, STRIDE // 2]
    z = g.node("LeakyRelu", g.node("ConvTranspose", z, kernel, strides=[STRIDE], pads=pads))
    sound = g.node("Tanh", g.conv("post", z, 1, 4, 7))
    g.output(g.unsqueeze(sound, 1), "output", ["batch", 1, 1, "time"])


def small_config(**changes: Any) -> dict[str, Any]:
    """The .json beside such a voice."""
    ids = {symbol: [place + 3] for place, symbol in enumerate(SYMBOLS)}
    config: dict[str, Any] = {
        "audio": {"sample_rate": 8000, "quality": "low"}, "espeak": {"voice": "en-us"},
        "inference": {"noise_scale": 0.6, "length_scale": 1.2, "noise_w": 0.7},
        "phoneme_type": "espeak", "phoneme_id_map": {"_": [0], "^": [1], "$": [2]} | ids,
        "num_symbols": len(ids) + 3, "num_speakers": 1, "speaker_id_map": {},
        "language": {"code": "en_US", "family": "en", "name_english": "English"},
        "dataset": "nobody",
    }  # fmt: skip
    return config | changes


def write_voice(folder: Path, *, speakers: int = 1, **changes: Any) -> Path:
    """The two files of a voice; the path of its network."""
    folder.mkdir(exist_ok=True)
    path = folder / "small.onnx"
    onnx.save(small_voice(speakers=speakers), str(path))
    if speakers > 1:
        names = {"ann": 0, "bob": 1}
        changes = {"num_speakers": speakers, "speaker_id_map": names} | changes
    (folder / "small.onnx.json").write_text(json.dumps(small_config(**changes)))
    return path
