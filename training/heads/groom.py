"""Hair, brows and lashes as strands: where they grow, how they fall.

Strands of hair are combed by a small march: each step of a strand turns towards where it is combed
and down, and is pushed out of the head. A few thousand guides are combed so; all other strands
copy the guide next to them (Choe and Ko 2005 tell of both).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial import cKDTree

from training.heads.geometry import Floats, Points, scattered, smooth, unit, vertex_normals
from training.heads.people import Hair

if TYPE_CHECKING:
    from training.heads.head import Head

GUIDES = 2600
_STEPS = 22
_AZIMUTHS = (0, 20, 36, 48, 58, 68, 76, 84, 90, 98, 110, 125, 145, 180)
_FEMALE = (59, 59, 55, 47, 34, 16, -1, -10, 6, 18, 14, -18, -48, -64)
_MALE = (66, 69, 68, 55, 36, 13, -10, -24, -4, 18, 16, -12, -40, -55)
"""Height of the hairline over the eyes, mm, by azimuth: 0 in front, 180 behind."""


@dataclass(frozen=True)
class Strands:
    """Hairs of one kind."""

    points: Points
    """[N, K, 3] metres, from the root."""
    normals: Points
    """[N, 3] of the skin at the root."""


def scalp_weight(head: Head, points: Points, soft: float) -> Floats:
    """0 to 1: how much hair grows at each of [N, 3] points."""
    away = points - head.marks.centre
    azimuth = np.degrees(np.arctan2(np.abs(away[:, 0]), -away[:, 1]))
    line = np.array(_MALE if head.person.male else _FEMALE) * 1e-3
    receding = head.person.hair.receding
    line = line + receding * 0.020 * np.exp(-(((np.array(_AZIMUTHS) - 34) / 22) ** 2))
    line = line + receding * 0.008 * np.exp(-((np.array(_AZIMUTHS) / 20) ** 2))
    # A hairline wanders; one that does not looks drawn with a compass.
    wander = 0.0016 * np.sin(azimuth * 0.31 + head.person.seed) + 0.0012 * np.sin(azimuth * 0.83)
    edge = np.interp(azimuth, _AZIMUTHS, line) + wander
    return smooth(points[:, 2] - edge, -soft / 2, soft) * (points[:, 2] > -0.12)


class Comb:
    """Combs the hair of one head."""

    def __init__(self, head: Head) -> None:
        self._head, self._hair, self._rng = head, head.person.hair, head.rng
        weight = scalp_weight(head, head.points, 0.007) * ~head.ear[head.ids]
        triangles = np.array(
            [(f[0], f[k], f[k + 1]) for f in head.faces for k in range(1, len(f) - 1)]
        )
        self._surface = head.points, triangles, weight
        # Below the shown skin there are shoulders for long hair to lie on.
        body = head.base.groups["body"]
        near = body[head.body[body][:, 2] > -0.30]
        new = np.full(len(head.body), -1)
        new[near] = np.arange(len(near))
        faces = [tuple(new[list(f.vertices)]) for f in head.base.faces if f.group == "body"]
        faces = [face for face in faces if min(face) >= 0]
        self._solid = head.body[near]
        self._solid_normals = vertex_normals(self._solid, faces)
        self._tree = cKDTree(self._solid)

    def guides(self) -> Strands:
        roots, normals = scattered(*self._surface, GUIDES * 2, self._rng)
        roots, normals = roots[:GUIDES], normals[:GUIDES]
        return Strands(self._march(roots, normals), normals)

    def all(self, guides: Strands, count: int) -> Strands:
        """Strands between the guides, for pictures that show each hair."""
        roots, normals = scattered(*self._surface, count, self._rng)
        _, near = cKDTree(guides.points[:, 0]).query(roots, k=3)
        # Of the three nearest the one on the same side of the parting, or a parting would close.
        side = np.sign(self._off_part(roots))
        same = np.sign(self._off_part(guides.points[near, 0].reshape(-1, 3))).reshape(near.shape)
        chosen = near[np.arange(len(roots)), np.argmax(same == side[:, None], axis=1)]
        t = np.linspace(0, 1, guides.points.shape[1])[None, :, None]
        own = (roots - guides.points[chosen, 0])[:, None] * (1 - 0.45 * t)
        loose = self._rng.normal(0, 1, (len(roots), 1, 3)) * 0.0012 * t
        stray = (self._rng.random((len(roots), 1, 1)) < 0.04) * t**1.5
        stray = stray * self._rng.normal(0, 0.005, (len(roots), 1, 3))
        length = self._rng.uniform(0.86, 1.0, (len(roots), 1, 1))
        shape = guides.points[chosen] - guides.points[chosen, :1]
        points = guides.points[chosen, :1] + shape * length + own + loose + stray
        return Strands(points, normals)

    def _off_part(self, roots: Points) -> Floats:
        part = self._hair.part
        return roots[:, 0] - part if part is not None else np.ones(len(roots))

    def _lengths(self, roots: Points) -> Floats:
        hair = self._hair
        high = smooth(roots[:, 2], 0.035, 0.085)
        behind = smooth(roots[:, 1] - self._head.marks.centre[1], 0.02, 0.07) * (1 - high)
        length = hair.side + (hair.top - hair.side) * high + (hair.back - hair.side) * behind
        return np.asarray(length * np.clip(self._rng.normal(1, 0.07, len(roots)), 0.75, 1.25))

    def _combed_to(self, roots: Points, normals: Points) -> Points:
        """[N, 3] the direction along the skin that strands leave the root in."""
        hair = self._hair
        wish = np.tile(np.array(hair.sweep, float), (len(roots), 1))
        if hair.part is not None:
            off = self._off_part(roots) + self._rng.normal(0, 0.0010, len(roots))
            behind = smooth(roots[:, 1] - self._head.marks.centre[1], 0.0, 0.06)
            wish[:, 0] += np.where(off > 0, 1.0, -1.0) * (1 - 0.8 * behind)
            wish[:, 1] += 0.9 * behind
        wish += [0, 0, -0.25]
        wish -= normals * (wish * normals).sum(axis=1, keepdims=True)
        # Locks: neighbours lean the same way.
        cell = (roots // 0.012).astype(int) % 64
        lean = np.random.default_rng(self._head.person.seed).normal(0, 1, (64, 64, 64, 3))
        wish += 0.16 * lean[cell[:, 0], cell[:, 1], cell[:, 2]]
        return unit(wish + 0.07 * self._rng.normal(0, 1, wish.shape))

    def _march(self, roots: Points, normals: Points) -> Points:
        hair = self._hair
        count = len(roots)
        wish = self._combed_to(roots, normals)
        step = (self._lengths(roots) / (_STEPS - 1))[:, None]
        layer = self._rng.random(count)
        heading = unit(wish * (1 - hair.lift) + normals * hair.lift)
        hem = (hair.hem or 0.0) + 0.004 * self._rng.normal(0, 1, count)
        place = roots + normals * 0.0003
        out = [place]
        for number in range(1, _STEPS):
            t = number / (_STEPS - 1)
            # On top of the head hair lies; from the temples down it hangs.
            hangs = hair.gravity * (0.06 + 0.5 * smooth(place[:, 2], 0.075, 0.0))[:, None]
            heading = unit(heading + hangs * np.array([0, 0, -1.0]))
            if hair.hem is not None:  # what is cut straight turns in a little
                inward = (self._head.marks.centre - place) * [1, 1, 0]
                near = smooth(place[:, 2] - hem, 0.045, 0.0)[:, None]
                heading = unit(heading + 0.14 * near * unit(inward))
            going = 1.0 if hair.hem is None else smooth(place[:, 2] - hem, -0.006, 0.004)[:, None]
            moved = place + heading * step * going
            room = 0.0012 + (hair.volume * (0.35 + 0.65 * layer)) * smooth(t, 0, 0.30)
            pushed = self._pushed_out(moved, room)
            if hair.part is not None:
                pushed = self._out_of_the_face(pushed, roots)
            heading = unit(pushed - place)
            place = pushed
            out.append(place)
        return self._curled(np.stack(out, axis=1))

    def _pushed_out(self, points: Points, room: Floats) -> Points:
        for _ in range(2):
            distance, near = self._tree.query(points, k=3)
            share = 1 / (distance + 1e-4)
            share /= share.sum(axis=1, keepdims=True)
            at = (self._solid[near] * share[..., None]).sum(axis=1)
            normal = unit((self._solid_normals[near] * share[..., None]).sum(axis=1))
            above = ((points - at) * normal).sum(axis=1)
            lies = self._hair.gravity * smooth(points[:, 2], -0.035, 0.005)
            off = np.maximum(room - above, 0) + lies * np.minimum(room * 1.3 + 0.001 - above, 0)
            points = points + normal * off[:, None]
        return points

    def _out_of_the_face(self, points: Points, roots: Points) -> Points:
        """Parted hair hangs beside the face, not before it."""
        side = np.where(self._off_part(roots) > 0, 1.0, -1.0)
        before = smooth(points[:, 1], -0.055, -0.085) * smooth(points[:, 2], 0.075, 0.045)
        lack = np.maximum(0.066 - side * points[:, 0], 0) * before
        out = points.copy()
        out[:, 0] += side * lack
        out[:, 1] += 0.35 * lack
        return out

    def _curled(self, strands: Points) -> Points:
        hair = self._hair
        if not hair.curl:
            return strands
        along = np.linalg.norm(np.diff(strands, axis=1), axis=2)
        run = np.concatenate([np.zeros((len(strands), 1)), np.cumsum(along, axis=1)], axis=1)
        tangent = unit(np.gradient(strands, axis=1))
        aside = unit(np.cross(tangent, [0.3, 0.2, 0.9]))
        other = np.cross(tangent, aside)
        # Locks of curls: neighbours turn together.
        cell = (strands[:, 0] // 0.009).astype(int) % 64
        phase = np.random.default_rng(self._head.person.seed).uniform(0, 6.28, (64, 64, 64))
        start = phase[cell[:, 0], cell[:, 1], cell[:, 2]][:, None]
        start = start + self._rng.normal(0, 0.7, (len(strands), 1))
        angle = 2 * np.pi * run / hair.pitch + start
        grow = hair.curl * smooth(run, 0, 1.5 * hair.pitch)
        turned = aside * np.cos(angle)[..., None] + other * np.sin(angle)[..., None]
        return np.asarray(strands + grow[..., None] * turned)


def brow_strands(head: Head, side: str, count: int) -> Strands:
    """Brows: roots below an arch over the eye, found by looking from the front."""
    rng, eye = head.rng, head.eyes[side].centre
    sign = 1.0 if side == "l" else -1.0
    u = rng.beta(1.1, 1.2, count)
    arch = np.array([15.8, 17.8, 20.4, 19.4, 15.2]) * 1e-3 - (0.0012 if head.person.male else 0)
    middle = eye[2] + np.interp(u, [0, 0.25, 0.6, 0.8, 1], arch)
    half = np.interp(u, [0, 0.12, 0.5, 0.8, 1], [2.6, 3.9, 3.4, 2.1, 0.9]) * 1e-3
    half *= 1.2 if head.person.male else 0.88
    v = np.clip(rng.normal(0, 0.5, count), -1.1, 1.1)
    x = eye[0] + sign * (-0.0165 + u * 0.042)
    roots, normals = _seen_from_front(head, x, middle + v * half)
    angle = np.interp(u, [0, 0.15, 0.45, 0.7, 1], [66, 44, 20, -4, -26]) - v * 14
    angle = np.radians(angle + rng.normal(0, 7, count))
    length = np.interp(u, [0, 0.3, 0.8, 1], [5.6, 7.6, 7.8, 5.6]) * 1e-3
    length *= rng.uniform(0.7, 1.12, count)
    along = np.stack([sign * np.cos(angle), np.zeros(count), np.sin(angle)], axis=-1)
    along = unit(along - normals * (along * normals).sum(axis=1, keepdims=True))
    t = np.linspace(0, 1, 6)[None, :, None]
    bow = np.array([sign * 0.15, 0, -0.12])
    rise = normals[:, None] * (0.30 * t - 0.26 * t**2)
    shape = along[:, None] * t * 0.95 + rise + bow * t**2
    points = roots[:, None] + length[:, None, None] * shape
    return Strands(points + normals[:, None] * 0.0002, normals)


def _seen_from_front(head: Head, x: Floats, z: Floats) -> tuple[Points, Points]:
    """Where the skin is at those places of the frontal view: places and normals, [N, 3]."""
    front = (head.normals[:, 1] < -0.25) & (head.points[:, 1] < head.marks.mouth[1] + 0.06)
    at, normals = head.points[front], head.normals[front]
    distance, near = cKDTree(at[:, [0, 2]]).query(np.stack([x, z], axis=-1), k=4)
    share = 1 / (distance + 1e-4) ** 2
    share /= share.sum(axis=1, keepdims=True)
    normal = unit((normals[near] * share[..., None]).sum(axis=1))
    # Each neighbour's tangent plane tells how deep the skin lies here.
    off = np.stack([x, z], axis=-1)[:, None] - at[near][..., [0, 2]]
    slope = -normals[near][..., [0, 2]] / normals[near][..., 1:2]
    depth = ((at[near][..., 1] + (off * slope).sum(axis=-1)) * share).sum(axis=1)
    return np.stack([x, depth, z], axis=-1), normal


def lash_strands(grid: Points, count: int, length: float, rng: np.random.Generator) -> Points:
    """[count, 7, 3] along the columns of a strip [rows, columns, 3]."""
    rows, columns, _ = grid.shape
    u = np.sort(rng.uniform(0.02, 0.98, count)) * (columns - 1)
    lean = rng.normal(0, 0.35, count)
    lengths = np.clip(rng.normal(0.85, 0.18, count), 0.35, 1.2) * length
    out = np.empty((count, 7, 3))
    for step, t in enumerate(np.linspace(0, 1, 7)):
        r = np.clip(t * lengths, 0, 1) * (rows - 1)
        c = np.clip(u + lean * t, 0, columns - 1)
        r0 = np.minimum(r.astype(int), rows - 2)
        c0 = np.minimum(c.astype(int), columns - 2)
        fr, fc = (r - r0)[:, None], (c - c0)[:, None]
        near = (1 - fc) * grid[r0, c0] + fc * grid[r0, c0 + 1]
        far = (1 - fc) * grid[r0 + 1, c0] + fc * grid[r0 + 1, c0 + 1]
        out[:, step] = (1 - fr) * near + fr * far
    return out


def shade_of(hair: Hair) -> Points:
    """Linear RGB of a strand in daylight: its colour, greyed."""
    grey = np.array([0.34, 0.33, 0.315])
    return np.asarray(np.array(hair.colour) * (1 - hair.grey) + grey * hair.grey)
