"""Compiled loops that paint pixels: the triangles of a face, and the tables that bound its
openings.

Everything here releases the interpreter lock, touches only its arguments and gives the same bytes
for the same input.
"""

from __future__ import annotations

import math

import numba
import numpy as np
from numpy.typing import NDArray

TABLE = 96
"""Samples along an opening, from corner to corner."""
_SPLINE_STEPS = 8
_ONE = 1 << 20
"""One texel in fixed point."""
_LOW_LANES, _HIGH_LANES = np.uint64(0x00FF00FF), np.uint64(0xFF00FF00)
_LANES, _ROUNDING = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0080008000800080)


@numba.njit(nogil=True, cache=True, fastmath=True)
def draw_triangles(
    places: NDArray[np.float32],
    source: NDArray[np.float32],
    triangles: NDArray[np.int32],
    texels: NDArray[np.uint32],
    columns: int,
    background: NDArray[np.uint8],
    out: NDArray[np.uint8],
) -> None:
    """Paints a textured mesh over a background that stands still.

    places: [N, 2] vertices in pixels of out; source: [N, 2] in texels; triangles: [M, 3], later
    ones cover earlier ones; texels: [h * columns] the bytes R, G, B, A in this order, colours
    times alpha; background, out: [H, W, 3]. A pixel belongs to one triangle only, and seams
    between neighbours stay closed: an edge is walked from its upper end, whichever triangle it
    serves.
    """
    height, width = out.shape[0], out.shape[1]
    rows = texels.shape[0] // columns
    for k in range(triangles.shape[0]):
        ia, ib, ic = triangles[k, 0], triangles[k, 1], triangles[k, 2]
        ax, ay = places[ia, 0], places[ia, 1]
        bx, by = places[ib, 0], places[ib, 1]
        cx, cy = places[ic, 0], places[ic, 1]
        area = (bx - ax) * (cy - ay) - (cx - ax) * (by - ay)
        if abs(area) <= 1e-3:
            continue
        first = max(0, math.ceil(min(ay, by, cy)))
        last = min(height, math.ceil(max(ay, by, cy)))
        if first >= last:
            continue
        inverse = 1.0 / area
        sax, say = source[ia, 0], source[ia, 1]
        ux, uy = source[ib, 0] - sax, source[ib, 1] - say
        vx, vy = source[ic, 0] - sax, source[ic, 1] - say
        # Texture position is affine in the pixel: steps for one pixel right and one down.
        xx = (ux * (cy - ay) - vx * (by - ay)) * inverse
        xy = (vx * (bx - ax) - ux * (cx - ax)) * inverse
        yx = (uy * (cy - ay) - vy * (by - ay)) * inverse
        yy = (vy * (bx - ax) - uy * (cx - ax)) * inverse
        for y in range(first, last):
            left, right = 1e9, -1e9
            for edge in range(3):
                if edge == 0:
                    px, py, qx, qy = ax, ay, bx, by
                elif edge == 1:
                    px, py, qx, qy = bx, by, cx, cy
                else:
                    px, py, qx, qy = cx, cy, ax, ay
                if py > qy:
                    px, py, qx, qy = qx, qy, px, py
                if py <= y < qy:
                    x = px + (y - py) * ((qx - px) / (qy - py))
                    left = min(left, x)
                    right = max(right, x)
            start = max(0, math.ceil(left))
            stop = min(width, math.ceil(right))
            tx = sax + (start - ax) * xx + (y - ay) * xy
            ty = say + (start - ax) * yx + (y - ay) * yy
            _draw_row(
                texels, columns, rows, background, out, np.uint64(y), start, stop, tx, ty, xx, yx
            )


@numba.njit(nogil=True, cache=True, fastmath=True, inline="always")
def _spread(texels, index):  # type: ignore[no-untyped-def]
    """The bytes R, G, B, A of a texel in lanes of 16 bits: R, B, G, A from the lowest."""
    packed = np.uint64(texels[index])
    return (packed & _LOW_LANES) | ((packed & _HIGH_LANES) << np.uint64(24))


@numba.njit(nogil=True, cache=True, fastmath=True, inline="always")
def _mix(first, second, share):  # type: ignore[no-untyped-def]
    """Four lanes at once: first + (second - first) * share / 256, rounded."""
    mixed = first * (np.uint64(256) - share) + second * share + _ROUNDING
    return (mixed >> np.uint64(8)) & _LANES


