"""Compiled loops that paint pixels: the triangles of a face, and the tables that bound its
openings.

Everything here releases the interpreter lock, touches only its arguments and gives the same bytes
for the same input.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from services.face.draw.compiling import compiled, inlined

TABLE = 96
"""Samples along an opening, from corner to corner."""
_SPLINE_STEPS = 8
NOWHERE = np.uint32(0xFFFFFFFF)
"""Of a pixel that the mesh does not cover."""
_LANES, _ROUNDING = np.uint32(0x00FF00FF), np.uint32(0x00800080)
_BYTE, _FULL = np.uint32(8), np.uint32(255)
_16, _UPPER = np.uint32(16), np.uint32(0xFFFF0000)


def fraction_bits(rows: int, columns: int) -> int:
    """Bits behind the point of a position in a texture that fits 16 bits, at most 8."""
    return min(8, 16 - (max(rows, columns) - 1).bit_length())


@compiled
def locate_texels(
    places: NDArray[np.float32],
    source: NDArray[np.float32],
    triangles: NDArray[np.int32],
    rows: int,
    columns: int,
    bits: int,
    texel_at: NDArray[np.uint32],
    top: int,
) -> None:
    """Finds the place in the texture that each pixel of a mesh shows, in some lines of a picture.

    places: [N, 2] float32, vertices in pixels; source: [N, 2] float32 in texels of a texture [rows,
    columns]; triangles: [M, 3] int32, later ones cover earlier ones. texel_at: [H, W] uint32, lines
    from `top` on; pixels of the mesh become row << 16 | column, both with `bits` bits behind the
    point (`fraction_bits`), the others stay. A pixel belongs to one triangle only, and seams
    between neighbours stay closed: an edge is walked from its upper end, whichever triangle it
    serves.
    """
    height, width = texel_at.shape
    # In 65536ths of a texel, and so much further left that 16 bits of 32 are what is written.
    last_u, last_v, half = _last(columns, bits), _last(rows, bits), 1 << 15
    for k in range(triangles.shape[0]):
        ia, ib, ic = triangles[k, 0], triangles[k, 1], triangles[k, 2]
        ax, ay = places[ia, 0], places[ia, 1]
        bx, by = places[ib, 0], places[ib, 1]
        cx, cy = places[ic, 0], places[ic, 1]
        first = max(top, math.ceil(min(ay, by, cy)))
        last = min(top + height, math.ceil(max(ay, by, cy)))
        if first >= last:
            continue
        area = (bx - ax) * (cy - ay) - (cx - ax) * (by - ay)
        if abs(area) <= 1e-3:
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
        du, dv = _fixed(xx) << bits, _fixed(yx) << bits
        # A line lies between the edge from top to bottom and one of the two others.
        px, py, qx, qy, rx, ry = downwards(ax, ay, bx, by, cx, cy)
        whole, upper, lower = slope(px, py, rx, ry), slope(px, py, qx, qy), slope(qx, qy, rx, ry)
        for y in range(first, last):
            side = px + (y - py) * whole
            other = px + (y - py) * upper if y < qy else qx + (y - qy) * lower
            start = max(0, math.ceil(min(side, other)))
            stop = min(width, math.ceil(max(side, other)))
            if start >= stop:
                continue
            u = (_fixed(sax + (start - ax) * xx + (y - ay) * xy) << bits) + half
            v = (_fixed(say + (start - ax) * yx + (y - ay) * yy) << bits) + half
            line, steps = texel_at[y - top], stop - start - 1
            if _within(u, u + du * steps, last_u) and _within(v, v + dv * steps, last_v):
                column, row = np.uint32(u), np.uint32(v)
                right, down = np.uint32(du), np.uint32(dv)
                for x in range(np.uint64(start), np.uint64(stop)):
                    line[x] = (row & _UPPER) | (column >> _16)
                    column, row = np.uint32(column + right), np.uint32(row + down)
            else:
                for x in range(np.uint64(start), np.uint64(stop)):
                    place = np.uint32(min(max(u, 0), last_u)) >> _16
                    line[x] = place | (np.uint32(min(max(v, 0), last_v)) & _UPPER)
                    u += du
                    v += dv


@inlined()
def _last(count, bits):  # type: ignore[no-untyped-def]
    """The last place in a texture of `count` texels that has another texel behind its own."""
    return ((count - 1) << (16 + bits)) - 1


@inlined()
def downwards(ax, ay, bx, by, cx, cy):  # type: ignore[no-untyped-def]
    """Three corners, the uppermost first."""
    if by < ay:
        ax, ay, bx, by = bx, by, ax, ay
    if cy < ay:
        return cx, cy, ax, ay, bx, by
    if cy < by:
        return ax, ay, cx, cy, bx, by
    return ax, ay, bx, by, cx, cy


@inlined()
def slope(px, py, qx, qy):  # type: ignore[no-untyped-def]
    """Of the edge from p down to q: to the right for one line down."""
    return (qx - px) / (qy - py) if py < qy else px - px


@inlined()
def _within(begin, end, last):  # type: ignore[no-untyped-def]
    """Whether all from `begin` to `end` lies between 0 and `last`."""
    return min(begin, end) >= 0 and max(begin, end) <= last


@inlined()
def _fixed(x):  # type: ignore[no-untyped-def]
    """In 65536ths of a texel; what is far outside of any texture stays outside."""
    return np.int64(min(max(x * 65536.0, -1e9), 1e9))


def texel_pairs(texture: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Each texel of a texture [rows, columns, 4] and the one right of it, fetched as one number: of
    the texture's own memory, [rows * columns - 1].
    """
    count = texture.shape[0] * texture.shape[1] - 1
    return np.ndarray((count,), np.uint64, buffer=texture, strides=(4,))


