"""Q4_1: blocks of 32 weights of four bits each, with a scale and a least value; read."""

from __future__ import annotations

import numpy as np

from visavis.plans.weights.q5_0 import Bytes, Floats

BLOCK_BYTES = 20


def dequantize(blocks: Bytes) -> Floats:
    """blocks: [n, 20] uint8 (half float scale, half float least value, nibbles) -> [n, 32]."""
    halves = np.ascontiguousarray(blocks[:, :4]).view(np.float16).astype(np.float32)
    codes = np.concatenate((blocks[:, 4:] & 15, blocks[:, 4:] >> 4), axis=1)
    weights: Floats = codes.astype(np.float32) * halves[:, :1] + halves[:, 1:]
    return weights
