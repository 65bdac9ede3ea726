"""Q8_0: blocks of 32 weights of eight bits each, times the block's scale; written."""

from __future__ import annotations

import numpy as np

from visavis.plans.weights.q5_0 import Bytes, Floats

BLOCK_BYTES = 34
_LARGEST_CODE = 127


def quantize(weights: Floats) -> Bytes:
    """weights: [n, 32] float32 -> [n, 34] uint8. The largest of a block errs by 1/254 at most."""
    largest = np.abs(weights).max(axis=1, keepdims=True)
    scale = (largest / np.float32(_LARGEST_CODE)).astype(np.float16)
    rounded = scale.astype(np.float32)
    per_scale = np.divide(1, rounded, out=np.zeros_like(rounded), where=rounded > 0)
    codes = np.rint(weights * per_scale).clip(-_LARGEST_CODE, _LARGEST_CODE)
    blocks = np.empty((len(weights), BLOCK_BYTES), np.uint8)
    blocks[:, :2] = scale.view(np.uint8)
    blocks[:, 2:] = codes.astype(np.int8).view(np.uint8)
    return blocks
