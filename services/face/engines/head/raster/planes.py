"""Which pixels a triangle covers, and what it has in each of them."""

from __future__ import annotations

import math

import numpy as np

from services.face.draw.compiling import inlined
from services.face.draw.raster import downwards, slope
from services.face.engines.head.raster.lanes import put_planes
from services.face.engines.head.raster.work import FIRST

_NONE = np.float32(0.0)
MOST_LIGHT, MOST_SHINE = np.float32(4096.0), np.float32(255.0)


@inlined()
def corners(k, screen, triangles):  # type: ignore[no-untyped-def]
    """Places of a triangle's corners on the screen."""
    a, b, c = triangles[k, 0], triangles[k, 1], triangles[k, 2]
    return screen[a, 0], screen[a, 1], screen[b, 0], screen[b, 1], screen[c, 0], screen[c, 1]


@inlined()
def lines_of(ay, by, cy, size):  # type: ignore[no-untyped-def]
    """First line, or column, of pixels that lies within a triangle, and the one behind the last."""
    low, high = max(min(ay, by, cy), _NONE), min(max(ay, by, cy), np.float32(size))
    return np.int64(math.ceil(low)), np.int64(math.ceil(high))


@inlined()
def sides_of(ax, ay, bx, by, cx, cy):  # type: ignore[no-untyped-def]
    """A triangle's uppermost corner, x and y, and its middle one; what x gains for one line down on
    the side from the first corner to the last, from the first to the middle one, from there on.
    """
    px, py, qx, qy, rx, ry = downwards(ax, ay, bx, by, cx, cy)
    return px, py, qx, qy, slope(px, py, rx, ry), slope(px, py, qx, qy), slope(qx, qy, rx, ry)


@inlined()
def all_hidden(px, py, qx, qy, rx, ry, key, size, nearest):  # type: ignore[no-untyped-def]
    """Whether something is before all corners of a triangle and its middle, which mostly means
    before all of it. key: of its nearest corner's depth, without a triangle.
    """
    third = np.float32(1 / 3)
    # All four are asked: a processor cannot foretell which of them tells.
    hidden = nearest[pixel_at(px, py, size)] >= key
    hidden &= nearest[pixel_at(qx, qy, size)] >= key
    hidden &= nearest[pixel_at(rx, ry, size)] >= key
    middle = pixel_at((px + qx + rx) * third, (py + qy + ry) * third, size)
    return hidden & (nearest[middle] >= key)


@inlined()
def pixel_at(x, y, size):  # type: ignore[no-untyped-def]
    """The pixel of a place on the screen; at its edge, of one beside it."""
    limit = np.float32(size - 1)
    column, row = min(max(x, _NONE), limit), min(max(y, _NONE), limit)
    return np.uint64(np.int32(row)) * np.uint64(size) + np.uint64(np.int32(column))


@inlined()
def step_of(near, reach):  # type: ignore[no-untyped-def]
    """The step of depth of an inverse depth."""
    return (near - reach[0]) * reach[1] + np.float32(FIRST)


@inlined()
def depth_plane(k, screen, triangles, reach):  # type: ignore[no-untyped-def]
    """Step of depth of a triangle in the picture's first pixel, and what is added to it for one
    pixel right and one down.
    """
    a, b, c = triangles[k, 0], triangles[k, 1], triangles[k, 2]
    ax, ay, q = screen[a, 0], screen[a, 1], screen[a, 2]
    bx, by, cx, cy = screen[b, 0] - ax, screen[b, 1] - ay, screen[c, 0] - ax, screen[c, 1] - ay
    rate, qb, qc = reach[1] / (bx * cy - cx * by), screen[b, 2] - q, screen[c, 2] - q
    right, down = (qb * cy - qc * by) * rate, (qc * bx - qb * cx) * rate
    return step_of(q, reach) - right * ax - down * ay, right, down


@inlined()
def write_planes(k, model, work):  # type: ignore[no-untyped-def]
    """Writes what of a triangle is to be seen."""
    triangles, texture_of, textures = model.triangles, model.texture_of, work.textures
    screen, at = work.screen, np.uint64(16 * (k + 1))
    a, b, c = triangles[k, 0], triangles[k, 1], triangles[k, 2]
    ax, ay = screen[a, 0], screen[a, 1]
    bx, by, cx, cy = screen[b, 0] - ax, screen[b, 1] - ay, screen[c, 0] - ax, screen[c, 1] - ay
    inverse = np.float32(1.0) / (bx * cy - cx * by)
    # Each is right * ... + down * ... of two differences: all four go the same way.
    shares = by * inverse, cy * inverse, bx * inverse, cx * inverse
    wide, high = np.float32(texture_of[k, 1]), np.float32(texture_of[k, 2])
    units = np.float32(256.0) * wide, np.float32(256.0) * high
    corners = np.uint64(a), np.uint64(b), np.uint64(c)
    put_planes(screen, corners, (ax, ay), shares, units, work.planes, at)
    for part in range(3):
        textures[at + np.uint64(12 + part)] = texture_of[k, part]
