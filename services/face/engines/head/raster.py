"""Compiled loops that draw a head: triangles in depth, their colours, and smooth edges.

Everything here releases the interpreter lock, touches only its arguments and gives the same bytes
for the same input. Pixels have their centres at whole numbers. Of depth its inverse is kept, which
is linear on the screen: larger is nearer, 0 is nothing.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from services.face.engines.head.light import LIGHT_SIDE
from services.face.engines.head.model import Model

_EDGE_DEPTH = 0.03
"""Inverse metres: what lies so much nearer than an edge hides it; some centimetres, as a round
surface falls off steeply at its outline.
"""
_SOLID = np.uint32(176)
"""Alpha from which a pixel hides what is behind it: what is, is hair as well."""
_FILLED = np.array([255 * 256 // a if a >= 176 else 256 for a in range(256)], np.uint32)
"""256ths that colours times alpha are multiplied by, by alpha, to be solid from there on."""
_ORDERS = 4096
"""Steps of depth in which clear triangles are sorted."""
_LANES, _ROUNDING = np.uint32(0x00FF00FF), np.uint32(0x00800080)
_BYTE, _FULL, _16 = np.uint32(8), np.uint32(255), np.uint32(16)
_GAIN_BITS, _3, _4, _ALL = np.uint32(10), np.uint32(3), np.uint32(4), np.uint32(255 << 24)
# Nothing is divided by zero that is looked at afterwards, so nobody has to look for it.
_compiled = numba.njit(nogil=True, cache=True, fastmath=True, error_model="numpy")
_inlined = numba.njit(nogil=True, cache=True, fastmath=True, error_model="numpy", inline="always")


class Placing(NamedTuple):
    """Where a pose carries the head: from metres to the camera's, right, up and forward."""

    still: NDArray[np.float32]
    """[3, 4] of what does not turn."""
    turned: NDArray[np.float32]
    """[3, 4] of what turns with the head."""
    rotation: NDArray[np.float32]
    """[3, 3] of the head."""
    opened: float
    """0..1 how much light gets into the mouth."""


class Work(NamedTuple):
    """What every picture overwrites: nothing of it is read before."""

    places: NDArray[np.float32]
    """[N, 3] metres."""
    normals: NDArray[np.float32]
    """[N, 3] of any length."""
    screen: NDArray[np.float32]
    """[N, 5] x, y in pixels, inverse depth, light, shine (0..255)."""
    planes: NDArray[np.float32]
    """[M, 20] of each triangle that is seen: a corner's x and y; there, and for one pixel right and
    one down: inverse depth, both places in the texture (256ths of a texel) times that, light,
    shine; the last places in the texture; unused.
    """
    facing: NDArray[np.uint8]
    """[M] 0 not seen, 1 from the front, 2 from behind."""
    order: NDArray[np.int32]
    """[clear triangles] the nearest first."""
    depth: NDArray[np.float32]
    """[size, size] inverse metres."""
    shown: NDArray[np.int32]
    """[size, size] triangle, or -1."""
    clear: NDArray[np.uint32]
    """[size * size] what can be seen through: bytes R, G, B, A, colours times alpha."""
    picture: NDArray[np.uint8]
    """[size, size, 4] RGB and a zero."""


@_compiled
def draw_head(weights: NDArray[np.float32], head: Placing, model: Model, work: Work) -> None:
    """Draws one picture. weights: [targets] float32."""
    size = len(work.depth)
    pixels = work.picture.reshape(-1).view(np.uint32)
    background = model.background.reshape(-1)
    for k in range(np.uint64(len(pixels))):
        pixels[k] = background[k]
    depth, shown, clear = work.depth.reshape(-1), work.shown.reshape(-1), work.clear
    for k in range(np.uint64(len(depth))):
        depth[k], shown[k], clear[k] = np.float32(0.0), -1, np.uint32(0)
    shape_vertices(weights, model, work)
    place_vertices(head, model, work)
    prepare_triangles(0, len(model.triangles), model, work)
    box = np.array((size, size, 0, 0))
    fill_triangles(box, model, work, depth, shown)
    colour_pixels(box, model, work, shown, pixels)
    for eye in range(len(model.eyes)):
        draw_catchlights(eye, head, model, work, pixels)
    first, last = gather_clear(sort_clear(model, work), model, work, depth, clear)
    lay_over(first, last, size, depth, clear, pixels)
    smooth_edges(model, work, depth, pixels)


