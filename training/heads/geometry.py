"""Small geometry: smooth steps, surfaces of revolution, subdivision, what follows what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix, lil_matrix
from scipy.spatial import cKDTree

Points = NDArray[np.float64]
Floats = NDArray[np.float64]
Faces = list[tuple[int, ...]]


@dataclass
class Mesh:
    """A part of a head: places, faces and a texture coordinate for every corner of a face."""

    points: Points
    """[V, 3] metres, Z up."""
    faces: Faces
    uvs: Points
    """[corners, 2], in the order of the faces; v counts upwards."""
    normals: Points | None = None
    """[V, 3]; none: those of the faces."""
    deltas: dict[str, Points] = field(default_factory=dict)
    """What each of the 52 shapes moves, [V, 3]; one that is missing moves nothing."""

    def triangles(self) -> NDArray[np.int64]:
        """[T, 3] indices of corners, not of vertices."""
        out, first = [], 0
        for face in self.faces:
            out += [(first, first + k, first + k + 1) for k in range(1, len(face) - 1)]
            first += len(face)
        return np.array(out, np.int64).reshape(-1, 3)

    def corners(self) -> NDArray[np.int64]:
        """[corners] the vertex of every corner."""
        return np.array([vertex for face in self.faces for vertex in face], np.int64)


def joined(meshes: Sequence[Mesh]) -> Mesh:
    """One mesh of several; shapes that one of them lacks move nothing there."""
    offsets = np.cumsum([0, *(len(m.points) for m in meshes)])
    faces = [
        tuple(int(v + o) for v in f) for m, o in zip(meshes, offsets, strict=False) for f in m.faces
    ]
    names = {name for mesh in meshes for name in mesh.deltas}
    deltas = {
        name: np.concatenate([m.deltas.get(name, np.zeros_like(m.points)) for m in meshes])
        for name in names
    }

    def of_all(values: list[Points | None]) -> Points | None:
        there = [value for value in values if value is not None]
        return np.concatenate(there) if len(there) == len(values) else None

    return Mesh(
        np.concatenate([m.points for m in meshes]),
        faces,
        np.concatenate([m.uvs for m in meshes]),
        of_all([m.normals for m in meshes]),
        deltas,
    )


def smooth(value: ArrayLike, low: float, high: float) -> Floats:
    """0 at `low`, 1 at `high`, in between a smooth step; `low` may lie above `high`."""
    t = np.clip((np.asarray(value, float) - low) / (high - low), 0, 1)
    return np.asarray(t * t * (3 - 2 * t))


def unit(vectors: ArrayLike) -> Points:
    v = np.asarray(vectors, float)
    return np.asarray(v / np.maximum(np.linalg.norm(v, axis=-1, keepdims=True), 1e-12))


class Attach:
    """Lets points follow vertices: each the nearest few, by inverse distance."""

    def __init__(self, points: Points, vertices: Points, near: int = 4) -> None:
        distance, self._index = cKDTree(vertices).query(points, k=near)
        if near == 1:
            distance, self._index = distance[:, None], self._index[:, None]
        share = 1 / (distance + 1e-5) ** 2
        self._share = share / share.sum(axis=1, keepdims=True)

    def __call__(self, moved: Points) -> Points:
        """moved: of the vertices; returns that of the points."""
        return np.asarray((moved[self._index] * self._share[..., None]).sum(axis=1))


def fit_sphere(points: Points) -> tuple[Points, float]:
    rows = np.c_[2 * points, np.ones(len(points))]
    solved = np.linalg.lstsq(rows, (points**2).sum(axis=1), rcond=None)[0]
    return solved[:3], float(np.sqrt(solved[3] + solved[:3] @ solved[:3]))


def fit_rotation(before: Points, after: Points) -> Points:
    """[3, 3] that turns one cloud into the other, each about its own middle (Kabsch 1976)."""
    u, _, vt = np.linalg.svd((before - before.mean(axis=0)).T @ (after - after.mean(axis=0)))
    sign = np.sign(np.linalg.det(vt.T @ u.T))
    return np.asarray(vt.T @ np.diag([1, 1, sign]) @ u.T)


def facing_out(points: Points, faces: Faces) -> Faces:
    """The faces of a roughly convex shape, turned so that they look away from its middle."""
    quads = np.array(faces)
    across = points[quads[:, 2]] - points[quads[:, 0]], points[quads[:, 3]] - points[quads[:, 1]]
    away = (np.cross(*across) * (points[quads].mean(axis=1) - points.mean(axis=0))).sum()
    return faces if away > 0 else [tuple(reversed(face)) for face in faces]


def grid_faces(rows: int, columns: int, first: int = 0, closed: bool = False) -> Faces:
    """Quads between rows of points; `closed`: the last column meets the first."""
    last = columns if closed else columns - 1
    return [
        (
            first + r * columns + c,
            first + r * columns + (c + 1) % columns,
            first + (r + 1) * columns + (c + 1) % columns,
            first + (r + 1) * columns + c,
        )
        for r in range(rows - 1)
        for c in range(last)
    ]


def vertex_normals(points: Points, faces: Faces) -> Points:
    """[V, 3], weighted by area."""
    out = np.zeros_like(points)
    for count in {len(face) for face in faces}:
        index = np.array([face for face in faces if len(face) == count])
        if count == 4:
            sides = (
                points[index[:, 2]] - points[index[:, 0]],
                points[index[:, 3]] - points[index[:, 1]],
            )
        else:
            sides = (
                points[index[:, 1]] - points[index[:, 0]],
                points[index[:, 2]] - points[index[:, 0]],
            )
        across = np.cross(*sides)
        for corner in range(count):
            np.add.at(out, index[:, corner], across)
    return unit(out)


def limit_surface(count: int, faces: Faces) -> csr_matrix:
    """[V, V]: takes the vertices of a mesh of quads to where they lie on its Catmull-Clark limit.

    The masks are those of Halstead, Kass, DeRose 1993, appendix A; the rim is a cubic B-spline.
    """
    sides: dict[tuple[int, int], int] = {}
    for face in faces:
        for a, b in zip(face, (*face[1:], face[0]), strict=True):
            side = (min(a, b), max(a, b))
            sides[side] = sides.get(side, 0) + 1
    mask = lil_matrix((count, count))
    rim: dict[int, list[int]] = {}
    valence = np.zeros(count)
    for (a, b), faces_there in sides.items():
        valence[[a, b]] += 1
        if faces_there == 1:
            rim.setdefault(a, []).append(b)
            rim.setdefault(b, []).append(a)
        mask[a, b] += 4
        mask[b, a] += 4
    for face in faces:
        for k, vertex in enumerate(face):
            mask[vertex, face[(k + 2) % len(face)]] += 1
    for vertex in range(count):
        if vertex in rim or not valence[vertex]:
            mask[vertex, :] = 0
            mask[vertex, vertex] = 4 if vertex in rim else 1
            for beside in rim.get(vertex, [])[:2]:
                mask[vertex, beside] = 1
        else:
            mask[vertex, vertex] = valence[vertex] ** 2
    rows = mask.tocsr()
    return csr_matrix(rows.multiply(1 / rows.sum(axis=1)))


def scattered(
    points: Points,
    triangles: NDArray[np.int64],
    weight: Floats,
    count: int,
    rng: np.random.Generator,
) -> tuple[Points, Points]:
    """Up to `count` random places on triangles, kept with the probability `weight` of each vertex.

    Returns places and normals, [N, 3] each.
    """
    a, b, c = (points[triangles[:, k]] for k in range(3))
    across = np.cross(b - a, c - a)
    share = np.linalg.norm(across, axis=1) * weight[triangles].max(axis=1)
    chosen = rng.choice(len(triangles), count, p=share / share.sum())
    r1, r2 = np.sqrt(rng.random(count)), rng.random(count)
    corner = np.stack([1 - r1, r1 * (1 - r2), r1 * r2], axis=-1)
    kept = (weight[triangles[chosen]] * corner).sum(axis=1) > rng.random(count)
    places = (points[triangles[chosen]] * corner[..., None]).sum(axis=1)
    return places[kept], unit(across[chosen])[kept]
