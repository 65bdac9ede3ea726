"""A head as compiled code reads it: one set of arrays, prepared once for pictures of one size."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from services.face.draw.blendshapes import ARKIT_NAMES
from services.face.draw.raster import texel_pairs
from services.face.engines.head.bundle import Framing, HeadBundle, Light
from services.face.engines.head.gltf.look import SCREEN
from services.face.engines.head.gltf.parts import Part
from services.face.engines.head.light import (
    GLOSSES,
    LIGHT_SIDE,
    light_table,
    shine_table,
    tint,
)
from services.face.engines.head.textures import NEAREST_M, on_screen, textures_of
from visavis.serving.errors import InvalidInputError

_MOST_WARPED = 12.0
"""Pixels from a quad's fourth corner to where a parallelogram has it: as one, it is drawn."""
_CATCHLIGHTS = 2
"""Lamps that eyes mirror: the strongest before the head."""
_GREY = 2 / 255
"""Channels that differ by less are the same."""
NO_SHINE = 2
"""Which table of light is that of what does not shine."""
_INSIDE = ("teeth", "tooth", "gum", "tongue")
_KINDS = (
    "lash", "brow", "cloth", "outfit", "eye", "hair", "teeth", "tooth", "gum", "tongue", "skin",
    "head",
)  # fmt: skip
_SAME = {"skin": "head", "outfit": "cloth"}
_WORN = re.compile(r"(head|eye|hair)[-_ ]?(wear|band|phone|set|dress|glass|piece)")
"""Called after what it is worn on, which it is not."""
_SMALLEST = 0.01
"""From pupil to pupil, in sides of the picture: of a head that is smaller nothing is seen."""
_MOST_LAYERS = 200
"""Of the whole picture, were all triangles turned to the camera: a head with much hair has a
dozen, and so many take some ten milliseconds to draw.
"""
_FEWEST_OF_A_BALL = 8
"""Vertices."""
_SHARP = 0.94
"""Length of the mean of unit normals at an edge of 40 degrees."""
_AT_ONCE = 30_000
"""Vertices whose light is looked up: OpenCV takes no more than 32 766."""
_LOOSE_M, _MOST_POINTS = 0.03, 2500
"""How far from clothes skin moves as it likes, half of that not at all; points of clothes that it
is told from.
"""


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
    """which of the vertices in `moving`,"""
    changes: NDArray[np.float32]
    """[entries, 8] and what is added to its place and to its normal; two zeros."""
    moving: NDArray[np.int32]
    """[K] vertices that any shape moves."""
    follows: NDArray[np.float32]
    """[N] 1 for what turns with the head, 0 for what stays."""
    inside: NDArray[np.bool_]
    """[N] what light gets to as far as the mouth is open."""
    gain: NDArray[np.float32]
    """[N] what the light is multiplied by."""
    tints: NDArray[np.float32]
    """[channels, N] and then: by one that is drawn alone, or red, green and blue; none: by 1."""
    light: NDArray[np.float32]
    """[tables, LIGHT_SIDE, LIGHT_SIDE] by a normal's y and x: light of skin, light of all else,
    no shine, shines, and that of what is the same in any light.
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
    pieces: NDArray[np.int32]
    """[P, 6] what is clear, by what is drawn at once: a triangle, its corners, and a fourth where
    the next triangle makes it a quad, else the third again; the last of its triangles.
    """
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
    """[size * size] bytes R, G, B, 0."""
    size: int
    """Width and height of a picture, pixels."""
    neck: NDArray[np.float64]
    """[3] what the head turns about."""
    width: float
    """Of what a picture shows, where the head is."""

    def paired(self) -> Model:
        """With the pairs of its own texels."""
        return self._replace(pairs=texel_pairs(self.texels.view(np.uint8).reshape(1, -1, 4)))

    def in_quads(self) -> Model:
        """With clear triangles that are halves of one ribbon's piece drawn at once, but for those
        of which that would be seen.
        """
        shown = on_screen(self.rest, self.camera)
        return self._replace(pieces=pieces_of(self.triangles, self.opaque, shown))


def model_of(bundle: HeadBundle, size: int) -> Model:
    """The model for pictures of `size`². Raises InvalidInputError for a head that is none."""
    parts = sorted(bundle.parts, key=lambda part: (part.blends, not _is_skin(part)))
    first = np.cumsum([0, *(len(part.positions) for part in parts)])
    triangles = np.concatenate([p.triangles + at for p, at in zip(parts, first, strict=False)])
    rest = np.concatenate([part.positions for part in parts])
    parts_of = np.repeat(np.arange(len(parts)), [len(part.triangles) for part in parts])
    eyes = _eyes(parts, first)
    build = _build(bundle, parts, eyes)
    camera = _camera(bundle.about.framing, size)
    _check_shown(rest[eyes[:2, 4].astype(int)], camera, size)
    _check_layers(rest[triangles], camera, size)
    centre = rest.astype(np.float64).mean(axis=0)
    upright = [_upright(part, centre) for part in parts]
    normals, shapes = np.concatenate(upright), _shapes(parts, first, upright)
    light, looks = _lit(bundle.about.light, parts)
    textures = textures_of(parts, tint(bundle.about.light), on_screen(rest, camera))
    opaque = sum(len(part.triangles) for part in parts if not part.blends)
    triangles = np.ascontiguousarray(triangles, np.int32)
    return Model(
        rest=rest,
        normals=normals,
        target_ends=shapes.ends,
        moved=shapes.moved,
        changes=shapes.changes,
        moving=shapes.moving,
        follows=_follows(parts, build),
        inside=np.concatenate([np.full(len(p.positions), kind_of(p) in _INSIDE) for p in parts]),
        gain=_gains(bundle.about.light, parts, normals, light[0]),
        tints=_tints(parts),
        light=light,
        looks=looks,
        camera=camera,
        triangles=triangles,
        skin=sum(len(part.triangles) for part in parts if _is_skin(part)),
        opaque=opaque,
        pieces=pieces_of(triangles, opaque),
        two_sided=np.array([part.two_sided for part in parts])[parts_of],
        source=textures.places,
        texture_of=textures.about,
        part_of=parts_of.astype(np.int32),
        texels_of=textures.ends,
        texels=textures.texels,
        pairs=texel_pairs(textures.texels.view(np.uint8).reshape(1, -1, 4)),
        edges=_edges(parts, first),
        eyes=eyes,
        lamps=_catchlights(bundle.about.light, camera[:9].reshape(3, 3)),
        background=_pixels(bundle.background, size),
        size=size,
        neck=build.neck,
        width=2 * math.dist(camera[9:12], build.neck) * size / 2 / camera[12],
    )


def pieces_of(
    triangles: NDArray[np.int32], opaque: int, shown: NDArray[np.float64] | None = None
) -> NDArray[np.int32]:
    """[P, 6] as a `Model` has them. shown: [N, 2] pixels, where vertices are on the screen; else
    each triangle is a piece.
    """
    clear = triangles[opaque:]
    leads = np.zeros(len(clear), bool)
    if shown is not None:
        # As makers of quads cut them: both halves begin at the same corner.
        one, other = clear[:-1], clear[1:]
        a, b, c, d = (shown[corner] for corner in (*one.T, other[:, 2]))
        leads[:-1] = (one[:, 0] == other[:, 0]) & (one[:, 2] == other[:, 1])
        leads[:-1] &= np.linalg.norm(a - b + c - d, axis=1) < _MOST_WARPED
        for k in np.flatnonzero(leads[1:] & leads[:-1]):
            leads[k + 1] &= not leads[k]
    follows = np.zeros_like(leads)
    follows[1:] = leads[:-1]
    number = np.flatnonzero(~follows)
    last = number + leads[number]
    return np.ascontiguousarray(
        np.column_stack([opaque + number, clear[number], clear[last, 2], opaque + last]), np.int32
    )


def kind_of(part: Part) -> str:
    """What it is, by the first of its names that tells; "": something else."""
    for name in part.names:
        told = _WORN.sub("", name.lower())
        if found := next((kind for kind in _KINDS if kind in told), ""):
            return _SAME.get(found, found)
    return ""


def _is_skin(part: Part) -> bool:
    return kind_of(part) == "head" and not part.blends


def _pixels(picture: NDArray[np.uint8], size: int) -> NDArray[np.uint32]:
    if len(picture) != size:
        how = cv2.INTER_AREA if len(picture) > size else cv2.INTER_CUBIC
        picture = np.asarray(cv2.resize(picture, (size, size), interpolation=how), np.uint8)
    padded = np.pad(picture, ((0, 0), (0, 0), (0, 1)))
    return np.ascontiguousarray(padded).view(np.uint32).reshape(-1)


def _camera(framing: Framing, size: int) -> NDArray[np.float64]:
    position, target = np.array(framing.position), np.array(framing.target)
    forward = (target - position) / np.linalg.norm(target - position)
    right = np.cross(forward, (0.0, 1.0, 0.0))
    if np.linalg.norm(right) < 1e-3:
        raise InvalidInputError("head.toml: framing: the camera looks straight up or down")
    right /= np.linalg.norm(right)
    pixels = size / 2 / math.tan(framing.vertical_fov_rad / 2)
    return np.concatenate([right, np.cross(right, forward), forward, position, [pixels]])


def _check_shown(pupils: NDArray[np.float32], camera: NDArray[np.float64], size: int) -> None:
    """Raises InvalidInputError where a picture of `size`² shows no face. pupils: [2, 3] metres."""
    *aside, ahead = camera[:9].reshape(3, 3) @ (pupils - camera[9:12]).T
    scale = camera[12] / size / np.maximum(ahead, 1e-6)
    apart = math.dist(*pupils) * scale.min()
    if ahead.min() <= 0 or (np.abs(aside) * scale).max() > 0.5 or apart < _SMALLEST:
        raise InvalidInputError(
            "head.toml: framing: the camera does not see the face: where it is, what it looks at "
            "and the points of head.glb are all in metres"
        )


def _check_layers(corners: NDArray[np.float32], camera: NDArray[np.float64], size: int) -> None:
    """Raises InvalidInputError for what would take too long to draw. corners: [M, 3, 3] metres."""
    one, two, three = corners.astype(np.float64).swapaxes(0, 1)
    areas = np.linalg.norm(np.cross(two - one, three - one), axis=1) / 2
    depth = np.maximum((one - camera[9:12]) @ camera[6:9], NEAREST_M)
    layers = np.minimum(areas * (camera[12] / size / depth) ** 2, 1).sum()
    if layers > _MOST_LAYERS:
        raise InvalidInputError(
            f"the GLB's triangles lie {layers:.0f} times over the whole picture, {_MOST_LAYERS} "
            "times are allowed: take layers away, of hair and clothes first"
        )


def _eyes(parts: Sequence[Part], first: NDArray[np.int64]) -> NDArray[np.float64]:
    """The balls of each side, the person's right one first."""
    found: list[tuple[float, ...]] = []
    ends = np.cumsum([0, *(len(part.triangles) for part in parts)])
    for k, balls in eyes_of(parts):
        points = parts[k].positions[balls].astype(np.float64)
        # The ball that is nearest to all points: |p|² = 2 p·c + (r² - |c|²).
        system = np.column_stack([2 * points, np.ones(len(points))])
        x, y, z, rest = np.linalg.lstsq(system, (points**2).sum(axis=1), rcond=None)[0]
        radius = math.sqrt(max(rest + x * x + y * y + z * z, 1e-8))
        pupil = first[k] + balls[points[:, 2].argmax()]
        found.append((x, y, z, radius, pupil, ends[k], ends[k + 1]))
    return np.array(found)