@_compiled
def shape_vertices(weights, model, work):  # type: ignore[no-untyped-def]
    """Shapes added up: places and normals as the face moves."""
    places, normals, rest, upright = work.places, work.normals, model.rest, model.normals
    ends, moved, deltas, turned = model.target_ends, model.moved, model.deltas, model.normal_deltas
    for n in range(len(places)):
        for axis in range(3):
            places[n, axis] = rest[n, axis]
            normals[n, axis] = upright[n, axis]
    for target in range(len(weights)):
        weight = weights[target]
        if weight == 0:
            continue
        for k in range(ends[target], ends[target + 1]):
            n = moved[k]
            for axis in range(3):
                places[n, axis] += weight * deltas[k, axis]
                normals[n, axis] += weight * turned[k, axis]


@_compiled
def place_vertices(head, model, work):  # type: ignore[no-untyped-def]
    """The head turned about its neck, in perspective, and in its light."""
    places, normals, screen, follows = work.places, work.normals, work.screen, model.follows
    middle, pixels = np.float32(0.5 * (len(work.depth) - 1)), np.float32(model.camera[12])
    still, turned, rotation = head.still, head.turned, head.rotation
    least = np.float32(0.05)
    for n in range(len(places)):
        x, y, z, weight = places[n, 0], places[n, 1], places[n, 2], follows[n]
        right = still[0, 0] * x + still[0, 1] * y + still[0, 2] * z + still[0, 3]
        up = still[1, 0] * x + still[1, 1] * y + still[1, 2] * z + still[1, 3]
        away = still[2, 0] * x + still[2, 1] * y + still[2, 2] * z + still[2, 3]
        to_right = turned[0, 0] * x + turned[0, 1] * y + turned[0, 2] * z + turned[0, 3]
        to_up = turned[1, 0] * x + turned[1, 1] * y + turned[1, 2] * z + turned[1, 3]
        to_away = turned[2, 0] * x + turned[2, 1] * y + turned[2, 2] * z + turned[2, 3]
        right, up = right + weight * (to_right - right), up + weight * (to_up - up)
        away += weight * (to_away - away)
        near = np.float32(1.0) / max(away, least)
        screen[n, 0] = middle + pixels * right * near
        screen[n, 1] = middle - pixels * up * near
        screen[n, 2] = near if away > least else np.float32(0.0)
    light, gains, looks, inside = model.light, model.gain, model.looks, model.inside
    opened = np.float32(head.opened)
    scale, last = np.float32(0.5 * (LIGHT_SIDE - 1)), np.float32(LIGHT_SIDE - 1.001)
    one, zero = np.float32(1.0), np.float32(0.0)
    for n in range(len(places)):
        x, y, z, weight = normals[n, 0], normals[n, 1], normals[n, 2], follows[n]
        tx = rotation[0, 0] * x + rotation[0, 1] * y + rotation[0, 2] * z
        ty = rotation[1, 0] * x + rotation[1, 1] * y + rotation[1, 2] * z
        tz = rotation[2, 0] * x + rotation[2, 1] * y + rotation[2, 2] * z
        x, y, z = x + weight * (tx - x), y + weight * (ty - y), z + weight * (tz - z)
        length = one / np.float32(math.sqrt(max(x * x + y * y + z * z, np.float32(1e-12))))
        column = min(max((x * length + one) * scale, zero), last)
        row = min(max((one - y * length) * scale, zero), last)
        i, j = int(row), int(column)
        row, column = row - np.float32(i), column - np.float32(j)
        for k in range(2):
            look = looks[n, k]
            above = light[look, i, j] + column * (light[look, i, j + 1] - light[look, i, j])
            after, beyond = light[look, i + 1, j], light[look, i + 1, j + 1]
            below = after + column * (beyond - after)
            screen[n, 3 + k] = above + row * (below - above)
        # Of baked light only the change counts.
        gain = gains[n] * opened if inside[n] else gains[n]
        screen[n, 3] = min(max(screen[n, 3] * gain, np.float32(0.1)), np.float32(4.0))
        if inside[n]:
            screen[n, 4] *= opened


