"""Weights and inputs for THA3 that nobody trained: the same ones every time."""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

from visavis.bundles.formats.weights import Checked
from visavis.bundles.tha3.graph import NETWORKS, POSE_PARAMETERS, SIZE


def random_weight(network: str, name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """By network and name, so that no order of drawing matters."""
    draws = np.random.default_rng(zlib.crc32(f"{network} {name}".encode()))
    values = draws.random(shape, np.float32) - np.float32(0.5)
    if len(shape) == 4:
        # What a convolution adds up keeps its size; displacements stay small.
        gain = 0.05 if "grid_change" in name else 2.0
        values *= np.float32(gain / np.sqrt(np.prod(shape[1:])))
    elif name.endswith(".weight"):
        values += np.float32(1.0)
    return np.asarray(values, np.float32)


class RandomWeights(Checked):
    """Has every weight that is asked for."""

    def __init__(self, network: str) -> None:
        super().__init__({}, network)
        self._network = network

    def take(self, name: str, *shape: int | None) -> NDArray[np.float32]:
        return random_weight(self._network, name, tuple(int(size or 1) for size in shape))


def random_networks() -> dict[str, Checked]:
    """All five."""
    return {name: RandomWeights(name) for name in NETWORKS}


def random_inputs() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """A smooth image [1, 4, 512, 512] and a pose [1, 45]."""
    draws = np.random.default_rng(5)
    y, x = np.mgrid[:SIZE, :SIZE] / SIZE
    waves = [np.sin(2 * np.pi * (a * x + b * y + c)) for a, b, c in 3 * draws.random((4, 3))]
    pose = 0.8 * draws.random((1, POSE_PARAMETERS))
    return np.stack(waves)[None].astype(np.float32), pose.astype(np.float32)
