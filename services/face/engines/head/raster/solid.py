"""What hides what is behind it: the nearest of it in each pixel."""

from __future__ import annotations

import numpy as np

from services.face.draw.compiling import inner
from services.face.draw.raster import downwards, slope
from services.face.engines.head.raster.lanes import LISTED, show_nearest
from services.face.engines.head.raster.planes import (
    corners,
    depth_plane,
    ends,
    lines_of,
    write_planes,
)


@inner()
def wipe(work):  # type: ignore[no-untyped-def]
    """Takes the picture before away, where it was."""
    nearest, clear, spans, hair = work.nearest, work.clear, work.spans, work.hair
    size = len(work.picture)
    for y in range(size):
        line = y * size
        first, last = min(spans[y, 0], hair[y, 0]), max(spans[y, 1], hair[y, 1])
        for pixel in range(np.uint64(line + first), np.uint64(line + max(first, last))):
            nearest[pixel] = np.uint32(0)
        first, last = hair[y, 0], hair[y, 1]
        for pixel in range(np.uint64(line + first), np.uint64(line + max(first, last))):
            clear[pixel] = np.uint32(0)
        spans[y, 0], spans[y, 1], hair[y, 0], hair[y, 1] = size, 0, size, 0


@inner()
def fill_triangles(model, work):  # type: ignore[no-untyped-def]
    """Writes step of depth and number of what is nearest of all that hides what is behind."""
    screen, triangles, facing, nearest = work.screen, model.triangles, work.facing, work.nearest
    spans, size, reach, unit = work.spans, len(work.picture), work.reach, np.uint32(work.unit)
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
        base, right, down = depth_plane(k, screen, triangles, reach)
        px, py, qx, qy, rx, ry = downwards(ax, ay, bx, by, cx, cy)
        whole, upper, lower = slope(px, py, rx, ry), slope(px, py, qx, qy), slope(qx, qy, rx, ry)
        number, most = np.uint32(k + 1), reach[2]
        begun, end = np.float32(left), np.float32(behind - left)
        for y in range(first, last):
            line = np.float32(y)
            start, stop = ends(line, px, py, qx, qy, whole, upper, lower)
            start, stop = start - begun, min(stop - begun, end)
            spans[y, 0], spans[y, 1] = min(spans[y, 0], left), max(spans[y, 1], behind)
            begin, at = base + right * begun + down * line, np.uint64(y * size + left)
            for i in range(0, behind - left, LISTED):
                show_nearest(
                    nearest, at + np.uint64(i), unit, number, (begin, right, most),
                    np.float32(i), (start, stop),
                )  # fmt: skip
