"""The skin of a head: which faces of the base mesh, how they lie in the texture, where is what."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix, diags

from training.heads.base_mesh import BaseMesh
from training.heads.eyes import Eye, eye_of
from training.heads.geometry import (
    Faces,
    Floats,
    Mesh,
    Points,
    limit_surface,
    smooth,
    vertex_normals,
)
from training.heads.people import Person

_STRIP = 0.17
"""Share of the texture's height, below the face, for what is seldom seen."""


@dataclass(frozen=True)
class Landmarks:
    """Where things are on one head, metres."""

    nose: Points
    """Its tip."""
    mouth: Points
    """Between the lips, where the upper teeth end."""
    chin: float
    """Height of its lowest point."""
    centre: Points
    """Middle of the skull."""
    neck: Points
    """Middle of the collar's plane."""
    neck_normal: Points


class Head:
    """One person's head as numbers: points of the whole base mesh, its shapes, its skin."""

    def __init__(self, base: BaseMesh, person: Person) -> None:
        self.base, self.person = base, person
        self.rng = np.random.default_rng(person.seed)
        self.body = base.shape_of(person, self.rng)
        self.units = base.face_units()
        self.marks = _landmarks(self.body, base)
        self.eyes: dict[str, Eye] = {
            side: eye_of(self.body[base.groups[f"helper-{side}-eye"]]) for side in "lr"
        }
        self.ear = self._moved_by_ears(0.15, 0.05)
        """Whether a vertex belongs to an ear: no hair grows there."""
        self.by_ear = self._moved_by_ears(0.09, 0.05) | self._moved_by_ears(0.01, 0.07)
        self._choose_skin()
        self.limit = self._seen_surface()
        self.points: Points = self.limit @ self.body[self.ids]
        """[V, 3] the skin as one sees it, of vertices `ids` of the base mesh."""
        self.normals = vertex_normals(self.points, self.faces)
        self.uvs = self._texture_places()
        self.zones = _Zones(self).all()

    def moved(self, ids: np.ndarray) -> dict[str, Points]:
        """What each shape moves of vertices of the base mesh."""
        return {name: unit[ids] for name, unit in self.units.items()}

    def skin(self) -> Mesh:
        deltas = {name: self.limit @ unit[self.ids] for name, unit in self.units.items()}
        return Mesh(self.points, self.faces, self.uvs, self.normals, deltas=deltas)

    def _seen_surface(self) -> csr_matrix:
        """[V, V] from the vertices to the surface: smooth, but lips as full as the mesh has them,
        since smoothed ones would no longer meet.
        """
        off = (self.body[self.ids] - self.marks.mouth - _vec(0, -0.006, -0.002)) / _vec(
            0.044, 0.030, 0.011
        )
        full = np.clip(1.5 * np.exp(-((off**2).sum(axis=1) ** 2)), 0, 1)
        smoothed = limit_surface(len(self.ids), self.faces)
        return csr_matrix(diags(1 - full) @ smoothed + diags(full))

    def _moved_by_ears(self, least: float, aside: float) -> np.ndarray:
        moved = np.zeros(len(self.body))
        for name in self.base.targets("ears"):
            moved = np.maximum(moved, np.linalg.norm(self.base.target(name), axis=1))
        return (moved > least) & (np.abs(self.body[:, 0]) > aside)

    def _choose_skin(self) -> None:
        """Head and neck; below the collar there would be skin for clothes to poke through."""
        kept = np.zeros(len(self.body), bool)
        kept[self.base.groups["body"]] = True
        above = (self.body - self.marks.neck) @ self.marks.neck_normal
        aside = self.body - self.marks.neck - above[:, None] * self.marks.neck_normal
        wide = np.linalg.norm(aside, axis=1)
        kept &= (above > -0.03) & (wide < 0.082 + 0.25 * np.maximum(above, 0))
        chosen = [f for f in self.base.faces if f.group == "body" and kept[list(f.vertices)].all()]
        self.ids = np.unique([vertex for face in chosen for vertex in face.vertices])
        new = {int(old): k for k, old in enumerate(self.ids)}
        self.faces: Faces = [tuple(new[v] for v in face.vertices) for face in chosen]
        self.face_uvs = [face.uvs for face in chosen]

    def _texture_places(self) -> Points:
        """[corners, 2]: the face's island over most of the texture, the others in a strip below.

        In MakeHuman's layout eyes and mouth get a few hundredths of the picture. Both axes are
        stretched so that a millimetre of the face gets as many pixels everywhere, as far as
        stretching whole rows and columns can do it.
        """
        islands = _islands(self.face_uvs)
        main = max(islands, key=len)
        uv = self.base.uv.copy()
        across, up = self._stretched(main)
        members = np.unique([i for face in main for i in self.face_uvs[face]])
        uv[members, 0] = np.interp(uv[members, 0], *across)
        uv[members, 1] = _STRIP + 0.005 + (0.99 - _STRIP) * np.interp(uv[members, 1], *up)
        left = 0.005
        for island in sorted((i for i in islands if i is not main), key=len, reverse=True):
            members = np.unique([i for face in island for i in self.face_uvs[face]])
            low, high = uv[members].min(axis=0), uv[members].max(axis=0)
            width = 0.45 if left < 0.01 else 0.165
            uv[members] = (uv[members] - low) / (high - low) * [width, _STRIP - 0.02] + [
                left,
                0.005,
            ]
            left += width + 0.015
        return np.array([uv[i] for face in self.face_uvs for i in face])

    def _stretched(self, island: list[int]) -> list[tuple[Floats, Floats]]:
        """For both axes of the texture: places of MakeHuman's, and where they go, 0 to 1."""
        edges = []
        for face in island:
            vertices, uvs = self.faces[face], self.face_uvs[face]
            for k in range(len(vertices)):
                j = (k + 1) % len(vertices)
                a, b = self.points[vertices[k]], self.points[vertices[j]]
                edges.append(
                    (*self.base.uv[uvs[k]], *self.base.uv[uvs[j]], *((a + b) / 2), *(b - a))
                )
        table = np.array(edges)
        front = smooth(-table[:, 5], 0.03, 0.09) * smooth(np.abs(table[:, 4]), 0.075, 0.05)
        length = np.linalg.norm(table[:, 7:], axis=1) * (0.35 + front)
        out = []
        for axis in (0, 1):
            low, high = np.sort(table[:, [axis, axis + 2]], axis=1).T
            bins = np.linspace(low.min(), high.max(), 61)
            middle = (bins[:-1] + bins[1:]) / 2
            ratio = length / np.maximum(np.hypot(*(table[:, 2:4] - table[:, :2]).T), 1e-6)
            there = (low[:, None] <= middle) & (high[:, None] >= middle)
            need = np.array([np.quantile(ratio[t], 0.85) if t.any() else 0.0 for t in there.T])
            need = np.convolve(np.pad(need, 2, "edge"), np.ones(5) / 5, "valid") + 0.05 * need.max()
            out.append((bins, np.r_[0, np.cumsum(need)] / need.sum()))
        return out


