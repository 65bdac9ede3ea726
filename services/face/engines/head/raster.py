"""Compiled loops that draw a head: triangles in depth, their colours, and smooth edges.

Everything here releases the interpreter lock, touches only its arguments and gives the same bytes
for the same input. Pixels have their centres at whole numbers. Of depth its inverse is kept, which
is linear on the screen: larger is nearer, 0 is nothing. Vertices are in perspective; within a
triangle, of which a head has thousands, textures go the straight way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from services.face.draw import compiling, raster
from services.face.draw.compiling import compiled, inlined, inner, source_digest
from services.face.draw.raster import downwards, shares, slope
from services.face.engines.head import light, model
from services.face.engines.head.light import LIGHT_SIDE
from services.face.engines.head.model import NO_SHINE, Model

_EDGE_DEPTH = 0.03
"""Inverse metres: what lies so much nearer than an edge hides it; some centimetres, as a round
surface falls off steeply at its outline.
"""
_SOLID = np.uint32(176)
"""Alpha from which a pixel hides what is behind it: what is, is hair as well."""
_FILLED = np.array([255 * 256 // a if a >= 176 else 256 for a in range(256)], np.uint32)
"""256ths that colours times alpha are multiplied by, by alpha, to be solid from there on."""
_FINE = 1 << 16
"""Parts of a texel, of a byte of shine and of a 1024th of light, in which they are reckoned."""
ORDERS = 4096
"""Steps of depth in which clear triangles are sorted."""
_LEAST = np.uint32(0x01000000)
"""From here on a pixel of `clear` is not all clear."""
_LANES, _ROUNDING = np.uint32(0x00FF00FF), np.uint32(0x00800080)
_BYTE, _FULL, _16 = np.uint32(8), np.uint32(255), np.uint32(16)
_GAIN_BITS, _3, _4, _ALL = np.uint32(10), np.uint32(3), np.uint32(4), np.uint32(255 << 24)


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
    """What every picture overwrites: nothing of it is read before. Pixels are line by line."""

    places: NDArray[np.float32]
    """[N, 3] metres."""
    normals: NDArray[np.float32]
    """[N, 3] of any length."""
    screen: NDArray[np.float32]
    """[N, 5] x, y in pixels, inverse depth, light, shine (0..255)."""
    facing: NDArray[np.uint8]
    """[M] 0 turned away, 1 seen from the front, 2 from behind."""
    seen: NDArray[np.bool_]
    """[M] whether anything of a triangle is in the picture."""
    planes: NDArray[np.float32]
    """[M, 5] of each triangle that is seen: a corner's x and y, inverse depth there, and what is
    added to it for one pixel right and one down.
    """
    steps: NDArray[np.int64]
    """[M, 12] of the same: both places in the texture, light and shine as `_FINE` says, each in the
    picture's first pixel and what is added for one pixel right and one down.
    """
    order: NDArray[np.int32]
    """[clear triangles] the nearest first."""
    counts: NDArray[np.int32]
    """[ORDERS + 1] of those in each step of depth."""
    depth: NDArray[np.float32]
    """[size * size] inverse metres."""
    shown: NDArray[np.int32]
    """[size * size] triangle, or -1."""
    clear: NDArray[np.uint32]
    """[size * size] what can be seen through: bytes R, G, B, A, colours times alpha."""
    spans: NDArray[np.int32]
    """[size, 2] first pixel of each line that shows a triangle, and the one behind the last."""
    fours: NDArray[np.uint64]
    """[2, size] of a line: two texels of each pixel, and the two below,"""
    halves: NDArray[np.uint32]
    """[2, 2 * size] and the same memory, texel by texel."""
    looks: NDArray[np.uint32]
    """[2, size] of a line: places within texels and shine, and light; lines before they change."""
    pixels: NDArray[np.uint32]
    """[size * size] bytes R, G, B and a zero."""
    picture: NDArray[np.uint8]
    """[size, size, 4] the same."""


_Draw: TypeAlias = Callable[[NDArray[np.float32], Placing, Model, Work], None]


def _drawing(built_in: int) -> _Draw:
    @compiled(cache=True)
    def draw(weights: NDArray[np.float32], head: Placing, model: Model, work: Work) -> None:
        """Draws one picture. weights: [targets] float32."""
        assert built_in
        begin_picture(model, work)
        shape_vertices(weights, model, work)
        place_vertices(head, model, work)
        face_triangles(model, work)
        fill_triangles(model, work)
        prepare_triangles(model, work)
        first, last = gather_clear(sort_clear(model, work), model, work)
        colour_pixels(model, work)
        for eye in range(len(model.eyes)):
            draw_catchlights(eye, head, model, work)
        lay_over(first, last, model, work)
        soften_hair(first, last, work)
        smooth_edges(model, work)

    made: _Draw = draw
    return made


draw_head = _drawing(source_digest(compiling, raster, light, model))


@inner()
def begin_picture(model, work):  # type: ignore[no-untyped-def]
    """Nothing but what stands behind the head."""
    pixels, background = work.pixels, model.background
    depth, shown, clear, spans = work.depth, work.shown, work.clear, work.spans
    for k in range(np.uint64(len(pixels))):
        pixels[k] = background[k]
    for k in range(np.uint64(len(depth))):
        depth[k], shown[k], clear[k] = np.float32(0.0), -1, np.uint32(0)
    for y in range(len(spans)):
        spans[y, 0], spans[y, 1] = len(spans), 0


@inner()
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


@inner()
def place_vertices(head, model, work):  # type: ignore[no-untyped-def]
    """The head turned about its neck, in perspective, and in its light."""
    places, normals, screen, follows = work.places, work.normals, work.screen, model.follows
    middle, pixels = np.float32(0.5 * (len(work.spans) - 1)), np.float32(model.camera[12])
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
            if look == NO_SHINE:
                screen[n, 3 + k] = zero
                continue
            above = light[look, i, j] + column * (light[look, i, j + 1] - light[look, i, j])
            after, beyond = light[look, i + 1, j], light[look, i + 1, j + 1]
            below = after + column * (beyond - after)
            screen[n, 3 + k] = above + row * (below - above)
        # Of baked light only the change counts.
        gain = gains[n] * opened if inside[n] else gains[n]
        screen[n, 3] = min(max(screen[n, 3] * gain, np.float32(0.1)), np.float32(4.0))
        if inside[n]:
            screen[n, 4] *= opened


@inner()
def face_triangles(model, work):  # type: ignore[no-untyped-def]
    """Finds out which triangles face the camera."""
    screen, triangles, facing = work.screen, model.triangles, work.facing
    seen, two_sided = work.seen, model.two_sided
    for k in range(len(triangles)):
        a, b, c = triangles[k, 0], triangles[k, 1], triangles[k, 2]
        ax, ay = screen[a, 0], screen[a, 1]
        bx, by, cx, cy = screen[b, 0] - ax, screen[b, 1] - ay, screen[c, 0] - ax, screen[c, 1] - ay
        area = bx * cy - cx * by
        there = screen[a, 2] * screen[b, 2] * screen[c, 2] > 0 and abs(area) >= np.float32(1e-3)
        # On the screen y grows downwards, so that the front goes the other way round.
        shown = there and (area < 0 or two_sided[k])
        facing[k] = (np.uint8(1) if area < 0 else np.uint8(2)) if shown else np.uint8(0)
        seen[k] = False


@inner()
def prepare_triangles(model, work):  # type: ignore[no-untyped-def]
    """Writes the planes of all that is seen."""
    screen, triangles, seen = work.screen, model.triangles, work.seen
    planes, steps, size = work.planes, work.steps, len(work.spans)
    source, texture_of = model.source, model.texture_of
    fine, gains = np.float32(_FINE), np.float32(_FINE << _GAIN_BITS)
    for k in range(len(triangles)):
        a, b, c = triangles[k, 0], triangles[k, 1], triangles[k, 2]
        ax, ay, qa = screen[a, 0], screen[a, 1], screen[a, 2]
        qb, qc = screen[b, 2], screen[c, 2]
        if k >= model.opaque and work.facing[k]:
            bx, by, cx, cy = screen[b, 0], screen[b, 1], screen[c, 0], screen[c, 1]
            low, high = (
                max(min(ay, by, cy), np.float32(0.0)),
                min(max(ay, by, cy), np.float32(size)),
            )
            seen[k] = math.ceil(low) < math.ceil(high) and not all_hidden(
                ax, ay, bx, by, cx, cy, max(qa, qb, qc), size, work.depth
            )
        if not seen[k]:
            continue
        bx, by, cx, cy = screen[b, 0] - ax, screen[b, 1] - ay, screen[c, 0] - ax, screen[c, 1] - ay
        inverse = np.float32(1.0) / (bx * cy - cx * by)
        planes[k, 0], planes[k, 1], planes[k, 2] = ax, ay, qa
        planes[k, 3] = ((qb - qa) * cy - (qc - qa) * by) * inverse
        planes[k, 4] = ((qc - qa) * bx - (qb - qa) * cx) * inverse
        for part in range(4):
            if part < 2:
                side, half = fine * np.float32(texture_of[k, 1 + part]), np.float32(_FINE // 2)
                at, to = source[a, part] * side - half, source[b, part] * side - half
                on = source[c, part] * side - half
            else:
                unit = gains if part == 2 else fine
                at, to = unit * screen[a, 1 + part], unit * screen[b, 1 + part]
                on = unit * screen[c, 1 + part]
            right = np.float64(((to - at) * cy - (on - at) * by) * inverse)
            down = np.float64(((on - at) * bx - (to - at) * cx) * inverse)
            steps[k, 3 * part] = whole_of(at - right * ax - down * ay)
            steps[k, 3 * part + 1], steps[k, 3 * part + 2] = whole_of(right), whole_of(down)


@inlined()
def whole_of(value):  # type: ignore[no-untyped-def]
    """A whole number; of a triangle that is seen from its edge it may be any."""
    return np.int64(min(max(value, -1e12), 1e12))


@inlined()
def span(y, px, py, qx, qy, whole, upper, lower, size):  # type: ignore[no-untyped-def]
    """First pixel of a line that a triangle covers, and the first one behind.

    An edge is walked from its upper end, whichever triangle it serves: no seam stays open.
    """
    line = np.float32(y)
    side = px + (line - py) * whole
    other = px + (line - py) * upper if line < qy else qx + (line - qy) * lower
    left, right = max(min(side, other), np.float32(0.0)), min(max(side, other), np.float32(size))
    return math.ceil(left), math.ceil(right)


@inlined()
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


@inner()
def fill_triangles(model, work):  # type: ignore[no-untyped-def]
    """Writes inverse depth and number of what is nearest of all that hides what is behind."""
    screen, triangles, facing, seen = work.screen, model.triangles, work.facing, work.seen
    depth, shown, spans = work.depth, work.shown, work.spans
    size, zero = len(spans), np.float32(0.0)
    for k in range(model.opaque):
        if not facing[k]:
            continue
        a, b, c = triangles[k, 0], triangles[k, 1], triangles[k, 2]
        ax, ay, bx, by, cx, cy = (
            screen[a, 0], screen[a, 1], screen[b, 0], screen[b, 1], screen[c, 0], screen[c, 1]
        )  # fmt: skip
        low, high = max(min(ay, by, cy), zero), min(max(ay, by, cy), np.float32(size))
        first, last = math.ceil(low), math.ceil(high)
        # Most of the small ones lie between the pixels, and teeth behind lips.
        if first >= last or math.ceil(min(ax, bx, cx)) >= math.ceil(max(ax, bx, cx)):
            continue
        qa, qb, qc = screen[a, 2], screen[b, 2], screen[c, 2]
        if k >= model.skin and all_hidden(ax, ay, bx, by, cx, cy, max(qa, qb, qc), size, depth):
            continue
        px, py, qx, qy, rx, ry = downwards(ax, ay, bx, by, cx, cy)
        whole, upper, lower = slope(px, py, rx, ry), slope(px, py, qx, qy), slope(qx, qy, rx, ry)
        bx, by, cx, cy, qb, qc = bx - ax, by - ay, cx - ax, cy - ay, qb - qa, qc - qa
        inverse = np.float32(1.0) / (bx * cy - cx * by)
        right, down = (qb * cy - qc * by) * inverse, (qc * bx - qb * cx) * inverse
        base, found = qa + down * (np.float32(first) - ay), False
        for y in range(first, last):
            start, stop = span(y, px, py, qx, qy, whole, upper, lower, size)
            if start < stop:
                spans[y, 0], spans[y, 1] = min(spans[y, 0], start), max(spans[y, 1], stop)
                near, at = base + right * (np.float32(start) - ax), y * size
                for x in range(np.uint64(at + start), np.uint64(at + stop)):
                    if near > depth[x]:
                        depth[x] = near
                        shown[x] = k
                        found = True
                    near += right
            base += down
        seen[k] = found


@inlined()
def value_at(steps, k, part, x, y):  # type: ignore[no-untyped-def]
    """What a triangle has in a pixel."""
    return steps[k, part] + steps[k, part + 1] * x + steps[k, part + 2] * y


@inlined()
def texel_at(u, v, last_u, last_v, offset, wide):  # type: ignore[no-untyped-def]
    """The texel of a place and the one below, and how far the place is from them: 256ths."""
    column, row = np.uint64(min(max(u, 0), last_u)), np.uint64(min(max(v, 0), last_v))
    at = offset + (row >> np.uint64(16)) * wide + (column >> np.uint64(16))
    return (
        at,
        at + wide,
        np.uint32(column >> np.uint64(8)) & _FULL,
        np.uint32(row >> np.uint64(8)) & _FULL,
    )


@inlined()
def last_of(side):  # type: ignore[no-untyped-def]
    """The last place in a texture that has another texel behind its own."""
    return np.int64(side) * _FINE - (_FINE + 256)


@inlined()
def level_of(value, most):  # type: ignore[no-untyped-def]
    """Light in 1024ths, or shine as a byte."""
    return np.uint32(min(max(value >> 16, 0), most))


@inlined()
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


@inner()
def colour_pixels(model, work):  # type: ignore[no-untyped-def]
    """Lays the colours of what is nearest over the picture, line by line."""
    steps, texture_of, pairs = work.steps, model.texture_of, model.pairs
    shown, clear, spans, pixels = work.shown, work.clear, work.spans, work.pixels
    size, one = np.uint64(len(spans)), np.uint64(1)
    # What the four texels of each pixel of a line are: fetching them takes one pixel after the
    # other, but all the arithmetic then goes in vector instructions.
    above, below, within, lights = work.fours[0], work.fours[1], work.looks[0], work.looks[1]
    fours = work.halves[0], work.halves[1]
    for y in range(len(spans)):
        if spans[y, 0] >= spans[y, 1]:
            continue
        line = np.uint64(y) * size
        x, end, count = line + np.uint64(spans[y, 0]), line + np.uint64(spans[y, 1]), np.uint64(0)
        first = x
        while x < end:
            k = shown[x]
            if k < 0 or clear[x] >= _ALL:
                above[count], below[count] = np.uint64(0), np.uint64(0)
                within[count], lights[count] = np.uint32(0), np.uint32(0)
                count, x = count + one, x + one
                continue
            # As long as the same triangle goes on.
            offset, wide = np.uint64(texture_of[k, 0]), np.uint64(texture_of[k, 1])
            column, last_u, last_v = np.int64(x - line), last_of(wide), last_of(texture_of[k, 2])
            u, right_u = value_at(steps, k, 0, column, y), steps[k, 1]
            v, right_v = value_at(steps, k, 3, column, y), steps[k, 4]
            light, right_light = value_at(steps, k, 6, column, y), steps[k, 7]
            shine, right_shine = value_at(steps, k, 9, column, y), steps[k, 10]
            while x < end and shown[x] == k:
                at, under, fx, fy = texel_at(u, v, last_u, last_v, offset, wide)
                above[count], below[count] = pairs[at], pairs[under]
                within[count] = fx | (fy << _BYTE) | (level_of(shine, 255) << _16)
                lights[count] = level_of(light, 4 << 10)
                u, v, light, shine = (
                    u + right_u,
                    v + right_v,
                    light + right_light,
                    shine + right_shine,
                )
                count, x = count + one, x + one
        for i in range(count):
            place, two = within[i], np.uint64(2) * i
            a, b, c, d = fours[0][two], fours[0][two + one], fours[1][two], fours[1][two + one]
            fx, fy = place & _FULL, (place >> _BYTE) & _FULL
            red, green, blue, alpha = mixed(a, b, c, d, fx, fy, lights[i], place >> _16)
            colour = red | (green << _BYTE) | (blue << _16)
            pixels[first + i] = colour if alpha > np.uint32(0) else pixels[first + i]


@inner()
def gather_clear(count, model, work):  # type: ignore[no-untyped-def]
    """Lays the clear triangles under each other where they are not hidden, the nearest first.

    What is solid is shown as what is opaque is; the rest goes into `clear`. Where nothing more
    shows through, the depth is theirs, and whatever is further is done with. The lines that were
    written to.
    """
    screen, triangles, planes, order = work.screen, model.triangles, work.planes, work.order
    texture_of, texels, spans, one = model.texture_of, model.texels, work.spans, np.uint64(1)
    depth, shown, clear, steps = work.depth, work.shown, work.clear, work.steps
    size, zero = len(spans), np.float32(0.0)
    y0, y1 = size, 0
    for number in range(count):
        k = order[number]
        a, b, c = triangles[k, 0], triangles[k, 1], triangles[k, 2]
        px, py, qx, qy, rx, ry = downwards(
            screen[a, 0], screen[a, 1], screen[b, 0], screen[b, 1], screen[c, 0], screen[c, 1]
        )
        if all_hidden(
            px, py, qx, qy, rx, ry, max(screen[a, 2], screen[b, 2], screen[c, 2]), size, depth
        ):
            continue
        first, last = math.ceil(max(py, zero)), math.ceil(min(ry, np.float32(size)))
        y0, y1 = min(y0, first), max(y1, last)
        whole, upper, lower = slope(px, py, rx, ry), slope(px, py, qx, qy), slope(qx, qy, rx, ry)
        offset, wide = np.uint64(texture_of[k, 0]), np.uint64(texture_of[k, 1])
        right, right_u, right_v = planes[k, 3], steps[k, 1], steps[k, 4]
        last_u, last_v = last_of(wide), last_of(texture_of[k, 2])
        for y in range(first, last):
            start, stop = span(y, px, py, qx, qy, whole, upper, lower, size)
            if start >= stop:
                continue
            spans[y, 0], spans[y, 1] = min(spans[y, 0], start), max(spans[y, 1], stop)
            dx, dy = np.float32(start) - planes[k, 0], np.float32(y) - planes[k, 1]
            near = planes[k, 2] + right * dx + planes[k, 4] * dy
            u, v = value_at(steps, k, 0, start, y), value_at(steps, k, 3, start, y)
            begun = np.uint64(y * size + start)
            for x in range(begun, np.uint64(y * size + stop)):
                if near > depth[x]:
                    at, below, fx, fy = texel_at(u, v, last_u, last_v, offset, wide)
                    a = texels[at]
                    if a >= _ALL:
                        depth[x], shown[x] = near, k
                    elif a > np.uint32(0):
                        b, c, d = texels[at + one], texels[below], texels[below + one]
                        column = np.int64(x - begun) + start
                        light = level_of(value_at(steps, k, 6, column, y), 4 << 10)
                        shine = level_of(value_at(steps, k, 9, column, y), 255)
                        red, green, blue, alpha = mixed(a, b, c, d, fx, fy, light, shine)
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
                        clear[x] = red_blue | green | (_ALL if full else above & _ALL)
                        depth[x] = near if full else depth[x]
                near, u, v = near + right, u + right_u, v + right_v
    return y0, y1


@inner()
def lay_over(first, last, model, work):  # type: ignore[no-untyped-def]
    """Lays lines of `clear` over those of the picture; its alpha then tells where hair is."""
    clear, shown, pixels, size = work.clear, work.shown, work.pixels, len(work.spans)
    for x in range(np.uint64(first * size), np.uint64(max(first, last) * size)):
        above = clear[x]
        left = _FULL - (above >> np.uint32(24))
        red_blue = shares(pixels[x] & _LANES, left)
        green = shares((pixels[x] >> _BYTE) & _FULL, left)
        pixels[x] = (above & np.uint32(0x00FFFFFF)) + (red_blue | (green << _BYTE))
        clear[x] = above | (_ALL if shown[x] >= model.opaque else np.uint32(0))


@inlined()
def beside(other, its_depth, its_colour, above, near, colour):  # type: ignore[no-untyped-def]
    """A neighbour's colour across the edge of hair; our own where the neighbour hides its hair, or
    we ours, or there is none.
    """
    is_hair, we_are = other >= _LEAST, above >= _LEAST
    seen = (is_hair & we_are) | (is_hair & (its_depth > near)) | (we_are & (its_depth < near))
    return its_colour if seen else colour


@inner()
def soften_hair(first, last, work):  # type: ignore[no-untyped-def]
    """Makes the edges of hair as soft as hair's are. Within, it stays as sharp as it is."""
    clear, depth, pixels, size = work.clear, work.depth, work.pixels, len(work.spans)
    wide, one = np.uint64(size), np.uint64(1)
    over, own = work.looks[0], work.looks[1]
    begin, end = max(first - 1, 1), min(last + 1, size - 1)
    for i in range(size):
        over[i] = pixels[(begin - 1) * size + i]
    for y in range(begin, end):
        line = np.uint64(y * size)
        for i in range(wide):
            own[i] = pixels[line + i]
        for i in range(one, wide - one):
            x = line + i
            above, near, colour = clear[x], depth[x], own[i]
            before, behind, up, under = (
                clear[x - one],
                clear[x + one],
                clear[x - wide],
                clear[x + wide],
            )
            a = beside(before, depth[x - one], own[i - one], above, near, colour)
            b = beside(behind, depth[x + one], own[i + one], above, near, colour)
            c = beside(up, depth[x - wide], over[i], above, near, colour)
            d = beside(under, depth[x + wide], pixels[x + wide], above, near, colour)
            red_blue = (colour & _LANES) * _4 + (a & _LANES) + (b & _LANES)
            red_blue = ((red_blue + (c & _LANES) + (d & _LANES)) >> _3) & _LANES
            green = ((colour >> _BYTE) & _FULL) * _4 + ((a >> _BYTE) & _FULL)
            green += ((b >> _BYTE) & _FULL) + ((c >> _BYTE) & _FULL) + ((d >> _BYTE) & _FULL)
            soft = red_blue | ((green >> _3) << _BYTE)
            within = (before & behind & up & under & above) >= _ALL
            pixels[x] = colour if within else soft
        over, own = own, over