@_compiled
def prepare_triangles(first, end, model, work):  # type: ignore[no-untyped-def]
    """Finds out which triangles are seen, and writes their planes."""
    screen, triangles, planes, facing = work.screen, model.triangles, work.planes, work.facing
    source, two_sided, texture_of = model.source, model.two_sided, model.texture_of
    for k in range(first, end):
        a, b, c = triangles[k, 0], triangles[k, 1], triangles[k, 2]
        ax, ay, qa = screen[a, 0], screen[a, 1], screen[a, 2]
        bx, by, qb = screen[b, 0] - ax, screen[b, 1] - ay, screen[b, 2]
        cx, cy, qc = screen[c, 0] - ax, screen[c, 1] - ay, screen[c, 2]
        area = bx * cy - cx * by
        facing[k] = 0
        # On the screen y grows downwards, so that the front goes the other way round.
        if qa * qb * qc == 0 or abs(area) < 1e-3 or (area > 0 and not two_sided[k]):
            continue
        facing[k] = 1 if area < 0 else 2
        inverse = np.float32(1.0) / area
        planes[k, 0], planes[k, 1] = ax, ay
        for part in range(5):
            if part == 0:
                at, to, on = qa, qb, qc
            elif part >= 3:
                at, to, on = screen[a, part], screen[b, part], screen[c, part]
            else:
                side = np.float32(256.0) * np.float32(texture_of[k, part])
                planes[k, 16 + part] = side - np.float32(257.0)
                at = (source[a, part - 1] * side - np.float32(128.0)) * qa
                to = (source[b, part - 1] * side - np.float32(128.0)) * qb
                on = (source[c, part - 1] * side - np.float32(128.0)) * qc
            planes[k, 2 + 3 * part] = at
            planes[k, 3 + 3 * part] = ((to - at) * cy - (on - at) * by) * inverse
            planes[k, 4 + 3 * part] = ((on - at) * bx - (to - at) * cx) * inverse


@_inlined
def downwards(ax, ay, bx, by, cx, cy):  # type: ignore[no-untyped-def]
    """Three corners, the uppermost first."""
    if by < ay:
        ax, ay, bx, by = bx, by, ax, ay
    if cy < ay:
        return cx, cy, ax, ay, bx, by
    if cy < by:
        return ax, ay, cx, cy, bx, by
    return ax, ay, bx, by, cx, cy


@_inlined
def slope(px, py, qx, qy):  # type: ignore[no-untyped-def]
    """Of the edge from p down to q: to the right for one line down."""
    return (qx - px) / (qy - py) if py < qy else px - px


@_inlined
def span(y, px, py, qx, qy, whole, upper, lower, size):  # type: ignore[no-untyped-def]
    """First pixel of a line that a triangle covers, and the first one behind.

    An edge is walked from its upper end, whichever triangle it serves: no seam stays open.
    """
    line = np.float32(y)
    side = px + (line - py) * whole
    other = px + (line - py) * upper if line < qy else qx + (line - qy) * lower
    left, right = max(min(side, other), np.float32(0.0)), min(max(side, other), np.float32(size))
    return math.ceil(left), math.ceil(right)


@_inlined
def all_hidden(px, py, qx, qy, rx, ry, near, size, depth):  # type: ignore[no-untyped-def]
    """Whether something is before all corners of a triangle and its middle, which mostly means
    before all of it.
    """
    limit, third = np.float32(size - 1), np.float32(1 / 3)
    found = True
    for k in range(4):
        if k == 0:
            x, y = px, py
        elif k == 1:
            x, y = qx, qy
        elif k == 2:
            x, y = rx, ry
        else:
            x, y = (px + qx + rx) * third, (py + qy + ry) * third
        column, row = min(max(x, np.float32(0.0)), limit), min(max(y, np.float32(0.0)), limit)
        found = found and depth[int(row) * size + int(column)] >= near
    return found


