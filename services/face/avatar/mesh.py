"""The triangles that carry a portrait: landmarks, linings of lips and lids, surroundings."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.face.avatar import topology

_RINGS = (1.1, 1.26, 1.55)
"""Copies of the face outline around the face, in sizes of the outline."""
_GRID_PIXELS = 30
_LIP_LINING = 0.03
"""Depth to which the lips roll into the mouth, in eye distances."""
_LASHES = 0.02
"""Depth to which the upper lashes hang over the eye, in eye distances."""
_STEEPEST = 2.4
"""Depth per distance across the picture; steeper flanks would fold over as the head turns."""
_DEPTH_BLUR = 0.08
"""Reach over which depths are averaged, eye distances: neighbours shall move alike."""
_ROWS = (
    (topology.UPPER_INNER_LIP, _LIP_LINING, -0.8),
    (topology.LOWER_INNER_LIP, -_LIP_LINING, -0.8),
    (topology.RIGHT_UPPER_LID, _LASHES, 1.0),
    (topology.LEFT_UPPER_LID, _LASHES, 1.0),
    (topology.RIGHT_LOWER_LID, -_LASHES, 1.0),
    (topology.LEFT_LOWER_LID, -_LASHES, 1.0),
)
"""Linings: edge; depth down the face in eye distances; place in the portrait (1: where it is,
negative: mirrored at the edge, because the portrait shows no inside).
"""
_PIVOT_DEPTH = 0.3
"""How far behind the ears the axis of the neck lies, in eye distances."""


@dataclass(frozen=True, slots=True)
class HeadFrame:
    """The head's own axes in the portrait: u to the right of the picture along the eyes, v down the
    face.
    """

    origin: NDArray[np.float64]
    """[2] pixels: middle of the closed mouth."""
    axes: NDArray[np.float64]
    """[2, 2]: columns are the directions of u and v."""
    eye_distance: float
    """Pixels between the outer corners of the eyes: the unit of u and v. About 90 mm on an adult.
    """
    pivot: NDArray[np.float64]
    """[2] pixels: where the head turns on the neck."""

    def local(self, points: NDArray[np.floating]) -> NDArray[np.float64]:
        """Pixels [N, 2] float64 to (u, v) in eye distances."""
        return (points - self.origin) @ self.axes / self.eye_distance

    def pixels(self, local: NDArray[np.floating]) -> NDArray[np.float64]:
        """(u, v) [N, 2] float64, in eye distances, to pixels."""
        return local * self.eye_distance @ self.axes.T + self.origin


@dataclass(frozen=True, slots=True)
class Lining:
    """A strip that continues a lip or a lid into its opening, drawn beneath everything else."""

    edge: NDArray[np.int32]
    """[K] vertices of the edge that it continues."""
    strip: NDArray[np.int32]
    """[K] vertices of its free side; the first and last are those of the edge."""


@dataclass(frozen=True, slots=True)
class FaceMesh:
    """The triangles that a portrait is bent with. Vertices 0..467 are the landmarks; then come the
    linings, then the surroundings.
    """

    source: NDArray[np.float64]
    """[N, 2] where the vertex is in the portrait, pixels."""
    depth: NDArray[np.float64]
    """[N] towards the camera from the axis of the neck, pixels."""
    weight: NDArray[np.float64]
    """[N] 1 moves with the head, 0 stays with the shoulders."""
    triangles: NDArray[np.int32]
    """[M, 3] in drawing order."""
    linings: tuple[Lining, ...]
    """Upper lip, lower lip, then lids."""
    still: NDArray[np.int32]
    """Vertices around the face that no expression moves."""
    offsets: NDArray[np.float64]
    """[N, 2] of linings: from their edge to their free side, pixels. Zero elsewhere."""

    @property
    def lined(self) -> int:
        """How many vertices the linings have of their own."""
        return sum(len(lining.strip) - 2 for lining in self.linings)


def head_frame(points: NDArray[np.floating]) -> HeadFrame:
    """Axes from landmarks [468, 3] float in pixels."""
    flat = points[:, :2].astype(np.float64)
    across = flat[topology.LEFT_EYE_OUTER] - flat[topology.RIGHT_EYE_OUTER]
    distance = float(np.linalg.norm(across))
    u = across / distance
    v = np.array([-u[1], u[0]])
    lips = flat[[*topology.UPPER_INNER_LIP, *topology.LOWER_INNER_LIP]]
    chin = flat[topology.CHIN]
    middle = (flat[topology.RIGHT_EAR] + flat[topology.LEFT_EAR]) / 2
    pivot = middle + v * (float((chin - middle) @ v) + 0.35 * distance)
    return HeadFrame(lips.mean(axis=0), np.stack([u, v], axis=1), distance, pivot)


def build_mesh(points: NDArray[np.floating], size: int) -> FaceMesh:
    """The mesh over a size x size portrait with landmarks [468, 3] float in pixels."""
    frame = head_frame(points)
    face = points[:, :2].astype(np.float64)
    lined, lined_source, linings, lining_triangles, offsets = _linings(face, frame)
    around, still = _surroundings(face, size)
    first_around = topology.LANDMARKS + len(lined)
    source = np.vstack([face, lined_source, around])
    depth = _depths(points, source, frame, first_around)
    skin = _triangulate_skin(_parted(points, frame), len(lined), around)
    # Far ones first: where the face folds over its own outline as it turns, the near side covers
    # the far.
    skin = skin[np.argsort(depth[skin].mean(axis=1), kind="stable")]
    triangles = np.vstack([lining_triangles, skin, _lip_triangles()])
    return FaceMesh(
        source=source,
        depth=depth,
        weight=_weights(source, frame),
        triangles=triangles.astype(np.int32),
        linings=linings,
        still=(still + first_around).astype(np.int32),
        offsets=np.vstack([np.zeros_like(face), offsets, np.zeros_like(around)]),
    )


def _linings(
    face: NDArray[np.float64], frame: HeadFrame
) -> tuple[
    NDArray[np.float64],
    NDArray[np.float64],
    tuple[Lining, ...],
    NDArray[np.int32],
    NDArray[np.float64],
]:
    """Strip vertices: places, sources (lips mirrored: the portrait shows no inside), index sets,
    triangles, offsets.
    """
    down = frame.axes[:, 1] * frame.eye_distance
    places, sources, linings, triangles, offsets = [], [], [], [], []
    next_vertex = topology.LANDMARKS
    for row, depth, source_share in _ROWS:
        inner = np.array(row[1:-1])
        # Thin towards the corners, where the opening is thin too.
        taper = np.minimum(1.0, 2.2 * np.sin(np.pi * np.arange(1, len(row) - 1) / (len(row) - 1)))[
            :, None
        ]
        offset = down * depth * taper
        places.append(face[inner] + offset)
        sources.append(face[inner] + offset * source_share)
        offsets.append(offset)
        edge = np.array(row, np.int32)
        strip = np.array([row[0], *range(next_vertex, next_vertex + len(inner)), row[-1]], np.int32)
        next_vertex += len(inner)
        linings.append(Lining(edge, strip))
        for i in range(len(row) - 1):
            triangles.append((edge[i], edge[i + 1], strip[i + 1]))
            triangles.append((edge[i], strip[i + 1], strip[i]))
    kept = [t for t in triangles if len(set(t)) == 3]
    return (
        np.vstack(places),
        np.vstack(sources),
        tuple(linings),
        np.array(kept, np.int32),
        np.vstack(offsets),
    )


def _surroundings(
    face: NDArray[np.float64], size: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Rings around the face and a grid beyond, reaching over the picture's edge; and which of them
    never move by expression.
    """
    outline = face[list(topology.FACE_OVAL)]
    centre = outline.mean(axis=0)
    margin = _GRID_PIXELS
    rings = [centre + (outline - centre) * share for share in _RINGS]
    ring_points = np.vstack(rings)
    moving = np.arange(len(ring_points)) < 2 * len(outline)
    axis = np.linspace(-margin, size - 1 + margin, round((size + 2 * margin) / _GRID_PIXELS) + 1)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    grid = grid[~_inside(grid, centre + (outline - centre) * (_RINGS[-1] + 0.12))]
    low, high = -0.9 * margin, size - 1 + 0.9 * margin
    inside = ((ring_points > low) & (ring_points < high)).all(axis=1)
    points = np.vstack([ring_points[inside], grid])
    still = np.concatenate([~moving[inside], np.ones(len(grid), bool)])
    return points, np.flatnonzero(still)


