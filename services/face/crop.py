"""Cuts a square with head room and shoulders around a face."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from services.face import topology

_SIDE_IN_FACES = 2.35
"""Side of the square in heights of the face outline (hair line to chin)."""
_CENTRE_DROP = 0.04
"""How far the centre of the square lies below the centre of the face, in sides."""


def crop_head(rgb: NDArray[np.uint8], points: NDArray[np.floating], size: int) -> NDArray[np.uint8]:
    """The square [size, size, 3] around the face of `rgb` [H, W, 3].

    The square is moved and, if it must be, shrunk to stay inside the picture; what is still missing
    at an edge repeats the edge.
    """
    outline = points[list(topology.FACE_OVAL), :2].astype(np.float64)
    low, high = outline.min(axis=0), outline.max(axis=0)
    height, width = rgb.shape[:2]
    face = float((high - low).max())
    side = min(_SIDE_IN_FACES * face, max(min(width, height), 1.7 * face))
    centre = (low + high) / 2 + (0, _CENTRE_DROP * side)
    corner = np.clip(centre - side / 2, 0, np.maximum(0, np.array([width, height]) - side))
    corner = np.where(
        np.array([width, height]) < side, (np.array([width, height]) - side) / 2, corner
    )
    scale = size / side
    affine = np.array([[scale, 0, 0.0], [0, scale, 0.0]])
    # Pixel centres: the picture's corner (-0.5) goes to the square's corner (-0.5).
    affine[:, 2] = -(corner) * scale + (0.5 * scale - 0.5)
    shrink = max(1, int(1 / scale))
    fine = size * min(shrink, 8)
    zoom = affine * (fine / size)
    zoom[:, 2] += 0.5 * (fine / size) - 0.5
    square = cv2.warpAffine(
        rgb, zoom, (fine, fine), flags=cv2.INTER_LANCZOS4, borderMode=cv2.BORDER_REPLICATE
    )
    if scale > 1.2:
        # Enlarging softens: give back a little of the lost crispness (unsharp mask).
        amount = min(0.6, 0.5 * (scale - 1))
        soft = cv2.GaussianBlur(square, (0, 0), 0.7 * scale)
        square = cv2.addWeighted(square, 1 + amount, soft, -amount, 0)
    if fine != size:
        square = cv2.resize(square, (size, size), interpolation=cv2.INTER_AREA)
    return np.asarray(square, np.uint8)