@_compiled
def fill_triangles(box, model, work, depth, shown):  # type: ignore[no-untyped-def]
    """Writes inverse depth and number of what is nearest, and the box around all of it."""
    screen, triangles, planes, facing = work.screen, model.triangles, work.planes, work.facing
    size, zero = len(work.depth), np.float32(0.0)
    x0, y0, x1, y1 = box[0], box[1], box[2], box[3]
    for k in range(model.opaque):
        if not facing[k]:
            continue
        a, b, c = triangles[k, 0], triangles[k, 1], triangles[k, 2]
        px, py, qx, qy, rx, ry = downwards(
            screen[a, 0], screen[a, 1], screen[b, 0], screen[b, 1], screen[c, 0], screen[c, 1]
        )
        first, last = math.ceil(max(py, zero)), math.ceil(min(ry, np.float32(size)))
        # Most of the small ones lie between the pixels, and teeth behind lips.
        if first >= last or math.ceil(min(px, qx, rx)) >= math.ceil(max(px, qx, rx)):
            continue
        if k >= model.skin:
            near = max(screen[a, 2], screen[b, 2], screen[c, 2])
            if all_hidden(px, py, qx, qy, rx, ry, near, size, depth):
                continue
        y0, y1 = min(y0, first), max(y1, last)
        whole, upper, lower = slope(px, py, rx, ry), slope(px, py, qx, qy), slope(qx, qy, rx, ry)
        ax, right, down = planes[k, 0], planes[k, 3], planes[k, 4]
        base = planes[k, 2] + down * (np.float32(first) - planes[k, 1])
        for y in range(first, last):
            start, stop = span(y, px, py, qx, qy, whole, upper, lower, size)
            if start < stop:
                x0, x1 = min(x0, start), max(x1, stop)
                near, at = base + right * (np.float32(start) - ax), y * size
                for x in range(np.uint64(at + start), np.uint64(at + stop)):
                    if near > depth[x]:
                        depth[x] = near
                        shown[x] = k
                    near += right
            base += down
    box[0], box[1], box[2], box[3] = x0, y0, x1, y1


@_inlined
def texel_at(u, v, last_u, last_v, offset, wide):  # type: ignore[no-untyped-def]
    """The texel of a place and the one below, and how far the place is from them: 256ths."""
    column = np.uint32(np.int32(min(max(u, np.float32(0.0)), last_u)))
    row = np.uint32(np.int32(min(max(v, np.float32(0.0)), last_v)))
    at = offset + (row >> _BYTE) * wide + (column >> _BYTE)
    return np.uint64(at), np.uint64(at + wide), column & _FULL, row & _FULL


@_inlined
def gain_of(light):  # type: ignore[no-untyped-def]
    """Light in 1024ths."""
    bounded = min(max(light, np.float32(0.0)), np.float32(4.0))
    return np.uint32(np.int32(bounded * np.float32(1 << 10)))


@_inlined
def shine_of(shine):  # type: ignore[no-untyped-def]
    """Shine as a byte."""
    return np.uint32(np.int32(min(max(shine, np.float32(0.0)), np.float32(255.0))))


@_inlined
def mixed(a, b, c, d, x, y, gain, shine):  # type: ignore[no-untyped-def]
    """Four texels as one, lit (1024: 1): red, green, blue times alpha, and alpha; 0..255."""
    both = (x * y) >> _BYTE
    wa, wb, wc = np.uint32(256) - x - y + both, x - both, y - both
    red_blue = (a & _LANES) * wa + (b & _LANES) * wb + (c & _LANES) * wc + (d & _LANES) * both
    red_blue = ((red_blue + _ROUNDING) >> _BYTE) & _LANES
    a, b, c, d = a >> _BYTE, b >> _BYTE, c >> _BYTE, d >> _BYTE
    green = (a & _LANES) * wa + (b & _LANES) * wb + (c & _LANES) * wc + (d & _LANES) * both
    green = ((green + _ROUNDING) >> _BYTE) & _LANES
    alpha = green >> _16
    shine = (shine * alpha + _FULL) >> _BYTE
    red = min((((red_blue & _FULL) * gain) >> _GAIN_BITS) + shine, alpha)
    blue = min((((red_blue >> _16) * gain) >> _GAIN_BITS) + shine, alpha)
    return red, min((((green & _FULL) * gain) >> _GAIN_BITS) + shine, alpha), blue, alpha


