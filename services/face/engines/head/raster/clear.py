"""Hair, brows and lashes: ribbons that may be seen through, in many layers."""

from __future__ import annotations

import numpy as np

from services.face.draw.compiling import inlined, inner
from services.face.draw.raster import shares
from services.face.engines.head.raster.colours import mixed
from services.face.engines.head.raster.lines import AT_ONCE, list_nearer
from services.face.engines.head.raster.planes import (
    MOST_LIGHT,
    MOST_SHINE,
    across,
    all_hidden,
    corners_of,
    depth_across,
    is_flat,
    lines_of,
    middle_of,
    polygon,
    spanned,
    step_of,
    write_planes,
)
from services.face.engines.head.raster.work import HELD, LISTED_LINES, ORDERS

_SOLID = np.uint32(176)
"""Alpha from which a pixel hides what is behind it: what is, is hair as well."""
_FILLED = np.array([255 * 256 // a if a >= 176 else 256 for a in range(256)], np.uint32)
"""256ths that colours times alpha are multiplied by, by alpha, to be solid from there on."""
_LANES, _ROUNDING = np.uint32(0x00FF00FF), np.uint32(0x00800080)
_BYTE, _FULL, _16 = np.uint32(8), np.uint32(255), np.uint32(16)
_24, _ALL = np.uint32(24), np.uint32(255 << 24)
_7 = np.uint64(7)


@inner()
def sort_clear(model, work):  # type: ignore[no-untyped-def]
    """Orders the pieces that face the camera, the nearest first. How many they are.

    By counting: in steps of depth, within one as they come.
    """
    screen, pieces, facing, to = work.screen, model.pieces, work.facing, work.order
    counts = work.counts
    lowest, highest = np.float32(1e9), np.float32(-1e9)
    for n in range(len(pieces)):
        near, shown = screen[pieces[n, 1], 2], facing[pieces[n, 0]] | facing[pieces[n, 5]]
        lowest = min(lowest, near if shown else lowest)
        highest = max(highest, near if shown else highest)
    scale = np.float32(ORDERS - 1) / max(highest - lowest, np.float32(1e-9))
    for order in range(ORDERS + 1):
        counts[order] = 0
    for n in range(len(pieces)):
        if facing[pieces[n, 0]] | facing[pieces[n, 5]]:
            counts[int((highest - screen[pieces[n, 1], 2]) * scale) + 1] += 1
    for order in range(ORDERS):
        counts[order + 1] += counts[order]
    for n in range(len(pieces)):
        if facing[pieces[n, 0]] | facing[pieces[n, 5]]:
            order = int((highest - screen[pieces[n, 1], 2]) * scale)
            to[counts[order]] = n
            counts[order] += 1
    return counts[ORDERS]


@inner()
def gather_clear(count, model, work):  # type: ignore[no-untyped-def]
    """Lays clear pieces under each other where they are not hidden, the nearest first.

    What is solid is shown as what is opaque is; the rest goes into `clear`. Where nothing more
    shows through, the depth is theirs, and whatever is further is done with. The lines that were
    written to.
    """
    screen, pieces, nearest, reach = work.screen, model.pieces, work.nearest, work.reach
    size, bits = len(work.picture), np.uint32(work.bits)
    y0, y1, held = size, 0, np.uint64(0)
    for number in range(count):
        piece = work.order[number]
        k, a, b = pieces[piece, 0], pieces[piece, 1], pieces[piece, 2]
        a, b, c, d = spanned(a, b, pieces[piece, 3], pieces[piece, 4], screen)
        corners = corners_of(a, b, c, d, screen)
        ax, ay, bx, by, cx, cy, dx, dy = corners
        first, last = lines_of(ay, by, cy, dy, size)
        left, behind = lines_of(ax, bx, cx, dx, size)
        ends = across(a, b, c, d)
        if first >= last or left >= behind or is_flat(ends, screen):
            continue
        near = max(screen[a, 2], screen[b, 2], screen[c, 2], screen[d, 2])
        key = np.uint32(np.uint32(np.int32(step_of(near, reach))) << bits)
        x, y, _, _, _, _ = middle_of(ends, screen)
        if all_hidden(corners, (x, y), key, size, nearest):
            continue
        y0, y1 = min(y0, first), max(y1, last)
        write_planes(k, ends, model, work)
        depth, sides = depth_across(ends, screen, reach), polygon(corners)
        while first < last:
            listed, first = list_pixels(sides, depth, first, last, left, behind, work)
            if listed:
                find_texels(k, depth, listed, model, work)
                held = hold_clear(k, listed, held, model, work)
            if held >= HELD:
                lay_held(held, work)
                held = np.uint64(0)
    lay_held(held, work)
    return y0, y1


@inlined()
def list_pixels(sides, depth, first, last, left, behind, work):  # type: ignore[no-untyped-def]
    """Lists pixels of a piece that nothing hides, of as many lines as there is room for. How
    many there are, and the line to go on from.
    """
    size, (base, right, down) = len(work.picture), depth
    plane, within = (base, right, down, work.reach[2]), (np.int32(left), np.int32(behind))
    last = min(last, first + LISTED_LINES * size // (behind - left + AT_ONCE))
    count, bits = np.uint64(0), np.uint32(work.bits)
    for y in range(first, last, AT_ONCE):
        lines = np.int32(y), np.int32(last), np.int32(size)
        count += list_nearer(
            work.nearest, bits, sides, within, lines, work.hair, plane, work.listed, count
        )
    return count, last


@inlined()
def find_texels(k, depth, count, model, work):  # type: ignore[no-untyped-def]
    """Which pixels those are, where they are in the texture of their piece, how they are lit."""
    listed, texels, keys = work.listed, work.texels, work.keys
    within, lights, size = work.within, work.lights, np.uint32(len(work.picture))
    base, right, down = depth
    zero, most, bits = np.float32(0.0), work.reach[2], np.uint32(work.bits)
    planes, at, number = work.planes, 16 * (k + 1), np.uint32(k + 1)
    u0, ux, uy = planes[at], planes[at + 4], planes[at + 8]
    v0, vx, vy = planes[at + 1], planes[at + 5], planes[at + 9]
    l0, lx, ly = planes[at + 2], planes[at + 6], planes[at + 10]
    s0, sx, sy = planes[at + 3], planes[at + 7], planes[at + 11]
    offset, wide, high = model.texture_of[k, 0], model.texture_of[k, 1], model.texture_of[k, 2]
    last_u, last_v = np.float32(256 * wide - 257), np.float32(256 * high - 257)
    for i in range((count + _7) & ~_7):
        place = listed[i]
        listed[i] = (place >> _16) * size + (place & np.uint32(0xFFFF))
        x, y = np.float32(np.int32(place & np.uint32(0xFFFF))), np.float32(np.int32(place >> _16))
        u = np.int32(min(max(u0 + ux * x + uy * y, zero), last_u))
        v = np.int32(min(max(v0 + vx * x + vy * y, zero), last_v))
        light = np.uint32(np.int32(min(max(l0 + lx * x + ly * y, zero), MOST_LIGHT)))
        shine = np.uint32(np.int32(min(max(s0 + sx * x + sy * y, zero), MOST_SHINE)))
        texels[i] = offset + (v >> np.int32(8)) * wide + (u >> np.int32(8))
        within[i] = (np.uint32(u) & _FULL) | ((np.uint32(v) & _FULL) << _BYTE) | (shine << _16)
        lights[i] = light
        step = np.uint32(np.int32(min(max(base + right * x + down * y, zero), most)))
        keys[i] = np.uint32(step << bits) | number


@inlined()
def hold_clear(k, count, held, model, work):  # type: ignore[no-untyped-def]
    """Shows what is solid of the listed pixels, and holds what is something between, behind the
    `held` that there are. How many they are then.
    """
    listed, texels, keys, chosen = work.listed, work.texels, work.keys, work.chosen
    nearest, alphas, pairs = work.nearest, model.texels, model.pairs
    found = np.uint64(0)
    for i in range(count):
        x, alpha = np.uint64(listed[i]), alphas[texels[i]]
        before = nearest[x]
        nearest[x] = keys[i] if alpha >= _ALL else before
        chosen[found] = i
        found += np.uint64((alpha < _ALL) & (alpha > np.uint32(0)))
    above, below, wide = work.fours[0], work.fours[1], np.int64(model.texture_of[k, 1])
    for i in range(found):
        j, to = np.uint64(chosen[i]), held + i
        at = np.int64(texels[j])
        above[to], below[to] = pairs[at], pairs[at + wide]
        work.looks[0, to], work.looks[1, to] = work.within[j], work.lights[j]
        work.held[to], work.held_keys[to] = listed[j], keys[j]
    return held + found


@inner()
def lay_held(count, work):  # type: ignore[no-untyped-def]
    """Lays what is held under what is in `clear`, the first of it first."""
    above, below, colours = work.halves[0], work.halves[1], work.colours
    within, lights = work.looks[0], work.looks[1]
    one, two = np.uint64(1), np.uint64(2)
    for i in range(count):
        place, at = within[i], two * i
        red, green, blue, alpha = mixed(
            above[at], above[at + one], below[at], below[at + one],
            place & _FULL, (place >> _BYTE) & _FULL, lights[i], place >> _16,
        )  # fmt: skip
        colours[i] = red | (green << _BYTE) | (blue << _16) | (alpha << _24)
    nearest, clear, held, keys = work.nearest, work.clear, work.held, work.held_keys
    triangle = np.uint32((1 << work.bits) - 1)
    for i in range(count):
        x, colour = np.uint64(held[i]), colours[i]
        over = clear[x]
        left = _FULL - (over >> _24)
        over += shares(colour & _LANES, left) | (shares((colour >> _BYTE) & _LANES, left) << _BYTE)
        # Without branches, which nobody could foretell.
        solid = over >> _24
        fill, full = _FILLED[solid], solid >= _SOLID
        red_blue = (((over & _LANES) * fill) >> _BYTE) & _LANES
        green = (((over >> _BYTE) & _FULL) * fill) & np.uint32(0xFF00)
        clear[x] = red_blue | green | (_ALL if full else over & _ALL)
        # Its depth counts, but it is what is behind it that is shown there.
        before = nearest[x]
        key = max((keys[i] & ~triangle) | (before & triangle), before)
        nearest[x] = key if full else before


@inner()
def lay_over(first, last, model, work):  # type: ignore[no-untyped-def]
    """Lays lines of `clear` over those of the picture; its alpha then tells where hair is."""
    clear, nearest, pixels, size = work.clear, work.nearest, work.pixels, len(work.picture)
    opaque, spans = np.uint32(model.opaque), work.hair
    triangle = np.uint32((1 << work.bits) - 1)
    for y in range(first, last):
        line = y * size
        begin, end = line + spans[0, y], line + max(spans[0, y], spans[1, y])
        for x in range(np.uint64(begin), np.uint64(end)):
            above = clear[x]
            left = _FULL - (above >> _24)
            red_blue = shares(pixels[x] & _LANES, left)
            green = shares((pixels[x] >> _BYTE) & _FULL, left)
            pixels[x] = (above & np.uint32(0x00FFFFFF)) + (red_blue | (green << _BYTE))
            hair = (nearest[x] & triangle) > opaque
            clear[x] = above | (_ALL if hair else np.uint32(0))
