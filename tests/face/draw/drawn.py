"""A drawn character made of circles, and networks of THA3 that do something known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import cv2
import numpy as np
from numpy.typing import NDArray

from tests.made_engine import MadeEngine
from visavis.engine import Tensors

_IMAGE, _PART = (None, 4, 512, 512), (None, 4, 128, 128)


def character(size: int = 512) -> NDArray[np.uint8]:
    """RGBA [size, size, 4]: a head where it must be, and shoulders; nothing else."""
    scale = size / 512
    rgba = np.zeros((size, size, 4), np.uint8)
    for middle, radius, colour in (
        ((256, 400), 150, (180, 60, 60, 255)),
        ((256, 128), 80, (250, 214, 190, 255)),
        ((230, 120), 8, (40, 40, 60, 255)),
        ((282, 120), 8, (40, 40, 60, 255)),
    ):
        at = (round(middle[0] * scale), round(middle[1] * scale))
        cv2.circle(rgba, at, round(radius * scale), colour, cv2.FILLED)
    return rgba


def png(rgba: NDArray[np.uint8]) -> bytes:
    """Of RGBA or RGB."""
    order = [2, 1, 0, 3][: rgba.shape[2]]
    _, content = cv2.imencode(".png", rgba[..., order])
    return content.tobytes()


class FakeDecomposer(MadeEngine):
    """Leaves the face as it is."""

    takes: ClassVar = {"image": _IMAGE}
    gives: ClassVar = {"background": _PART, "brows": _PART}
    runs = 0

    def _infer(self, inputs: Tensors) -> dict[str, NDArray[Any]]:
        self.runs += 1
        part = np.asarray(inputs["image"])[:, :, 64:192, 192:320]
        return {"background": part, "brows": part}


class FakePoser(MadeEngine):
    """Gives what `draw` makes of image and pose; the image as it is, unless told otherwise."""

    takes: ClassVar = {"image": _IMAGE, "background": _PART, "brows": _PART, "pose": (None, 45)}
    gives: ClassVar = {"picture": _IMAGE}

    def __init__(
        self, draw: Callable[[Any, Any], NDArray[Any]] = lambda image, pose: image
    ) -> None:
        super().__init__()
        self._draw = draw

    def _infer(self, inputs: Tensors) -> dict[str, NDArray[Any]]:
        return {"picture": self._draw(inputs["image"], inputs["pose"])}
