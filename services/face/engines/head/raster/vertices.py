"""Vertices of a head: moved by its shapes, placed on the screen, lit.

Numbers of a kind lie beside each other as long as loops over all vertices are vector instructions.
"""

from __future__ import annotations

import math

import numpy as np

from services.face.draw.compiling import inlined, inner
from services.face.engines.head.light import LIGHT_SIDE
from services.face.engines.head.model import NO_SHINE
from services.face.engines.head.raster.lanes import add_change
from services.face.engines.head.raster.work import FIRST

_8 = np.uint64(8)


@inner()
def shape_vertices(weights, model, work):  # type: ignore[no-untyped-def]
    """Shapes added up: places and normals as the face moves."""
    to, sums, moving, changes = work.moved, work.sums, model.moving, model.changes.reshape(-1)
    ends, moved, rest, upright = model.target_ends, model.moved, model.rest, model.normals
    for i in range(len(moving)):
        n = moving[i]
        for axis in range(3):
            sums[8 * i + axis], sums[8 * i + 3 + axis] = rest[n, axis], upright[n, axis]
    for target in range(len(weights)):
        weight = weights[target]
        if weight == 0:
            continue
        for k in range(np.uint64(ends[target]), np.uint64(ends[target + 1])):
            add_change(sums, _8 * np.uint64(moved[k]), changes, _8 * k, weight)
    for i in range(len(moving)):
        n = moving[i]
        for row in range(6):
            to[row, n] = sums[8 * i + row]


@inner()
def project_vertices(head, model, work):  # type: ignore[no-untyped-def]
    """The head turned about its neck, in perspective."""
    xs, ys, zs = work.moved[0], work.moved[1], work.moved[2]
    to_x, to_y, to_near = work.placed[0], work.placed[1], work.placed[2]
    middle, pixels = np.float32(0.5 * (len(work.picture) - 1)), np.float32(model.camera[12])
    still, turned, follows = head.still, head.turned, model.follows
    # In numbers of their own, so that the loop becomes vector instructions.
    a, b, c, d = still[0, 0], still[0, 1], still[0, 2], still[0, 3]
    e, f, g, h = still[1, 0], still[1, 1], still[1, 2], still[1, 3]
    i, j, k, m = still[2, 0], still[2, 1], still[2, 2], still[2, 3]
    # What turning adds.
    ta, tb, tc, td = turned[0, 0] - a, turned[0, 1] - b, turned[0, 2] - c, turned[0, 3] - d
    te, tf, tg, th = turned[1, 0] - e, turned[1, 1] - f, turned[1, 2] - g, turned[1, 3] - h
    ti, tj, tk, tm = turned[2, 0] - i, turned[2, 1] - j, turned[2, 2] - k, turned[2, 3] - m
    least, one, zero = np.float32(0.05), np.float32(1.0), np.float32(0.0)
    for n in range(np.uint64(len(follows))):
        x, y, z, weight = xs[n], ys[n], zs[n], follows[n]
        right = a * x + b * y + c * z + d + weight * (ta * x + tb * y + tc * z + td)
        up = e * x + f * y + g * z + h + weight * (te * x + tf * y + tg * z + th)
        away = i * x + j * y + k * z + m + weight * (ti * x + tj * y + tk * z + tm)
        near = one / max(away, least)
        to_x[n] = middle + pixels * right * near
        to_y[n] = middle - pixels * up * near
        to_near[n] = near if away > least else zero
    furthest, nearest, most = one / least, zero, one / least
    for n in range(np.uint64(len(follows))):
        near = to_near[n]
        furthest = min(furthest, near if near > zero else most)
        nearest = max(nearest, near)
    last = np.float32((1 << (32 - work.bits)) - 1)
    reach = work.reach
    reach[0], reach[2] = furthest, last
    reach[1] = (last - np.float32(2 * FIRST)) / max(nearest - furthest, np.float32(1e-6))


