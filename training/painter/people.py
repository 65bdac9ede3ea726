"""Endless nobodies: the heads that ship, mixed, bent, tinted, and lit anew.

A head is drawn close by, so that a picture holds no more than the lower half of its face. Every
person is made of a seed. Meshes differ in their vertices but share the layout of their texture, by
which one head's places are found on another.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import cv2
import numpy as np
from numpy.typing import NDArray

from services.face.avatar import topology
from services.face.avatar.making.portrait import PortraitStudio
from services.face.draw.blendshapes import arkit_weights
from services.face.draw.compiling import compiled
from services.face.draw.pose import FacePose
from services.face.engines.head.bundle import FILES, HeadBundle, read_bundle
from services.face.engines.head.gltf.parts import Part
from services.face.engines.head.light import LIGHT_SIDE, sphere, tint
from services.face.engines.head.likeness import likened
from services.face.engines.head.model import Model, kind_of, model_of
from services.face.engines.head.raster.carriage import placing
from services.face.engines.head.renderer import HeadRenderer, carriage_of, thread_work
from services.face.engines.head.store import BUILTIN_FOLDER
from services.face.engines.head.textures import on_screen, textures_of
from training.painter.crops import ANCHORS, CROP_UNITS, crop_place

DRAWN = 288
"""Pixels of what is drawn, each way: finer than crops, which are cut from it."""
_EYES_M = 0.09
_MEASURED = 512
_LIPS = (*topology.UPPER_LIP_ROWS[0], *topology.LOWER_LIP_ROWS[0][-2:0:-1])
_BEARD = (*topology.JAW_LINE, 361, 323, 426, 327, 2, 98, 206, 93, 132)
"""Landmarks around where a beard grows."""
_RIGID = ("teeth", "tooth", "gum", "tongue")
_NEIGHBOURS = 8
_SPARSE = 3
"""Of the skin's vertices, what is beside it asks every third."""
_MAPPED = 2048