@_compiled
def colour_pixels(box, model, work, shown, pixels):  # type: ignore[no-untyped-def]
    """Lays the colours of what is nearest over the picture, line by line."""
    planes, texture_of, pairs = work.planes, model.texture_of, model.pairs
    size, one = np.uint64(len(work.depth)), np.uint64(1)
    # What the four texels of each pixel of a line are: fetching them takes one pixel after the
    # other, but all the arithmetic then goes in vector instructions.
    above, below = np.empty(len(work.depth), np.uint64), np.empty(len(work.depth), np.uint64)
    within, lights = np.empty(len(work.depth), np.uint32), np.empty(len(work.depth), np.uint32)
    for y in range(box[1], box[3]):
        line = np.uint64(y) * size
        x, end, count = line + np.uint64(box[0]), line + np.uint64(box[2]), np.uint64(0)
        first = x
        while x < end:
            k = shown[x]
            if k < 0:
                above[count], below[count] = np.uint64(0), np.uint64(0)
                within[count], lights[count] = np.uint32(0), np.uint32(0)
                count, x = count + one, x + one
                continue
            # As long as the same triangle goes on.
            offset, wide = np.uint32(texture_of[k, 0]), np.uint32(texture_of[k, 1])
            right, right_u, right_v = planes[k, 3], planes[k, 6], planes[k, 9]
            right_light, last_u, last_v = planes[k, 12], planes[k, 17], planes[k, 18]
            right_shine = planes[k, 15]
            dx = np.float32(x - line) - planes[k, 0]
            dy = np.float32(y) - planes[k, 1]
            near = planes[k, 2] + right * dx + planes[k, 4] * dy
            u = planes[k, 5] + right_u * dx + planes[k, 7] * dy
            v = planes[k, 8] + right_v * dx + planes[k, 10] * dy
            light = planes[k, 11] + right_light * dx + planes[k, 13] * dy
            shine = planes[k, 14] + right_shine * dx + planes[k, 16] * dy
            while x < end and shown[x] == k:
                far = np.float32(1.0) / near
                at, under, fx, fy = texel_at(u * far, v * far, last_u, last_v, offset, wide)
                above[count], below[count] = pairs[at], pairs[under]
                within[count] = fx | (fy << _BYTE) | (shine_of(shine) << _16)
                lights[count] = gain_of(light)
                near, u, v, light = near + right, u + right_u, v + right_v, light + right_light
                shine, count, x = shine + right_shine, count + one, x + one
        fours = above.view(np.uint32), below.view(np.uint32)
        for i in range(count):
            place, two = within[i], np.uint64(2) * i
            a, b, c, d = fours[0][two], fours[0][two + one], fours[1][two], fours[1][two + one]
            fx, fy = place & _FULL, (place >> _BYTE) & _FULL
            red, green, blue, alpha = mixed(a, b, c, d, fx, fy, lights[i], place >> _16)
            colour = red | (green << _BYTE) | (blue << _16)
            pixels[first + i] = colour if alpha > np.uint32(0) else pixels[first + i]


