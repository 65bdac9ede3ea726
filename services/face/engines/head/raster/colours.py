"""Colours of what is nearest, line by line, and the light that eyes mirror."""

from __future__ import annotations

import math

import numpy as np

from services.face.draw.compiling import inlined, inner
from services.face.draw.raster import shares
from services.face.engines.head.raster.lanes import CUT, ask_for, cut_planes
from services.face.engines.head.raster.planes import MOST_LIGHT, MOST_SHINE

_LANES, _ROUNDING = np.uint32(0x00FF00FF), np.uint32(0x00800080)
_BYTE, _FULL, _16 = np.uint32(8), np.uint32(255), np.uint32(16)
_GAIN_BITS = np.uint32(10)
_NONE = np.uint32(0)
_1, _2, _4 = np.uint64(1), np.uint64(2), np.uint64(4)
_AHEAD = 2
"""So many lines before they are wanted, planes of triangles are asked for."""


@inner()
def colour_pixels(model, work):  # type: ignore[no-untyped-def]
    """Lays the colours of what is nearest over what stands behind the head, line by line."""
    spans, hair, before, size = work.spans, work.hair, work.before, len(work.picture)
    pixels, background = work.pixels, work.background
    for y in range(size):
        line, first, last = y * size, size, 0
        for row in range(max(y - 1, 0), min(y + 2, size)):
            first, last = min(first, before[0, row]), max(last, before[1, row])
        # Of the picture before, edges were smoothed by a pixel beyond.
        first, last = max(first - 1, 0), min(last + 1, size)
        begin, end = min(spans[0, y], hair[0, y]), max(spans[1, y], hair[1, y])
        end = max(begin, end)
        for at in range(np.uint64(line + first), np.uint64(line + max(first, min(last, begin)))):
            pixels[at] = background[at]
        for at in range(np.uint64(line + max(first, end)), np.uint64(line + max(first, end, last))):
            pixels[at] = background[at]
        if begin < end:
            start, count = np.uint64(begin), np.uint64(end - begin)
            fetch_pixels(np.uint64(line) + start, count, start, y, model, work)
            mix_pixels(np.uint64(line) + start, count, work)


@inlined()
def fetch_pixels(first, count, column, line, model, work):  # type: ignore[no-untyped-def]
    """Place in the texture, light and shine of each pixel, and what the four texels there are."""
    looks, pairs, above, below = work.looks, model.pairs, work.fours[0], work.fours[1]
    y, most = np.float32(line), (np.int32(MOST_LIGHT), np.int32(MOST_SHINE))
    texels, beneath, nearest, size = looks[2], looks[3], work.nearest, len(work.picture)
    triangle = np.uint32((1 << work.bits) - 1)
    ahead = first + np.uint64(size * (_AHEAD if line + _AHEAD < size else 0))
    for i in range(0, count, CUT):
        at = np.uint64(i)
        x = np.float32(np.int64(column + at))
        ask_for(work.planes, np.uint64(nearest[ahead + at] & triangle) << _4)
        ask_for(work.planes, np.uint64(nearest[ahead + at + _4] & triangle) << _4)
        cut_planes(work.planes, nearest, first + at, triangle, x, y, most, looks, at)
        # Most of the upper ones were the line before's.
        for k in range(0, CUT, 2):
            ask_for(pairs, np.uint64(beneath[at + np.uint64(k)]))
    for i in range(count):
        above[i], below[i] = pairs[texels[i]], pairs[beneath[i]]


@inlined()
def mix_pixels(first, count, work):  # type: ignore[no-untyped-def]
    """Mixes and lights them, and shows the background where nothing is."""
    nearest, pixels, within, lights = work.nearest, work.pixels, work.looks[0], work.looks[1]
    above, below, background = work.halves[0], work.halves[1], work.background
    for i in range(count):
        place, two = within[i], _2 * i
        red, green, blue, _ = mixed(
            above[two], above[two + _1], below[two], below[two + _1],
            place & _FULL, (place >> _BYTE) & _FULL, lights[i], place >> _16,
        )  # fmt: skip
        colour = red | (green << _BYTE) | (blue << _16)
        there = nearest[first + i] != _NONE
        pixels[first + i] = colour if there else background[first + i]


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


@inlined()
def blended(colour, share, beneath):  # type: ignore[no-untyped-def]
    """So much of a colour, 0..255, and the rest of what was there."""
    rest = _FULL - share
    red_blue = shares(colour & _LANES, share) + shares(beneath & _LANES, rest)
    green = shares((colour >> _BYTE) & _FULL, share) + shares((beneath >> _BYTE) & _FULL, rest)
    return (red_blue & _LANES) | ((green & _FULL) << _BYTE)


@inner()
def draw_catchlights(eye, head, model, work):  # type: ignore[no-untyped-def]
    """Mirrors the lamps in a cornea: they stay where they are, whatever the eye looks at."""
    eyes, lamps, nearest, turned = model.eyes, model.lamps, work.nearest, head.turned
    size, pixels, triangle = len(work.picture), work.pixels, (1 << work.bits) - 1
    pupil = int(eyes[eye, 4])
    # Between the eye's middle and its pupil is the cornea's own middle: the ball that the cornea is
    # part of is smaller (about 7.8 mm in an eye of 12 mm).
    x = eyes[eye, 0] + 0.45 * (work.moved[0, pupil] - eyes[eye, 0])
    y = eyes[eye, 1] + 0.45 * (work.moved[1, pupil] - eyes[eye, 1])
    z = eyes[eye, 2] + 0.45 * (work.moved[2, pupil] - eyes[eye, 2])
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
                if not eyes[eye, 5] < np.int64(nearest[at]) & triangle <= eyes[eye, 6]:
                    continue
                off = math.sqrt((row - at_y) ** 2 + (column - at_x) ** 2)
                share = min(max(0.5 + (radius - off) * 0.7, 0.0), 1.0) * lamps[k, 4]
                pixels[at] = blended(np.uint32(0x00FFFFFF), np.uint32(share * 255.0), pixels[at])
