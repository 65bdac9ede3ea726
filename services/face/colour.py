"""RGB pictures as the planes that video encoders take: Y'CbCr 4:2:0, BT.601, limited range."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

# Coefficients of ITU-R BT.601 for 8 bits, times 2**16. Typed, so that the loops stay in 32 bits
# and compile to vector instructions.
_LUMA_R, _LUMA_G, _LUMA_B = np.uint32(16829), np.uint32(33039), np.uint32(6416)
_LUMA_OFFSET, _LUMA_SHIFT = np.uint32((16 << 16) + (1 << 15)), np.uint32(16)
_CB_R, _CB_G, _CB_B = np.int32(-9714), np.int32(-19070), np.int32(28784)
_CR_R, _CR_G, _CR_B = np.int32(28784), np.int32(-24103), np.int32(-4681)
# Of the sum of four pixels.
_CHROMA_OFFSET, _CHROMA_SHIFT = np.int32((128 << 18) + (1 << 17)), np.int32(18)
_1, _2, _3, _4, _5, _6 = (np.uint64(k) for k in range(1, 7))


@numba.njit(nogil=True, cache=True, fastmath=True)
def fill_planes(
    rgb: NDArray[np.uint8],
    width: int,
    height: int,
    luma: NDArray[np.uint8],
    luma_stride: int,
    cb: NDArray[np.uint8],
    cr: NDArray[np.uint8],
    chroma_stride: int,
) -> None:
    """Writes a picture into its planes; a pixel of chroma is the mean of four.

    rgb: [height * width * 3], even sides; luma: [height * luma_stride]; cb, cr: [height / 2 *
    chroma_stride]. Strides in bytes.
    """
    columns = np.uint64(width)
    for y in range(height):
        first, to = np.uint64(y * width * 3), np.uint64(y * luma_stride)
        for x in range(columns):
            at = first + _3 * x
            red, green, blue = np.uint32(rgb[at]), np.uint32(rgb[at + _1]), np.uint32(rgb[at + _2])
            value = _LUMA_R * red + _LUMA_G * green + _LUMA_B * blue + _LUMA_OFFSET
            luma[to + x] = np.uint8(value >> _LUMA_SHIFT)
    half = np.uint64(width // 2)
    for y in range(height // 2):
        upper, to = np.uint64(2 * y * width * 3), np.uint64(y * chroma_stride)
        lower = upper + np.uint64(width * 3)
        for x in range(half):
            a, b = upper + _6 * x, lower + _6 * x
            red = _sum(rgb, a, a + _3, b, b + _3)
            green = _sum(rgb, a + _1, a + _4, b + _1, b + _4)
            blue = _sum(rgb, a + _2, a + _5, b + _2, b + _5)
            value = _CB_R * red + _CB_G * green + _CB_B * blue + _CHROMA_OFFSET
            cb[to + x] = np.uint8(value >> _CHROMA_SHIFT)
            value = _CR_R * red + _CR_G * green + _CR_B * blue + _CHROMA_OFFSET
            cr[to + x] = np.uint8(value >> _CHROMA_SHIFT)


@numba.njit(nogil=True, cache=True, fastmath=True, inline="always")
def _sum(values, a, b, c, d):  # type: ignore[no-untyped-def]
    return np.int32(values[a]) + np.int32(values[b]) + np.int32(values[c]) + np.int32(values[d])