def _parted(points: NDArray[np.floating], frame: HeadFrame) -> NDArray[np.float64]:
    """Landmarks [468, 2] seen from the front with lips and lids apart, where no triangle is
    degenerate.
    """
    yaw_axis = points[topology.LEFT_EYE_OUTER] - points[topology.RIGHT_EYE_OUTER]
    turn = np.arctan2(yaw_axis[2], np.linalg.norm(yaw_axis[:2]))
    local = frame.local(points[:, :2])
    deep = points[:, 2] / frame.eye_distance
    local[:, 0] = local[:, 0] * np.cos(turn) + deep * np.sin(turn)
    for rows, sign in ((topology.UPPER_LIP_ROWS, -1), (topology.LOWER_LIP_ROWS, 1)):
        for row in rows:
            local[list(row[1:-1]), 1] += sign * 0.04 * np.sin(np.pi * np.arange(1, 10) / 10)
    for lid, sign in (
        (topology.RIGHT_UPPER_LID, -1),
        (topology.LEFT_UPPER_LID, -1),
        (topology.RIGHT_LOWER_LID, 1),
        (topology.LEFT_LOWER_LID, 1),
    ):
        local[list(lid[1:-1]), 1] += sign * 0.012
    return frame.pixels(local)


def _lip_triangles() -> NDArray[np.int32]:
    """The lips as bands between their rows: no crack can open at the corners, however they are
    drawn.
    """
    triangles = []
    for rows in (topology.UPPER_LIP_ROWS, topology.LOWER_LIP_ROWS):
        for outer, inner in itertools.pairwise(rows):
            for i in range(len(outer) - 1):
                triangles.append((outer[i], outer[i + 1], inner[i + 1]))
                triangles.append((outer[i], inner[i + 1], inner[i]))
    return np.array(triangles, np.int32)


