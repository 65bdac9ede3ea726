"""A pose becomes a picture of a head."""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from services.face.draw.blendshapes import ARKIT_NAMES, arkit_weights
from services.face.draw.pose import FacePose
from services.face.engines.head.model import Model
from services.face.engines.head.raster.picture import draw_head
from services.face.engines.head.raster.work import Placing, Work, new_work

MOST_TURN = 0.6
"""Radians; nobody's neck turns its head further before a camera."""
_MOST_SHIFT = 0.1
_BREATH = 2.2 / 512
"""How far a breath lifts the shoulders, in picture heights."""
_KEPT_SIZES = 4
_SHUT_LIGHT, _OPENS = 0.3, 2.5
_JAW, _SHUT = ARKIT_NAMES.index("jawOpen"), ARKIT_NAMES.index("mouthClose")
_LIPS = [
    ARKIT_NAMES.index(f"mouth{shape}{side}")
    for shape in ("LowerDown", "UpperUp")
    for side in ("Left", "Right")
]


class HeadRenderer:
    """Draws one head. No state from picture to picture; one thread at a time."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def size(self) -> int:
        """Width and height of the pictures, pixels."""
        return self._model.size

    def draw(self, pose: FacePose) -> NDArray[np.uint8]:
        """The picture of `pose`: [size, size, 4] uint8, RGB and a zero, until this thread draws the
        next one.

        The same pose gives the same bytes.
        """
        work = thread_work(self._model)
        weights = arkit_weights(pose)
        draw_head(weights, placing(pose, weights, self._model), self._model, work)
        return work.picture


def placing(pose: FacePose, weights: NDArray[np.float32], model: Model) -> Placing:
    """Where a pose carries the head, as compiled code reads it. weights: `arkit_weights` of it."""
    turns = np.clip((pose.yaw, pose.pitch, pose.roll), -MOST_TURN, MOST_TURN)
    (c, s), (d, t), (e, u) = ((np.cos(turn), np.sin(turn)) for turn in turns)
    sideways = np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])
    down = np.array([[1, 0, 0], [0, d, -t], [0, t, d]])
    tilted = np.array([[e, u, 0], [-u, e, 0], [0, 0, 1]])
    rotation = tilted @ down @ sideways
    shift = np.clip((pose.shift_x, -pose.shift_y, 0.0), -_MOST_SHIFT, _MOST_SHIFT) * model.width
    # Breath lifts the shoulders, and through the neck a little of the head.
    lift = np.array((0.0, np.clip(pose.breath, 0, 1) * _BREATH * model.width, 0.0))
    axes, position = model.camera[:9].reshape(3, 3), model.camera[9:12]
    still = np.column_stack([axes, axes @ (lift - position)])
    carried = model.neck - rotation @ model.neck + shift + 0.23 * lift - position
    turned = np.column_stack([axes @ rotation, axes @ carried])
    still, turned, rotation = (m.astype(np.float32) for m in (still, turned, rotation))
    return Placing(still, turned, rotation, _opened(weights))


def _opened(weights: NDArray[np.float32]) -> float:
    """How much light gets to the teeth: between lips that hardly part, next to none."""
    parted = weights[_JAW] - weights[_SHUT] + 0.4 * weights[_LIPS].sum()
    return float(np.clip(_SHUT_LIGHT + _OPENS * parted, _SHUT_LIGHT, 1))


_of_thread = threading.local()


def thread_work(model: Model) -> Work:
    """This thread's, for heads of that many points and pictures of that size."""
    kept: dict[tuple[int, int, int], Work] = _of_thread.__dict__.setdefault("kept", {})
    vertices, triangles, size = len(model.rest), len(model.triangles), model.size
    key = vertices, triangles, size
    if key not in kept:
        while len(kept) >= _KEPT_SIZES:
            kept.pop(next(iter(kept)))
        kept[key] = new_work(model)
    return kept[key]
