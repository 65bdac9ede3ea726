"""The textures of a head as compiled code reads them: one list of texels for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from services.face.engines.head.gltf.parts import EDGE, MOST_TILES, Part

NEAREST_M = 0.05
"""What is nearer to the camera is taken to be so far from it."""
_LEVEL_BIAS = -0.3
"""Of coarser textures: a little too sharp looks better than blurred."""
_MOST_TEXELS = 4096 * 4096
"""Of a texture that is shown several times over; a finer one is made coarser."""
_SHARPNESS = 2.2
"""Of the edges of what is cut out: so much steeper than in its texture, at the least."""


class Textures(NamedTuple):
    """All textures of a head, each in those levels of detail that are shown."""

    places: NDArray[np.float32]
    """[N, 2] of each vertex in its texture, 0..1."""
    about: NDArray[np.int32]
    """[M, 3] first texel, width and height of what each triangle shows."""
    texels: NDArray[np.uint32]
    """Bytes R, G, B, A; colours times alpha."""
    ends: NDArray[np.int64]
    """[parts, 2] first texel of each part and the one behind."""


def on_screen(places: NDArray[np.float32], camera: NDArray[np.float64]) -> NDArray[np.float64]:
    """[N, 2] pixels from the picture's middle of [N, 3] metres. camera: that of a `Model`."""
    seen = places - camera[9:12]
    depth = np.maximum(seen @ camera[6:9], NEAREST_M)
    flat = np.stack([seen @ camera[0:3] / depth, seen @ camera[3:6] / depth], axis=1)
    return np.asarray(flat * camera[12])


def textures_of(
    parts: Sequence[Part], tinted: NDArray[np.float64], shown: NDArray[np.float64]
) -> Textures:
    """tinted: [3] what colours are multiplied by; shown: [N, 2] pixels, where vertices are on the
    screen, which tells how much detail is seen.
    """
    places: list[NDArray[np.float32]] = []
    texels: list[NDArray[np.uint8]] = []
    ends: list[tuple[int, int]] = []
    about: list[NDArray[np.int32]] = []
    length, vertex = 0, 0
    for part in parts:
        where, picture = _within(part, tinted)
        if _goes_down(where * picture.shape[1::-1], shown[vertex : vertex + len(where)], part):
            where, picture = where[:, ::-1], np.ascontiguousarray(picture.swapaxes(0, 1))
        begun, height, width = length, picture.shape[0], picture.shape[1]
        covered = _areas(where * np.array([width, height], np.float32), part.triangles)
        seen = _areas(shown[vertex : vertex + len(where)], part.triangles)
        wanted = np.log2(np.maximum(covered, 1e-4) / np.maximum(seen, 1e-4)) / 2 + _LEVEL_BIAS
        levels = _levels(picture)
        level = np.clip(np.rint(wanted), 0, len(levels) - 1).astype(int)
        firsts = np.zeros((len(levels), 3), np.int32)
        for k in np.unique(level):
            shown_as = _sharpened(levels[k], part.cut)
            if part.blends:
                shown_as = _told_apart(shown_as)
            firsts[k] = length, shown_as.shape[1], shown_as.shape[0]
            texels.append(shown_as.reshape(-1, 4))
            length += shown_as.shape[0] * shown_as.shape[1]
        about.append(firsts[level])
        places.append(where)
        ends.append((begun, length))
        vertex += len(where)
    whole = np.ascontiguousarray(np.concatenate(texels)).view(np.uint32).reshape(-1)
    return Textures(np.concatenate(places), np.concatenate(about), whole, np.array(ends))


def _goes_down(texels: NDArray[np.floating], shown: NDArray[np.floating], part: Part) -> bool:
    """Whether a line of the screen goes down a texture more than along it: each pixel's texels
    would then lie in another line of the caches. Turned over, it gives the same picture.
    """
    a, b, c = part.triangles.T
    # How far a texture is gone along, and down, from pixel to pixel, by the pixels of a triangle.
    rise, other = (shown[c] - shown[a])[:, 1:], (shown[b] - shown[a])[:, 1:]
    steps = (texels[b] - texels[a]) * rise - (texels[c] - texels[a]) * other
    along, down = np.abs(steps).sum(axis=0)
    return bool(down > along)


