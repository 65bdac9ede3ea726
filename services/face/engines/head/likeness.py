"""A model lit so that, at rest, it looks like the portrait that was rendered of it.

What light does to skin is read from the portrait: by where the skin looks, how much brighter or
darker is it there than its own colour? That is all that a renderer's lamps, bounces and film come
to, and so the same head turned stands in the same light. Other parts are given the portrait's
mean colour.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from services.face.draw.pose import FacePose
from services.face.engines.head.light import sphere
from services.face.engines.head.model import Model
from services.face.engines.head.renderer import HeadRenderer, thread_work

_FEWEST_PIXELS = 120
"""Of a part, that its colour can be told from."""
_RIDGE = 0.02
"""How much the fitted light is held to that of the lamps, in pixels of all that are seen."""
_DOUBT = 0.12
"""Of what is so much brighter or darker than fitted, half counts."""
_LEAST, _MOST = 0.5, 2.0
"""How far colours may be changed: beyond that, the portrait is of somebody else."""
_SKIN = 0
_SOLID = 255 << 24


def likened(model: Model, portrait: NDArray[np.uint8]) -> Model:
    """The model in the light of its portrait, [side, side, 3] RGB."""
    size = model.size
    how = cv2.INTER_AREA if len(portrait) > size else cv2.INTER_CUBIC
    wanted = np.asarray(cv2.resize(portrait, (size, size), interpolation=how), np.float64)
    drawn, shown = _drawn(model)
    part = np.where(shown >= 0, model.part_of[shown], -1)
    hair = thread_work(model).clear.reshape(size, size) >= _SOLID
    if hair.any():
        clear = model.part_of[model.opaque :]
        part[hair] = np.bincount(clear).argmax()
    normals = model.normals[model.triangles].mean(axis=1)[shown]
    skin = _inside(part == _SKIN) & (drawn.mean(axis=-1) > 30)
    light = model.light.copy()
    if skin.sum() >= _FEWEST_PIXELS:
        ratio = wanted[skin].mean(axis=-1) / drawn[skin].mean(axis=-1)
        light[0] *= _fitted(normals[skin], np.clip(ratio, _LEAST, _MOST))
        light[1] *= np.clip(np.median(ratio), _LEAST, _MOST)
    model = model._replace(light=light)
    drawn, _ = _drawn(model)
    texels = model.texels.view(np.uint8).reshape(-1, 4).copy()
    for index in np.unique(part[part >= 0]):
        seen = _inside(part == index)
        if index == _SKIN:
            # Where the portrait has hair, its colour is none of the skin's.
            ratio = wanted.mean(axis=-1) / np.maximum(drawn.mean(axis=-1), 1)
            seen &= np.abs(ratio - 1) < 2 * _DOUBT
        if seen.sum() < _FEWEST_PIXELS:
            continue
        change = np.maximum(wanted[seen].mean(axis=0), 1) / np.maximum(drawn[seen].mean(axis=0), 1)
        first, end = model.texels_of[index]
        mine = texels[first:end]
        tinted = np.rint(mine[:, :3] * np.clip(change, _LEAST, _MOST))
        texels[first:end, :3] = np.minimum(tinted, mine[:, 3:])
    return model._replace(texels=texels.view(np.uint32).reshape(-1)).paired()


def _drawn(model: Model) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """At rest: [size, size, 3] RGB, and which triangle each pixel shows; -1: none."""
    picture = HeadRenderer(model).draw(FacePose())[..., :3].astype(np.float64)
    return picture, thread_work(model).triangles()


def _inside(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Less its edges, where the portrait may show something else."""
    return np.asarray(cv2.erode(mask.astype(np.uint8), np.ones((5, 5), np.uint8)), bool)


def _fitted(normals: NDArray[np.float32], ratio: NDArray[np.float64]) -> NDArray[np.float64]:
    """A smooth table of what `ratio` [K] is where `normals` [K, 3] look; near 1 where none do."""
    system = _harmonics(normals.astype(np.float64))
    ridge = np.diag(np.r_[0.0, np.full(system.shape[1] - 1, _RIDGE * len(ratio))])
    trust = np.ones(len(ratio))
    for _ in range(4):
        weighted = system * trust[:, None]
        weights = np.linalg.solve(system.T @ weighted + ridge, weighted.T @ ratio)
        # What the portrait has in front, or elsewhere, says nothing of the light.
        trust = 1 / (1 + (np.abs(system @ weights - ratio) / _DOUBT) ** 2)
    return np.asarray(np.clip(_harmonics(sphere()) @ weights, _LEAST, _MOST))


def _harmonics(normals: NDArray[np.float64]) -> NDArray[np.float64]:
    """[..., 9] polynomials of the second degree on the sphere."""
    x, y, z = normals[..., 0], normals[..., 1], normals[..., 2]
    return np.stack([np.ones_like(x), x, y, z, x * y, y * z, x * z, x * x - y * y, z * z], axis=-1)