def _vec(x: float, y: float, z: float) -> Points:
    return np.array([x, y, z])


def _islands(face_uvs: list[tuple[int, ...]]) -> list[list[int]]:
    """Faces that hang together in the texture."""
    parent: dict[int, int] = {}

    def root(node: int) -> int:
        while parent.setdefault(node, node) != node:
            node = parent[node]
        return node

    for corners in face_uvs:
        for corner in corners[1:]:
            parent[root(corner)] = root(corners[0])
    found: dict[int, list[int]] = {}
    for face, corners in enumerate(face_uvs):
        found.setdefault(root(corners[0]), []).append(face)
    return list(found.values())


def _landmarks(body: Points, base: BaseMesh) -> Landmarks:
    skin = body[base.groups["body"]]
    head = skin[(skin[:, 2] > -0.17) & (np.abs(skin[:, 0]) < 0.095)]
    middle = head[(np.abs(head[:, 0]) < 0.006) & (head[:, 2] < -0.01) & (head[:, 2] > -0.06)]
    nose = middle[middle[:, 1].argmin()]
    upper = head[head[:, 2] > 0.0]
    depth = (upper[:, 1].min() + upper[:, 1].max()) / 2
    teeth = body[base.groups["helper-upper-teeth"]]
    front = head[(np.abs(head[:, 0]) < 0.008) & (head[:, 1] < nose[1] + 0.04)]
    chin = float(front[:, 2].min())
    ring = skin[(np.abs(skin[:, 2] - (chin - 0.034)) < 0.012) & (np.abs(skin[:, 0]) < 0.08)]
    tilt = np.array([0, -0.42, 1.0])  # a collar lies lower in front
    return Landmarks(
        nose=nose,
        mouth=np.array([0, teeth[:, 1].min(), teeth[:, 2].min()]),
        chin=chin,
        centre=np.array([0, depth, 0.005]),
        neck=ring.mean(axis=0),
        neck_normal=tilt / np.linalg.norm(tilt),
    )


