"""Strands as ribbons with a picture of many hairs: what hair, brows and lashes are in real time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, ImageDraw
from scipy.spatial import cKDTree

from training.heads.eyes import lash_strip, srgb
from training.heads.geometry import (
    Attach,
    Faces,
    Floats,
    Mesh,
    Points,
    grid_faces,
    smooth,
    unit,
)
from training.heads.groom import Strands, brow_strands, shade_of

if TYPE_CHECKING:
    from training.heads.head import Head

_COLUMNS = 4
"""Kinds of ribbon beside each other in the picture of hair: the first dense, the last loose."""


def hair_mesh(head: Head, guides: Strands, count: int) -> Mesh:
    """`count` ribbons along guides; those that lie low are dense and dark, the upper ones loose."""
    rng = np.random.default_rng(head.person.seed + 1)
    strands = guides.points[rng.permutation(len(guides.points))[:count]]
    short = head.person.hair.top < 0.1 and not head.person.hair.curl
    strands = strands[:, :: 3 if short else 2]
    # The lowest first, so that one can also draw them in this order without asking for depth.
    strands = strands[np.argsort(_height(head, strands)[:, strands.shape[1] // 2])]
    n, k, _ = strands.shape
    outward = _outward(head, strands)
    tangent = unit(np.gradient(strands, axis=1))
    length = np.linalg.norm(np.diff(strands, axis=1), axis=2).sum(axis=1)
    aside = unit(np.cross(tangent, outward))
    t = np.linspace(0, 1, k)
    wide = np.clip(0.055 * length + 0.0028, 0.003, 0.0145)[:, None]
    half = wide / 2 * (0.8 + 0.2 * smooth(t, 0, 0.25)) * (1 - 0.45 * smooth(t, 0.6, 1.0))
    rows = np.stack([strands - aside * half[..., None], strands + aside * half[..., None]], axis=2)
    # A ribbon is bent about its strand, so that its sides do not stand off the head.
    bend = 0.22 * half * smooth(t, 0.1, 0.5)
    rows += outward[:, :, None] * (0.0008 - bend)[:, :, None, None]
    kind = np.arange(n) * _COLUMNS // n
    flip = rng.random(n) < 0.5
    left, right = (kind + 0.02) / _COLUMNS, (kind + 0.98) / _COLUMNS
    uv = np.empty((n, k, 2, 2))
    uv[:, :, 0, 0] = np.where(flip, right, left)[:, None]
    uv[:, :, 1, 0] = np.where(flip, left, right)[:, None]
    uv[..., 1] = (0.995 - 0.99 * t)[None, :, None]
    normals = np.repeat(outward[:, :, None], 2, axis=2).reshape(-1, 3)
    faces = _ribbons(n, k)
    corners = uv.reshape(-1, 2)[[v for face in faces for v in face]]
    return Mesh(rows.reshape(-1, 3), faces, corners, normals)


def _ribbons(count: int, steps: int) -> Faces:
    faces: Faces = []
    for number in range(count):
        faces += grid_faces(steps, 2, number * steps * 2)
    return faces


def _outward(head: Head, strands: Points) -> Points:
    """[N, K, 3] away from the head: its own normals near it, the skull's middle further off."""
    flat = strands.reshape(-1, 3)
    _, near = cKDTree(head.points).query(flat, k=4)
    skin = unit(head.normals[near].sum(axis=1))
    radial = flat - head.marks.centre
    radial[:, 2] *= smooth(flat[:, 2], -0.06, 0.03)  # hanging hair looks sideways
    return unit(0.4 * skin + 0.6 * unit(radial)).reshape(strands.shape)


def _height(head: Head, strands: Points) -> Floats:
    """[N, K] metres over the skin."""
    flat = strands.reshape(-1, 3)
    distance, _ = cKDTree(head.points).query(flat)
    return np.asarray(distance).reshape(strands.shape[:2])