@_compiled
def gather_clear(count, model, work, depth, clear):  # type: ignore[no-untyped-def]
    """Lays the clear triangles under each other where they are not hidden, the nearest first.

    clear: [size * size], bytes R, G, B, A, colours times alpha. Where nothing more shows through,
    the depth is theirs, and whatever is further is done with. The lines that were written to.
    """
    screen, triangles, planes, order = work.screen, model.triangles, work.planes, work.order
    texture_of, texels, one = model.texture_of, model.texels, np.uint64(1)
    size, zero = len(work.depth), np.float32(0.0)
    y0, y1 = size, 0
    for number in range(count):
        k = order[number]
        a, b, c = triangles[k, 0], triangles[k, 1], triangles[k, 2]
        px, py, qx, qy, rx, ry = downwards(
            screen[a, 0], screen[a, 1], screen[b, 0], screen[b, 1], screen[c, 0], screen[c, 1]
        )
        first, last = math.ceil(max(py, zero)), math.ceil(min(ry, np.float32(size)))
        if first >= last or all_hidden(
            px, py, qx, qy, rx, ry, max(screen[a, 2], screen[b, 2], screen[c, 2]), size, depth
        ):
            continue
        y0, y1 = min(y0, first), max(y1, last)
        whole, upper, lower = slope(px, py, rx, ry), slope(px, py, qx, qy), slope(qx, qy, rx, ry)
        offset, wide = np.uint32(texture_of[k, 0]), np.uint32(texture_of[k, 1])
        right, right_u, right_v = planes[k, 3], planes[k, 6], planes[k, 9]
        down, down_u, down_v = planes[k, 4], planes[k, 7], planes[k, 10]
        right_light, down_light = planes[k, 12], planes[k, 13]
        right_shine, down_shine = planes[k, 15], planes[k, 16]
        last_u, last_v, ax = planes[k, 17], planes[k, 18], planes[k, 0]
        dy = np.float32(first) - planes[k, 1]
        near_0, u_0 = planes[k, 2] + down * dy, planes[k, 5] + down_u * dy
        v_0, light_0 = planes[k, 8] + down_v * dy, planes[k, 11] + down_light * dy
        shine_0 = planes[k, 14] + down_shine * dy
        for y in range(first, last):
            start, stop = span(y, px, py, qx, qy, whole, upper, lower, size)
            dx = np.float32(start) - ax
            near, u, v = near_0 + right * dx, u_0 + right_u * dx, v_0 + right_v * dx
            light, shine = light_0 + right_light * dx, shine_0 + right_shine * dx
            near_0, u_0, v_0 = near_0 + down, u_0 + down_u, v_0 + down_v
            light_0, shine_0 = light_0 + down_light, shine_0 + down_shine
            if start >= stop:
                continue
            for x in range(np.uint64(y * size + start), np.uint64(y * size + stop)):
                if near > depth[x]:
                    far = np.float32(1.0) / near
                    at, below, fx, fy = texel_at(u * far, v * far, last_u, last_v, offset, wide)
                    a, b, c, d = texels[at], texels[at + one], texels[below], texels[below + one]
                    red, green, blue, alpha = mixed(
                        a, b, c, d, fx, fy, gain_of(light), shine_of(shine)
                    )
                    above = clear[x]
                    left = _FULL - (above >> np.uint32(24))
                    red_blue = shares(red | (blue << _16), left)
                    above += red_blue | (shares(green | (alpha << _16), left) << _BYTE)
                    # Without branches, which nobody could foretell.
                    solid = above >> np.uint32(24)
                    fill = _FILLED[solid]
                    red_blue = (((above & _LANES) * fill) >> _BYTE) & _LANES
                    green = (((above >> _BYTE) & _FULL) * fill) & np.uint32(0xFF00)
                    full = solid >= _SOLID
                    alpha = np.uint32(0xFF000000) if full else above & np.uint32(0xFF000000)
                    clear[x] = red_blue | green | alpha
                    depth[x] = near if full else depth[x]
                near, u, v, light = near + right, u + right_u, v + right_v, light + right_light
                shine += right_shine
    return y0, y1


@_inlined
def beside(other, its_depth, above, near):  # type: ignore[no-untyped-def]
    """What a neighbour has of what is clear; where one hides the other's, it is our own."""
    is_hair, we_are = other > np.uint32(0xFFFFFF), above > np.uint32(0xFFFFFF)
    seen = (is_hair & we_are) | (is_hair & (its_depth > near)) | (we_are & (its_depth < near))
    return other if seen else above


