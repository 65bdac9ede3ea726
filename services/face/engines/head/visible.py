"""What of a head is ever seen, however it turns: the rest costs time and shows nothing.

Hair lies in many layers over a scalp that nobody sees, and a neck goes on under its collar. Where
a picture is too small to tell all of its ribbons, hair is of fewer and wider ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import cv2
import numpy as np
from numpy.typing import NDArray

from services.face.draw.pose import FacePose
from services.face.engines.head.bundle import HeadBundle
from services.face.engines.head.gltf.parts import Part
from services.face.engines.head.model import Model, pieces_of
from services.face.engines.head.raster.carriage import MOST_TURN
from services.face.engines.head.renderer import HeadRenderer, thread_work

_YAWS = MOST_TURN * np.linspace(-1, 1, 5)
_PITCHES = MOST_TURN * np.array([-0.5, 0.0, 0.5])
_SPEAKING = (
    FacePose(jaw_open=1.0, mouth_wide=0.5, blink_left=1.0, blink_right=1.0),
    FacePose(jaw_open=0.4, mouth_wide=1.0, upper_lip_raise=1.0, lower_lip_down=1.0, smile=1.0),
    FacePose(jaw_open=0.7, tongue_up=1.0, tongue_out=1.0),
)
_FEWEST_PIXELS = 3
"""Of hair, that are shown in all those poses together."""
_STILL_M = 1e-3
"""What no shape carries further than this hides, or is hidden, whatever the face does."""
_ACROSS = np.array(
    [(a, b, 4 - a - b) for a in range(5) for b in range(5 - a)], np.float64
) / 4  # fmt: skip
"""[15, 3] corners, sides and middle of a triangle, by the shares of its corners."""
_SOLID = np.uint32(255 << 24)
_FROM_BEHIND = 2
"""As a picture's `facing` says it."""
_NEARLY = 1.002
"""Of inverse depth: what is so little behind what is seen may be the same thing."""
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


def seen_alone(model: Model) -> Model:
    """The model without those triangles that lie behind others in every pose, and of the others
    without the backs that do.
    """
    renderer, hair = HeadRenderer(model), np.arange(len(model.triangles)) >= model.opaque
    shown, thin = np.zeros(len(model.triangles), int), _thin(model)
    backs = np.zeros(len(model.triangles), bool)
    ends, outside = np.zeros(len(thin), bool), np.zeros(len(model.rest), bool)
    for pose in _poses():
        renderer.draw(pose)
        visible = thread_work(model).triangles()
        counts = np.bincount(visible[visible >= 0], minlength=len(shown))
        shown += counts
        backs |= (counts > 0) & (thread_work(model).facing == _FROM_BEHIND)
        ends |= _before_others(model, thin)
        x, y = thread_work(model).screen[:, :2].T
        outside |= (np.minimum(x, y) < 0) | (np.maximum(x, y) > model.size)
    near, backs = _near(model, (shown > 0) & ~hair), _near(model, backs & ~hair)
    model = model._replace(two_sided=model.two_sided & (backs | hair))
    some = shown >= _FEWEST_PIXELS
    some[thin] |= ends
    kept = np.where(hair, some, near)
    # A head that is carried aside brings in what was beside the picture.
    kept |= (outside & (model.follows > 0))[model.triangles].any(axis=1)
    return _only(model, kept | ~_may_go(model))


