"""A head as compiled code reads it: one set of arrays, prepared once for pictures of one size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from services.face.draw.blendshapes import ARKIT_NAMES
from services.face.draw.raster import texel_pairs
from services.face.engines.head.bundle import Framing, HeadBundle, Light
from services.face.engines.head.glb import Part
from services.face.engines.head.light import (
    GLOSSES,
    LIGHT_SIDE,
    light_table,
    shine_table,
    tint,
)
from visavis.serving.errors import InvalidInputError

_CATCHLIGHTS = 2
"""Lamps that eyes mirror: the strongest before the head."""
_LEVEL_BIAS = -0.3
"""Of coarser textures: a little too sharp looks better than blurred."""
_MOST_TILES = 4
_SHARPNESS = 1.4
"""Of the edges of what is cut out: so much steeper than in its texture."""
_INSIDE = ("teeth", "tooth", "gum", "tongue")
_KINDS = (
    "lash", "brow", "cloth", "eye", "hair", "teeth", "tooth", "gum", "tongue", "skin", "head",
)  # fmt: skip


class Model(NamedTuple):
    """What is drawn of a head. N vertices, M triangles of which the first `opaque` hide what is
    behind them; metres.
    """

    rest: NDArray[np.float32]
    normals: NDArray[np.float32]
    """[N, 3] unit vectors."""
    target_ends: NDArray[np.int32]
    """[53] where the entries of each shape begin, in the order of ARKIT_NAMES:"""
    moved: NDArray[np.int32]
    """vertices,"""
    deltas: NDArray[np.float32]
    normal_deltas: NDArray[np.float32]
    """and what is added to their places and normals."""
    follows: NDArray[np.float32]
    """[N] 1 for what turns with the head, 0 for what stays."""
    inside: NDArray[np.bool_]
    """[N] what light gets to as far as the mouth is open."""
    gain: NDArray[np.float32]
    """[N] what the light is multiplied by."""
    light: NDArray[np.float32]
    """[tables, LIGHT_SIDE, LIGHT_SIDE] by a normal's y and x: light of skin, light of all else,
    no shine, and shines.
    """
    looks: NDArray[np.int32]
    """[N, 2] which table its light is from, and which its shine."""
    camera: NDArray[np.float64]
    """Right, up and forward of the camera, its place, and pixels of a metre in a metre's
    distance: [13].
    """
    triangles: NDArray[np.int32]
    skin: int
    """The first so many triangles are skin,"""
    opaque: int
    """so many hide what is behind them."""
    two_sided: NDArray[np.bool_]
    source: NDArray[np.float32]
    """[N, 2] 0..1 in the texture."""
    texture_of: NDArray[np.int32]
    """[M, 3] first texel, width, height."""
    part_of: NDArray[np.int32]
    """[M] 0 for the skin; of those that hide what is behind first."""
    texels_of: NDArray[np.int64]
    """[parts, 2] first texel of each and the one behind."""
    texels: NDArray[np.uint32]
    """Bytes R, G, B, A of all textures; colours times alpha."""
    pairs: NDArray[np.uint64]
    """`texel_pairs` of them."""
    edges: NDArray[np.int32]
    """[E, 4] two vertices, and the triangles on both sides; -1: there is none."""
    eyes: NDArray[np.float64]
    """[eyes, 7] middle, radius, vertex of the pupil, first of its triangles and the one behind."""
    lamps: NDArray[np.float64]
    """[K, 5] where the ball of an eye mirrors it, from its middle in radii, right, up and forward
    of the camera; how far the mirror image reaches in radii; strength 0..1.
    """
    background: NDArray[np.uint32]
    """[size, size] bytes R, G, B, 0."""
    neck: NDArray[np.float64]
    """[3] what the head turns about."""
    width: float
    """Of what a picture shows, where the head is."""

    def paired(self) -> Model:
        """With the pairs of its own texels."""
        return self._replace(pairs=texel_pairs(self.texels.view(np.uint8).reshape(1, -1, 4)))


def model_of(bundle: HeadBundle, size: int) -> Model:
    """The model for pictures of `size`². Raises InvalidInputError for a head that is none."""
    parts = sorted(bundle.parts, key=lambda part: (part.blends, not _is_skin(part)))
    first = np.cumsum([0, *(len(part.positions) for part in parts)])
    triangles = np.concatenate([p.triangles + at for p, at in zip(parts, first, strict=False)])
    rest = np.concatenate([part.positions for part in parts])
    parts_of = np.repeat(np.arange(len(parts)), [len(part.triangles) for part in parts])
    eyes = _eyes(parts, first)
    neck, follows = _neck(bundle, parts, eyes)
    camera = _camera(bundle.about.framing, size)
    normals, shapes = _moving(parts, first)
    light, looks = _lit(bundle.about.light, parts)
    places, texels, texture_of, texels_of = _textures(
        parts, tint(bundle.about.light), rest, triangles, parts_of, camera
    )
    return Model(
        rest=rest,
        normals=normals,
        **shapes,
        follows=follows,
        inside=np.concatenate([np.full(len(p.positions), kind_of(p) in _INSIDE) for p in parts]),
        gain=_gains(bundle.about.light, parts, normals, light[0]),
        light=light,
        looks=looks,
        camera=camera,
        triangles=np.ascontiguousarray(triangles, np.int32),
        skin=sum(len(part.triangles) for part in parts if _is_skin(part)),
        opaque=sum(len(part.triangles) for part in parts if not part.blends),
        two_sided=np.array([part.two_sided for part in parts])[parts_of],
        source=places,
        texture_of=texture_of,
        part_of=parts_of.astype(np.int32),
        texels_of=texels_of,
        texels=texels,
        pairs=texel_pairs(texels.view(np.uint8).reshape(1, -1, 4)),
        edges=_edges(parts, first),
        eyes=eyes,
        lamps=_catchlights(bundle.about.light, camera[:9].reshape(3, 3)),
        background=_pixels(bundle.background, size),
        neck=neck,
        width=2 * math.dist(camera[9:12], neck) * size / 2 / camera[12],
    )


def kind_of(part: Part) -> str:
    """What it is, by the first of its names that tells; "": something else."""
    for name in part.names:
        if found := next((kind for kind in _KINDS if kind in name.lower()), ""):
            return "head" if found == "skin" else found
    return ""


def _is_skin(part: Part) -> bool:
    return kind_of(part) == "head" and not part.blends


def _pixels(picture: NDArray[np.uint8], size: int) -> NDArray[np.uint32]:
    if len(picture) != size:
        how = cv2.INTER_AREA if len(picture) > size else cv2.INTER_CUBIC
        picture = np.asarray(cv2.resize(picture, (size, size), interpolation=how), np.uint8)
    padded = np.pad(picture, ((0, 0), (0, 0), (0, 1)))
    return np.ascontiguousarray(padded).view(np.uint32)[..., 0]


def _camera(framing: Framing, size: int) -> NDArray[np.float64]:
    position, target = np.array(framing.position), np.array(framing.target)
    forward = (target - position) / np.linalg.norm(target - position)
    right = np.cross(forward, (0.0, 1.0, 0.0))
    if np.linalg.norm(right) < 1e-3:
        raise InvalidInputError("head.toml: framing: the camera looks straight up or down")
    right /= np.linalg.norm(right)
    pixels = size / 2 / math.tan(framing.vertical_fov_rad / 2)
    return np.concatenate([right, np.cross(right, forward), forward, position, [pixels]])


def _eyes(parts: Sequence[Part], first: NDArray[np.int64]) -> NDArray[np.float64]:
    """The balls of each side, the person's right one first."""
    found, triangle = [], 0
    for part, at in zip(parts, first, strict=False):
        if kind_of(part) == "eye" and not part.blends:
            for side in (part.positions[:, 0] < 0, part.positions[:, 0] >= 0):
                balls = np.flatnonzero(side)
                if len(balls) < 8:
                    continue
                points = part.positions[balls].astype(np.float64)
                # The ball that is nearest to all points: |p|² = 2 p·c + (r² - |c|²).
                system = np.column_stack([2 * points, np.ones(len(points))])
                x, y, z, rest = np.linalg.lstsq(system, (points**2).sum(axis=1), rcond=None)[0]
                radius = math.sqrt(max(rest + x * x + y * y + z * z, 1e-8))
                pupil = at + balls[points[:, 2].argmax()]
                end = triangle + len(part.triangles)
                found.append((x, y, z, radius, pupil, triangle, end))
        triangle += len(part.triangles)
    if len(found) < 2:
        raise InvalidInputError("the GLB has no eyes: a part that is called so, with both balls")
    return np.array(found)


