"""The block types of GGUF weights that are read or written here: Q5_0, Q8_0, Q4_1, IQ4_NL.

Blocks hold 32 weights: of five, eight or four bits each times the block's scale, Q4_1's with a
least value, IQ4_NL's each one of sixteen uneven steps. Layouts are ggml's
(github.com/ggml-org/ggml, ggml-common.h). Its own Python library takes ten times as long for the
same numbers; the tests hold these functions against it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

BLOCK_WEIGHTS = 32
Q4_1_BYTES = 20
IQ4_NL_BYTES = 18
Q5_0_BYTES = 22
Q8_0_BYTES = 34
_LARGEST_CODE = 127  # of Q8_0


def dequantize_q5_0(blocks: Bytes) -> Floats:
    """blocks: [n, 22] uint8 (half float scale, 32 high bits, 32 nibbles) -> [n, 32] float32."""
    scale = np.ascontiguousarray(blocks[:, :2]).view(np.float16).astype(np.float32)
    return _codes_q5_0(blocks).astype(np.float32) * scale


def q5_0_as_q8_0(blocks: Bytes) -> Bytes:
    """blocks: [n, 22] uint8 -> [n, 34] uint8 of Q8_0: the very same weights, faster to read."""
    wide = np.empty((len(blocks), Q8_0_BYTES), np.uint8)
    wide[:, :2] = blocks[:, :2]
    wide[:, 2:] = _codes_q5_0(blocks).view(np.uint8)
    return wide


def _codes_q5_0(blocks: Bytes) -> NDArray[np.int8]:
    """Weights in units of the scale, -16 to 15: [n, 22] -> [n, 32]."""
    nibbles = blocks[:, 6:]
    codes = np.unpackbits(blocks[:, 2:6], axis=1, bitorder="little")
    np.left_shift(codes, 4, out=codes)
    codes[:, :16] |= nibbles & 15
    codes[:, 16:] |= nibbles >> 4
    signed = codes.view(np.int8)
    signed -= 16
    return signed


def quantize_q8_0(weights: Floats) -> Bytes:
    """weights: [n, 32] float32 -> [n, 34] uint8. The largest of a block errs by 1/254 at most."""
    largest = np.abs(weights).max(axis=1, keepdims=True)
    scale = (largest / np.float32(_LARGEST_CODE)).astype(np.float16)
    rounded = scale.astype(np.float32)
    per_scale = np.divide(1, rounded, out=np.zeros_like(rounded), where=rounded > 0)
    codes = np.rint(weights * per_scale).clip(-_LARGEST_CODE, _LARGEST_CODE)
    blocks = np.empty((len(weights), Q8_0_BYTES), np.uint8)
    blocks[:, :2] = scale.view(np.uint8)
    blocks[:, 2:] = codes.astype(np.int8).view(np.uint8)
    return blocks


def dequantize_q4_1(blocks: Bytes) -> Floats:
    """blocks: [n, 20] uint8 (half float scale, half float least value, nibbles) -> [n, 32]."""
    halves = np.ascontiguousarray(blocks[:, :4]).view(np.float16).astype(np.float32)
    codes = np.concatenate((blocks[:, 4:] & 15, blocks[:, 4:] >> 4), axis=1)
    weights: Floats = codes.astype(np.float32) * halves[:, :1] + halves[:, 1:]
    return weights


# IQ4_NL's steps lie densely about zero, where most weights are: of Qwen2.5-Coder's weights they
# leave half of the squared error of sixteen even ones (Q4_0), at the same size and speed.
STEPS = np.array(
    (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113), np.int8
)
# The weight of largest magnitude lies on either end of the steps; three or fifteen
# trials between them gain two per cent of the squared error and take thrice as long.
_ENDS = (-127.0, 113.0)


def _nearest_tables() -> tuple[bytes, bytes]:
    """For each byte that holds an int8: the nearest step, and its number."""
    values = np.arange(256, dtype=np.uint8).view(np.int8).astype(np.int16)
    codes = np.abs(values[:, None] - STEPS[None]).argmin(axis=1).astype(np.uint8)
    return STEPS[codes].tobytes(), codes.tobytes()


_STEP_OF, _CODE_OF = _nearest_tables()


def quantize_iq4_nl(weights: Floats) -> Bytes:
    """weights: [n, 32] float32 -> [n, 18] uint8: half float scale, then codes by twos.

    Of a block's candidate scales the one is kept whose least squares fit explains most of the
    block; large weights count more, but no weight counts nothing (as in llama.cpp's own search).
    """
    largest = np.take_along_axis(weights, np.abs(weights).argmax(axis=1)[:, None], axis=1)
    per_largest = _inverse(largest)
    squares = weights * weights
    important = np.sqrt(squares + squares.mean(axis=1, keepdims=True))
    important_weights = important * weights
    explained = np.full(len(weights), -1.0, np.float32)
    scale = np.zeros(len(weights), np.float32)

    def attempt(steps_per_weight: Floats) -> None:
        nonlocal explained, scale
        steps = np.frombuffer(_rounded(weights, steps_per_weight).translate(_STEP_OF), np.int8)
        steps_f = steps.reshape(weights.shape).astype(np.float32)
        product = np.einsum("ij,ij->i", important_weights, steps_f)
        norm = np.einsum("ij,ij->i", important * steps_f, steps_f)
        fitted = product * _inverse(norm)
        gain = product * fitted
        better = gain > explained
        explained = np.where(better, gain, explained)
        scale = np.where(better, fitted, scale)

    for end in _ENDS:
        attempt(per_largest * np.float32(end))
    attempt(_inverse(scale)[:, None])  # the fit moves some weights to other steps: once more
    return _packed(weights, scale.astype(np.float16))


def _packed(weights: Floats, scale: NDArray[np.float16]) -> Bytes:
    steps_per_weight = _inverse(scale.astype(np.float32))[:, None]
    coded = np.frombuffer(_rounded(weights, steps_per_weight).translate(_CODE_OF), np.uint8)
    codes = coded.reshape(weights.shape)
    blocks = np.empty((len(weights), IQ4_NL_BYTES), np.uint8)
    blocks[:, :2] = scale[:, None].view(np.uint8)
    np.left_shift(codes[:, 16:], 4, out=blocks[:, 2:])
    blocks[:, 2:] |= codes[:, :16]
    return blocks


def _rounded(weights: Floats, steps_per_weight: Floats) -> bytes:
    """The int8 of each weight in units of the steps; [n, 32] and [n, 1] float32."""
    units = weights * steps_per_weight
    np.rint(units, out=units)
    np.clip(units, -127, 127, out=units)
    return units.astype(np.int8).tobytes()


def _inverse(values: Floats) -> Floats:
    """1 / value; 0 for 0 (a block of zeros has the scale 0)."""
    zero = values == 0
    return np.where(zero, np.float32(0), 1 / np.where(zero, np.float32(1), values))
