"""Eyes: the ball, its picture, and the strips that lashes grow along."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from training.heads.geometry import (
    Faces,
    Mesh,
    Points,
    facing_out,
    fit_rotation,
    fit_sphere,
    grid_faces,
    smooth,
    unit,
)
from training.heads.people import Person

if TYPE_CHECKING:
    from training.heads.head import Head

IRIS_RADIUS = 0.0061
_TOE_IN = np.radians(1.2)
"""Both look at the camera, which stands a metre and a half away."""
_TEXTURE_REACH = 2.6
"""The eye's picture shows so many iris radii to each side."""


@dataclass(frozen=True)
class Eye:
    """Where an eyeball lies."""

    centre: Points
    radius: float


def eye_of(helper: Points) -> Eye:
    """The sphere through the base mesh's helper for that eye."""
    centre, radius = fit_sphere(helper)
    return Eye(centre, radius * 0.985)


def eyeball(
    radius: float, segments: int, rings: tuple[int, int], bowl: bool
) -> tuple[Points, Faces]:
    """A surface of revolution about -Y. `bowl`: the iris is hollow, for a cornea to lie before it;
    else it bulges as the cornea does.
    """
    edge = np.arcsin(IRIS_RADIUS / radius)
    profile = []
    for t in np.linspace(0, 1, rings[0]):
        out = IRIS_RADIUS * t
        if bowl:
            profile.append((max(out, 1e-5), radius * (np.cos(edge) - 0.10 * (1 - t**2))))
        else:
            rise = 0.0005 * (1 - t**2) ** 2
            profile.append((max(out, 1e-5), radius * np.cos(np.arcsin(out / radius)) + rise))
    for angle in np.linspace(edge, np.radians(110), rings[1])[1:]:
        profile.append((radius * np.sin(angle), radius * np.cos(angle)))
    return lathe(profile, segments)


def cornea(radius: float, segments: int = 64) -> tuple[Points, Faces]:
    """The clear shell before a hollow iris."""
    edge = np.arcsin(IRIS_RADIUS / radius)
    profile = []
    for t in np.linspace(0, 1, 14):
        out = radius * (1 + 0.085 * (1 - float(smooth(t, 0, 1))) + 0.004)
        profile.append((max(out * np.sin(edge * 1.25 * t), 1e-5), out * np.cos(edge * 1.25 * t)))
    return lathe(profile, segments)


def lathe(profile: list[tuple[float, float]], segments: int) -> tuple[Points, Faces]:
    """Of (radius, forward) from the pole."""
    angle = np.linspace(0, 2 * np.pi, segments, endpoint=False)
    rings = [
        np.stack([r * np.cos(angle), np.full(segments, -forward), r * np.sin(angle)], axis=-1)
        for r, forward in profile
    ]
    points = np.concatenate(rings)
    return points, facing_out(points, grid_faces(len(profile), segments, closed=True))


def toed_in(points: Points, side: str) -> Points:
    turn = _TOE_IN if side == "l" else -_TOE_IN
    c, s = np.cos(turn), np.sin(turn)
    return np.asarray(points @ np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]]).T)


def eye_mesh(head: Head, side: str) -> Mesh:
    """For real time: 24 segments, the picture of `eye_picture`, turned by the shapes of gaze."""
    eye = head.eyes[side]
    points, faces = eyeball(eye.radius, 28, (5, 7), bowl=False)
    out = np.hypot(points[:, 0], points[:, 2]) / IRIS_RADIUS
    out[points[:, 1] > 0] = _TEXTURE_REACH
    towards = unit(points[:, [0, 2]]) * np.minimum(out, _TEXTURE_REACH * 0.98)[:, None]
    uv = 0.5 + 0.5 * towards / _TEXTURE_REACH
    points = toed_in(points, side)
    helper = head.base.groups[f"helper-{side}-eye"]
    deltas = {}
    for name, moved in head.moved(helper).items():
        if np.abs(moved).max() > 1e-5:
            turn = fit_rotation(head.body[helper], head.body[helper] + moved)
            deltas[name] = points @ turn.T - points
    corners = np.array([uv[vertex] for face in faces for vertex in face])
    return Mesh(points + eye.centre, faces, corners, unit(points), deltas=deltas)


