"""What no picture of a face shows: meshes and boxes outside of it, and larger textures.

That a texture comes out where the vertices are, `test_renderer.py` holds by a face as it looked.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from services.face.draw.raster import NOWHERE, fraction_bits, locate_texels, paint_box

SIDE = 64
_SQUARE = np.array([[0, 1, 2], [0, 2, 3]], np.int32)


def _corners(low: float, high: float) -> NDArray[np.float32]:
    return np.array([[low, low], [high, low], [high, high], [low, high]], np.float32)


def test_meshes_far_outside_are_drawn_without_harm() -> None:
    def located(places: NDArray[np.float32], source: NDArray[np.float32]) -> NDArray[np.uint32]:
        texel_at = np.full((SIDE, SIDE), NOWHERE)
        bits = fraction_bits(SIDE, SIDE)
        locate_texels(places, source, _SQUARE, SIDE, SIDE, bits, texel_at, 0)
        return texel_at

    for far in (-1e5, 1e5):
        located(_corners(0, 40), _corners(far, far + 1))
        located(_corners(-far, far), _corners(0, 40))
        assert (located(_corners(far, far + 9), _corners(0, 9)) == NOWHERE).all()


def test_positions_in_large_textures_fit() -> None:
    for side, bits in ((64, 8), (1024, 6), (2048, 5), (4096, 4)):
        assert fraction_bits(side, side) == bits
        assert ((side - 1) << bits) < 1 << 16


def test_a_box_ends_at_the_edge_of_the_picture() -> None:
    out = np.zeros((SIDE, SIDE, 4), np.uint8)
    places = np.array([[-50.0, 60.2], [3.5, 900.0]])
    for top in (0, 48):
        lines = out[top : top + 48]
        paint_box(lines, top, places, np.array([0, 1]), np.array([1, 2, 3], np.uint8))
    painted = np.argwhere(out.any(axis=2))
    assert painted.min(axis=0).tolist() == [60, 0]
    assert painted.max(axis=0).tolist() == [63, 4]
