"""Write what the published code makes of random weights: what tests hold our graph against.

    python -m training.wav2lip.reference CHECKOUT tests/makers/files/wav2lip.npz

needs PyTorch and a checkout of the published repository (Rudrabha/Wav2Lip), whose class is loaded
with our random weights, run once, and sampled.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

import numpy as np
import torch

from training.wav2lip.random_weights import random_inputs, random_weights

SAMPLES = 2000


def main() -> None:
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
