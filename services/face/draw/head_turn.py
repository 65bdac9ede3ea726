"""Where a pose carries the points of a portrait: shapes added up, lips shut, head turned.

Compiled, because a face has some hundred points and every picture needs them all. Element by
element: assignments of whole slices take seconds more to compile.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from services.face.draw.compiling import inlined, inner
from services.face.draw.pose import POSE_INDEX

_CAMERA = 7.0
"""Distance of the camera, in eye distances."""
_LIP_FOLLOW = (0.4, 0.62, 0.82, 1.0)
"""How much each row of a lip, outer to inner, goes along when the lips shut."""
_LIP_PRESS = (0.13, 0.1, 0.05, 0.0)
"""How much each row draws in towards the seam when the lips press."""

_TURNS = np.array([POSE_INDEX[name] for name in ("yaw", "pitch", "roll")])
_SHIFT_X, _SHIFT_Y = POSE_INDEX["shift_x"], POSE_INDEX["shift_y"]
_BREATH = POSE_INDEX["breath"]
HEAD_PARAMETERS = 12
"""0, 1 pivot; 2 eye distance; 3..8 cosine and sine of yaw, pitch and roll; 9, 10 shift; 11 breath.
All lengths in pixels.
"""


@inner()
def fill_head(
    head: NDArray[np.float64],
    pose: NDArray[np.float64],
    pivot: NDArray[np.float64],
    unit: float,
    size: int,
) -> None:
    """Writes how `pose` turns the head into `head` [HEAD_PARAMETERS] float64.

    pose: [len(POSE_NAMES)] float64; pivot: [2] float64, pixels; unit: eye distance, pixels; size:
    side of the picture, pixels.
    """
    head[0], head[1], head[2] = pivot[0], pivot[1], unit
    for k in range(len(_TURNS)):
        angle = pose[_TURNS[k]]
        head[3 + 2 * k], head[4 + 2 * k] = math.cos(angle), math.sin(angle)
    head[9], head[10] = pose[_SHIFT_X] * size, pose[_SHIFT_Y] * size
    head[11] = pose[_BREATH] * size / 512


@inner()
def add_shapes(
    rest: NDArray[np.float64],
    shapes: NDArray[np.float64],
    weights: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """out = rest + weights @ shapes.

    All float64. rest, out: [N, 2] pixels; shapes: [K, N, 2] pixels for a weight of 1; weights: [K].
    """
    # Pixel by pixel: a slice would have the compiler bring in all that its error message needs.
    for n in range(len(rest)):
        out[n, 0], out[n, 1] = rest[n, 0], rest[n, 1]
    for k in range(len(weights)):
        weight = weights[k]
        if weight != 0.0:
            for n in range(len(rest)):
                out[n, 0] += weight * shapes[k, n, 0]
                out[n, 1] += weight * shapes[k, n, 1]


@inner()
def shut_lips(
    places: NDArray[np.float64],
    shut: float,
    upper_rows: NDArray[np.int32],
    lower_rows: NDArray[np.int32],
) -> None:
    """Brings the inner rims of the lips together, in place.

    places: [N, 2] float64, pixels; shut: 0 to 1; rows: [4, K] int32, vertices from the outer row to
    the inner, corners first and last.
    """
    for i in range(1, upper_rows.shape[1] - 1):
        for axis in range(2):
            upper, lower = places[upper_rows[3, i], axis], places[lower_rows[3, i], axis]
            seam = 0.55 * upper + 0.45 * lower
            for row in range(4):
                follow, press = _LIP_FOLLOW[row], _LIP_PRESS[row]
                at = upper_rows[row, i]
                together, thinner = (seam - upper) * follow, (upper - places[at, axis]) * press
                places[at, axis] += shut * (together + thinner)
                at = lower_rows[row, i]
                together, thinner = (seam - lower) * follow, (lower - places[at, axis]) * press
                places[at, axis] += shut * (together + thinner)


@inner()
def turn_head(
    places: NDArray[np.float64],
    depth: NDArray[np.float64],
    weight: NDArray[np.float64],
    head: NDArray[np.float64],
) -> None:
    """Moves `places` [N, 2], pixels, with head and shoulders, in place.

    All float64. depth: [N] pixels towards the camera; weight: [N] 1 for the head, 0 for the
    shoulders; head: from `fill_head`.
    """
    for n in range(len(places)):
        x, y = _turned(places[n, 0], places[n, 1], depth[n], weight[n], head)
        places[n, 0], places[n, 1] = x, y


@inner()
def to_rest(
    x: float, y: float, depth: float, step: float, head: NDArray[np.float64]
) -> tuple[float, float, float, float, float, float]:
    """Inverse of the affine map of rest pixels to the picture for what is fixed to the skull at
    (x, y): a, b, c, d, e, f of (a x + b y + c, d x + e y + f).

    step: over how many pixels it is taken; head: [HEAD_PARAMETERS] float64 from `fill_head`.
    """
    ox, oy = _turned(x, y, depth, 1.0, head)
    rx, ry = _turned(x + step, y, depth, 1.0, head)
    dx, dy = _turned(x, y + step, depth, 1.0, head)
    xx, yx, xy, yy = (rx - ox) / step, (ry - oy) / step, (dx - ox) / step, (dy - oy) / step
    determinant = xx * yy - xy * yx
    a, b = yy / determinant, -xy / determinant
    d, e = -yx / determinant, xx / determinant
    return a, b, x - a * ox - b * oy, d, e, y - d * ox - e * oy


@inlined()
def _turned(px, py, depth, weight, head):  # type: ignore[no-untyped-def]
    """One point after the motion of head and shoulders."""
    unit = head[2]
    x, y, z = px - head[0], py - head[1], depth
    x, z = x * head[3] + z * head[4], z * head[3] - x * head[4]
    y, z = y * head[5] + z * head[6], z * head[5] - y * head[6]
    x, y = x * head[7] - y * head[8], x * head[8] + y * head[7]
    # Nearer parts grow: weak perspective around the middle of the face.
    grow = 1 + (z - depth) / (_CAMERA * unit)
    x, y = x * grow, (y + 0.9 * unit) * grow - 0.9 * unit
    moved_x = px + (head[0] + x + head[9] - px) * weight
    moved_y = py + (head[1] + y + head[10] - py) * weight
    # Breath lifts the shoulders, and through the neck a little of the head.
    return moved_x, moved_y - head[11] * (0.5 + 1.7 * (1 - weight))