@numba.njit(nogil=True, cache=True, fastmath=True, inline="always")
def _draw_row(texels, width, height, background, out, y, start, stop, tx, ty, step_x, step_y):  # type: ignore[no-untyped-def]
    """Bilinear samples along one row, laid over the background. Positions run in fixed point."""
    u, v = np.int64(tx * _ONE), np.int64(ty * _ONE)
    du, dv = np.int64(step_x * _ONE), np.int64(step_y * _ONE)
    last_u, last_v = np.int64((width - 1) * _ONE) - 1, np.int64((height - 1) * _ONE) - 1
    for x in range(np.uint64(start), np.uint64(stop)):
        cu = np.uint64(min(max(u, np.int64(0)), last_u))
        cv = np.uint64(min(max(v, np.int64(0)), last_v))
        at = (cv >> np.uint64(20)) * np.uint64(width) + (cu >> np.uint64(20))
        below = at + np.uint64(width)
        across = (cu >> np.uint64(12)) & np.uint64(255)
        down = (cv >> np.uint64(12)) & np.uint64(255)
        left = _mix(_spread(texels, at), _spread(texels, below), down)
        right = _mix(
            _spread(texels, at + np.uint64(1)), _spread(texels, below + np.uint64(1)), down
        )
        texel = _mix(left, right, across)
        red = np.uint32(texel & np.uint64(255))
        blue = np.uint32((texel >> np.uint64(16)) & np.uint64(255))
        green = np.uint32((texel >> np.uint64(32)) & np.uint64(255))
        clear = np.uint32(255) - np.uint32(texel >> np.uint64(48))
        if clear > 0:
            red = min(np.uint32(255), red + (background[y, x, 0] * clear + 127) // 255)
            green = min(np.uint32(255), green + (background[y, x, 1] * clear + 127) // 255)
            blue = min(np.uint32(255), blue + (background[y, x, 2] * clear + 127) // 255)
        out[y, x, 0] = red
        out[y, x, 1] = green
        out[y, x, 2] = blue
        u += du
        v += dv


@numba.njit(nogil=True, cache=True, fastmath=True)
def opening_table(
    upper: NDArray[np.float64],
    lower: NDArray[np.float64],
    bounds: NDArray[np.float64],
    table: NDArray[np.float64],
) -> None:
    """Describes an opening between two rims [K, 2] (pixels, both from the right corner to the
    left).

    bounds [5] becomes: x and y of the right corner, the unit vector to the left corner, its length.
    table [2, TABLE] becomes: heights of the upper and the lower rim above that line (positive
    down), smoothly drawn through the points.
    """
    count = upper.shape[0]
    dx, dy = upper[count - 1, 0] - upper[0, 0], upper[count - 1, 1] - upper[0, 1]
    length = max(1e-3, math.sqrt(dx * dx + dy * dy))
    ex, ey = dx / length, dy / length
    bounds[0], bounds[1], bounds[2], bounds[3], bounds[4] = upper[0, 0], upper[0, 1], ex, ey, length
    samples = (count - 1) * _SPLINE_STEPS + 1
    along = np.empty(samples)
    height = np.empty(samples)
    for rim in range(2):
        points = upper if rim == 0 else lower
        for i in range(samples):
            k = min(i // _SPLINE_STEPS, count - 2)
            t = i / _SPLINE_STEPS - k
            k0, k1, k2, k3 = max(0, k - 1), k, k + 1, min(count - 1, k + 2)
            w0 = 0.5 * (-t + 2 * t * t - t * t * t)
            w1 = 0.5 * (2 - 5 * t * t + 3 * t * t * t)
            w2 = 0.5 * (t + 4 * t * t - 3 * t * t * t)
            w3 = 0.5 * (-t * t + t * t * t)
            x = (
                w0 * points[k0, 0]
                + w1 * points[k1, 0]
                + w2 * points[k2, 0]
                + w3 * points[k3, 0]
                - upper[0, 0]
            )
            y = (
                w0 * points[k0, 1]
                + w1 * points[k1, 1]
                + w2 * points[k2, 1]
                + w3 * points[k3, 1]
                - upper[0, 1]
            )
            along[i] = x * ex + y * ey
            height[i] = -x * ey + y * ex
            if i > 0 and along[i] <= along[i - 1]:
                along[i] = along[i - 1] + 1e-4
        i = 0
        for s in range(TABLE):
            at = length * s / (TABLE - 1)
            while i < samples - 2 and along[i + 1] < at:
                i += 1
            t = min(1.0, max(0.0, (at - along[i]) / (along[i + 1] - along[i])))
            table[rim, s] = height[i] + t * (height[i + 1] - height[i])


@numba.njit(nogil=True, cache=True, fastmath=True)
def opening_box(
    bounds: NDArray[np.float64], table: NDArray[np.float64], height: int, width: int
) -> tuple[int, int, int, int]:
    """Pixel rectangle (x0, y0, x1, y1), half open, that holds an opening."""
    x0, y0, x1, y1 = 1e9, 1e9, -1e9, -1e9
    for rim in range(2):
        for s in range(TABLE):
            along = bounds[4] * s / (TABLE - 1)
            x = bounds[0] + along * bounds[2] - table[rim, s] * bounds[3]
            y = bounds[1] + along * bounds[3] + table[rim, s] * bounds[2]
            x0, x1, y0, y1 = min(x0, x), max(x1, x), min(y0, y), max(y1, y)
    return (
        max(0, math.floor(x0) - 2),
        max(0, math.floor(y0) - 2),
        min(width, math.ceil(x1) + 3),
        min(height, math.ceil(y1) + 3),
    )


@numba.njit(nogil=True, cache=True, fastmath=True, inline="always")
def smooth_step(x):  # type: ignore[no-untyped-def]
    """0 below 0, 1 above 1, smooth between."""
    t = min(1.0, max(0.0, x))
    return t * t * (3 - 2 * t)


@numba.njit(nogil=True, cache=True, fastmath=True, inline="always")
def sample(texture, x, y, channel):  # type: ignore[no-untyped-def]
    """One channel of texture [h, w, c] at (x, y), bilinear, edges repeated."""
    u = min(max(x, 0.0), texture.shape[1] - 1.001)
    v = min(max(y, 0.0), texture.shape[0] - 1.001)
    iu, iv = int(u), int(v)
    fu, fv = u - iu, v - iv
    top = texture[iv, iu, channel] * (1 - fu) + texture[iv, iu + 1, channel] * fu
    bottom = texture[iv + 1, iu, channel] * (1 - fu) + texture[iv + 1, iu + 1, channel] * fu
    return top * (1 - fv) + bottom * fv
