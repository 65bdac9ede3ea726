"""RGB -> planes: the values that every decoder turns back into the same colours."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from services.face.draw.encoder import fill_planes

_BT601 = np.array([[65.481, 128.553, 24.966], [-37.797, -74.203, 112.0], [112.0, -93.786, -18.214]])
_OFFSET = np.array([16.0, 128.0, 128.0])


def _planes(rgb: NDArray[np.uint8], padding: int = 0) -> list[NDArray[np.uint8]]:
    """Y, Cb and Cr, each line followed by `padding` bytes that nobody may touch."""
    height, width, _ = rgb.shape
    sides = [(height, width), (height // 2, width // 2), (height // 2, width // 2)]
    planes = [np.full((h, w + padding), 77, np.uint8) for h, w in sides]
    luma, cb, cr = (plane.reshape(-1) for plane in planes)
    pixels = np.dstack([rgb, rgb[..., 1]]).reshape(-1).view("<u4")  # the fourth byte means nothing
    fill_planes(pixels, width, height, luma, width + padding, cb, cr, width // 2 + padding)
    assert all((plane[:, w:] == 77).all() for plane, (_, w) in zip(planes, sides, strict=True))
    return [plane[:, :w] for plane, (_, w) in zip(planes, sides, strict=True)]


def test_planes_are_bt601_in_limited_range() -> None:
    rgb = np.random.default_rng(1).integers(0, 256, (34, 52, 3)).astype(np.uint8)
    exact = rgb / 255.0 @ _BT601.T + _OFFSET
    mean = exact.reshape(17, 2, 26, 2, 3).mean(axis=(1, 3))
    for plane, wanted in zip(_planes(rgb, 12), (exact[..., 0], *mean[..., 1:].T), strict=True):
        wanted = wanted if wanted.shape == plane.shape else wanted.T
        assert np.abs(plane - wanted).max() <= 0.52, "rounded, not cut off"


def test_extremes_stay_in_range() -> None:
    for colour, y in (((0, 0, 0), 16), ((255, 255, 255), 235)):
        luma, cb, cr = _planes(np.full((16, 16, 3), colour, np.uint8))
        assert set(np.unique(luma)) == {y}
        assert set(np.unique(cb)) == set(np.unique(cr)) == {128}
    for channel, plane in ((0, 2), (2, 1)):
        pure = np.zeros((16, 16, 3), np.uint8)
        pure[..., channel] = 255
        assert _planes(pure)[plane].max() == 240