def _neck(
    bundle: HeadBundle, parts: Sequence[Part], eyes: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
    """What the head turns about, and how much each vertex turns with it.

    In proportion to a grown-up's face, whose chin is 115 mm below the eyes: it turns on the
    uppermost vertebrae, behind the jaw, and the neck below twists.
    """
    eye = eyes[:2, :3].mean(axis=0)
    mouth = [part.positions for part in parts if kind_of(part) in ("teeth", "tooth")]
    below = eye[1] - np.concatenate(mouth)[:, 1].mean() if mouth else 0.062
    unit = below / 0.062 if 0.02 < below < 0.2 else 1.0
    neck = bundle.about.neck
    if neck is None:
        neck = eye + unit * np.array([0.0, -0.085, -0.08])
    chin = eye[1] - 0.115 * unit
    height = np.concatenate([part.positions[:, 1] for part in parts])
    rise = np.clip((height - (chin - 0.055 * unit)) / (0.06 * unit), 0, 1)
    stays = np.concatenate([np.full(len(p.positions), kind_of(p) == "cloth") for p in parts])
    return neck, np.where(stays, 0, rise * rise * (3 - 2 * rise)).astype(np.float32)


def _moving(
    parts: Sequence[Part], first: NDArray[np.int64]
) -> tuple[NDArray[np.float32], dict[str, NDArray[np.generic]]]:
    """Normals at rest, and what each shape adds to places and normals."""
    centre = np.concatenate([part.positions for part in parts]).mean(axis=0)
    seams = [_welded(part) for part in parts]
    normals = []
    for part, seam in zip(parts, seams, strict=True):
        if part.blends and part.normals is not None:
            normals.append(part.normals)
        elif part.blends:
            # Cards of hair look anywhere: they are lit as the head that they lie on.
            away = part.positions - centre
            normals.append(away / np.maximum(np.linalg.norm(away, axis=1, keepdims=True), 1e-6))
        else:
            normals.append(_normals(part.positions, part.triangles, seam))
    ends, moved, deltas, turned = [0], [], [], []
    for name in ARKIT_NAMES:
        for part, at, seam, upright in zip(parts, first, seams, normals, strict=False):
            target = part.targets.get(name)
            if target is None:
                continue
            moved.append(target.vertices + at)
            deltas.append(target.deltas)
            change = np.zeros_like(target.deltas)
            if not part.blends:
                places = part.positions.copy()
                places[target.vertices] += target.deltas
                whole = np.zeros(len(places), bool)
                whole[target.vertices] = True
                near = part.triangles[whole[part.triangles].any(axis=1)]
                # All triangles of whatever moves, and so its whole normal.
                change = _normals(places, near, seam)[target.vertices]
                change -= upright[target.vertices]
            turned.append(change)
        ends.append(sum(map(len, moved)))
    return np.concatenate(normals).astype(np.float32), {
        "target_ends": np.array(ends, np.int32),
        "moved": np.concatenate(moved).astype(np.int32),
        "deltas": np.concatenate(deltas).astype(np.float32),
        "normal_deltas": np.concatenate(turned).astype(np.float32),
    }


def _welded(part: Part) -> NDArray[np.int64]:
    """[N] the same number for vertices at one place: those that a seam of the texture parts."""
    keys = np.round(part.positions * 1e6).astype(np.int64)
    return np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)


