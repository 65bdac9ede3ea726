"""A pose becomes a picture of a head."""

from __future__ import annotations

import threading
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from services.face.draw.blendshapes import arkit_weights
from services.face.draw.pose import FacePose
from services.face.engines.head.model import Model
from services.face.engines.head.raster.picture import draw_head
from services.face.engines.head.raster.work import Work, new_work

_KEPT = 4
_CARRIAGE = attrgetter("yaw", "pitch", "roll", "shift_x", "shift_y", "breath")


class HeadRenderer:
    """Draws one head. No state from picture to picture; one thread at a time."""

    def __init__(self, model: Model) -> None:
        self._model = model
        # Where vertices have colours, each channel is a picture of its own.
        rows = range(len(model.tints))
        self._drawn = [model._replace(tints=model.tints[row : row + 1]) for row in rows] or [model]

    @property
    def size(self) -> int:
        """Width and height of the pictures, pixels."""
        return self._model.size

    def draw(self, pose: FacePose) -> NDArray[np.uint8]:
        """The picture of `pose`: [size, size, 4] uint8, RGB and a zero, until this thread draws the
        next one.

        The same pose gives the same bytes.
        """
        work, weights, carriage = thread_work(self._model), arkit_weights(pose), carriage_of(pose)
        channels = []
        for channel, model in enumerate(self._drawn):
            draw_head(weights, carriage, model, work)
            if len(self._drawn) > 1:
                channels.append(work.picture[..., channel].copy())
        for channel, pixels in enumerate(channels):
            work.picture[..., channel] = pixels
        return work.picture


def carriage_of(pose: FacePose) -> NDArray[np.float64]:
    """[6] where it carries the head, as `placing` reads it."""
    return np.array(_CARRIAGE(pose), np.float64)


_of_thread = threading.local()


def thread_work(model: Model) -> Work:
    """This thread's, for heads of these points before that background."""
    kept: dict[tuple[int, ...], tuple[Model, Work]] = _of_thread.__dict__.setdefault("kept", {})
    # As long as it is kept, so is what it was made of: no other array has its id.
    key = id(model.rest), id(model.moving), id(model.triangles), id(model.background)
    if key not in kept:
        while len(kept) >= _KEPT:
            kept.pop(next(iter(kept)))
        kept[key] = model, new_work(model)
    return kept[key][1]
