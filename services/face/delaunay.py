"""Delaunay triangulation of a few thousand points."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def triangulate(points: NDArray[np.floating]) -> NDArray[np.int32]:
    """Triangles [M, 3] over `points` [N, 2] whose circumcircles hold no other point.

    Incremental insertion (Bowyer 1981, Watson 1981), with circumcircles tested in one vector
    operation. Points on one circle are parted by a jitter far below a pixel, the same in every run.
    """
    count = len(points)
    xy = points.astype(np.float64) + np.random.default_rng(1).normal(0, 1e-4, (count, 2))
    low, high = xy.min(axis=0), xy.max(axis=0)
    reach = 20 * float((high - low).max() + 1)
    middle = (low + high) / 2
    far = np.array([(-reach, -reach), (reach, -reach), (0.0, reach)])
    xy = np.vstack([xy, middle + far])
    capacity = 4 * count + 64
    triangles = np.zeros((capacity, 3), np.int32)
    circles = np.full((capacity, 3), -1.0)  # centre x, y and squared radius; -1: free slot
    triangles[0] = (count, count + 1, count + 2)
    circles[0] = _circle(xy[triangles[0]])
    free = list(range(capacity - 1, 0, -1))
    for index in range(count):
        hit = np.flatnonzero(((circles[:, :2] - xy[index]) ** 2).sum(axis=1) < circles[:, 2])
        edges: dict[tuple[int, int], tuple[int, int] | None] = {}
        for slot in hit.tolist():
            a, b, c = (int(v) for v in triangles[slot])
            for edge in ((a, b), (b, c), (c, a)):
                key = (min(edge), max(edge))
                edges[key] = None if key in edges else edge
            circles[slot, 2] = -1.0
            free.append(slot)
        for rim in edges.values():
            if rim is not None:
                place = free.pop()
                triangles[place] = (rim[0], rim[1], index)
                circles[place] = _circle(xy[triangles[place]])
    used = triangles[circles[:, 2] > 0]
    return used[(used < count).all(axis=1)]


def _circle(corners: NDArray[np.float64]) -> tuple[float, float, float]:
    """Centre and squared radius of the circle through three points [3, 2]."""
    (ax, ay), (bx, by), (cx, cy) = corners
    bx, by, cx, cy = bx - ax, by - ay, cx - ax, cy - ay
    twice = 2 * (bx * cy - by * cx)
    if abs(twice) < 1e-12:
        twice = 1e-12
    ux = (cy * (bx * bx + by * by) - by * (cx * cx + cy * cy)) / twice
    uy = (bx * (cx * cx + cy * cy) - cx * (bx * bx + by * by)) / twice
    return ax + ux, ay + uy, ux * ux + uy * uy
