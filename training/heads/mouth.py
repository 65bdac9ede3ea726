"""The mouth's inside: teeth and gums along the base mesh's arches, and a tongue that comes out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from training.heads.geometry import (
    Attach,
    Faces,
    Floats,
    Mesh,
    Points,
    facing_out,
    grid_faces,
    smooth,
    unit,
)

if TYPE_CHECKING:
    from training.heads.head import Head

_UPPER_WIDTHS = (8.5, 6.7, 7.6, 7.0, 6.8, 9.0)
_LOWER_WIDTHS = (5.4, 5.9, 6.8, 7.0, 7.2, 10.0)
"""Crowns from the middle backwards, mm (Wheeler's Dental Anatomy)."""
_HEIGHTS = (10.5, 9.5, 11.2, 9.2, 8.8, 8.2)
_DROPS = (0.0, 0.6, -0.1, 0.6, 0.9, 1.2)
"""How far a crown's edge stays behind that of the middle ones, mm."""


def teeth_mesh(head: Head, upper: bool, fine: bool) -> Mesh:
    """Twelve teeth and a gum. The texture's u tells how deep a corner lies, v whether it is gum."""
    ids = head.base.groups[f"helper-{'upper' if upper else 'lower'}-teeth"]
    arch = _Arch(head.body[ids], upper)
    parts = [arch.tooth(k, side, fine) for k in range(len(arch.widths)) for side in (1, -1)]
    parts.append(arch.gum(fine))
    points = np.concatenate([part[0] for part in parts])
    faces: Faces = []
    gum: list[float] = []
    first = 0
    for number, (places, quads) in enumerate(parts):
        faces += [tuple(v + first for v in quad) for quad in quads]
        gum += [float(number == len(parts) - 1)] * len(quads)
        first += len(places)
    follow = Attach(points, head.body[ids])
    deltas = {name: follow(moved) for name, moved in head.moved(ids).items()}
    deltas = {name: moved for name, moved in deltas.items() if np.abs(moved).max() > 1e-5}
    deep = depth_in_mouth(head, points)
    uvs = np.array(
        [(deep[v], g) for face, g in zip(faces, gum, strict=True) for v in face], dtype=float
    )
    uvs[:, 1] = 0.25 + 0.5 * uvs[:, 1]
    return Mesh(points, faces, uvs, deltas=deltas)


def depth_in_mouth(head: Head, points: Points) -> Floats:
    """0 at the front teeth, 1 at the throat: nothing shades a mouth in real time, so its texture
    does.
    """
    return 0.01 + 0.98 * smooth(points[:, 1] - head.marks.mouth[1], 0.004, 0.040)


class _Arch:
    """One dental arch, laid along a helper ribbon, which knows where it runs and how it moves."""

    def __init__(self, ribbon: Points, upper: bool) -> None:
        self.upper, self.up = upper, 1 if upper else -1
        z = ribbon[:, 2]
        # The ribbons sit high: as they are, the upper lip hides the upper teeth.
        self.edge = (z.min() - 0.0035) if upper else (z.max() - 0.0040)
        rim = ribbon[np.abs(z - (z.min() if upper else z.max())) < 0.0045]
        back = ribbon[:, 1].max()
        outer: dict[float, tuple[float, list[float]]] = {}
        for x, point in zip(np.round(np.abs(rim[:, 0]), 3), rim, strict=True):
            radius = float(np.hypot(point[0], point[1] - back))
            if x not in outer or radius > outer[x][0]:
                outer[x] = radius, [abs(point[0]), point[1]]
        half = np.array([place for _, (_, place) in sorted(outer.items())])
        half = half[np.argsort(np.arctan2(half[:, 0], back - half[:, 1] + 1e-9))]
        if half[0, 0] > 1e-4:
            half = np.vstack([[0, half[0, 1] - 0.0004], half])
        # Narrower behind the eye teeth: wide, the molars come through the corners of the mouth.
        half[:, 0] *= 1 - 0.20 * smooth(half[:, 0], 0.008, 0.022)
        self._half = half
        self._along = np.r_[0, np.cumsum(np.linalg.norm(np.diff(half, axis=0), axis=1))]
        widths = np.array(_UPPER_WIDTHS if upper else _LOWER_WIDTHS) * 1e-3
        self.widths = widths * min(1.0, self._along[-1] * 0.97 / widths.sum())
        self._middles = np.cumsum(self.widths) - self.widths / 2

    def _at(self, along: Floats) -> tuple[Points, Points]:
        def place(s: Floats) -> Points:
            axes = [np.interp(s, self._along, self._half[:, axis]) for axis in (0, 1)]
            return np.stack(axes, axis=-1)

        return place(along), unit(place(along + 1.5e-3) - place(np.maximum(along - 1.5e-3, 0)))

    def tooth(self, number: int, side: int, fine: bool) -> tuple[Points, Faces]:
        place, along = self._at(np.asarray(self._middles[number]))
        molar = number >= 3
        height = _HEIGHTS[number] * 1e-3 * (1 if self.upper else 0.92)
        size = (self.widths[number] * 0.985, height, 0.0085 if molar else 0.006)
        v, faces = _crown(size, 0.16 if molar else 0.12, (10, 7) if fine else (5, 4))
        v[:, 1] += 0.0025 * (v[:, 2] / height - 0.4)  # crowns lean forward a little
        cosine, sine = along[0], along[1] * side
        inward = -sine, cosine
        drop = self.up * _DROPS[number] * 1e-3
        at = np.array(
            [place[0] * side, place[1] + (0.0048 if self.upper else 0.0074), self.edge + drop]
        )
        out = at + np.stack(
            [
                v[:, 0] * cosine + v[:, 1] * inward[0],
                v[:, 0] * sine + v[:, 1] * inward[1],
                self.up * v[:, 2],
            ],
            axis=-1,
        )
        return out, facing_out(out, faces)

    def gum(self, fine: bool) -> tuple[Points, Faces]:
        """A tube that dips between the teeth."""
        steps, around = (57, 10) if fine else (15, 6)
        along = np.linspace(0, self._along[-1] * 0.98, steps)
        place, tangent = self._at(along)
        inward = np.stack([-tangent[:, 1], tangent[:, 0]], axis=-1)
        nearest = np.argmin(np.abs(along[:, None] - self._middles), axis=1)
        off = np.abs(along - self._middles[nearest]) / (self.widths[nearest] / 2)
        dip = -0.0016 * np.clip(off, 0, 1) ** 2.5
        rings = []
        for angle in np.linspace(0, 2 * np.pi, around, endpoint=False):
            out = place + inward * (0.0036 - 0.0042 * np.cos(angle))
            height = 0.0132 + 0.0050 * np.sin(angle) + dip * (np.sin(angle) < 0)
            rings.append(np.c_[out, self.edge + self.up * height])
        half = np.stack(rings, axis=1)
        if not self.upper:  # the lower arch closes behind the upper
            half[..., 1] += 0.0028
        whole = np.concatenate([(half * [-1, 1, 1])[:0:-1], half])
        return whole.reshape(-1, 3), grid_faces(len(whole), around, closed=True)


def _crown(
    size: tuple[float, float, float], taper: float, detail: tuple[int, int]
) -> tuple[Points, Faces]:
    """A superquadric (Barr 1981) whose edge is at z = 0 and whose root at its height."""
    width, height, depth = size
    a, b = np.meshgrid(
        np.linspace(-np.pi, np.pi, detail[0] * 2, endpoint=False),
        np.linspace(-np.pi / 2, np.pi / 2, detail[1] * 2 - 1),
    )

    def rounded(x: Floats) -> Floats:
        return np.asarray(np.sign(x) * np.abs(x) ** (2 / 3.2))

    x = rounded(np.cos(b)) * rounded(np.cos(a))
    y = rounded(np.cos(b)) * rounded(np.sin(a))
    share = (rounded(np.sin(b)) + 1) / 2
    narrow = 1 - taper * share**1.5
    thin = 0.55 + 0.45 * np.minimum(1, share * 2.2)  # the biting edge is thinner than the neck
    points = np.stack([x * width / 2 * narrow, y * depth / 2 * thin, share * height], axis=-1)
    rows, columns = a.shape
    return points.reshape(-1, 3), grid_faces(rows, columns, closed=True)


def tongue_mesh(head: Head) -> Mesh:
    """The base mesh's tongue, whose `tongueOut` reaches past the lips."""
    ids = np.sort(head.base.groups["helper-tongue"])
    new = {int(old): k for k, old in enumerate(ids)}
    chosen = [f for f in head.base.faces if f.group == "helper-tongue"]
    faces: Faces = [tuple(new[v] for v in face.vertices) for face in chosen]
    points = head.body[ids]
    deltas = {n: m for n, m in head.moved(ids).items() if np.abs(m).max() > 1e-5}
    deltas["tongueOut"] = _put_out(points, head)
    deep = depth_in_mouth(head, points)
    uvs = np.array([(deep[v], 0.5) for face in faces for v in face])
    return Mesh(points, faces, uvs, deltas=deltas)


def _put_out(points: Points, head: Head) -> Points:
    """Half way the tip is between the teeth, as for "th"; at the end it lies over the lower lip,
    flattened. The root stays.
    """
    front = points[:, 1].min()
    share = smooth(points[:, 1], points[:, 1].max(), front)
    reach = 2 * ((front - head.marks.mouth[1]) + 0.008)
    middle = points[points[:, 1] < front + 0.012][:, 2].mean()
    moved = np.zeros_like(points)
    moved[:, 1] = -reach * share
    moved[:, 2] = (head.marks.mouth[2] - 0.0055 - middle) * share**2
    moved[:, 2] -= 0.45 * (points[:, 2] - middle) * share
    return moved
