"""What hides what is behind it: the nearest of it in each pixel."""

from __future__ import annotations

import numpy as np

from services.face.draw.compiling import inner
from services.face.draw.raster import downwards, slope
from services.face.engines.head.raster.planes import (
    corners,
    depth_plane,
    ends,
    lines_of,
    write_planes,
)
from services.face.engines.head.raster.work import STEPS


@inner()
def wipe(work):  # type: ignore[no-untyped-def]
    """Forgets the picture before: what was nearest, and its hair."""
    nearest, clear, before, size = work.nearest, work.clear, work.before, len(work.picture)
    spans, hair = work.spans, work.hair
    for y in range(size):
        first, last = min(spans[0, y], hair[0, y]), max(spans[1, y], hair[1, y])
        before[0, y], before[1, y] = first, last
        for at in range(np.uint64(y * size + first), np.uint64(y * size + max(first, last))):
            nearest[at] = np.uint64(0)
        first, last = hair[0, y], hair[1, y]
        for at in range(np.uint64(y * size + first), np.uint64(y * size + max(first, last))):
            clear[at] = np.uint32(0)
        spans[0, y], spans[1, y], hair[0, y], hair[1, y] = size, 0, size, 0


@inner()
def fill_triangles(model, work):  # type: ignore[no-untyped-def]
    """Writes inverse depth and number of what is nearest of all that hides what is behind."""
    screen, triangles, facing, nearest = work.screen, model.triangles, work.facing, work.nearest
    spans, size, steps = work.spans, len(work.picture), np.float32(STEPS)
    for k in range(model.opaque):
        if not facing[k]:
            continue
        ax, ay, bx, by, cx, cy = corners(k, screen, triangles)
        first, last = lines_of(ay, by, cy, size)
        left, behind = lines_of(ax, bx, cx, size)
        # Most of the small ones lie between the pixels. To ask whether the others are hidden costs
        # as much as to draw them, and four points of one do not tell: collars had holes.
        if first >= last or left >= behind:
            continue
        write_planes(k, model, work)
        base, right, down = depth_plane(k, screen, triangles)
        px, py, qx, qy, rx, ry = downwards(ax, ay, bx, by, cx, cy)
        whole, upper, lower = slope(px, py, rx, ry), slope(px, py, qx, qy), slope(qx, qy, rx, ry)
        number, wide = np.uint64(k + 1), np.uint64((behind - left + 7) & ~7)
        base, right, down = base * steps, right * steps, down * steps
        begun, end = np.float32(left), np.float32(behind - left)
        for y in range(first, last):
            line = np.float32(y)
            start, stop = ends(line, px, py, qx, qy, whole, upper, lower)
            start, stop = start - begun, min(stop - begun, end)
            spans[0, y], spans[1, y] = min(spans[0, y], left), max(spans[1, y], behind)
            begin, at = base + right * begun + down * line, np.uint64(y * size + left)
            for i in range(wide):
                x = np.float32(np.int32(i))
                step = max(np.int32(begin + right * x), np.int32(0))
                key = (np.uint64(np.int64(step)) << np.uint64(32)) | number
                key = key if (x >= start) & (x < stop) else np.uint64(0)
                nearest[at + i] = max(nearest[at + i], key)
