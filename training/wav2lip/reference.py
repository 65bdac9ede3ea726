"""Write what the published code makes of random weights: what tests hold our graph against.

    python -m training.wav2lip.reference CHECKOUT tests/bundles/families/files/wav2lip.npz

needs PyTorch and a checkout of the published repository (Rudrabha/Wav2Lip), whose class is loaded
with our random weights, run once, and sampled. The published weights may not be passed on, so
tests and measurements run on random ones too: the same every time, and scaled so that signals
neither die nor explode on their way through.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from visavis.bundles.wav2lip import LAST, Layer, layers

SAMPLES = 2000


def random_weights() -> dict[str, NDArray[np.float32]]:
    """A state dict, float32, with the names and shapes of the published checkpoints."""
    weights: dict[str, NDArray[np.float32]] = {}
    for layer in layers():
        weights.update(_layer(layer))
    # The mean of the picture is a middle grey.
    weights[f"{LAST}.weight"] = _numbers(f"{LAST}.weight", (3, 32, 1, 1)) * np.float32(0.5)
    weights[f"{LAST}.bias"] = np.zeros(3, np.float32)
    return weights


def random_inputs() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """mel [2, 1, 80, 16] in -4..4 and face [2, 6, 96, 96] in 0..1, float32."""
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


def main() -> None:
    import torch  # the tests use what is above without it

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    sys.path.insert(0, str(given.checkout))
    network = importlib.import_module("models.wav2lip").Wav2Lip().eval()
    weights = {name: torch.from_numpy(values) for name, values in random_weights().items()}
    missing, unexpected = network.load_state_dict(weights, strict=False)
    # Counters of batches are no weights.
    unknown = [name for name in missing if not name.endswith("num_batches_tracked")]
    if unknown or unexpected:
        raise SystemExit(f"names differ: missing {unknown}, unexpected {unexpected}")
    mel, face = random_inputs()
    with torch.no_grad():
        picture = network(torch.from_numpy(mel), torch.from_numpy(face)).numpy()
    at = np.random.default_rng(2).choice(picture.size, SAMPLES, replace=False)
    np.savez_compressed(given.out, at=at.astype(np.uint32), picture=picture.ravel()[at])


if __name__ == "__main__":
    main()