@inner()
def turn_normals(head, model, work):  # type: ignore[no-untyped-def]
    """Where in a table of light vertices are lit from."""
    xs, ys, zs = work.moved[3], work.moved[4], work.moved[5]
    rows, columns, follows, turned = work.placed[3], work.placed[4], model.follows, head.rotation
    one, zero, least = np.float32(1.0), np.float32(0.0), np.float32(1e-12)
    # What turning adds.
    a, b, c = turned[0, 0] - one, turned[0, 1], turned[0, 2]
    d, e, f = turned[1, 0], turned[1, 1] - one, turned[1, 2]
    g, h, i = turned[2, 0], turned[2, 1], turned[2, 2] - one
    scale, last = np.float32(0.5 * (LIGHT_SIDE - 1)), np.float32(LIGHT_SIDE - 1.001)
    for n in range(np.uint64(len(follows))):
        x, y, z, weight = xs[n], ys[n], zs[n], follows[n]
        tx, ty = x + weight * (a * x + b * y + c * z), y + weight * (d * x + e * y + f * z)
        tz = z + weight * (g * x + h * y + i * z)
        length = one / np.float32(math.sqrt(max(tx * tx + ty * ty + tz * tz, least)))
        columns[n] = min(max((tx * length + one) * scale, zero), last)
        rows[n] = min(max((one - ty * length) * scale, zero), last)


@inner()
def light_vertices(head, model, work):  # type: ignore[no-untyped-def]
    """Lights vertices, and lays what triangles ask of one side by side."""
    screen, placed, source = work.screen, work.placed, model.source
    light, gains, looks, inside = model.light, model.gain, model.looks, model.inside
    opened = np.float32(head.opened)
    for n in range(np.uint64(len(screen))):
        row, column = placed[3, n], placed[4, n]
        dark = opened if inside[n] else np.float32(1.0)
        # Of baked light only the change counts.
        bright = looked_up(light[looks[n, 0]], row, column) * (gains[n] * dark)
        shine = np.float32(0.0)
        if looks[n, 1] != NO_SHINE:
            shine = looked_up(light[looks[n, 1]], row, column) * dark
        screen[n, 0], screen[n, 1], screen[n, 2] = placed[0, n], placed[1, n], placed[2, n]
        screen[n, 4], screen[n, 5] = source[n, 0], source[n, 1]
        screen[n, 6] = min(max(bright, np.float32(0.1)), np.float32(4.0))
        screen[n, 7] = shine
    # Colours of vertices, which hardly any head has, are darker than light may be.
    for row in range(len(model.tints)):
        for n in range(np.uint64(len(screen))):
            screen[n, 6] *= model.tints[row, n]


@inlined()
def looked_up(table, row, column):  # type: ignore[no-untyped-def]
    """Between four of the numbers of a table of light."""
    i, j, one = np.uint64(row), np.uint64(column), np.uint64(1)
    row, column = row - np.float32(np.int64(i)), column - np.float32(np.int64(j))
    above = table[i, j] + column * (table[i, j + one] - table[i, j])
    after, beyond = table[i + one, j], table[i + one, j + one]
    below = after + column * (beyond - after)
    return above + row * (below - above)


@inner()
def face_triangles(model, work):  # type: ignore[no-untyped-def]
    """Finds out which triangles face the camera."""
    screen, triangles, facing = work.screen, model.triangles, work.facing
    two_sided = model.two_sided
    for k in range(len(triangles)):
        a, b, c = triangles[k, 0], triangles[k, 1], triangles[k, 2]
        ax, ay = screen[a, 0], screen[a, 1]
        bx, by, cx, cy = screen[b, 0] - ax, screen[b, 1] - ay, screen[c, 0] - ax, screen[c, 1] - ay
        area = bx * cy - cx * by
        there = screen[a, 2] * screen[b, 2] * screen[c, 2] > 0 and abs(area) >= np.float32(1e-3)
        # On the screen y grows downwards, so that the front goes the other way round.
        shown = there and (area < 0 or two_sided[k])
        facing[k] = (np.uint8(1) if area < 0 else np.uint8(2)) if shown else np.uint8(0)
