"""Which pixels a triangle covers, and what it has in each of them."""

from __future__ import annotations

import math

import numpy as np

from services.face.draw.compiling import inlined
from services.face.draw.raster import downwards, slope
from services.face.engines.head.raster.lanes import put_planes
from services.face.engines.head.raster.work import FIRST

_NONE = np.float32(0.0)
_LEVEL = np.float32(1e-3)
"""A side that goes down by less ends no line."""
_FLAT = np.float32(1e-3)
"""Square pixels: what has less shows nothing."""
_AWAY = np.float32(1e9)
MOST_LIGHT, MOST_SHINE = np.float32(4096.0), np.float32(255.0)


@inlined()
def corners(k, screen, triangles):  # type: ignore[no-untyped-def]
    """Places of a triangle's corners on the screen."""
    a, b, c = triangles[k, 0], triangles[k, 1], triangles[k, 2]
    return screen[a, 0], screen[a, 1], screen[b, 0], screen[b, 1], screen[c, 0], screen[c, 1]


@inlined()
def lines_of(one, other, third, fourth, size):  # type: ignore[no-untyped-def]
    """First line, or column, of pixels that lies between corners, and the one behind the last."""
    low, high = min(one, other, third, fourth), max(one, other, third, fourth)
    low, high = max(low, _NONE), min(high, np.float32(size))
    return np.int64(math.ceil(low)), np.int64(math.ceil(high))


@inlined()
def sides_of(ax, ay, bx, by, cx, cy):  # type: ignore[no-untyped-def]
    """A triangle's uppermost corner, x and y, and its middle one; what x gains for one line down on
    the side from the first corner to the last, from the first to the middle one, from there on.
    """
    px, py, qx, qy, rx, ry = downwards(ax, ay, bx, by, cx, cy)
    return px, py, qx, qy, slope(px, py, rx, ry), slope(px, py, qx, qy), slope(qx, qy, rx, ry)


@inlined()
def all_hidden(corners, middle, key, size, nearest):  # type: ignore[no-untyped-def]
    """Whether something is before all corners of a piece and its middle, which mostly means
    before all of it. key: of its nearest corner's depth, without a triangle.
    """
    ax, ay, bx, by, cx, cy, dx, dy = corners
    # All five are asked: a processor cannot foretell which of them tells.
    hidden = nearest[pixel_at(ax, ay, size)] >= key
    hidden &= nearest[pixel_at(bx, by, size)] >= key
    hidden &= nearest[pixel_at(cx, cy, size)] >= key
    hidden &= nearest[pixel_at(dx, dy, size)] >= key
    return hidden & (nearest[pixel_at(middle[0], middle[1], size)] >= key)


@inlined()
def side_of(px, py, qx, qy, turns):  # type: ignore[no-untyped-def]
    """A side from p to q: its upper end, x and y; what x gains for one line down; and what is added
    to it where it may begin a line, and where it may end one. turns: above 0 where the corners go
    round to the right.
    """
    fall = qy - py
    steep, turned = abs(fall) > _LEVEL, turns * fall
    x = px if fall > _NONE else qx
    begins = _NONE if steep & (turned < _NONE) else -_AWAY
    ends = _NONE if steep & (turned > _NONE) else _AWAY
    return x, min(py, qy), (qx - px) / (fall if steep else np.float32(1.0)), begins, ends


@inlined()
def spanned(a, b, c, d, screen):  # type: ignore[no-untyped-def]
    """Corners of what a piece spans on the screen, one after the other; a triangle's third comes
    twice. Sides of a twisted ribbon cross, and a corner may lie between the others: to draw its
    halves apart, half of curled hair, took longer than to draw what they span.
    """
    ax, ay, bx, by, cx, cy, dx, dy = corners_of(a, b, c, d, screen)
    right_a = (ax - dx) * (by - ay) > (bx - ax) * (ay - dy)
    right_b = (bx - ax) * (cy - by) > (cx - bx) * (by - ay)
    right_c = (cx - bx) * (dy - cy) > (dx - cx) * (cy - by)
    right_d = (dx - cx) * (ay - dy) > (ax - dx) * (dy - cy)
    count = np.int64(right_a) + np.int64(right_b) + np.int64(right_c) + np.int64(right_d)
    crossed, within = (count == 2) & (c != d), (count & 1 == 1) & (c != d)
    # The one corner at which it goes round the other way is within.
    other, together = count == 1, right_a == right_b
    within_a, within_b = within & (right_a == other), within & (right_b == other)
    within_d = within & (right_d == other)
    twisted, folded = crossed & together, crossed & ~together
    e = b if within_a else a
    f = c if within_a | within_b | folded else b
    g = d if within_a | within_b | (within & ~within_d) | twisted else (b if folded else c)
    h = c if within_d | twisted else d
    return e, f, g, h


