"""Hair of fewer and wider ribbons, where a picture is too small to tell them from all of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from services.face.engines.head.bundle import HeadBundle
from services.face.engines.head.glb import Part

_SMALL = 768
"""Pictures of fewer pixels a side are small."""
_CURLED = 0.5
"""Radians that a ribbon bends from piece to piece: nobody follows a single one of such hair."""
_LONG = 0.1
"""Metres of a ribbon. Of shorter ones that are straight, each is seen before the skin."""
_SHARE, _WIDER = 3 / 4, 1.3
"""Of ribbons that is drawn, and how much wider these are, so that hair covers as much."""
_ONE, _OTHER = (0, 1, 3), (0, 3, 2)
"""Corners of the two halves of a ribbon's piece, from its first one on."""
_FEWEST = 100
"""Ribbons; fewer are each seen."""


def with_fewer_ribbons(bundle: HeadBundle, size: int) -> HeadBundle:
    """The head for pictures of `size`². Hair covers as much, as the ribbons that stay are wider."""
    if size >= _SMALL:
        return bundle
    return replace(bundle, parts=[_thinned(part) for part in bundle.parts])


def _thinned(part: Part) -> Part:
    ribbon = _ribbons(part)
    if ribbon is None or ribbon[-1] + 1 < _FEWEST:
        return part
    sides = part.positions.reshape(-1, 2, 3)
    middle = sides.mean(axis=1)
    bend, length = _bend_and_length(middle, ribbon)
    if bend <= _CURLED and length <= _LONG:
        return part
    kept = np.diff(np.floor(np.arange(ribbon[-1] + 2) * _SHARE + 1e-6))[ribbon] > 0
    wider = middle[:, None] + _WIDER * (sides - middle[:, None])
    stays = np.repeat(kept, 2)
    triangles = part.triangles[stays[part.triangles[:, 0]]]
    return replace(
        part,
        positions=wider[kept].reshape(-1, 3).astype(np.float32),
        normals=None if part.normals is None else part.normals[stays],
        places=part.places[stays],
        triangles=(np.cumsum(stays) - 1)[triangles].astype(np.int32),
    )


def _ribbons(part: Part) -> NDArray[np.int64] | None:
    """[rows] the ribbon of each two vertices, where a part is nothing else: quads, one after the
    other, that nothing moves.
    """
    if not part.blends or part.targets or len(part.triangles) % 2 or len(part.positions) % 2:
        return None
    one, other = part.triangles[::2], part.triangles[1::2]
    first = one[:, :1]
    if (first % 2).any() or (one - first != _ONE).any() or (other - first != _OTHER).any():
        return None
    goes_on = np.zeros(len(part.positions) // 2, bool)
    goes_on[first[:, 0] // 2 + 1] = True
    return np.asarray(np.cumsum(~goes_on) - 1)


def _bend_and_length(middle: NDArray[np.float32], ribbon: NDArray[np.int64]) -> tuple[float, float]:
    """Radians between a piece of a ribbon and the next one, median; metres of a ribbon, mean."""
    along = np.diff(middle, axis=0)
    lengths = np.linalg.norm(along, axis=1)
    along /= np.maximum(lengths[:, None], 1e-9)
    same = ribbon[2:] == ribbon[:-2]
    turned = np.arccos(np.clip((along[1:] * along[:-1]).sum(axis=1)[same], -1, 1))
    of_one = ribbon[1:] == ribbon[:-1]
    return float(np.median(turned)), float(lengths[of_one].sum() / (ribbon[-1] + 1))