@inlined()
def blended(colour, share, beneath):  # type: ignore[no-untyped-def]
    """So much of a colour, 0..255, and the rest of what was there."""
    rest = _FULL - share
    red_blue = shares(colour & _LANES, share) + shares(beneath & _LANES, rest)
    green = shares((colour >> _BYTE) & _FULL, share) + shares((beneath >> _BYTE) & _FULL, rest)
    return (red_blue & _LANES) | ((green & _FULL) << _BYTE)


@inner()
def sort_clear(model, work):  # type: ignore[no-untyped-def]
    """Orders the clear triangles that are seen, the nearest first. How many they are.

    By counting: in steps of depth, within one as they come.
    """
    screen, triangles, seen, to = work.screen, model.triangles, work.seen, work.order
    counts = work.counts
    lowest, highest = np.float32(1e9), np.float32(-1e9)
    for k in range(model.opaque, len(triangles)):
        if seen[k]:
            near = screen[triangles[k, 0], 2]
            lowest, highest = min(lowest, near), max(highest, near)
    scale = np.float32(ORDERS - 1) / max(highest - lowest, np.float32(1e-9))
    for order in range(ORDERS + 1):
        counts[order] = 0
    for k in range(model.opaque, len(triangles)):
        if seen[k]:
            counts[int((highest - screen[triangles[k, 0], 2]) * scale) + 1] += 1
    for order in range(ORDERS):
        counts[order + 1] += counts[order]
    for k in range(model.opaque, len(triangles)):
        if seen[k]:
            order = int((highest - screen[triangles[k, 0], 2]) * scale)
            to[counts[order]] = k
            counts[order] += 1
    return counts[ORDERS]


@inner()
def draw_catchlights(eye, head, model, work):  # type: ignore[no-untyped-def]
    """Mirrors the lamps in a cornea: they stay where they are, whatever the eye looks at."""
    eyes, lamps, shown, turned = model.eyes, model.lamps, work.shown, head.turned
    size, pixels = len(work.spans), work.pixels
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
                at = row * size + column
                if not eyes[eye, 5] <= shown[at] < eyes[eye, 6]:
                    continue
                off = math.sqrt((row - at_y) ** 2 + (column - at_x) ** 2)
                share = min(max(0.5 + (radius - off) * 0.7, 0.0), 1.0) * lamps[k, 4]
                pixels[at] = blended(np.uint32(0x00FFFFFF), np.uint32(share * 255.0), pixels[at])


@inner()
def smooth_edges(model, work):  # type: ignore[no-untyped-def]
    """Mixes the pixels on both sides of each outline by how far the outline is between them.

    Geometric post-process antialiasing (Persson 2011): an edge is an outline where one of its two
    triangles is seen and the other is turned away, or is not there.
    """
    screen, facing, edges, size = work.screen, work.facing, model.edges, len(work.spans)
    depth, pixels = work.depth, work.pixels
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


@inlined()
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