@_compiled
def lay_over(first, last, size, depth, clear, pixels):  # type: ignore[no-untyped-def]
    """Lays lines of `clear` over those of the picture, the edges of it as soft as hair's are."""
    wide, one = np.uint64(size), np.uint64(1)
    for y in range(max(first - 1, 1), min(last + 1, size - 1)):
        for x in range(np.uint64(y * size + 1), np.uint64((y + 1) * size - 1)):
            above, near = clear[x], depth[x]
            a = beside(clear[x - one], depth[x - one], above, near)
            b = beside(clear[x + one], depth[x + one], above, near)
            c = beside(clear[x - wide], depth[x - wide], above, near)
            d = beside(clear[x + wide], depth[x + wide], above, near)
            red_blue = (above & _LANES) * _4 + (a & _LANES) + (b & _LANES)
            red_blue = ((red_blue + (c & _LANES) + (d & _LANES)) >> _3) & _LANES
            green = ((above >> _BYTE) & _LANES) * _4 + ((a >> _BYTE) & _LANES)
            green += ((b >> _BYTE) & _LANES) + ((c >> _BYTE) & _LANES) + ((d >> _BYTE) & _LANES)
            soft = red_blue | (((green >> _3) & _LANES) << _BYTE)
            # Within, it stays as sharp as it is.
            above = above if (a & b & c & d & above) >= _ALL else soft
            left = _FULL - (above >> np.uint32(24))
            red_blue = shares(pixels[x] & _LANES, left)
            green = shares((pixels[x] >> _BYTE) & _FULL, left)
            pixels[x] = (above & np.uint32(0x00FFFFFF)) + (red_blue | (green << _BYTE))


@_inlined
def shares(lanes, part):  # type: ignore[no-untyped-def]
    """In both lanes of 16 bits value * part / 255, rounded; exact for bytes."""
    products = lanes * part + _ROUNDING
    return ((products + ((products >> _BYTE) & _LANES)) >> _BYTE) & _LANES


@_inlined
def blended(colour, share, beneath):  # type: ignore[no-untyped-def]
    """So much of a colour, 0..255, and the rest of what was there."""
    rest = _FULL - share
    red_blue = shares(colour & _LANES, share) + shares(beneath & _LANES, rest)
    green = shares((colour >> _BYTE) & _FULL, share) + shares((beneath >> _BYTE) & _FULL, rest)
    return (red_blue & _LANES) | ((green & _FULL) << _BYTE)


@_compiled
def sort_clear(model, work):  # type: ignore[no-untyped-def]
    """Orders the clear triangles that are seen, the nearest first. How many they are.

    By counting: in steps of depth, within one as they come.
    """
    screen, triangles, facing, to = work.screen, model.triangles, work.facing, work.order
    lowest, highest = np.float32(1e9), np.float32(-1e9)
    for k in range(model.opaque, len(triangles)):
        if facing[k]:
            near = screen[triangles[k, 0], 2]
            lowest, highest = min(lowest, near), max(highest, near)
    scale = np.float32(_ORDERS - 1) / max(highest - lowest, np.float32(1e-9))
    counts = np.zeros(_ORDERS + 1, np.int32)
    for k in range(model.opaque, len(triangles)):
        if facing[k]:
            counts[int((highest - screen[triangles[k, 0], 2]) * scale) + 1] += 1
    for order in range(_ORDERS):
        counts[order + 1] += counts[order]
    for k in range(model.opaque, len(triangles)):
        if facing[k]:
            order = int((highest - screen[triangles[k, 0], 2]) * scale)
            to[counts[order]] = k
            counts[order] += 1
    return counts[_ORDERS]


