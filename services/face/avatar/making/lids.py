"""The skin of closed lids, which a portrait does not show: grown from the skin around each eye."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from services.face.avatar import topology
from services.face.avatar.hidden import fill_hidden
from services.face.avatar.mesh import HeadFrame

_MARGIN = 0.3
"""Width of the skin that is taken around the eyes, eye distances."""
_EYES = (
    (topology.RIGHT_UPPER_LID, topology.RIGHT_LOWER_LID),
    (topology.LEFT_UPPER_LID, topology.LEFT_LOWER_LID),
)


def paint_lids(
    rgb: NDArray[np.uint8], points: NDArray[np.floating], frame: HeadFrame
) -> tuple[NDArray[np.uint8], tuple[int, int], NDArray[np.float64]]:
    """Closes the eyes of a portrait `rgb` [H, W, 3] uint8 with landmarks [468, 3] in pixels.

    Gives the pixels around both eyes with lids in place of the eyes, [h, w, 3] uint8, their corner
    (x, y) in `rgb`, and the colour of the lashes [3] float64, RGB 0..255.
    """
    unit = frame.eye_distance
    flat = points[:, :2].astype(np.float64)
    lids = rgb.copy()
    rims = []
    for upper, lower in _EYES:
        top, bottom = flat[list(upper)], flat[list(lower)]
        middle = (top[0] + top[-1]) / 2
        reach = np.array([0.32 * unit, 0.24 * unit])
        x0, y0 = np.maximum(0, (middle - reach).astype(int))
        x1, y1 = (middle + reach).astype(int)
        window = (slice(y0, y1), slice(x0, x1))
        lids[window] = _close(rgb[window], top - (x0, y0), bottom - (x0, y0), frame)
        x, y = np.clip(np.round(top).astype(int), 0, rgb.shape[0] - 1).T
        rims.append(rgb[y, x])
    lash = np.percentile(np.vstack(rims), 20, axis=0) * 0.65
    eyes = flat[[topology.RIGHT_EYE_OUTER, topology.LEFT_EYE_OUTER]]
    low = np.maximum(0, eyes.min(axis=0) - _MARGIN * unit).astype(int)
    high = (eyes.max(axis=0) + _MARGIN * unit).astype(int)
    cut = np.ascontiguousarray(lids[low[1] : high[1], low[0] : high[0]])
    return cut, (int(low[0]), int(low[1])), np.asarray(lash)


def _close(
    crop: NDArray[np.uint8],
    top: NDArray[np.float64],
    bottom: NDArray[np.float64],
    frame: HeadFrame,
) -> NDArray[np.uint8]:
    """`crop` [h, w, 3] with the eye between the rims `top` and `bottom` [9, 2] painted over."""
    unit = frame.eye_distance
    lifted = top - frame.axes[:, 1] * (0.05 * unit)
    sunk = bottom + frame.axes[:, 1] * (0.015 * unit)
    # Lashes and paint go on past the outer corner.
    past = (top[0] - top[-1]) * 0.22
    lifted[0] += past
    sunk[0] += past
    outline = np.round(np.vstack([lifted, sunk[::-1]])).astype(np.int32)
    inside: NDArray[np.uint8] = np.zeros(crop.shape[:2], np.uint8)
    cv2.fillPoly(inside, [outline], 1)
    eye = _grown(inside, 0.0125 * unit)
    around = _grown(eye, 0.06 * unit) & ~eye
    bright = cv2.GaussianBlur(crop, (0, 0), 1.0).max(axis=2)
    # Half of the ring may be lashes and brow: bare skin is among its brighter part.
    usual = float(np.percentile(bright[around], 78))
    # Lashes, paint, deep shadow and glare give no colour for a lid.
    smudged = (bright < 0.84 * usual) | (bright > 1.15 * usual)
    near = _grown(eye, 0.045 * unit)
    known = cv2.erode((~eye & ~smudged).astype(np.float32), np.ones((3, 3), np.uint8))
    known = np.where(near, known, 1.0 * ~smudged)
    filled = fill_hidden(crop, np.asarray(known, np.float32)).astype(np.float32)
    bare = crop[around & ~smudged]
    if len(bare):
        # Half the local shades, half the plain tone of the skin: the fill alone turns grey.
        filled = 0.5 * filled + 0.5 * np.median(bare, axis=0).astype(np.float32)
    level = float(np.median(filled.max(axis=2)[eye]))
    filled *= float(np.clip(usual / max(1.0, level), 0.92, 1.15))
    filled *= (0.97 - 0.12 * _fold(lifted, crop.shape[:2], unit))[..., None]
    # The grain of the skin above, so that the lid is not smoother than the face.
    grain = crop.astype(np.float32) - cv2.GaussianBlur(crop, (0, 0), 1.5)
    grain = np.clip(np.roll(grain, -round(0.2 * unit), axis=0), -6, 6)
    painted = np.clip(filled + grain * 0.6, 0, 255)
    share = cv2.GaussianBlur((near & (known == 0)).astype(np.float32), (0, 0), 1.0)[..., None]
    share = np.maximum(share, eye[..., None])
    return np.asarray(crop * (1 - share) + painted * share, np.uint8)


def _grown(mask: NDArray[np.generic], pixels: float) -> NDArray[np.bool_]:
    side = 2 * max(1, round(pixels)) + 1
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (side, side))
    return np.asarray(cv2.dilate(mask.astype(np.uint8), disc)) > 0


def _fold(lifted: NDArray[np.float64], shape: tuple[int, ...], unit: float) -> NDArray[np.float32]:
    """The fold above the ball, where the open lid turns inwards: [h, w], 1 at its deepest."""
    line: NDArray[np.uint8] = np.zeros(shape, np.uint8)
    width = max(1, round(0.012 * unit))
    cv2.polylines(line, [np.round(lifted).astype(np.int32)], False, 255, width, cv2.LINE_AA)
    soft = cv2.GaussianBlur(line.astype(np.float32) / 255.0, (0, 0), 0.018 * unit)
    return np.asarray(soft, np.float32)
