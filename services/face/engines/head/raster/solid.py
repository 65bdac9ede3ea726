"""What hides what is behind it: the nearest of it in each pixel."""

from __future__ import annotations

import numpy as np

from services.face.draw.compiling import inner
from services.face.engines.head.raster.lines import AT_ONCE, find_ends, keep_nearest
from services.face.engines.head.raster.planes import (
    across,
    corners,
    depth_plane,
    lines_of,
    sides_of,
    write_planes,
)


@inner()
def wipe(work):  # type: ignore[no-untyped-def]
    """Forgets the picture before: what was nearest, and its hair."""
    nearest, clear, before, size = work.nearest, work.clear, work.before, len(work.picture)
    spans, hair = work.spans, work.hair
    for y in range(size):
        first, last = min(spans[0, y], hair[0, y]), max(spans[1, y], hair[1, y])
        before[0, y], before[1, y] = first, last
        for at in range(np.uint64(y * size + first), np.uint64(y * size + max(first, last))):
            nearest[at] = np.uint32(0)
        first, last = hair[0, y], hair[1, y]
        for at in range(np.uint64(y * size + first), np.uint64(y * size + max(first, last))):
            clear[at] = np.uint32(0)
        spans[0, y], spans[1, y], hair[0, y], hair[1, y] = size, 0, size, 0


@inner()
def fill_triangles(model, work):  # type: ignore[no-untyped-def]
    """Writes depth and number of what is nearest of all that hides what is behind."""
    screen, triangles, facing, nearest = work.screen, model.triangles, work.facing, work.nearest
    spans, ends, size, reach = work.spans, work.ends, len(work.picture), work.reach
    bits, most = np.uint32(work.bits), reach[2]
    for k in range(model.opaque):
        if not facing[k]:
            continue
        ax, ay, bx, by, cx, cy = corners(k, screen, triangles)
        first, last = lines_of(ay, by, cy, cy, size)
        left, behind = lines_of(ax, bx, cx, cx, size)
        # Most of the small ones lie between the pixels. To ask whether the others are hidden costs
        # as much as to draw them, and four points of one do not tell: collars had holes.
        if first >= last or left >= behind:
            continue
        a, b, c = triangles[k, 0], triangles[k, 1], triangles[k, 2]
        write_planes(k, across(a, b, c, c), model, work)
        base, right, down = depth_plane(k, screen, triangles, reach)
        sides, number = sides_of(ax, ay, bx, by, cx, cy), np.uint32(k + 1)
        within, left, wide = (np.int32(left), np.int32(behind)), np.int32(left), behind - left
        for y in range(first, last, AT_ONCE):
            find_ends(sides, within, (np.int32(y), np.int32(last)), spans, ends)
        for y in range(first, last):
            plane, at = (base + down * np.float32(y), right, most), np.uint64(y * size + left)
            for i in range(0, wide, AT_ONCE):
                keep_nearest(
                    nearest, at + np.uint64(i), bits, number, plane, left + np.int32(i),
                    (ends[0, y], ends[1, y]),
                )  # fmt: skip
