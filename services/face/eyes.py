"""The eyes: a ball behind the lids that carries the gaze, and a lid that comes down over it."""

from __future__ import annotations

import cv2
import numba
import numpy as np
from numpy.typing import NDArray

from services.face import topology
from services.face.matte import fill_hidden
from services.face.mesh import HeadFrame
from services.face.raster import TABLE, opening_box, sample, smooth_step

EYE_PARAMETERS = 18
"""0..5 inverse affine pixel -> texture pixel; 6, 7, 8 iris x, y and radius in texture pixels; 9, 10
gaze in texture pixels; 11 eye distance in pixels; 12 how far the lid is shut; 13, 14 corner of the
lid picture in portrait pixels; 15..17 colour of the lashes.
"""
_PAST_CORNER = 0.08
"""How far the closed lid reaches past the corners, eye distances."""
_LID_BAND = 0.085
"""Height of lashes and paint above the rim of the upper lid that the closed lid replaces, eye
distances.
"""


def paint_lids(
    rgb: NDArray[np.uint8], points: NDArray[np.floating], frame: HeadFrame
) -> tuple[NDArray[np.uint8], tuple[int, int], NDArray[np.float64]]:
    """The skin of closed lids, which the portrait does not show: grown from the skin around the
    eyes.

    Gives the pixels around both eyes of `rgb` [H, W, 3] with lids in place of the eyes, their
    corner (x, y) in `rgb`, and the colour of the lashes [3].
    """
    unit = frame.eye_distance
    flat = points[:, :2].astype(np.float64)
    eyes = flat[[topology.RIGHT_EYE_OUTER, topology.LEFT_EYE_OUTER]]
    low = np.maximum(0, np.floor(eyes.min(axis=0) - 0.3 * unit)).astype(int)
    high = np.minimum(rgb.shape[0], np.ceil(eyes.max(axis=0) + 0.3 * unit)).astype(int)
    crop = rgb[low[1] : high[1], low[0] : high[0]]
    known: NDArray[np.float32] = np.ones(crop.shape[:2], np.float32)
    shade = np.zeros_like(known)
    darkest = []
    for upper, lower in (
        (topology.RIGHT_UPPER_LID, topology.RIGHT_LOWER_LID),
        (topology.LEFT_UPPER_LID, topology.LEFT_LOWER_LID),
    ):
        top, bottom = flat[list(upper)] - low, flat[list(lower)] - low
        lifted = top - frame.axes[:, 1] * (0.05 * unit)
        sunk = bottom + frame.axes[:, 1] * (0.015 * unit)
        # Lashes and paint go on past the outer corner.
        past = (top[0] - top[-1]) * 0.22
        lifted[0] += past
        sunk[0] += past
        mask: NDArray[np.uint8] = np.zeros(known.shape, np.uint8)
        cv2.fillPoly(mask, [np.round(np.vstack([lifted, sunk[::-1]])).astype(np.int32)], 1)
        reach = 2 * round(0.025 * unit) + 1
        disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (reach, reach))
        known[np.asarray(cv2.dilate(mask, disc)) > 0] = 0.0
        # The fold above the ball, where the lid turns inwards when open, keeps a faint line.
        fold = np.zeros(known.shape, np.uint8)
        cv2.polylines(
            fold,
            [np.round(lifted).astype(np.int32)],
            False,
            255,
            max(1, round(0.012 * unit)),
            cv2.LINE_AA,
        )
        shade = np.maximum(
            shade, cv2.GaussianBlur(fold.astype(np.float32) / 255.0, (0, 0), 0.018 * unit)
        )
        x, y = np.round(top).astype(int).T
        darkest.append(crop[np.clip(y, 0, crop.shape[0] - 1), np.clip(x, 0, crop.shape[1] - 1)])
    outside = known > 0
    known *= ~_smudges(crop, known)
    known = np.asarray(cv2.erode(known, np.ones((3, 3), np.uint8)), np.float32)
    filled = fill_hidden(crop, known).astype(np.float32)
    filled *= (0.97 - 0.12 * shade)[..., None]
    grain = crop.astype(np.float32) - cv2.GaussianBlur(crop, (0, 0), 1.5)
    grain = np.clip(np.roll(grain, -round(0.2 * unit), axis=0), -6, 6)
    reach = 2 * round(0.09 * unit) + 1
    near = cv2.dilate((~outside).astype(np.uint8), np.ones((reach, reach), np.uint8)) > 0
    kept = (known > 0) | ~near
    lids = np.where(kept[..., None], crop, np.clip(filled + grain * 0.6, 0, 255)).astype(np.uint8)
    lash = np.percentile(np.vstack(darkest), 20, axis=0) * 0.65
    return np.ascontiguousarray(lids), (int(low[0]), int(low[1])), np.asarray(lash)


