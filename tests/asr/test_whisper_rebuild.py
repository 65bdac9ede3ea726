"""Whisper's graphs, rebuilt from a tiny model of random weights, against numpy."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from visavis.bundles.formats.ctranslate2 import read_variables
from visavis.bundles.whisper.graph import prepare
from visavis.engine import Engine, open_engine
from visavis.serving.errors import ModelStoreError

WIDTH, HEADS, MELS, VOCABULARY, LAYERS = 32, 4, 80, 50, 2
Weights = dict[str, NDArray[np.generic]]


def tiny_weights() -> Weights:
    rng = np.random.default_rng(0)

    def random(*shape: int) -> NDArray[np.float16]:
        return (rng.normal(size=shape) * 0.3).astype(np.float16)

    weights: Weights = {}

    def linear(name: str, n_out: int, n_in: int) -> None:
        weights[f"{name}/weight"], weights[f"{name}/bias"] = random(n_out, n_in), random(n_out)

    def norm(name: str) -> None:
        weights[f"{name}/gamma"] = random(WIDTH) + np.float16(1)
        weights[f"{name}/beta"] = random(WIDTH)

    weights["encoder/conv1/weight"] = random(WIDTH, MELS, 3)
    weights["encoder/conv2/weight"] = random(WIDTH, WIDTH, 3)
    weights["encoder/conv1/bias"] = weights["encoder/conv2/bias"] = random(WIDTH)
    weights["encoder/position_encodings/encodings"] = random(60, WIDTH)
    weights["decoder/position_encodings/encodings"] = random(16, WIDTH)
    weights["decoder/embeddings/weight"] = random(VOCABULARY, WIDTH)
    for side in ("encoder", "decoder"):
        weights[f"{side}/num_heads"] = np.array(HEADS, np.int16)
        norm(f"{side}/layer_norm")
        for i in range(LAYERS):
            layer = f"{side}/layer_{i}"
            for part in ("self_attention", "ffn"):
                norm(f"{layer}/{part}/layer_norm")
            linear(f"{layer}/self_attention/linear_0", 3 * WIDTH, WIDTH)
            linear(f"{layer}/self_attention/linear_1", WIDTH, WIDTH)
            linear(f"{layer}/ffn/linear_0", 4 * WIDTH, WIDTH)
            linear(f"{layer}/ffn/linear_1", WIDTH, 4 * WIDTH)
            if side == "decoder":
                norm(f"{layer}/attention/layer_norm")
                linear(f"{layer}/attention/linear_0", WIDTH, WIDTH)
                linear(f"{layer}/attention/linear_1", 2 * WIDTH, WIDTH)
                linear(f"{layer}/attention/linear_2", WIDTH, WIDTH)
    return weights


def write_model(path: Path, weights: Weights, specification: str = "WhisperSpec") -> None:
    """As CTranslate2 serialises a model, with the projection as an alias."""
    codes = {np.dtype(np.float16): 4, np.dtype(np.int16): 2}

    def name(text: str) -> bytes:
        return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"

    parts = [struct.pack("<I", 6), name(specification), struct.pack("<II", 3, len(weights))]
    for key, tensor in weights.items():
        raw = tensor.tobytes()
        parts.append(name(key) + struct.pack("<B", tensor.ndim))
        parts.append(struct.pack(f"<{tensor.ndim}I", *tensor.shape))
        parts.append(struct.pack("<BI", codes[tensor.dtype], len(raw)) + raw)
    parts.append(struct.pack("<I", 1) + name("decoder/projection/weight"))
    parts.append(name("decoder/embeddings/weight"))
    path.write_bytes(b"".join(parts))


class Reference:
    """Whisper in numpy, without a cache, for a batch of one."""

    def __init__(self, weights: Weights) -> None:
        self.w = {name: tensor.astype(np.float64) for name, tensor in weights.items()}

    def norm(self, x: NDArray, name: str) -> NDArray:
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return x * self.w[f"{name}/gamma"] + self.w[f"{name}/beta"]

    def linear(self, x: NDArray, name: str) -> NDArray:
        return x @ self.w[f"{name}/weight"].T + self.w[f"{name}/bias"]

    def gelu(self, x: NDArray) -> NDArray:
        from math import erf

        return 0.5 * x * (1 + np.vectorize(erf)(x / np.sqrt(2)))

    def attend(self, q: NDArray, k: NDArray, v: NDArray, causal: bool) -> NDArray:
        size = WIDTH // HEADS
        out = []
        for h in range(HEADS):
            cut = slice(h * size, (h + 1) * size)
            scores = q[:, cut] @ k[:, cut].T / np.sqrt(size)
            if causal:
                scores[np.triu_indices(len(q), 1)] = -np.inf
            scores = np.exp(scores - scores.max(-1, keepdims=True))
            out.append(scores / scores.sum(-1, keepdims=True) @ v[:, cut])
        return np.concatenate(out, 1)

    def self_attention(self, x: NDArray, layer: str, causal: bool) -> NDArray:
        name = f"{layer}/self_attention"
        fused = self.linear(self.norm(x, f"{name}/layer_norm"), f"{name}/linear_0")
        return x + self.linear(self.attend(*np.split(fused, 3, 1), causal), f"{name}/linear_1")

    def feed_forward(self, x: NDArray, layer: str) -> NDArray:
        inner = self.linear(self.norm(x, f"{layer}/ffn/layer_norm"), f"{layer}/ffn/linear_0")
        return x + self.linear(self.gelu(inner), f"{layer}/ffn/linear_1")

    def convolve(self, x: NDArray, name: str, stride: int) -> NDArray:
        padded = np.pad(x, ((0, 0), (1, 1)))
        kernel = self.w[f"encoder/{name}/weight"]
        columns = range(0, x.shape[1], stride)
        out = [np.tensordot(kernel, padded[:, i : i + 3], 2) for i in columns]
        return self.gelu(np.stack(out, 1) + self.w[f"encoder/{name}/bias"][:, None])

    def logits(self, mel: NDArray, tokens: list[int]) -> NDArray:
        """[len(tokens), VOCABULARY]"""
        x = self.convolve(self.convolve(mel, "conv1", 1), "conv2", 2).T
        x = x + self.w["encoder/position_encodings/encodings"][: len(x)]
        for i in range(LAYERS):
            x = self.self_attention(x, f"encoder/layer_{i}", causal=False)
            x = self.feed_forward(x, f"encoder/layer_{i}")
        audio = self.norm(x, "encoder/layer_norm")
        embeddings = self.w["decoder/embeddings/weight"]
        x = embeddings[tokens] + self.w["decoder/position_encodings/encodings"][: len(tokens)]
        for i in range(LAYERS):
            layer = f"decoder/layer_{i}"
            x = self.self_attention(x, layer, causal=True)
            name = f"{layer}/attention"
            q = self.linear(self.norm(x, f"{name}/layer_norm"), f"{name}/linear_0")
            k, v = np.split(self.linear(audio, f"{name}/linear_1"), 2, 1)
            x = x + self.linear(self.attend(q, k, v, causal=False), f"{name}/linear_2")
            x = self.feed_forward(x, layer)
        return self.norm(x, "decoder/layer_norm") @ embeddings.T


def decode(encoder: Engine, decoder: Engine, mel: NDArray, steps: list[list[int]]) -> NDArray:
    """Logits of all tokens, given to the decoder in `steps` with its cache in between."""
    audio = encoder.infer({"mel": mel[None].astype(np.float32)})
    cache = {
        name: np.zeros((1, HEADS, 0, WIDTH // HEADS), np.float32)
        for name in decoder.inputs
        if name.startswith("past_")
    }
    logits = []
    for tokens in steps:
        out = decoder.infer({"tokens": np.array([tokens], np.int64), **audio, **cache})
        cache = {name: out[name.replace("past", "present")] for name in cache}
        logits.append(out["logits"][0])
    return np.concatenate(logits)


@pytest.fixture
def rebuilt(tmp_path: Path) -> Callable[[bool], tuple[Engine, Engine]]:
    write_model(tmp_path / "model.bin", tiny_weights())

    def build(int8: bool) -> tuple[Engine, Engine]:
        names = prepare(tmp_path, lambda text, part: None, int8=int8)
        assert names == ["encoder.onnx", "decoder.onnx"]
        engines = open_engine(tmp_path / names[0]), open_engine(tmp_path / names[1])
        for engine in engines:
            engine.load()
        return engines

    return build


@pytest.mark.parametrize("frames", [4, 120])
def test_the_graphs_compute_whisper_for_any_length(
    rebuilt: Callable[[bool], tuple[Engine, Engine]], frames: int
) -> None:
    mel = np.random.default_rng(1).normal(size=(MELS, frames))
    tokens = [3, 1, 4, 1, 5, 9, 2, 6]
    expected = Reference(tiny_weights()).logits(mel, tokens)
    engines = rebuilt(False)
    at_once = decode(*engines, mel, [tokens])
    assert at_once == pytest.approx(expected, abs=1e-3)
    stepwise = decode(*engines, mel, [tokens[:3], *[[token] for token in tokens[3:]]])
    assert stepwise == pytest.approx(expected, abs=1e-3)


def test_int8_stays_near(rebuilt: Callable[[bool], tuple[Engine, Engine]]) -> None:
    mel = np.random.default_rng(1).normal(size=(MELS, 40))
    tokens = [3, 1, 4, 1, 5]
    expected = Reference(tiny_weights()).logits(mel, tokens)
    near = decode(*rebuilt(True), mel, [tokens])
    assert not np.array_equal(near, expected)
    assert np.abs(near - expected).mean() < 0.05 * np.abs(expected).mean()


def test_a_damaged_model_is_named(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    write_model(path, tiny_weights())
    whole = path.read_bytes()
    assert "decoder/projection/weight" in read_variables(path, "WhisperSpec")
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelStoreError, match="cut short"):
        read_variables(path, "WhisperSpec")
    path.write_bytes(b"PK\x03\x04" + whole)
    with pytest.raises(ModelStoreError, match="not a CTranslate2"):
        read_variables(path, "WhisperSpec")
    write_model(path, tiny_weights(), "TransformerSpec")
    with pytest.raises(ModelStoreError, match="TransformerSpec"):
        read_variables(path, "WhisperSpec")
