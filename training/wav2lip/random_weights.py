"""Weights for the generator of Wav2Lip that nobody trained: the same ones every time.

The published ones may not be passed on, so tests and measurements run on these. They are scaled so
that signals neither die nor explode on their way through.
"""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

from visavis.bundles.wav2lip import LAST, Layer, layers


def random_weights() -> dict[str, NDArray[np.float32]]:
    """A state dict with the names and shapes of the published checkpoints."""
    weights: dict[str, NDArray[np.float32]] = {}
    for layer in layers():
        weights.update(_layer(layer))
    # The mean of the picture is a middle grey.
    weights[f"{LAST}.weight"] = _numbers(f"{LAST}.weight", (3, 32, 1, 1)) * np.float32(0.5)
    weights[f"{LAST}.bias"] = np.zeros(3, np.float32)
    return weights


def random_inputs() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """mel [2, 1, 80, 16] in -4..4 and face [2, 6, 96, 96] in 0..1."""
    draws = np.random.default_rng(1)
    mel = draws.random((2, 1, 80, 16), np.float32) * 8 - 4
    return mel, draws.random((2, 6, 96, 96), np.float32)


def _layer(layer: Layer) -> dict[str, NDArray[np.float32]]:
    inside, width = f"{layer.key}.conv_block", (layer.outer,)
    # Of what a transposed convolution of stride 2 lays down, a quarter meets at each pixel.
    meeting = layer.inner * layer.kernel**2 / (4 if layer.transposed and layer.pad else 1)
    spread = np.float32(np.sqrt((0.5 if layer.residual else 2.0) / meeting))
    return {
        f"{inside}.0.weight": _numbers(f"{inside}.0.weight", layer.weight_shape) * spread,
        f"{inside}.0.bias": _numbers(f"{inside}.0.bias", width) * np.float32(0.1),
        f"{inside}.1.weight": 1 + _numbers(f"{inside}.1.weight", width) * np.float32(0.1),
        f"{inside}.1.bias": _numbers(f"{inside}.1.bias", width) * np.float32(0.1),
        f"{inside}.1.running_mean": _numbers(f"{inside}.1.running_mean", width) * np.float32(0.1),
        f"{inside}.1.running_var": 1 + np.abs(_numbers(f"{inside}.1.running_var", width)),
    }


def _numbers(name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Of variance 1, by name: no order of drawing matters."""
    draws = np.random.default_rng(zlib.crc32(name.encode()))
    return (draws.random(shape, np.float32) - np.float32(0.5)) * np.float32(np.sqrt(12))