class _Zones:
    """Soft regions of the skin, 0 to 1 for every vertex, that its colours are mixed by."""

    def __init__(self, head: Head) -> None:
        self._head, self._marks = head, head.marks
        self._at = head.body[head.ids]
        self._ear = head.ear[head.ids].astype(float)

    def all(self) -> dict[str, Floats]:
        inside = self._inside()
        return {
            "flush": self._flush(),
            "lid": self._lid(),
            "oily": np.clip(self._nose() + self._blob(0, 0.02, 0.05, (0.035, 0.05, 0.025)), 0, 1),
            "freckle": np.clip(self._cheeks() + 0.9 * self._nose() + 0.25, 0, 1),
            "beard": self._beard(),
            "inside": inside,
            "deep": inside * smooth(self._at[:, 1] - self._marks.mouth[1], 0.004, 0.03),
            "nostril": self._nostrils(),
            "face": self._face(),
            "lines": self._lines(),
        }

    def _ball(self, middle: Points, radii: tuple[float, float, float]) -> Floats:
        away = (self._at - middle) / np.array(radii)
        return np.asarray(np.exp(-(away**2).sum(axis=1)))

    def _blob(self, x: float, behind: float, z: float, radii: tuple[float, float, float]) -> Floats:
        """About a point `behind` the tip of the nose, at height z."""
        return self._ball(np.array([x, self._marks.nose[1] + behind, z]), radii)

    def _nose(self) -> Floats:
        return self._ball(self._marks.nose, (0.016, 0.022, 0.014))

    def _cheeks(self) -> Floats:
        height, radii = self._marks.nose[2] + 0.002, (0.024, 0.05, 0.022)
        return self._blob(0.047, 0.045, height, radii) + self._blob(-0.047, 0.045, height, radii)

    def _flush(self) -> Floats:
        chin = self._blob(0, 0.02, self._marks.chin + 0.012, (0.018, 0.03, 0.014))
        parts = 0.8 * self._cheeks() + 0.8 * self._nose() + 0.45 * self._ear + 0.3 * chin
        return np.asarray(np.clip(parts, 0, 1))

    def _lid(self) -> Floats:
        total = np.zeros(len(self._at))
        for side, sign in (("l", 1), ("r", -1)):
            middle = self._head.eyes[side].centre
            total += self._ball(middle + _vec(0, -0.012, 0.004), (0.021, 0.03, 0.0115))
            under = middle + _vec(-0.004 * sign, -0.012, -0.017)
            total += 0.55 * self._ball(under, (0.017, 0.03, 0.007))
        return np.asarray(np.clip(total, 0, 1))

    def _beard(self) -> Floats:
        x, z = np.abs(self._at[:, 0]), self._at[:, 2]
        mouth, chin = self._marks.mouth[2], self._marks.chin
        jaw = smooth(z, mouth + 0.022, mouth - 0.004) * smooth(z, chin - 0.055, chin - 0.01)
        cheek = smooth(x, 0.03, 0.05) * smooth(z, mouth - 0.01, mouth + 0.01)
        front = smooth(-self._at[:, 1], -0.01, 0.05)
        side = smooth(x, 0.048, 0.066) * smooth(z, 0.0, -0.03) * smooth(z, chin - 0.04, chin)
        return np.asarray(
            np.clip(jaw * front * (1 - 0.6 * cheek) + 0.8 * side * (1 - self._ear), 0, 1)
        )

    def _inside(self) -> Floats:
        """The mouth's cavity has an island of its own in MakeHuman's texture."""
        out = np.ones(len(self._head.body), bool)
        for face in self._head.base.faces:
            for vertex, corner in zip(face.vertices, face.uvs, strict=True):
                x, y = self._head.base.uv[corner]
                out[vertex] &= bool(0.74 < x < 0.94 and y < 0.15)
        return np.asarray(out[self._head.ids].astype(float))

    def _nostrils(self) -> Floats:
        """The mesh is shallow there, and light that scatters through it would make them glow."""
        nose, radii = self._marks.nose, (0.0042, 0.0055, 0.0042)
        both = sum(
            self._ball(nose + _vec(side * 0.0072, 0.0135, -0.0095), radii) for side in (1.0, -1.0)
        )
        return np.asarray(np.clip(np.asarray(both) * 1.3 - 0.25, 0, 0.8))

    def _face(self) -> Floats:
        front = self._at[:, 1] < self._marks.mouth[1] + 0.03
        return np.asarray((front & (self._at[:, 2] > self._marks.chin)).astype(float))

    def _lines(self) -> Floats:
        """Where age writes: forehead, outer corners of the eyes, beside the mouth."""
        brow = self._blob(0, 0.025, 0.055, (0.05, 0.06, 0.022))
        total = 0.8 * brow
        for side, sign in (("l", 1), ("r", -1)):
            corner = self._head.eyes[side].centre + _vec(0.024 * sign, 0.0, -0.002)
            total += self._ball(corner, (0.012, 0.03, 0.016))
        return np.asarray(np.clip(total, 0, 1))