def _normals(
    places: NDArray[np.float32], triangles: NDArray[np.int32], seam: NDArray[np.int64]
) -> NDArray[np.float32]:
    """[N, 3] of each vertex, from the triangles around it by their area."""
    a, b, c = (places[triangles[:, k]] for k in range(3))
    facing = np.cross(b - a, c - a)
    corners = seam[triangles].ravel()
    whole = np.stack(
        [
            np.bincount(corners, np.repeat(facing[:, axis], 3), minlength=int(seam.max()) + 1)
            for axis in range(3)
        ],
        axis=1,
    )[seam]
    length = np.linalg.norm(whole, axis=1, keepdims=True)
    return (whole / np.maximum(length, 1e-12)).astype(np.float32)


def _lit(light: Light, parts: Sequence[Part]) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Tables, and which of them each vertex has: that of light, and that of shine."""
    glosses = list(dict.fromkeys(GLOSSES.values()))
    tables = [light_table(light), light_table(light), np.zeros((LIGHT_SIDE, LIGHT_SIDE))]
    tables += [shine_table(light, gloss) for gloss in glosses]
    looks = []
    for part in parts:
        kind = kind_of(part)
        shine = 2
        if kind in GLOSSES and not (light.baked or part.unlit):
            shine = 3 + glosses.index(GLOSSES[kind])
        looks.append(np.tile((0 if kind == "head" else 1, shine), (len(part.positions), 1)))
    return np.array(tables, np.float32), np.concatenate(looks).astype(np.int32)


def _gains(
    light: Light,
    parts: Sequence[Part],
    normals: NDArray[np.float32],
    table: NDArray[np.float32],
) -> NDArray[np.float32]:
    """Baked light is divided by what the table says of it at rest."""
    scale = 0.5 * (LIGHT_SIDE - 1)
    x, y = (normals[:, 0] + 1) * scale, (1 - normals[:, 1]) * scale
    sample = cv2.remap(table, x[None], y[None], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    at_rest = 1 / np.maximum(sample[0], 0.05)
    lit = np.concatenate([np.full(len(p.positions), light.baked or p.unlit) for p in parts])
    return np.where(lit, at_rest, 1.0).astype(np.float32)


def _catchlights(light: Light, axes: NDArray[np.float64]) -> NDArray[np.float64]:
    """axes: right, up and forward of the camera."""
    seen = [(lamp, axes @ np.array(lamp.direction)) for lamp in light.lamps]
    before = sorted((it for it in seen if it[1][2] < -0.2), key=lambda it: -it[0].strength)
    found = []
    for lamp, towards in before[:_CATCHLIGHTS]:
        half = towards - (0.0, 0.0, 1.0)
        half /= np.linalg.norm(half)
        strength = 0.65 * (lamp.strength / max(before[0][0].strength, 1e-9)) ** 0.7
        # A ball's mirror image of a lamp is half as large as the lamp.
        found.append((*half, lamp.angle / 2, strength))
    return np.array(found, np.float64).reshape(-1, 5)


def _textures(
    parts: Sequence[Part],
    tinted: NDArray[np.float64],
    rest: NDArray[np.float32],
    triangles: NDArray[np.int64],
    parts_of: NDArray[np.int64],
    camera: NDArray[np.float64],
) -> tuple[NDArray[np.float32], NDArray[np.uint32], NDArray[np.int32], NDArray[np.int64]]:
    """Places, texels, of each triangle the level of detail that a picture shows, and where the
    texels of each part are.
    """
    seen = rest - camera[9:12]
    depth = np.maximum(seen @ camera[6:9], 0.05)
    on_screen = (
        np.stack([seen @ camera[0:3] / depth, seen @ camera[3:6] / depth], axis=1) * camera[12]
    )
    pixels = np.maximum(_areas(on_screen, triangles), 1e-4)
    places, texels, ends, length = [], [], [], 0
    about = np.zeros((len(triangles), 3), np.int32)
    for index, part in enumerate(parts):
        where, picture = _within(part, tinted)
        begun = length
        places.append(where)
        mine = parts_of == index
        height, width = picture.shape[:2]
        covered = _areas(where * np.array([width, height], np.float32), part.triangles)
        wanted = 0.5 * np.log2(np.maximum(covered, 1e-4) / pixels[mine]) + _LEVEL_BIAS
        levels = [_sharpened(level, part.cut) for level in _levels(picture)]
        level = np.clip(np.rint(wanted), 0, len(levels) - 1).astype(int)
        firsts = []
        for finer in levels:
            firsts.append((length, finer.shape[1], finer.shape[0]))
            texels.append(finer.reshape(-1, 4))
            length += finer.shape[0] * finer.shape[1]
        about[mine] = np.array(firsts)[level]
        ends.append((begun, length))
    whole = np.ascontiguousarray(np.concatenate(texels)).view(np.uint32).reshape(-1)
    return np.concatenate(places).astype(np.float32), whole, about, np.array(ends)


def _areas(points: NDArray[np.floating], triangles: NDArray[np.integer]) -> NDArray[np.floating]:
    a, b, c = (points[triangles[:, k]] for k in range(3))
    ab, ac = b - a, c - a
    return np.asarray(np.abs(ab[:, 0] * ac[:, 1] - ab[:, 1] * ac[:, 0]) / 2)


def _within(
    part: Part, tinted: NDArray[np.float64]
) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    """Places within 0..1, of the texture as often as they go over it; colours times alpha."""
    picture = part.texture.copy()
    picture[..., :3] = np.minimum(np.rint(picture[..., :3] * tinted), 255)
    if min(picture.shape[:2]) < 4:
        # What is drawn is mixed of two texels each way.
        picture = np.repeat(np.repeat(picture, 4, axis=0), 4, axis=1)
    if part.blends:
        alpha = picture[..., 3:].astype(np.float32) / 255
        picture[..., :3] = np.rint(picture[..., :3] * alpha)
    else:
        picture[..., 3] = 255
    low = np.floor(part.places.min(axis=0) + 1e-4)
    tiles = np.ceil(part.places.max(axis=0) - low - 1e-4).clip(1, _MOST_TILES).astype(int)
    tiled = np.tile(picture, (tiles[1], tiles[0], 1))
    return ((part.places - low) / tiles).astype(np.float32), tiled


def _levels(picture: NDArray[np.uint8]) -> list[NDArray[np.uint8]]:
    levels = [picture]
    while min(levels[-1].shape[:2]) >= 8:
        height, width = levels[-1].shape[:2]
        half = cv2.resize(levels[-1], (width // 2, height // 2), interpolation=cv2.INTER_AREA)
        levels.append(np.asarray(half, np.uint8))
    return levels


def _sharpened(picture: NDArray[np.uint8], cut: float | None) -> NDArray[np.uint8]:
    """With alpha that falls off at the cut as it does over a pixel or two: edges stay smooth, and
    what is within hides what is behind.
    """
    if cut is None:
        return picture
    alpha = picture[..., 3:].astype(np.float32) / 255
    sharp = np.clip((alpha - cut) * _SHARPNESS + 0.5, 0, 1)
    colours = picture[..., :3] * (sharp / np.maximum(alpha, 1 / 255))
    whole = np.concatenate([np.minimum(colours, 255 * sharp), 255 * sharp], axis=2)
    return np.rint(whole).astype(np.uint8)


def _edges(parts: Sequence[Part], first: NDArray[np.int64]) -> NDArray[np.int32]:
    """Each edge once, with the triangles on both sides; those without a second one only where the
    part hides what is behind: cards of hair end in clear texels.
    """
    found, triangle = [], 0
    for part, at in zip(parts, first, strict=False):
        ends = part.triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
        whole = np.sort(_welded(part)[ends], axis=1)
        order = np.lexsort((whole[:, 1], whole[:, 0]))
        same = (whole[order[1:]] == whole[order[:-1]]).all(axis=1)
        starts = np.flatnonzero(np.concatenate([[True], ~same]))
        paired = np.zeros(len(order) + 1, bool)
        paired[:-1][1:] = same
        one = order[starts]
        has_two = paired[starts + 1]
        two = np.where(has_two, order[np.minimum(starts + 1, len(order) - 1)], 0)
        rows = np.column_stack(
            [ends[one] + at, one // 3 + triangle, np.where(has_two, two // 3 + triangle, -1)]
        )
        if not part.blends:
            found.append(rows)
        elif not part.two_sided:
            found.append(rows[has_two])
        triangle += len(part.triangles)
    return np.ascontiguousarray(np.concatenate([np.zeros((0, 4)), *found]), np.int32)