def _areas(points: NDArray[np.floating], triangles: NDArray[np.integer]) -> NDArray[np.floating]:
    a, b, c = (points[triangles[:, k]] for k in range(3))
    ab, ac = b - a, c - a
    return np.asarray(np.abs(ab[:, 0] * ac[:, 1] - ab[:, 1] * ac[:, 0]) / 2)


def _within(
    part: Part, tinted: NDArray[np.float64]
) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    """Places within 0..1, of the texture as often as they go over it; colours times alpha."""
    picture = part.texture.copy()
    picture[..., :3] = np.minimum(np.rint(picture[..., :3] * tinted), 255)
    if min(picture.shape[:2]) < 4:
        # What is drawn is mixed of two texels each way.
        picture = np.repeat(np.repeat(picture, 4, axis=0), 4, axis=1)
    if part.blends:
        alpha = picture[..., 3:].astype(np.float32) / 255
        picture[..., :3] = np.rint(picture[..., :3] * alpha)
    else:
        picture[..., 3] = 255
    corners = part.places[part.triangles].reshape(-1, 2)
    low = np.floor(corners.min(axis=0) + EDGE)
    tiles = np.ceil(corners.max(axis=0) - low - EDGE).clip(1, MOST_TILES).astype(int)
    # Beyond what is clamped, the texel at its edge is drawn anyway.
    low[list(part.clamped)], tiles[list(part.clamped)] = 0, 1
    while tiles.prod() * picture.shape[0] * picture.shape[1] > _MOST_TEXELS:
        height, width = picture.shape[:2]
        half = (width + 1) // 2, (height + 1) // 2
        picture = np.asarray(cv2.resize(picture, half, interpolation=cv2.INTER_AREA), np.uint8)
    tiled = np.tile(picture, (tiles[1], tiles[0], 1))
    return ((part.places - low) / tiles).astype(np.float32), tiled


def _levels(picture: NDArray[np.uint8]) -> list[NDArray[np.uint8]]:
    levels = [picture]
    while min(levels[-1].shape[:2]) >= 8:
        height, width = levels[-1].shape[:2]
        half = cv2.resize(levels[-1], (width // 2, height // 2), interpolation=cv2.INTER_AREA)
        levels.append(np.asarray(half, np.uint8))
    return levels


def _told_apart(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """With texels that tell of all four that are mixed from there on: all are solid where alpha is
    255, and clear where it is 0. All others have something between.
    """
    alpha = picture[..., 3].astype(np.int32)
    four = np.pad(alpha, ((0, 1), (0, 1)), constant_values=128)
    four = np.stack([four[:-1, :-1], four[:-1, 1:], four[1:, :-1], four[1:, 1:]])
    told = np.clip(alpha, 1, 254)
    told[four.min(axis=0) == 255] = 255
    told[four.max(axis=0) == 0] = 0
    found = picture.copy()
    found[..., 3] = told
    found[..., :3] = np.minimum(found[..., :3], found[..., 3:])
    return found


def _sharpened(picture: NDArray[np.uint8], cut: float | None) -> NDArray[np.uint8]:
    """With alpha that falls off at the cut as it does over a pixel or two: edges stay smooth, and
    what is within hides what is behind.
    """
    if cut is None:
        return picture
    alpha = picture[..., 3:].astype(np.float32) / 255
    cut = min(max(cut, 0.5 / 255), 254.5 / 255)
    # What is solid in the texture stays so, and what is clear, wherever between them the cut is.
    sharpness = max(_SHARPNESS, 0.5 / cut, 0.5 / (1 - cut))
    sharp = np.clip((alpha - cut) * sharpness + 0.5, 0, 1)
    colours = picture[..., :3] * (sharp / np.maximum(alpha, 1 / 255))
    whole = np.concatenate([np.minimum(colours, 255 * sharp), 255 * sharp], axis=2)
    return np.asarray(np.rint(whole), np.uint8)
