"""Where a face's lower half is in a picture, upright and always as large."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from services.face.avatar import topology
from services.face.draw.blendshapes import ARKIT_NAMES
from training.painter.layout import COEFFICIENTS, SIDE

NOSE_BASE = 2
"""The landmark where the nose meets the upper lip."""
ANCHORS = (topology.RIGHT_EYE_OUTER, topology.LEFT_EYE_OUTER, NOSE_BASE)
CROP_UNITS = 1.4
"""Side of a crop in eye distances: 126 mm of a grown-up's face."""
_DROP = 0.39
"""How far the middle of a crop lies below the base of the nose, in eye distances."""
_EYES_OVER_NOSE = 2.0
"""Distance of the eyes' outer corners by how far the base of the nose lies below them."""

_COLUMNS = [ARKIT_NAMES.index(name) for name in COEFFICIENTS]


def crop_place(anchors: NDArray[np.floating]) -> NDArray[np.float64]:
    """[2, 3]: pixels of the crop to those of the picture.

    anchors: [3, 2] where the landmarks `ANCHORS` are in the picture.
    """
    right, left, nose = anchors.astype(np.float64)
    across = left - right
    distance = float(np.linalg.norm(across))
    u = across / distance
    v = np.array([-u[1], u[0]])
    # A turned head has its eyes nearer together, a bowed one its nose nearer to them.
    unit = (distance + _EYES_OVER_NOSE * float((nose - (left + right) / 2) @ v)) / 2
    scale = CROP_UNITS * unit / SIDE
    axes = np.stack([u, v], axis=1) * scale
    middle = nose + _DROP * unit * v
    return np.column_stack([axes, middle - axes @ np.full(2, (SIDE - 1) / 2)])


def crop(picture: NDArray[np.uint8], place: NDArray[np.float64]) -> NDArray[np.uint8]:
    """[SIDE, SIDE, 3] of `picture` [H, W, 3], uint8."""
    finer = max(1, int(np.ceil(np.linalg.norm(place[:, :2], axis=0).max())))
    close = place.copy()
    close[:, :2] /= finer
    close[:, 2] -= place[:, :2] @ np.full(2, 0.5 - 0.5 / finer)
    samples = cv2.warpAffine(
        picture,
        close,
        (SIDE * finer, SIDE * finer),
        flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
        borderMode=cv2.BORDER_REPLICATE,
    )
    return np.asarray(cv2.resize(samples, (SIDE, SIDE), interpolation=cv2.INTER_AREA), np.uint8)


def coefficients(weights: NDArray[np.floating]) -> NDArray[np.float32]:
    """Those that the network is told, of all of ARKit's: [52] -> [len(COEFFICIENTS)] float32."""
    return np.asarray(weights[_COLUMNS], np.float32)