@compiled
def paint_texels(
    texel_at: NDArray[np.uint32],
    bits: int,
    pairs: NDArray[np.uint64],
    columns: int,
    out: NDArray[np.uint32],
) -> None:
    """Lays bilinear samples of a texture over a picture, line by line: the texture is larger than
    the caches, and in this order it comes in ahead of its use.

    texel_at: [H, W] uint32 from `locate_texels`; pairs: `texel_pairs` of uint8 R, G, B, A, colours
    times alpha and so never above it; out: [H * W] uint32, bytes R, G, B, 0, shows through what is
    clear. Pixels that are NOWHERE stay.
    """
    height, width = texel_at.shape
    # What the four texels of each pixel of a line are: fetching them takes one pixel after the
    # other, but all the arithmetic then goes in vector instructions.
    above, below = np.empty(width, np.uint64), np.empty(width, np.uint64)
    for y in range(height):
        line = texel_at[y]
        first, stop = 0, width
        while first < width and line[first] == NOWHERE:
            first += 1
        while stop > first and line[stop - 1] == NOWHERE:
            stop -= 1
        if first < stop:
            part = line[first:stop]
            _fetch(part, np.uint32(bits), pairs, np.uint64(columns), above, below)
            to = out[y * width + first : y * width + stop]
            _blend(part, np.uint32(bits), above.view(np.uint32), below.view(np.uint32), to)


@compiled
def _fetch(line, bits, pairs, columns, above, below):  # type: ignore[no-untyped-def]
    """The texel of each pixel and the one right of it, and both below; clear ones for NOWHERE."""
    for i in range(np.uint64(len(line))):
        place = line[i]
        if place == NOWHERE:
            above[i] = below[i] = np.uint64(0)
        else:
            row, column = (place >> np.uint32(16)) >> bits, (place & np.uint32(0xFFFF)) >> bits
            at = np.uint64(row) * columns + np.uint64(column)
            above[i], below[i] = pairs[at], pairs[at + columns]


@compiled
def _blend(line, bits, above, below, out):  # type: ignore[no-untyped-def]
    """Mixes the four texels of each pixel, two lanes of 16 bits at a time, over `out` [N]."""
    fraction, up = np.uint32((1 << bits) - 1), np.uint32(8) - bits
    for i in range(np.uint64(len(line))):
        place = line[i]
        x = (place & fraction) << up
        y = ((place >> np.uint32(16)) & fraction) << up
        both = (x * y) >> np.uint32(8)
        near = np.uint64(2) * i
        right = near + np.uint64(1)
        a, b, c, d = above[near], above[right], below[near], below[right]
        wa, wb, wc = np.uint32(256) - x - y + both, x - both, y - both
        red_blue = (a & _LANES) * wa + (b & _LANES) * wb + (c & _LANES) * wc + (d & _LANES) * both
        red_blue += _ROUNDING
        a, b, c, d = a >> _BYTE, b >> _BYTE, c >> _BYTE, d >> _BYTE
        green_alpha = (
            (a & _LANES) * wa + (b & _LANES) * wb + (c & _LANES) * wc + (d & _LANES) * both
        )
        green_alpha += _ROUNDING
        clear = _FULL - (green_alpha >> np.uint32(24))
        beneath = out[i]
        red_blue = ((red_blue >> _BYTE) & _LANES) + shares(beneath & _LANES, clear)
        green = ((green_alpha >> _BYTE) & _FULL) + shares((beneath >> _BYTE) & _FULL, clear)
        out[i] = red_blue | (green << _BYTE)


@inlined()
def shares(lanes, clear):  # type: ignore[no-untyped-def]
    """In both lanes of 16 bits value * clear / 255, rounded; exact for bytes."""
    products = lanes * clear + _ROUNDING
    return ((products + ((products >> _BYTE) & _LANES)) >> _BYTE) & _LANES