def eyes_of(parts: Sequence[Part]) -> list[tuple[int, NDArray[np.int64]]]:
    """Which part each ball of an eye is of, and its vertices there; of one part, the person's right
    ball first. Raises InvalidInputError where there are not two.
    """
    found = []
    for k, part in enumerate(parts):
        if kind_of(part) == "eye" and not part.blends:
            sides = (
                np.flatnonzero(part.positions[:, 0] < 0),
                np.flatnonzero(part.positions[:, 0] >= 0),
            )
            found += [(k, balls) for balls in sides if len(balls) >= _FEWEST_OF_A_BALL]
    if len(found) < 2:
        raise InvalidInputError(
            "the GLB has no eyes: a part that is called so, with both balls, which nothing shows "
            "through (alphaMode OPAQUE)"
        )
    return found


class _Build(NamedTuple):
    """How somebody is built."""

    neck: NDArray[np.float64]
    """[3] what the head turns about."""
    chin: float
    """Its height, as a grown-up has it: 115 mm below the eyes."""
    unit: float
    """How large the head is, about 1."""


def _build(bundle: HeadBundle, parts: Sequence[Part], eyes: NDArray[np.float64]) -> _Build:
    """In proportion to a grown-up's face, whose head turns on the uppermost vertebrae, behind the
    jaw.
    """
    eye = eyes[:2, :3].mean(axis=0)
    mouth = [part.positions for part in parts if kind_of(part) in ("teeth", "tooth")]
    below = eye[1] - np.concatenate(mouth)[:, 1].mean() if mouth else 0.062
    unit = below / 0.062 if 0.02 < below < 0.2 else 1.0
    neck = bundle.about.neck
    if neck is None:
        neck = eye + unit * np.array([0.0, -0.085, -0.08])
    return _Build(neck, eye[1] - 0.115 * unit, unit)