@inlined()
def corners_of(a, b, c, d, screen):  # type: ignore[no-untyped-def]
    """Where corners are on the screen."""
    ax, ay, bx, by = screen[a, 0], screen[a, 1], screen[b, 0], screen[b, 1]
    return ax, ay, bx, by, screen[c, 0], screen[c, 1], screen[d, 0], screen[d, 1]


@inlined()
def polygon(corners):  # type: ignore[no-untyped-def]
    """The sides of a piece, one after the other."""
    ax, ay, bx, by, cx, cy, dx, dy = corners
    turns = (cx - ax) * (dy - by) - (dx - bx) * (cy - ay)
    one, two = side_of(ax, ay, bx, by, turns), side_of(bx, by, cx, cy, turns)
    three, four = side_of(cx, cy, dx, dy, turns), side_of(dx, dy, ax, ay, turns)
    return one + two + three + four


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
def across(a, b, c, d):  # type: ignore[no-untyped-def]
    """Corners of a quad, or of a triangle whose third comes twice, as ends of two lines across."""
    a, b, c, d = np.uint64(a), np.uint64(b), np.uint64(c), np.uint64(d)
    return (a, b, a, c) if c == d else (a, c, b, d)


@inlined()
def middle_of(ends, screen):  # type: ignore[no-untyped-def]
    """The middle of those, on the screen, and how far the lines go."""
    ax, ay, bx, by = screen[ends[0], 0], screen[ends[0], 1], screen[ends[1], 0], screen[ends[1], 1]
    cx, cy, dx, dy = screen[ends[2], 0], screen[ends[2], 1], screen[ends[3], 0], screen[ends[3], 1]
    fourth = np.float32(0.25)
    x, y = (ax + bx + cx + dx) * fourth, (ay + by + cy + dy) * fourth
    return x, y, bx - ax, by - ay, dx - cx, dy - cy


@inlined()
def is_flat(ends, screen):  # type: ignore[no-untyped-def]
    """Whether the camera sees a piece from its edge."""
    _, _, bx, by, cx, cy = middle_of(ends, screen)
    return abs(bx * cy - cx * by) < _FLAT


@inlined()
def depth_across(ends, screen, reach):  # type: ignore[no-untyped-def]
    """As `depth_plane`."""
    x, y, bx, by, cx, cy = middle_of(ends, screen)
    p, q, r, s = screen[ends[0], 2], screen[ends[1], 2], screen[ends[2], 2], screen[ends[3], 2]
    rate, qb, qc = reach[1] / (bx * cy - cx * by), q - p, s - r
    right, down = (qb * cy - qc * by) * rate, (qc * bx - qb * cx) * rate
    return step_of((p + q + r + s) * np.float32(0.25), reach) - right * x - down * y, right, down


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
def write_planes(k, ends, model, work):  # type: ignore[no-untyped-def]
    """Writes what of a triangle is to be seen, or of a quad; ends: as `across` gives them."""
    texture_of, textures = model.texture_of, work.textures
    screen, at = work.screen, np.uint64(16 * (k + 1))
    x, y, bx, by, cx, cy = middle_of(ends, screen)
    inverse = np.float32(1.0) / (bx * cy - cx * by)
    # Each is right * ... + down * ... of two differences: all four go the same way.
    shares = by * inverse, cy * inverse, bx * inverse, cx * inverse
    wide, high = np.float32(texture_of[k, 1]), np.float32(texture_of[k, 2])
    units = np.float32(256.0) * wide, np.float32(256.0) * high
    put_planes(screen, ends, (x, y), shares, units, work.planes, at)
    for part in range(3):
        textures[at + np.uint64(12 + part)] = texture_of[k, part]