def eye_picture(person: Person, size: int, rng: np.random.Generator) -> Image.Image:
    """Iris, pupil and white, looked at along the axis; the upper lid's shade lies on it."""
    rows, columns = np.mgrid[0:size, 0:size]
    x = ((columns + 0.5) / size * 2 - 1) * _TEXTURE_REACH
    y = (1 - (rows + 0.5) / size * 2) * _TEXTURE_REACH
    out, angle = np.hypot(x, y), np.arctan2(y, x)
    fibres = np.zeros_like(out)
    for k in range(1, 70):
        fibres += np.cos(angle * k * 2 + rng.uniform(0, 6.28) + out * rng.normal(0, 2)) / 7
    outer, inner = (np.array(colour) for colour in person.iris)
    share = smooth(fibres - 1.2 * (out - 0.6), -1, 1)[..., None]
    iris = outer * (1 - share) + inner * share
    iris = iris * (1 - 0.8 * smooth(out, 0.74, 1.0)[..., None])
    iris = iris * smooth(out, 0.34, 0.40)[..., None] + 0.002
    redder = np.array([0.12, 0.26, 0.28])
    white = np.array([0.60, 0.575, 0.555]) * (1 - smooth(out, 1.2, 2.4)[..., None] * redder)
    edge = smooth(out, 0.93, 1.10)[..., None]
    eye = iris * (1 - edge) + white * edge
    eye *= (1 - 0.55 * smooth(y, 0.30, 1.25))[..., None]
    eye *= (1 - 0.35 * smooth(np.abs(x), 1.3, 2.4))[..., None]
    return Image.fromarray((srgb(eye) * 255).astype(np.uint8))


def srgb(linear: NDArray[np.float64]) -> NDArray[np.float64]:
    """Linear light 0..1 to the sRGB curve (IEC 61966-2-1)."""
    c = np.clip(np.asarray(linear, float), 0, 1)
    return np.asarray(np.where(c <= 0.0031308, c * 12.92, 1.055 * c ** (1 / 2.4) - 0.055))


def lash_strip(head: Head, side: str, row: str) -> NDArray[np.int64]:
    """[rows, columns] vertices of the base mesh's strip of lashes, from the root outwards.

    row: "1" below the eye, "2" above it.
    """
    own = set(head.base.groups[f"helper-{side}-eyelashes-{row}"].tolist())
    beside: dict[int, set[int]] = {}
    faces_at: dict[int, int] = {}
    for face in head.base.faces:
        if face.vertices[0] in own and "eyelashes" in face.group:
            for a, b in zip(face.vertices, (*face.vertices[1:], face.vertices[0]), strict=True):
                beside.setdefault(a, set()).add(b)
                beside.setdefault(b, set()).add(a)
                faces_at[a] = faces_at.get(a, 0) + 1
    corner = next(v for v in sorted(own) if faces_at[v] == 1)
    rims = []
    for second in (v for v in beside[corner] if faces_at[v] <= 2):
        path = [corner, second]
        while faces_at[path[-1]] == 2:
            path.append(next(v for v in beside[path[-1]] if faces_at[v] <= 2 and v not in path))
        rims.append(path)
    rows = [max(rims, key=len)]
    used = set(rows[0])
    while len(used) < len(own):
        row_above: list[int] = []
        for vertex in rows[-1]:
            free = [v for v in beside[vertex] if v not in used and v not in row_above]
            away = {v: float(np.linalg.norm(head.body[v] - head.body[vertex])) for v in free}
            row_above.append(min(away, key=away.__getitem__) if away else row_above[-1])
        rows.append(row_above)
        used |= set(row_above)
    grid = np.array(rows)
    from_eye = np.linalg.norm(head.body[grid] - head.eyes[side].centre, axis=2).mean(axis=1)
    return grid if from_eye[0] < from_eye[-1] else grid[::-1]