def _follows(parts: Sequence[Part], build: _Build) -> NDArray[np.float32]:
    """How much each vertex turns with the head: the neck below it twists, and clothes stay, with
    what they hold.
    """
    clothes = [part for part in parts if kind_of(part) == "cloth"]
    found = []
    for part in parts:
        lowest = build.chin - 0.055 * build.unit
        rise = np.clip((part.positions[:, 1] - lowest) / (0.06 * build.unit), 0, 1)
        free = rise * rise * (3 - 2 * rise)
        if kind_of(part) == "cloth":
            free[:] = 0
        elif _is_skin(part):
            free *= freedom(part.positions, clothes, build.unit)
        found.append(free)
    return np.concatenate(found).astype(np.float32)


class _Shapes(NamedTuple):
    ends: NDArray[np.int32]
    moved: NDArray[np.int32]
    changes: NDArray[np.float32]
    moving: NDArray[np.int32]


def _upright(part: Part, centre: NDArray[np.float64]) -> NDArray[np.float32]:
    """[N, 3] normals at rest."""
    if not part.blends:
        return _normals(part.positions, part.triangles, _rounded(part))
    if part.normals is not None:
        return part.normals
    # Cards of hair look anywhere: they are lit as the head that they lie on.
    away = part.positions - centre
    length = np.maximum(np.linalg.norm(away, axis=1, keepdims=True), 1e-6)
    return np.asarray(away / length, np.float32)