def hair_picture(head: Head, size: int) -> Image.Image:
    """RGBA [size, size / 2]: `_COLUMNS` ribbons of strands, roots above."""
    rng = np.random.default_rng(head.person.seed + 2)
    hair = head.person.hair
    width, scale = size // 2, 3
    alpha = Image.new("L", (width * scale, size * scale), 0)
    light = Image.new("L", (width * scale, size * scale), 128)
    pens = ImageDraw.Draw(alpha), ImageDraw.Draw(light)
    column = width * scale / _COLUMNS
    turns = 5 if hair.curl else 1
    for kind in range(_COLUMNS):
        for _ in range((150, 100, 70, 44)[kind]):
            start, end = rng.uniform(0.05, 0.95, 2)
            end = start * 0.7 + end * 0.3
            stop = rng.uniform(0.80, 1.0) if kind < 2 else rng.uniform(0.55, 1.0)
            begin = rng.uniform(0.0, 0.10 if kind < 2 else 0.16)
            y = np.linspace(begin, stop, 24)
            wave = rng.uniform(0.01, 0.05) * np.sin(
                y * rng.uniform(2, 5) * turns + rng.uniform(0, 6.3)
            )
            x = np.clip(start + (end - start) * y + wave * (3 if hair.curl else 1), 0.02, 0.98)
            places = list(zip((kind + x) * column, y * size * scale, strict=True))
            tone = int(np.clip(rng.normal(128, 38), 40, 235))
            for step in range(len(places) - 1):
                thick = int(rng.integers(4, 8) * (1 - 0.6 * y[step]) + 1)
                pens[0].line(places[step : step + 2], fill=255, width=thick)
                pens[1].line(places[step : step + 2], fill=tone, width=thick)
    small = (width, size)
    cover = np.asarray(alpha.resize(small, Image.Resampling.BOX), float) / 255
    tone_of = np.asarray(light.resize(small, Image.Resampling.BOX), float) / 128
    # Light that hair takes from hair: little reaches the roots and the lower layers.
    column_of = np.arange(width) * _COLUMNS // width
    kinds = np.array([0.50, 0.70, 0.88, 1.0])[column_of]
    root = 0.55 + 0.45 * smooth(np.linspace(0, 1, size), 0.0, 0.16)
    light_of = tone_of * kinds[None] * root[:, None]
    rgb = srgb(shade_of(hair) * 2.0 * light_of[..., None])
    return Image.fromarray((np.dstack([rgb, cover]) * 255).astype(np.uint8), "RGBA")


def brow_mesh(head: Head, count: int) -> Mesh:
    """Ribbons that lie on the brow, moved by the skin below them."""
    points: list[Points] = []
    normals: list[Points] = []
    for side in "lr":
        brow = brow_strands(head, side, count)
        strands = brow.points[:, ::2] if brow.points.shape[1] % 2 else brow.points[:, [0, 2, 5]]
        along = unit(strands[:, -1] - strands[:, 0])
        aside = unit(np.cross(along, brow.normals))[:, None] * 0.00070
        taper = np.array([1.0, 0.9, 0.45])[None, :, None]
        points.append(np.stack([strands - aside * taper, strands + aside * taper], axis=2))
        normals.append(np.broadcast_to(brow.normals[:, None, None], points[-1].shape))
    rows = np.concatenate(points)
    n, k = rows.shape[:2]
    flat = rows.reshape(-1, 3)
    faces = _ribbons(n, k)
    kind = np.random.default_rng(head.person.seed + 3).integers(0, 4, size=(n, 1))
    uv = np.empty((n, k, 2, 2))
    uv[:, :, 0, 0] = (kind + 0.03) / 4
    uv[:, :, 1, 0] = (kind + 0.97) / 4
    uv[..., 1] = np.linspace(0.98, 0.02, k)[None, :, None]
    corners = uv.reshape(-1, 2)[[v for face in faces for v in face]]
    # Both ends of a ribbon go with its root, or it would be torn where the skin stretches.
    roots = np.repeat(rows[:, :1].mean(axis=2), k * 2, axis=1).reshape(-1, 3)
    follow = Attach(roots, head.points)
    deltas = _skin_deltas(head, follow)
    return Mesh(flat, faces, corners, np.concatenate(normals).reshape(-1, 3), deltas=deltas)


