"""Q5_0: blocks of 32 weights of five bits each, times the block's scale; read, or made Q8_0.

Layouts are ggml's (github.com/ggml-org/ggml, ggml-common.h). Its own Python library takes ten
times as long for the same numbers; the tests hold these functions against it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

BLOCK_BYTES = 22
_Q8_0_BLOCK_BYTES = 34


def dequantize(blocks: Bytes) -> Floats:
    """blocks: [n, 22] uint8 (half float scale, 32 high bits, 32 nibbles) -> [n, 32] float32."""
    scale = np.ascontiguousarray(blocks[:, :2]).view(np.float16).astype(np.float32)
    return _codes(blocks).astype(np.float32) * scale


def as_q8_0(blocks: Bytes) -> Bytes:
    """blocks: [n, 22] uint8 -> [n, 34] uint8 of Q8_0: the very same weights, faster to read."""
    wide = np.empty((len(blocks), _Q8_0_BLOCK_BYTES), np.uint8)
    wide[:, :2] = blocks[:, :2]
    wide[:, 2:] = _codes(blocks).view(np.uint8)
    return wide


def _codes(blocks: Bytes) -> NDArray[np.int8]:
    """Weights in units of the scale, -16 to 15: [n, 22] -> [n, 32]."""
    nibbles = blocks[:, 6:]
    codes = np.unpackbits(blocks[:, 2:6], axis=1, bitorder="little")
    np.left_shift(codes, 4, out=codes)
    codes[:, :16] |= nibbles & 15
    codes[:, 16:] |= nibbles >> 4
    signed = codes.view(np.int8)
    signed -= 16
    return signed
