"""Whether a portrait shows what an avatar moves: open eyes and a bare mouth, lit enough."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from services.face.avatar import topology
from services.face.avatar.mesh import HeadFrame, head_frame
from visavis.serving.errors import InvalidInputError

_DARKEST = 30.0
"""Brightness of cheeks and forehead, of 255, below which noise is more than the face."""
_SHUT_EYES = 0.05
"""Height between the lids, eye distances; narrow eyes that look at the camera have 0.06."""
_LIPS = (*topology.UPPER_LIP_ROWS[1][3:8], *topology.LOWER_LIP_ROWS[1][3:8])
_AROUND_LIPS = (199, 200, 201, 421, 194, 418, 182, 406, 83, 313, 18, 43, 273, 57, 287)
_UPPER_FACE = (50, 280, 101, 330, 118, 347, 9, 151, 108, 337, 36, 266)
_ONE_COLOUR, _LINE, _OTHER_CLOTH = 3.0, 9.0, 12.0
"""In units of CIELAB. Lips that are bare differ by more from the skin around, or have a line
between them that is so much darker; what covers them, if it is no hand, has another colour than the
face above.
"""
_ACROSS = 0.16
"""How far above and below the line of the lips it is looked for, eye distances."""


def check_seen(rgb: NDArray[np.uint8], points: NDArray[np.floating]) -> None:
    """Raises InvalidInputError where the face is too dark, its eyes are shut or its mouth is
    covered. rgb: [H, W, 3] uint8; points: landmarks [468, 3] float in its pixels.
    """
    frame, flat = head_frame(points), points[:, :2].astype(np.float64)
    if float(np.percentile(_at(rgb, flat[list(_UPPER_FACE)]).max(axis=1), 70)) < _DARKEST:
        raise InvalidInputError("the face is too dark: use a photo taken in better light")
    local = frame.local(flat)
    lids = [local[145, 1] - local[159, 1], local[374, 1] - local[386, 1]]
    if sum(lids) / 2 < _SHUT_EYES:
        raise InvalidInputError("the eyes are shut: use a photo in which they are open")
    if _covered(rgb, flat, frame):
        raise InvalidInputError(
            "the mouth is covered: use a photo without a hand or a mask before the face"
        )


def _covered(rgb: NDArray[np.uint8], flat: NDArray[np.float64], frame: HeadFrame) -> bool:
    smooth = cv2.GaussianBlur(rgb, (3, 3), 0).astype(np.float32) / 255
    lab = np.asarray(cv2.cvtColor(smooth, cv2.COLOR_RGB2LAB), np.float64)

    def colour(vertices: Sequence[int]) -> NDArray[np.float64]:
        return np.asarray(np.median(_at(lab, flat[list(vertices)]), axis=0))

    lips, around, above = colour(_LIPS), colour(_AROUND_LIPS), colour(_UPPER_FACE)
    if float(np.linalg.norm(lips - around)) >= _ONE_COLOUR:
        return False
    middle = (
        flat[list(topology.UPPER_INNER_LIP[3:8])] + flat[list(topology.LOWER_INNER_LIP[3:8])]
    ) / 2
    down = frame.axes[:, 1] * frame.eye_distance
    steps = np.linspace(-_ACROSS, _ACROSS, 65)[:, None, None]
    profile = _at(lab, middle[None] + steps * down)[..., 0].mean(axis=1)
    other = float(np.linalg.norm((around - above)[1:]))
    return bool(np.ptp(profile) < _LINE or other > _OTHER_CLOTH)


def _at(pixels: NDArray[np.generic], places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values [..., 3] of `pixels` [H, W, 3] at `places` [..., 2]."""
    last = np.array(pixels.shape[1::-1]) - 1
    x, y = np.moveaxis(np.clip(np.round(places).astype(int), 0, last), -1, 0)
    return np.asarray(pixels[y, x], np.float64)