def _skin_deltas(head: Head, follow: Attach) -> dict[str, Points]:
    found = {}
    for name, unit_of in head.units.items():
        moved = follow(head.limit @ unit_of[head.ids])
        if np.abs(moved).max() > 1e-4:
            found[name] = moved
    return found


def brow_picture(head: Head) -> Image.Image:
    """RGBA 128 x 64: four ribbons of a few hairs each."""
    rng = np.random.default_rng(head.person.seed + 4)
    scale = 4
    cover = Image.new("L", (128 * scale, 64 * scale), 0)
    pen = ImageDraw.Draw(cover)
    for kind in range(4):
        for _ in range(5):
            start = rng.uniform(0.22, 0.78)
            end = 0.5 + (start - 0.5) * 0.4
            begin, stop = rng.uniform(0, 0.15), rng.uniform(0.75, 0.98)
            for step in range(8):
                a, b = (begin + (stop - begin) * s / 8 for s in (step, step + 1))
                places = [
                    ((kind + start + (end - start) * t) * 32 * scale, t * 64 * scale)
                    for t in (a, b)
                ]
                pen.line(places, fill=230, width=max(1, int(13 * (1 - step / 8)) + 2))
    return _inked(cover.resize((128, 64), Image.Resampling.BOX), _dark(head))


def lash_mesh(head: Head) -> Mesh:
    """Strips above and below each eye, moved with the lids."""
    points: list[Points] = []
    faces: Faces = []
    uvs: list[tuple[float, float]] = []
    moved: dict[str, list[Points]] = {name: [] for name in head.units}
    first = 0
    for side in "lr":
        for row, share in (("1", 0.5), ("2", 0.85)):
            grid = lash_strip(head, side, row)
            rows = max(2, round(len(grid) * share))
            ids = grid[:rows].ravel()
            columns = grid.shape[1]
            quads = grid_faces(rows, columns)
            points.append(head.body[ids])
            for quad in quads:
                uvs += [
                    (v % columns / (columns - 1), 1 - v // columns / (rows - 1) * 0.98)
                    for v in quad
                ]
            faces += [tuple(v + first for v in quad) for quad in quads]
            first += len(ids)
            for name, unit_of in head.units.items():
                moved[name].append(unit_of[ids])
    deltas = {name: np.concatenate(parts) for name, parts in moved.items()}
    deltas = {name: delta for name, delta in deltas.items() if np.abs(delta).max() > 1e-5}
    return Mesh(np.concatenate(points), faces, np.array(uvs), deltas=deltas)


def lash_picture(head: Head) -> Image.Image:
    """RGBA 256 x 64, roots above: thicker and longer the better somebody's lashes show."""
    rng = np.random.default_rng(head.person.seed + 5)
    cover = Image.new("L", (1024, 256), 0)
    pen = ImageDraw.Draw(cover)
    pen.rectangle((0, 0, 1024, 22), fill=190)  # the lid's dark rim
    for _ in range(int(120 * head.person.lashes)):
        x, length, lean = rng.uniform(0, 1024), rng.uniform(110, 235), rng.normal(0, 22)
        for step in range(8):
            a, b = step / 8, (step + 1) / 8
            line = [(x + lean * a, length * a), (x + lean * b, length * b)]
            pen.line(line, fill=255, width=int(7 * (1 - a) + 1))
    return _inked(cover.resize((256, 64), Image.Resampling.LANCZOS), _dark(head) * 0.35)


def _dark(head: Head) -> Points:
    """Brows and lashes are darker than the hair, and grey later."""
    hair = head.person.hair
    half_grey = shade_of(hair) * 0.5 + np.array(hair.colour) * 0.5
    return np.asarray(half_grey * 0.75 + 0.003)


def _inked(cover: Image.Image, linear: Points) -> Image.Image:
    ink = tuple(round(255 * c) for c in srgb(linear))
    picture = Image.new("RGBA", cover.size, (*ink, 0))
    picture.putalpha(cover)
    return picture