@compiled
def paint_box(
    out: NDArray[np.uint8],
    top: int,
    places: NDArray[np.float64],
    vertices: NDArray[np.int64],
    colour: NDArray[np.uint8],
) -> None:
    """Fills the rectangle around some of `places` [N, 2] with `colour` [3], in some lines.

    out: [H, W, C] uint8, lines of a picture from `top` on; places: float64, pixels; vertices: [K]
    int64; colour: uint8 RGB.
    """
    x0, y0, x1, y1 = 1e9, 1e9, -1e9, -1e9
    for k in vertices:
        x0, x1 = min(x0, places[k, 0]), max(x1, places[k, 0])
        y0, y1 = min(y0, places[k, 1]), max(y1, places[k, 1])
    for y in range(max(int(max(y0, 0.0)) - top, 0), min(math.ceil(y1) + 1 - top, out.shape[0])):
        for x in range(int(max(x0, 0.0)), min(math.ceil(x1) + 1, out.shape[1])):
            out[y, x, 0], out[y, x, 1], out[y, x, 2] = colour[0], colour[1], colour[2]


@compiled
def opening_table(
    places: NDArray[np.float64],
    rims: NDArray[np.int64],
    bounds: NDArray[np.float64],
    table: NDArray[np.float64],
) -> None:
    """Describes an opening between two rims: vertices [2, K], upper and lower, both from the right
    corner to the left.

    All but those float64. places: [N, 2] pixels. bounds [5] becomes: x and y of the right corner,
    the unit vector to the left corner, its length. table [2, TABLE] becomes: heights of the upper
    and the lower rim above that line (positive down), smoothly drawn through the points.
    """
    count = rims.shape[1]
    left, right = rims[0, count - 1], rims[0, 0]
    dx, dy = places[left, 0] - places[right, 0], places[left, 1] - places[right, 1]
    length = max(1e-3, math.sqrt(dx * dx + dy * dy))
    ex, ey = dx / length, dy / length
    bounds[0], bounds[1] = places[right, 0], places[right, 1]
    bounds[2], bounds[3], bounds[4] = ex, ey, length
    samples = (count - 1) * _SPLINE_STEPS + 1
    along = np.empty(samples)
    height = np.empty(samples)
    for rim in range(2):
        for i in range(samples):
            k = min(i // _SPLINE_STEPS, count - 2)
            t = i / _SPLINE_STEPS - k
            k0, k1 = rims[rim, max(0, k - 1)], rims[rim, k]
            k2, k3 = rims[rim, k + 1], rims[rim, min(count - 1, k + 2)]
            w0 = 0.5 * (-t + 2 * t * t - t * t * t)
            w1 = 0.5 * (2 - 5 * t * t + 3 * t * t * t)
            w2 = 0.5 * (t + 4 * t * t - 3 * t * t * t)
            w3 = 0.5 * (-t * t + t * t * t)
            x = (
                w0 * places[k0, 0]
                + w1 * places[k1, 0]
                + w2 * places[k2, 0]
                + w3 * places[k3, 0]
                - bounds[0]
            )
            y = (
                w0 * places[k0, 1]
                + w1 * places[k1, 1]
                + w2 * places[k2, 1]
                + w3 * places[k3, 1]
                - bounds[1]
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


@compiled
def opening_box(
    bounds: NDArray[np.float64], table: NDArray[np.float64], height: int, width: int
) -> tuple[int, int, int, int]:
    """Pixel rectangle (x0, y0, x1, y1), half open, that holds an opening.

    bounds: [5], table: [2, TABLE], both float64 from `opening_table`.
    """
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


@inlined()
def place_in_opening(bounds, table, x, y):  # type: ignore[no-untyped-def]
    """Of a pixel: how far it lies along an opening and above its line (positive down), and the
    heights of the upper and the lower rim there, all in pixels."""
    dx, dy = x - bounds[0], y - bounds[1]
    along = dx * bounds[2] + dy * bounds[3]
    at = min(1.0, max(0.0, along / bounds[4])) * (TABLE - 1)
    k = min(int(at), TABLE - 2)
    f = at - k
    rise = table[0, k] * (1 - f) + table[0, k + 1] * f
    fall = table[1, k] * (1 - f) + table[1, k + 1] * f
    return along, -dx * bounds[3] + dy * bounds[2], rise, fall


@inlined()
def smooth_step(x):  # type: ignore[no-untyped-def]
    """0 below 0, 1 above 1, smooth between."""
    t = min(1.0, max(0.0, x))
    return t * t * (3 - 2 * t)


@inlined()
def sample(texture, x, y, channel):  # type: ignore[no-untyped-def]
    """One channel of texture [h, w, c] at (x, y), bilinear, edges repeated."""
    u = min(max(x, 0.0), texture.shape[1] - 1.001)
    v = min(max(y, 0.0), texture.shape[0] - 1.001)
    iu, iv = int(u), int(v)
    fu, fv = u - iu, v - iv
    top = texture[iv, iu, channel] * (1 - fu) + texture[iv, iu + 1, channel] * fu
    bottom = texture[iv + 1, iu, channel] * (1 - fu) + texture[iv + 1, iu + 1, channel] * fu
    return top * (1 - fv) + bottom * fv