def _triangulate_skin(
    face: NDArray[np.float64], lined: int, around: NDArray[np.float64]
) -> NDArray[np.int32]:
    """Triangles over the face and its surroundings, with holes for the lips and the eyes.

    lined: how many vertices lie between those of the face and those around it.
    """
    skin = np.vstack([face, around])
    lips = {vertex for row in topology.UPPER_LIP_ROWS + topology.LOWER_LIP_ROWS for vertex in row}
    inner = lips - {*topology.UPPER_LIP_ROWS[0], *topology.LOWER_LIP_ROWS[0]}
    used = np.array([vertex for vertex in range(len(skin)) if vertex not in inner])
    triangles = used[triangulate(skin[used])]
    corners = skin[triangles].mean(axis=1)
    keep = ~np.isin(triangles, list(lips)).all(axis=1)
    for upper, lower in (
        (topology.RIGHT_UPPER_LID, topology.RIGHT_LOWER_LID),
        (topology.LEFT_UPPER_LID, topology.LEFT_LOWER_LID),
    ):
        keep &= ~_inside(corners, face[[*upper, *lower[-2:0:-1]]])
    kept = triangles[keep]
    return np.where(kept >= len(face), kept + lined, kept)


def _inside(points: NDArray[np.floating], polygon: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Which of `points` [N, 2] lie in a closed `polygon` [K, 2]: even-odd rule."""
    x, y = points[:, 0, None], points[:, 1, None]
    x0, y0 = polygon.T
    x1, y1 = np.roll(polygon, -1, axis=0).T
    crosses = (y0 <= y) != (y1 <= y)
    with np.errstate(divide="ignore", invalid="ignore"):
        left = x < x0 + (y - y0) * (x1 - x0) / (y1 - y0)
    return np.asarray((crosses & left).sum(axis=1) % 2 == 1)


def _depths(
    points: NDArray[np.floating], source: NDArray[np.float64], frame: HeadFrame, first_around: int
) -> NDArray[np.float64]:
    """Depth of every vertex; around the face it falls from that of the outline to the back of the
    head.
    """
    unit = frame.eye_distance
    ears = points[[topology.RIGHT_EAR, topology.LEFT_EAR], 2].mean()
    depth = np.zeros(len(source))
    depth[: topology.LANDMARKS] = ears - points[:, 2] + _PIVOT_DEPTH * unit
    for row, start in _lined_rows():
        depth[start : start + len(row) - 2] = depth[list(row[1:-1])]
    outline = list(topology.FACE_OVAL)
    gap = np.linalg.norm(source[first_around:, None] - source[outline][None], axis=2)
    nearness = 1.0 / (gap + 0.02 * unit) ** 2
    edge = (nearness * depth[outline]).sum(axis=1) / nearness.sum(axis=1)
    away = np.clip(gap.min(axis=1) / (0.6 * unit), 0, 1)
    depth[first_around:] = edge * (1 - away) + 0.05 * unit * away
    apart = np.linalg.norm(source[:, None] - source[None], axis=2)
    gentle = (depth[None] + _STEEPEST * apart).min(axis=1)
    near = np.exp(-0.5 * (apart / (_DEPTH_BLUR * unit)) ** 2)
    return np.asarray(near @ gentle / near.sum(axis=1))


def _lined_rows() -> list[tuple[tuple[int, ...], int]]:
    """The edge rows of the linings with their first strip vertex, in the order of `_linings`."""
    rows: list[tuple[tuple[int, ...], int]] = []
    start = topology.LANDMARKS
    for row, *_ in _ROWS:
        rows.append((row, start))
        start += len(row) - 2
    return rows


def _weights(source: NDArray[np.float64], frame: HeadFrame) -> NDArray[np.float64]:
    """How much every vertex follows the head: all of the face, the hair beside it, less and less of
    the neck.
    """
    local = (source - source[topology.CHIN]) @ frame.axes / frame.eye_distance
    neck = _smooth_step((local[:, 1] + 0.15) / 1.1)
    aside = _smooth_step((np.abs(local[:, 0]) - 1.5) / 0.9)
    weight = (1 - neck) * (1 - aside)
    weight[: topology.LANDMARKS] = 1.0
    for row, start in _lined_rows():
        weight[start : start + len(row) - 2] = 1.0
    return weight


def _smooth_step(x: NDArray[np.float64]) -> NDArray[np.float64]:
    t = np.clip(x, 0, 1)
    return t * t * (3 - 2 * t)


def triangulate(points: NDArray[np.floating]) -> NDArray[np.int32]:
    """Triangles [M, 3] int32 over `points` [N, 2] float whose circumcircles hold no other point.

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
