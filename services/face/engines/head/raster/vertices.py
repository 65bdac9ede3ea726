"""Vertices of a head: moved by its shapes, placed on the screen, lit."""

from __future__ import annotations

import math

import numpy as np

from services.face.draw.compiling import inner
from services.face.engines.head.light import LIGHT_SIDE
from services.face.engines.head.model import NO_SHINE


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
    middle, pixels = np.float32(0.5 * (len(work.picture) - 1)), np.float32(model.camera[12])
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