def _smudges(crop: NDArray[np.uint8], known: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Lashes, paint, deep shadow and glare [h, w] among the known skin around the eyes: no colour
    for a lid.
    """
    bright = cv2.GaussianBlur(crop, (0, 0), 1.0).max(axis=2)
    usual = np.median(bright[known > 0])
    return np.asarray((bright < 0.86 * usual) | (bright > 1.2 * usual))


@numba.njit(nogil=True, cache=True, fastmath=True)
def draw_eye(
    out: NDArray[np.uint8],
    bounds: NDArray[np.float64],
    table: NDArray[np.float64],
    p: NDArray[np.float64],
    texture: NDArray[np.uint8],
    lids: NDArray[np.uint8],
) -> None:
    """Paints an eyeball between the lids and lets the upper lid down over it.

    out: [H, W, 3]; bounds, table: from `opening_table` for the open eye; p: [EYE_PARAMETERS];
    texture: [h, w, 4] the portrait; lids: [h, w, 3] from `paint_lids`.
    """
    x0, y0, x1, y1 = opening_box(bounds, table, out.shape[0], out.shape[1])
    shut = p[12]
    unit = p[11]
    lashes = 0.017 * unit
    band = _LID_BAND * unit
    past = _PAST_CORNER * unit if shut > 0 else 0.0
    scale = texture.shape[0] / out.shape[0]
    if shut > 0:
        y0, y1 = max(0, y0 - int(band) - 2), min(out.shape[0], y1 + 3)
        x0, x1 = max(0, x0 - int(past) - 1), min(out.shape[1], x1 + int(past) + 2)
    for y in range(y0, y1):
        for x in range(x0, x1):
            dx, dy = x - bounds[0], y - bounds[1]
            along = dx * bounds[2] + dy * bounds[3]
            edge = min(along, bounds[4] - along)
            if edge <= -past:
                continue
            height = -dx * bounds[3] + dy * bounds[2]
            at = min(1.0, max(0.0, along / bounds[4])) * (TABLE - 1)
            k = min(int(at), TABLE - 2)
            f = at - k
            rise = table[0, k] * (1 - f) + table[0, k + 1] * f
            fall = table[1, k] * (1 - f) + table[1, k + 1] * f
            rim = rise + shut * (fall - rise)
            below, above = height - rim, fall - height
            tx = p[0] * x + p[1] * y + p[2]
            ty = p[3] * x + p[4] * y + p[5]
            # The open lid's own lashes hang over the ball: it begins softly beneath them.
            cover = smooth_step((height - rise) / lashes) + min(1.0, max(0.0, above + 0.5)) - 1.0
            cover *= min(1.0, max(0.0, edge) / 2.0)
            if cover > 0 and below > -1.0:
                _draw_ball(out, x, y, tx, ty, cover, below / (3 * lashes), p, texture)
            if shut > 0 and below < 3 * lashes:
                _draw_lid(out, x, y, tx / scale, ty / scale, height - rise, below, edge, p, lids)


@numba.njit(nogil=True, cache=True, fastmath=True, inline="always")
def _draw_ball(out, x, y, tx, ty, cover, below_lid, p, texture):  # type: ignore[no-untyped-def]
    """The iris moves as a whole, the white beside it gives way; a lowered lid throws a shadow."""
    rx, ry = tx - p[6] - p[9], ty - p[7] - p[10]
    share = 1 - smooth_step((np.sqrt(rx * rx + ry * ry) / p[8] - 1.15) / 1.7)
    shadow = 1 - 0.45 * min(1.0, 2 * p[12]) * (1 - smooth_step(below_lid))
    for c in range(3):
        value = sample(texture, tx - p[9] * share, ty - p[10] * share, c) * shadow
        out[y, x, c] = int(out[y, x, c] * (1 - cover) + value * cover + 0.5)


@numba.njit(nogil=True, cache=True, fastmath=True, inline="always")
def _draw_lid(out, x, y, sx, sy, below_rest, below, edge, p, lids):  # type: ignore[no-untyped-def]
    """Skin from the fold down to the rim, then the lashes along the rim."""
    unit, shut = p[11], p[12]
    band = _LID_BAND * unit
    skin = smooth_step((below_rest + band) / (0.55 * band)) * min(1.0, max(0.0, 0.5 - below))
    skin *= smooth_step(5 * shut) * smooth_step(edge / (_PAST_CORNER * unit) + 1)
    # The rim itself is a little darker: it turns away from the light.
    turn = 1 - 0.14 * (1 - smooth_step(-below / (0.05 * unit)))
    if below < 0:
        thickness = 0.015 * unit
    else:
        thickness = 0.008 * unit
    line = (
        np.exp(-((below / thickness) ** 2))
        * smooth_step(3 * shut)
        * smooth_step((edge + 0.01 * unit) / (0.05 * unit))
        * 0.62
    )
    for c in range(3):
        value = sample(lids, sx - p[13], sy - p[14], c) * turn
        value = out[y, x, c] * (1 - skin) + value * skin
        out[y, x, c] = int(value * (1 - line) + p[15 + c] * line + 0.5)