@_compiled
def draw_catchlights(eye, head, model, work, pixels):  # type: ignore[no-untyped-def]
    """Mirrors the lamps in a cornea: they stay where they are, whatever the eye looks at."""
    eyes, lamps, seen, turned, size = (
        model.eyes,
        model.lamps,
        work.shown,
        head.turned,
        len(work.depth),
    )
    pupil = int(eyes[eye, 4])
    # Between the eye's middle and its pupil is the cornea's own middle: the ball that the cornea is
    # part of is smaller (about 7.8 mm in an eye of 12 mm).
    x = eyes[eye, 0] + 0.45 * (work.places[pupil, 0] - eyes[eye, 0])
    y = eyes[eye, 1] + 0.45 * (work.places[pupil, 1] - eyes[eye, 1])
    z = eyes[eye, 2] + 0.45 * (work.places[pupil, 2] - eyes[eye, 2])
    right = turned[0, 0] * x + turned[0, 1] * y + turned[0, 2] * z + turned[0, 3]
    up = turned[1, 0] * x + turned[1, 1] * y + turned[1, 2] * z + turned[1, 3]
    away = turned[2, 0] * x + turned[2, 1] * y + turned[2, 2] * z + turned[2, 3]
    ball, middle = 0.65 * eyes[eye, 3], 0.5 * (size - 1)
    for k in range(len(lamps)):
        # Where the cornea looks half way between the lamp and the camera.
        near = 1.0 / max(away + ball * lamps[k, 2], 0.05)
        at_x = middle + model.camera[12] * (right + ball * lamps[k, 0]) * near
        at_y = middle - model.camera[12] * (up + ball * lamps[k, 1]) * near
        radius = max(lamps[k, 3] * ball * model.camera[12] * near, 0.6)
        reach = int(radius + 2)
        if not (0 <= at_x < size and 0 <= at_y < size):
            continue
        for row in range(max(0, int(at_y) - reach), min(size, int(at_y) + reach + 2)):
            for column in range(max(0, int(at_x) - reach), min(size, int(at_x) + reach + 2)):
                if not eyes[eye, 5] <= seen[row, column] < eyes[eye, 6]:
                    continue
                off = math.sqrt((row - at_y) ** 2 + (column - at_x) ** 2)
                share = min(max(0.5 + (radius - off) * 0.7, 0.0), 1.0) * lamps[k, 4]
                at = row * size + column
                pixels[at] = blended(np.uint32(0x00FFFFFF), np.uint32(share * 255.0), pixels[at])


@_compiled
def smooth_edges(model, work, depth, pixels):  # type: ignore[no-untyped-def]
    """Mixes the pixels on both sides of each outline by how far the outline is between them.

    Geometric post-process antialiasing (Persson 2011): an edge is an outline where one of its two
    triangles is seen and the other is turned away, or is not there.
    """
    screen, facing, edges, size = work.screen, work.facing, model.edges, len(work.depth)
    for k in range(len(edges)):
        behind = edges[k, 3]
        if facing[edges[k, 2]] == (facing[behind] if behind >= 0 else np.uint8(0)):
            continue
        a, b = edges[k, 0], edges[k, 1]
        ax, ay, aq = screen[a, 0], screen[a, 1], screen[a, 2]
        bx, by, bq = screen[b, 0], screen[b, 1], screen[b, 2]
        steep = abs(by - ay) >= abs(bx - ax)
        if not steep:
            ax, ay, bx, by = ay, ax, by, bx
        if by < ay:
            ax, ay, aq, bx, by, bq = bx, by, bq, ax, ay, aq
        first, last = max(0, math.ceil(ay)), min(size, math.ceil(by))
        if first >= last:
            continue
        aside, nearer = (bx - ax) / (by - ay), (bq - aq) / (by - ay)
        for y in range(first, last):
            x = ax + (y - ay) * aside
            i = math.floor(x)
            if not 0 <= i < size - 1:
                continue
            one, step = (y * size + i, 1) if steep else (i * size + y, size)
            mix_pair(one, one + step, x - i, aq + (y - ay) * nearer, depth, pixels)


@_inlined
def mix_pair(one, two, along, near, depth, pixels):  # type: ignore[no-untyped-def]
    """Mixes neighbours between which an outline passes, `along` of the way from one to two."""
    inner, outer, covered = one, two, along - 0.5
    if depth[two] > depth[one]:
        inner, outer, covered = two, one, 0.5 - along
    if depth[outer] >= near or depth[inner] - near > _EDGE_DEPTH:
        return
    # Covered of the outer pixel; where it is less than nothing, the inner one is not all covered.
    to, other = (outer, inner) if covered > 0 else (inner, outer)
    share = np.uint32(abs(covered) * 255.0)
    pixels[to] = blended(pixels[other], share, pixels[to])