@dataclass(frozen=True)
class BaseHead:
    """One of the heads that ship, measured."""

    name: str
    parts: list[Part]
    model: Model
    """In the light of its portrait; its camera sees the mouth, from 1.4 m."""
    landmarks: NDArray[np.int64]
    """[468, 3] vertices of the triangle that each landmark lies on,"""
    shares: NDArray[np.float64]
    """[468, 3] and how much of each."""

    @property
    def skin(self) -> int:
        """So many vertices are skin, the first ones."""
        return len(self.parts[0].positions)

    def at(self, which: tuple[int, ...], points: NDArray[np.floating]) -> NDArray[np.float64]:
        """Where landmarks are, of what every vertex has: [N, d] -> [K, d]."""
        corners = points[self.landmarks[list(which)]]
        return np.asarray((corners * self.shares[list(which), :, None]).sum(axis=1))

    @cached_property
    def nearest(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """[N, 8] vertices of the skin next to each vertex, and how much each counts."""
        skin = self.model.rest[: self.skin : _SPARSE].astype(np.float64)
        square = (skin**2).sum(axis=1)
        found, shares = [], []
        for some in np.array_split(self.model.rest.astype(np.float64), 16):
            apart = square - 2 * some @ skin.T + (some**2).sum(axis=1)[:, None]
            near = np.argpartition(apart, _NEIGHBOURS, axis=1)[:, :_NEIGHBOURS]
            share = 1 / (np.maximum(np.take_along_axis(apart, near, axis=1), 0) + 1e-6)
            found.append(_SPARSE * near)
            shares.append(share / share.sum(axis=1, keepdims=True))
        return np.concatenate(found), np.concatenate(shares)

    def mask(self, outline: tuple[int, ...], side: int, soft: float) -> NDArray[np.float32]:
        """[side, side] of the skin's texture: 1 within the landmarks `outline`."""
        places = self.at(outline, self.parts[0].places[: self.skin]) * side
        found: NDArray[np.float32] = np.zeros((side, side), np.float32)
        cv2.fillPoly(found, [np.round(places * 16).astype(np.int32)], 1.0, cv2.LINE_AA, 4)
        return np.asarray(cv2.GaussianBlur(found, (0, 0), soft), np.float32)


@dataclass(frozen=True)
class Person:
    """A nobody, ready to be drawn."""

    model: Model
    turned: FacePose
    """How the head is held."""
    place: NDArray[np.float64]
    """[2, 3] pixels of the crop to those of what is drawn."""

    def draw(self, pose: FacePose) -> NDArray[np.uint8]:
        """[DRAWN, DRAWN, 3] RGB."""
        held = self.turned
        pose = replace(
            pose, yaw=held.yaw, pitch=held.pitch, roll=held.roll,
            shift_x=held.shift_x, shift_y=held.shift_y,
        )  # fmt: skip
        return HeadRenderer(self.model).draw(pose)[..., :3].copy()


def base_head(name: str, studio: PortraitStudio) -> BaseHead:
    """A head that ships, measured by the networks that measure photographs."""
    folder = BUILTIN_FOLDER / name
    bundle = read_bundle({file: (folder / file).read_bytes() for file in FILES})
    model = likened(model_of(bundle, _MEASURED), bundle.portrait)
    parts = sorted(bundle.parts, key=lambda part: (part.blends, kind_of(part) != "head"))
    vertices, shares = _measured(model, len(parts[0].positions), studio)
    head = BaseHead(name, parts, model, vertices, shares)
    return replace(head, model=_close_by(head, bundle))


def _measured(
    model: Model, skin: int, studio: PortraitStudio
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    drawn = HeadRenderer(model).draw(FacePose())[..., :3].copy()
    work = thread_work(model)
    screen, facing = work.screen[:, :2].astype(np.float64), work.facing > 0
    points = studio._find_face(drawn).points[: topology.LANDMARKS, :2].astype(np.float64)
    own = (model.triangles < skin).all(axis=1) & facing
    triangles = model.triangles[own]
    a, b, c = (screen[triangles[:, k]] for k in range(3))
    depth = work.screen[triangles, 2].mean(axis=1)
    vertices, shares = [], []
    for point in points:
        p = np.broadcast_to(point, a.shape)
        parts = np.stack([_areas(b, c, p), _areas(c, a, p), _areas(a, b, p)], axis=1)
        whole = parts.sum(axis=1, keepdims=True)
        parts = parts / np.where(np.abs(whole) < 1e-9, 1e-9, whole)
        outside = np.maximum(0, -parts.min(axis=1))
        # Of those that hold the point, the nearest to the viewer; of none, the nearest to it.
        best = int(np.lexsort((-depth, np.round(outside, 2)))[0])
        share = np.clip(parts[best], 0, 1)
        vertices.append(triangles[best])
        shares.append(share / share.sum())
    return np.array(vertices, np.int64), np.array(shares)


def _camera(model: Model, target: NDArray[np.float64], distance: float) -> NDArray[np.float64]:
    """Straight before `target`, so that a crop fills most of what is drawn."""
    wanted = 0.83 * DRAWN / CROP_UNITS
    camera = model.camera.copy()
    camera[9:12] = target + np.array((0.0, 0.0, distance))
    camera[12] = wanted / _EYES_M * distance
    return camera


def _close_by(head: BaseHead, bundle: HeadBundle) -> Model:
    model = head.model
    camera = _camera(model, _target(head, model.rest), 1.4)
    seen = textures_of(head.parts, tint(bundle.about.light), on_screen(model.rest, camera))
    picture = cv2.resize(bundle.background, (DRAWN, DRAWN))
    return model._replace(
        camera=camera,
        size=DRAWN,
        width=2 * 1.4 * DRAWN / 2 / camera[12],
        texture_of=seen.about,
        background=_pixels(np.asarray(picture, np.uint8)),
    )


def _target(head: BaseHead, rest: NDArray[np.floating]) -> NDArray[np.float64]:
    right, left, nose = head.at(ANCHORS, rest)
    return np.array([(right[0] + left[0]) / 2, nose[1] - 0.39 * _EYES_M, nose[2]])


def _pixels(picture: NDArray[np.uint8]) -> NDArray[np.uint32]:
    return (
        np.ascontiguousarray(np.pad(picture, ((0, 0), (0, 0), (0, 1)))).view(np.uint32).reshape(-1)
    )


@compiled
def _turned(carried, weights, model):  # type: ignore[no-untyped-def]
    """[3, 4] where a pose carries what turns with the head."""
    return placing(carried, weights, model).turned


class Nobodies:
    """Makes people of base heads."""

    def __init__(self, heads: list[BaseHead]) -> None:
        self._heads = heads
        self._way: dict[tuple[str, str], NDArray[np.float64]] = {}
        side = _side(heads[0])
        self._lips = {head.name: head.mask(_LIPS, side, 3.0) for head in heads}
        self._beards = {head.name: head.mask(_BEARD, side, 14.0) for head in heads}

    def person(self, name: str, mixed_with: list[str], rng: np.random.Generator) -> Person:
        """A person whose mesh is that of the head `name`, with something of others."""
        base = next(head for head in self._heads if head.name == name)
        others = [head for head in self._heads if head.name in mixed_with and head is not base]
        rest = self._shape(base, others, rng)
        model = base.model._replace(rest=rest, light=_light(base.model.light, rng))
        texels = self._texels(base, others, rng)
        model = model._replace(texels=texels, background=_pixels(_background(rng)))
        target = _target(base, rest) + rng.normal(0, 0.002, 3)
        distance = float(rng.uniform(0.6, 2.2))
        camera = _camera(model, target, distance)
        width = 2 * distance * DRAWN / 2 / camera[12]
        model = model._replace(camera=camera, width=width).paired()
        yaw, pitch, roll = rng.normal(0, (0.13, 0.08, 0.05)).clip(-0.4, 0.4)
        turned = FacePose(yaw=float(yaw), pitch=float(pitch), roll=float(roll))
        anchors = self._anchors(base, model, turned)
        # What turns about the neck goes aside: the camera follows.
        gone = anchors.mean(axis=0) - DRAWN / 2 + (0, 0.16 * DRAWN)
        aside = gone * distance / camera[12]
        model = model._replace(
            camera=np.r_[
                camera[:9], camera[9:12] + np.array((aside[0], -aside[1], 0.0)), camera[12]
            ]
        )
        return Person(model, turned, crop_place(self._anchors(base, model, turned)))

    def _anchors(self, base: BaseHead, model: Model, turned: FacePose) -> NDArray[np.float64]:
        where = _turned(carriage_of(turned), arkit_weights(turned), model)
        seen = base.at(ANCHORS, model.rest) @ where[:, :3].T + where[:, 3]
        flat = seen[:, :2] / seen[:, 2:3] * model.camera[12]
        return np.asarray(np.column_stack([DRAWN / 2 + flat[:, 0], DRAWN / 2 - flat[:, 1]]) - 0.5)

    def _shape(
        self, base: BaseHead, others: list[BaseHead], rng: np.random.Generator
    ) -> NDArray[np.float32]:
        skin, rest = base.skin, base.model.rest.astype(np.float64)
        way = np.zeros((skin, 3))
        for other in others:
            way += np.clip(rng.normal(0, 0.35), -0.6, 0.9) * self._way_to(base, other)
        near, shares = base.nearest
        moved = (way[near] * shares[..., None]).sum(axis=1)
        moved[:skin] = way
        # Wider or narrower, longer or shorter, and lumps here and there.
        middle = _target(base, rest)
        moved += (rest - middle) * rng.normal(0, (0.06, 0.06, 0.04))
        for _ in range(7):
            at = middle + rng.normal(0, (0.04, 0.04, 0.01))
            size = rng.uniform(0.012, 0.04)
            lump = rng.normal(0, 0.09 * size, 3)
            moved += lump * np.exp(-((rest - at) ** 2).sum(axis=1, keepdims=True) / (2 * size**2))
        self._keep_rigid(base, moved, rng)
        return np.asarray(rest + moved, np.float32)

    def _keep_rigid(
        self, base: BaseHead, moved: NDArray[np.float64], rng: np.random.Generator
    ) -> None:
        lips = base.at(_LIPS, moved).mean(axis=0) + rng.normal(0, (0, 0.0006, 0.0))
        lips[2] -= abs(rng.normal(0, 0.0006))
        scale, first = 1 + rng.normal(0, 0.03), 0
        for part in base.parts:
            end = first + len(part.positions)
            if kind_of(part) in _RIGID:
                own = part.positions - _target(base, base.model.rest)
                moved[first:end] = lips + own * (scale - 1) * (1, 1, 0)
            first = end

    def _way_to(self, base: BaseHead, other: BaseHead) -> NDArray[np.float64]:
        """[skin, 3] from each vertex of `base` to the same place of `other`."""
        key = base.name, other.name
        if key not in self._way:
            places = base.parts[0].places.astype(np.float64)
            found = _by_texture(places, other.parts[0])
            way = found - base.parts[0].positions
            # Of the neck, heads have more or less.
            chin = base.at((152,), base.model.rest)[0, 1]
            held = np.clip((base.parts[0].positions[:, 1:2] - chin + 0.04) / 0.04, 0, 1)
            self._way[key] = _at_seams(way, base.parts[0]) * held
        return self._way[key]

    def _texels(
        self, base: BaseHead, others: list[BaseHead], rng: np.random.Generator
    ) -> NDArray[np.uint32]:
        texels = base.model.texels.view(np.uint8).reshape(-1, 4).copy()
        side = _side(base)
        colour = texels[: side * side, :3].reshape(side, side, 3).astype(np.float32)
        for other in others:
            share = float(np.clip(rng.normal(0, 0.4), -0.3, 0.9))
            theirs = other.model.texels.view(np.uint8).reshape(-1, 4)[: side * side, :3]
            colour += np.float32(share) * (theirs.reshape(side, side, 3) - colour)
        colour = np.clip(colour, 3, 255)
        # Skin of any tone: gamma and gain, the same of all its colours but for a little.
        power = np.exp(rng.normal(0, 0.25) + rng.normal(0, 0.05, 3)).astype(np.float32)
        colour = np.asarray(255 * (colour / 255) ** power, np.float32)
        lips = self._lips[base.name][..., None]
        colour *= 1 + lips * rng.normal(0, (0.12, 0.2, 0.2)).astype(np.float32)
        colour *= 1 + _noise(side, rng, (8, 32, 128, 512), (0.04, 0.04, 0.03, 0.05))
        if rng.random() < 0.35:
            grain = np.clip(1 + _noise(side, rng, (256, 512), (0.5, 0.5)), 0, 2)
            shade = self._beards[base.name][..., None] * (1 - 0.9 * lips) * grain
            dark = rng.uniform(10, 70, (1, 1, 3)).astype(np.float32)
            colour += np.clip(shade * rng.uniform(0.1, 0.9), 0, 1) * (dark - colour)
        _fill_levels(texels, np.clip(np.rint(colour), 0, 255).astype(np.uint8))
        self._tint_teeth(base, texels, rng)
        return texels.view(np.uint32).reshape(-1)

    def _tint_teeth(
        self, base: BaseHead, texels: NDArray[np.uint8], rng: np.random.Generator
    ) -> None:
        for part, (first, end) in zip(base.parts, base.model.texels_of, strict=True):
            if kind_of(part) in _RIGID:
                change = rng.uniform(0.75, 1.15) * (1 + rng.normal(0, (0.01, 0.02, 0.06)))
                texels[first:end, :3] = np.clip(texels[first:end, :3] * change, 0, 255)


def _side(head: BaseHead) -> int:
    return int(head.parts[0].texture.shape[0])


def _fill_levels(texels: NDArray[np.uint8], finest: NDArray[np.uint8]) -> None:
    """The skin's, each half as large as the one before."""
    first, level = 0, finest
    while True:
        side = len(level)
        texels[first : first + side * side, :3] = level.reshape(-1, 3)
        first += side * side
        if side < 8:
            return
        half = (side // 2, side // 2)
        level = np.asarray(cv2.resize(level, half, interpolation=cv2.INTER_AREA), np.uint8)


def _noise(
    side: int, rng: np.random.Generator, cells: tuple[int, ...], strengths: tuple[float, ...]
) -> NDArray[np.float32]:
    """[side, side, 1] smooth noise of several sizes."""
    found = np.zeros((side, side), np.float32)
    for cell, strength in zip(cells, strengths, strict=True):
        small = rng.standard_normal((cell, cell), np.float32) * np.float32(strength * rng.random())
        found += cv2.resize(small, (side, side), interpolation=cv2.INTER_LINEAR)
    return found[..., None]


def _light(light: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.float32]:
    """Other lamps: brighter here and darker there, by where the skin looks."""
    x, y, z = np.moveaxis(sphere(), -1, 0)
    strength = rng.choice((0.15, 0.35, 0.6))
    gain = 1 + strength * (rng.normal(0, 0.7) * x + rng.normal(0.1, 0.6) * y)
    gain = gain + strength * (rng.normal(0, 0.3) * x * y + rng.normal(0, 0.3) * (z - 0.7))
    out = light.copy()
    out[:2] *= np.clip(gain, 0.25, 1.8) * rng.uniform(0.75, 1.15)
    assert gain.shape == (LIGHT_SIDE, LIGHT_SIDE)
    return out


def _background(rng: np.random.Generator) -> NDArray[np.uint8]:
    flat = rng.uniform(0, 255, (1, 1, 3)).astype(np.float32)
    small = rng.uniform(0, 255, (*rng.integers(2, 24, 2), 3)).astype(np.float32)
    lumps = cv2.resize(small, (DRAWN, DRAWN), interpolation=cv2.INTER_LINEAR)
    share = np.float32(rng.uniform(0, 0.7))
    return np.asarray(flat + share * (lumps - flat), np.float32).astype(np.uint8)


def _by_texture(places: NDArray[np.float64], part: Part) -> NDArray[np.float64]:
    """[N, 3] where the points are of the part whose texture shows `places` [N, 2]."""
    corners = part.places.astype(np.float64)[part.triangles]
    # Which triangle is where in the texture; what no one covers has that of its neighbourhood.
    drawn = np.full((_MAPPED, _MAPPED), -1, np.int32)
    pixels = np.round(corners * _MAPPED * 16 - 8).astype(np.int32)
    for index, triangle in enumerate(pixels):
        cv2.fillConvexPoly(drawn, triangle, index, cv2.LINE_8, 4)
    column, row = (places.T * _MAPPED).astype(int).clip(0, _MAPPED - 1)
    which = drawn[row, column]
    for lost in np.flatnonzero(which < 0):
        which[lost] = ((corners.mean(axis=1) - places[lost]) ** 2).sum(axis=1).argmin()
    a, b, c = (corners[which, k] for k in range(3))
    parts = np.stack([_areas(b, c, places), _areas(c, a, places), _areas(a, b, places)], axis=1)
    whole = parts.sum(axis=1, keepdims=True)
    shares = np.clip(parts / np.where(np.abs(whole) < 1e-12, 1e-12, whole), 0, 1)
    shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1e-9)
    return np.asarray((part.positions[part.triangles[which]] * shares[..., None]).sum(axis=1))


def _areas(
    a: NDArray[np.float64], b: NDArray[np.float64], p: NDArray[np.float64]
) -> NDArray[np.float64]:
    """[N] twice the area of the triangles a, b, p, each [N, 2]."""
    return np.asarray(
        (b[:, 0] - a[:, 0]) * (p[:, 1] - a[:, 1]) - (b[:, 1] - a[:, 1]) * (p[:, 0] - a[:, 0])
    )


def _at_seams(ways: NDArray[np.float64], part: Part) -> NDArray[np.float64]:
    """The same for all vertices of one place, which a seam of the texture parts."""
    keys = np.round(part.positions * 1e6).astype(np.int64)
    same = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
    count = np.bincount(same)[:, None]
    mean = np.stack([np.bincount(same, ways[:, k]) for k in range(3)], axis=1) / count
    return np.asarray(mean[same])
