"""The texture of a mesh comes out where the vertices are, and nothing else is touched."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from services.face.draw.raster import (
    NOWHERE,
    fraction_bits,
    locate_texels,
    paint_box,
    paint_texels,
    texel_pairs,
)

SIDE = 64
_SQUARE = np.array([[0, 1, 2], [0, 2, 3]], np.int32)


def _texture() -> NDArray[np.uint8]:
    rgba = np.random.default_rng(3).integers(0, 256, (SIDE, SIDE, 4)).astype(np.uint8)
    rgba[..., 3] = 255
    return rgba


def _corners(low: float, high: float) -> NDArray[np.float32]:
    return np.array([[low, low], [high, low], [high, high], [low, high]], np.float32)


def _draw(
    places: NDArray[np.float32],
    source: NDArray[np.float32],
    texture: NDArray[np.uint8],
    triangles: NDArray[np.int32] = _SQUARE,
) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
    """Texel of each pixel, and the picture over a background of 10, 20, 30."""
    bits = fraction_bits(SIDE, SIDE)
    texel_at = np.full((SIDE, SIDE), NOWHERE)
    locate_texels(places, source, triangles, SIDE, SIDE, bits, texel_at, 0)
    out = np.tile(np.array([10, 20, 30, 0], np.uint8), (SIDE, SIDE, 1))
    paint_texels(texel_at, bits, texel_pairs(texture), SIDE, out.reshape(-1).view("<u4"))
    return texel_at, out[..., :3]


def test_a_mesh_that_stands_still_shows_its_texture() -> None:
    texture = _texture()
    _, out = _draw(_corners(0, SIDE - 1), _corners(0, SIDE - 1), texture)
    inner = slice(0, SIDE - 2)
    assert np.abs(out[inner, inner].astype(int) - texture[inner, inner, :3]).max() <= 1


def test_half_a_texel_is_the_mean_of_two() -> None:
    texture = _texture()
    moved = _corners(0, 32) + np.array([0.5, 0], np.float32)
    _, out = _draw(_corners(0, 32), moved, texture)
    part = texture[:32, :33, :3].astype(int)
    assert np.abs(out[:32, :32] - (part[:, :-1] + part[:, 1:]) / 2).max() <= 1.5


def test_nothing_outside_the_mesh_is_touched() -> None:
    texel_at, out = _draw(_corners(20, 40), _corners(20, 40), _texture())
    covered = texel_at != NOWHERE
    assert covered[20:40, 20:40].all() and covered.sum() == 400
    assert (out[~covered] == (10, 20, 30)).all()


def test_later_triangles_cover_earlier_ones() -> None:
    twice = np.vstack([_corners(0, 40), _corners(0, 40)])
    source = np.vstack([_corners(0, 0.001), _corners(20, 20.001)])
    both = np.vstack([_SQUARE, _SQUARE + 4])
    texture = _texture()
    _, out = _draw(twice, source, texture, both)
    assert (out[5, 5] == texture[20, 20, :3]).all()
    _, out = _draw(twice, source, texture, np.ascontiguousarray(both[::-1]))
    assert (out[5, 5] == texture[0, 0, :3]).all()


def test_what_is_clear_shows_the_background() -> None:
    texture = np.zeros((SIDE, SIDE, 4), np.uint8)
    texture[:, 32:] = (100, 50, 25, 127)
    _, out = _draw(_corners(0, SIDE - 1), _corners(0, SIDE - 1), texture)
    assert (out[10, 10] == (10, 20, 30)).all()
    assert np.abs(out[10, 50].astype(int) - (105, 60, 40)).max() <= 1


def test_meshes_far_outside_are_drawn_without_harm() -> None:
    for far in (-1e5, 1e5):
        _draw(_corners(0, 40), _corners(far, far + 1), _texture())
        _draw(_corners(-far, far), _corners(0, 40), _texture())
        assert (_draw(_corners(far, far + 9), _corners(0, 9), _texture())[0] == NOWHERE).all()


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