def _near(model: Model, which: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """[M] those triangles and their neighbours: of skin and clothes nothing may be missing in a
    pose between two of those that were drawn.
    """
    near = np.zeros(len(model.rest), bool)
    near[model.triangles[which]] = True
    return np.asarray(near[model.triangles].any(axis=1))


def _poses() -> Iterator[FacePose]:
    for yaw in _YAWS:
        for pitch in _PITCHES:
            yield FacePose(yaw=float(yaw), pitch=float(pitch))
    yield FacePose(breath=1.0)
    for yaw in _YAWS[::2]:
        for speaking in _SPEAKING:
            yield replace(speaking, yaw=float(yaw))


def _before_others(model: Model, which: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Of the triangles `which`: those that nothing solid hides all of in the picture that was drawn
    last, and no hair is behind.
    """
    work, size = thread_work(model), model.size
    reach = 2 * (size // 512) + 3
    depth = cv2.erode(work.depths(), np.ones((reach, reach), np.uint8))
    corners = work.screen[model.triangles[which], :3]
    points = np.einsum("ps,msc->mpc", _ACROSS.astype(np.float32), corners)
    column, row = np.rint(points[..., 0]).astype(int), np.rint(points[..., 1]).astype(int)
    outside = (np.minimum(column, row) < 0) | (np.maximum(column, row) >= size)
    row, column = row.clip(0, size - 1), column.clip(0, size - 1)
    alone = work.triangles()[row, column] < model.opaque
    found = outside | (alone & (points[..., 2] * _NEARLY >= depth[row, column]))
    return np.asarray(found.any(axis=1) & (work.facing[which] > 0))


def _thin(model: Model) -> NDArray[np.int64]:
    """Clear triangles of which no part is solid, as tips of hair."""
    clear = slice(model.opaque, None)
    side, sources = model.texture_of[clear, None, 1:], model.source[model.triangles[clear]]
    places = np.einsum("ps,msc->mpc", _ACROSS.astype(np.float32), sources)
    texel = (places * side - 0.5).astype(int).clip(0, side - 2)
    at = model.texture_of[clear, None, 0] + texel[..., 1] * side[..., 0] + texel[..., 0]
    thin = (model.texels[at] < _SOLID).all(axis=1)
    return np.asarray(model.opaque + np.flatnonzero(thin))


def _may_go(model: Model) -> NDArray[np.bool_]:
    """[M] what no shape carries to where it may be seen, but those that the mouth is opened by."""
    far = np.linalg.norm(model.changes[:, :3], axis=1) > _STILL_M
    moves = np.zeros(len(model.rest), bool)
    moves[model.moving[model.moved[far]]] = True
    moves &= ~model.inside
    return np.asarray(~moves[model.triangles].any(axis=1))


def _only(model: Model, kept: NDArray[np.bool_]) -> Model:
    """The model with the triangles `kept` [M] alone."""
    triangles = model.triangles[kept]
    used = np.zeros(len(model.rest), bool)
    used[triangles] = True
    used[model.eyes[:, 4].astype(int)] = True
    vertex = np.cumsum(used) - 1
    drawn = vertex[triangles].astype(np.int32)
    before = np.concatenate([[0], np.cumsum(kept)])
    moves = used[model.moving]
    entries, mover = moves[model.moved], np.cumsum(moves) - 1
    # Where one side of an edge is never seen, the edge lies hidden.
    edges = model.edges[
        kept[model.edges[:, 2]] & ((model.edges[:, 3] < 0) | kept[model.edges[:, 3]])
    ]
    renumbered = np.where(edges[:, 2:] >= 0, before[edges[:, 2:]], -1)
    eyes = model.eyes.copy()
    eyes[:, 4] = vertex[eyes[:, 4].astype(int)]
    eyes[:, 5:] = before[eyes[:, 5:].astype(int)]
    return model._replace(
        rest=model.rest[used],
        normals=model.normals[used],
        target_ends=np.concatenate([[0], np.cumsum(entries)])[model.target_ends].astype(np.int32),
        moved=mover[model.moved[entries]].astype(np.int32),
        changes=model.changes[entries],
        moving=vertex[model.moving[moves]].astype(np.int32),
        follows=model.follows[used],
        inside=model.inside[used],
        gain=model.gain[used],
        tints=np.ascontiguousarray(model.tints[:, used]),
        looks=model.looks[used],
        triangles=drawn,
        skin=int(before[model.skin]),
        opaque=int(before[model.opaque]),
        pieces=pieces_of(drawn, int(before[model.opaque])),
        two_sided=model.two_sided[kept],
        source=model.source[used],
        texture_of=model.texture_of[kept],
        part_of=model.part_of[kept],
        edges=np.ascontiguousarray(np.column_stack([vertex[edges[:, :2]], renumbered]), np.int32),
        eyes=eyes,
    )


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
        colours=None if part.colours is None else part.colours[stays],
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