def _shapes(
    parts: Sequence[Part], first: NDArray[np.int64], upright: Sequence[NDArray[np.float32]]
) -> _Shapes:
    """What each shape adds to places and normals."""
    seams = [_rounded(part) for part in parts]
    ends: list[int] = [0]
    moved: list[NDArray[np.int64]] = []
    changes: list[NDArray[np.float32]] = []
    for name in ARKIT_NAMES:
        for part, at, seam, normals in zip(parts, first, seams, upright, strict=False):
            target = part.targets.get(name)
            if target is None:
                continue
            moved.append(target.vertices + at)
            change = np.zeros_like(target.deltas)
            if not part.blends:
                places = part.positions.copy()
                places[target.vertices] += target.deltas
                # All triangles of whatever moves, and so its whole normal.
                whole = np.zeros(len(places), bool)
                whole[target.vertices] = True
                near = part.triangles[whole[part.triangles].any(axis=1)]
                change = _normals(places, near, seam)[target.vertices] - normals[target.vertices]
            changes.append(np.hstack([target.deltas, change, np.zeros((len(change), 2))]))
        ends.append(sum(map(len, moved)))
    moving, entries = np.unique(np.concatenate(moved), return_inverse=True)
    return _Shapes(
        np.array(ends, np.int32),
        entries.astype(np.int32),
        np.concatenate(changes).astype(np.float32),
        moving.astype(np.int32),
    )


