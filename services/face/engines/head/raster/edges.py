"""Smooth outlines, and hair that is soft at its edges."""

from __future__ import annotations

import math

import numpy as np

from services.face.draw.compiling import inlined, inner
from services.face.engines.head.raster.colours import blended
from services.face.engines.head.raster.planes import step_of

_HIDES = np.float32(0.03)
"""Inverse metres: what lies so much nearer than an edge hides it; some centimetres, as a round
surface falls off steeply at its outline.
"""
_LEAST = np.uint32(0x01000000)
"""From here on a pixel of `clear` is not all clear."""
_LANES, _ALL = np.uint32(0x00FF00FF), np.uint32(255 << 24)
_BYTE, _FULL = np.uint32(8), np.uint32(255)
_3, _4 = np.uint32(3), np.uint32(4)


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
    clear, nearest, pixels, size = work.clear, work.nearest, work.pixels, len(work.picture)
    wide, one, spans = np.uint64(size), np.uint64(1), work.hair
    over, own, steps = work.lines[0], work.lines[1], np.uint32(-(1 << work.bits))
    begin, end = max(first - 1, 1), min(last + 1, size - 1)
    for i in range(size):
        over[i] = pixels[(begin - 1) * size + i]
    for y in range(begin, end):
        line, left, right = np.uint64(y * size), size, 0
        for row in range(y - 1, y + 2):
            left, right = min(left, spans[0, row]), max(right, spans[1, row])
        left, right = max(left - 1, 1), min(right + 1, size - 1)
        right = max(left, right)
        # The next line asks of nothing else: there is no hair in either.
        for i in range(np.uint64(left - 1), np.uint64(right + 1)):
            own[i] = pixels[line + i]
        for i in range(np.uint64(left), np.uint64(right)):
            x = line + i
            above, near, colour = clear[x], nearest[x] & steps, own[i]
            before, behind, up, under = (
                clear[x - one],
                clear[x + one],
                clear[x - wide],
                clear[x + wide],
            )
            a = beside(before, nearest[x - one] & steps, own[i - one], above, near, colour)
            b = beside(behind, nearest[x + one] & steps, own[i + one], above, near, colour)
            c = beside(up, nearest[x - wide] & steps, over[i], above, near, colour)
            d = beside(under, nearest[x + wide] & steps, pixels[x + wide], above, near, colour)
            red_blue = (colour & _LANES) * _4 + (a & _LANES) + (b & _LANES)
            red_blue = ((red_blue + (c & _LANES) + (d & _LANES)) >> _3) & _LANES
            green = ((colour >> _BYTE) & _FULL) * _4 + ((a >> _BYTE) & _FULL)
            green += ((b >> _BYTE) & _FULL) + ((c >> _BYTE) & _FULL) + ((d >> _BYTE) & _FULL)
            soft = red_blue | ((green >> _3) << _BYTE)
            within = (before & behind & up & under & above) >= _ALL
            pixels[x] = colour if within else soft
        over, own = own, over


@inlined()
def list_outlines(model, work):  # type: ignore[no-untyped-def]
    """Lists edges between a triangle that is seen and one that is turned away, or is not there. How
    many they are.
    """
    edges, facing, outlines, count = model.edges, work.facing, work.outlines, np.uint64(0)
    for k in range(np.uint64(len(edges))):
        behind = edges[k, 3]
        other = facing[np.uint64(max(behind, np.int32(0)))]
        other = other if behind >= 0 else np.uint8(0)
        outlines[count] = k
        count += np.uint64(facing[np.uint64(edges[k, 2])] != other)
    return count


@inner()
def smooth_edges(model, work):  # type: ignore[no-untyped-def]
    """Mixes the pixels on both sides of each outline by how far the outline is between them.

    Geometric post-process antialiasing (Persson 2011): an edge is an outline where one of its two
    triangles is seen and the other is turned away, or is not there.
    """
    screen, edges, outlines, size = work.screen, model.edges, work.outlines, len(work.picture)
    reach, hides = work.reach, np.int64(_HIDES * work.reach[1])
    for number in range(list_outlines(model, work)):
        k = outlines[number]
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
            near = np.int64(step_of(aq + (y - ay) * nearer, reach))
            mix_pair(one, one + step, x - i, (near, hides), work)


@inlined()
def mix_pair(one, two, along, steps, work):  # type: ignore[no-untyped-def]
    """Mixes neighbours between which an outline passes, `along` of the way from one to two.

    steps: of depth, where the outline is, and from there on to what hides it.
    """
    nearest, pixels, bits = work.nearest, work.pixels, np.uint32(work.bits)
    near, hides = steps
    first, second = np.int64(nearest[one] >> bits), np.int64(nearest[two] >> bits)
    is_inner = first >= second
    inner, outer = (one, two) if is_inner else (two, one)
    covered = along - 0.5 if is_inner else 0.5 - along
    furthest, nearer = min(first, second), max(first, second)
    if nearer == 0 or furthest >= near or nearer - near > hides:
        return
    # Covered of the outer pixel; where it is less than nothing, the inner one is not all covered.
    to, other = (outer, inner) if covered > 0 else (inner, outer)
    share = np.uint32(abs(covered) * 255.0)
    pixels[to] = blended(pixels[other], share, pixels[to])