def _welded(part: Part) -> NDArray[np.int64]:
    """[N] the same number for vertices at one place: those that a seam of the texture parts."""
    keys = np.round(part.positions * 1e6).astype(np.int64)
    return np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)


def _rounded(part: Part) -> NDArray[np.int64]:
    """[N] the same number for vertices that share a normal: those at one place, unless the file
    has an edge there.
    """
    place = _welded(part)
    if part.normals is None:
        return place
    mean = np.zeros((int(place.max()) + 1, 3))
    np.add.at(mean, place, part.normals)
    length = np.linalg.norm(mean, axis=1) / np.maximum(np.bincount(place), 1)
    sharp = (length < _SHARP)[place]
    ways = np.where(sharp[:, None], np.rint(8 * part.normals), 0).astype(np.int64)
    keys = np.column_stack([place, ways])
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
    return np.asarray(whole / np.maximum(length, 1e-12), np.float32)


def _lit(light: Light, parts: Sequence[Part]) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Tables, and which of them each vertex has: that of light, and that of shine."""
    glosses = list(dict.fromkeys(GLOSSES.values()))
    tables = [light_table(light), light_table(light), np.zeros((LIGHT_SIDE, LIGHT_SIDE))]
    tables += [shine_table(light, gloss) for gloss in glosses]
    tables.append(np.ones((LIGHT_SIDE, LIGHT_SIDE)))
    looks = []
    for part in parts:
        kind = kind_of(part)
        shine = NO_SHINE
        if kind in GLOSSES and not (light.baked or part.unlit):
            shine = 3 + glosses.index(GLOSSES[kind])
        lit = len(tables) - 1 if part.unlit else 0 if kind == "head" else 1
        looks.append(np.tile((lit, shine), (len(part.positions), 1)))
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
    some = len(x) // _AT_ONCE + 1
    sample = [
        cv2.remap(table, a[None], b[None], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)[0]
        for a, b in zip(np.array_split(x, some), np.array_split(y, some), strict=True)
    ]
    at_rest = 1 / np.maximum(np.concatenate(sample), 0.05)
    baked = np.concatenate([np.full(len(p.positions), light.baked and not p.unlit) for p in parts])
    return np.where(baked, at_rest, 1.0).astype(np.float32)


def _tints(parts: Sequence[Part]) -> NDArray[np.float32]:
    """Of what colours of vertices say: one channel where all of them are grey."""
    count = sum(len(part.positions) for part in parts)
    if all(part.colours is None for part in parts):
        return np.zeros((0, count), np.float32)
    white = [
        np.ones((len(p.positions), 3), np.float32) if p.colours is None else p.colours
        for p in parts
    ]
    tints = np.concatenate(white).T ** SCREEN
    grey = bool((np.ptp(tints, axis=0) < _GREY).all())
    return np.ascontiguousarray(tints[: 1 if grey else 3], np.float32)


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


def _edges(parts: Sequence[Part], first: NDArray[np.int64]) -> NDArray[np.int32]:
    """Each edge once, with the triangles on both sides; those without a second one only where the
    part hides what is behind: cards of hair end in clear texels.
    """
    found: list[NDArray[np.int64]] = []
    triangle = 0
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


def freedom(skin: NDArray[np.float32], clothes: Sequence[Part], unit: float) -> NDArray[np.float64]:
    """[N] 0 for points `skin` [N, 3] that lie at clothes and would come out of them if they turned
    with the head; 1 for those that are far enough away. unit: how large the head is, about 1.
    """
    free = np.ones(len(skin))
    worn = np.concatenate([np.zeros((0, 3), np.float32), *(part.positions for part in clothes)])
    if not len(worn):
        return free
    worn = worn[:: max(1, len(worn) // _MOST_POINTS)]
    loose = _LOOSE_M * unit
    near = ((skin > worn.min(axis=0) - loose) & (skin < worn.max(axis=0) + loose)).all(axis=1)
    for some in np.array_split(np.flatnonzero(near), near.sum() // 256 + 1):
        apart = np.sqrt(((skin[some][:, None] - worn) ** 2).sum(axis=2).min(axis=1))
        share = np.clip(2 * apart / loose - 1, 0, 1)
        free[some] = share * share * (3 - 2 * share)
    return free
