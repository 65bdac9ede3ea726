"""The eyes: a ball behind the lids that carries the gaze, and a lid that comes down over it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from services.face.draw.compiling import inlined, inner
from services.face.draw.raster import opening_box, place_in_opening, sample, smooth_step

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


@inner()
def draw_eye(
    out: NDArray[np.uint8],
    bounds: NDArray[np.float64],
    table: NDArray[np.float64],
    p: NDArray[np.float64],
    texture: NDArray[np.uint8],
    lids: NDArray[np.uint8],
) -> None:
    """Paints an eyeball between the lids and lets the upper lid down over it.

    out: [H, W, 3] uint8; bounds, table: from `opening_table` for the open eye; p: [EYE_PARAMETERS]
    float64; texture: [h, w, 4] uint8, the portrait; lids: [h, w, 3] uint8, `lids.paint_lids`.
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
            along, height, rise, fall = place_in_opening(bounds, table, x, y)
            edge = min(along, bounds[4] - along)
            if edge <= -past:
                continue
            rim = rise + shut * (fall - rise)
            below, above = height - rim, fall - height
            tx = p[0] * x + p[1] * y + p[2]
            ty = p[3] * x + p[4] * y + p[5]
            # The open lid's own lashes hang over the ball: it begins softly beneath them.
            cover = smooth_step((height - rise) / lashes) + min(1.0, max(0.0, above + 0.5)) - 1.0
            cover *= min(1.0, max(0.0, edge) / 2.0)
            if cover > 0 and below > -1.0:
                _draw_ball(out, (x, y), (tx, ty), cover, below / (3 * lashes), p, texture)
            if shut > 0 and below < 3 * lashes:
                in_lids = tx / scale - p[13], ty / scale - p[14]
                _draw_lid(out, (x, y), in_lids, height - rise, below, edge, p, lids)


@inlined()
def _draw_ball(out, pixel, texel, cover, below_lid, p, texture):  # type: ignore[no-untyped-def]
    """The iris moves as a whole, the white beside it gives way; a lowered lid throws a shadow."""
    (x, y), (tx, ty) = pixel, texel
    rx, ry = tx - p[6] - p[9], ty - p[7] - p[10]
    share = 1 - smooth_step((np.sqrt(rx * rx + ry * ry) / p[8] - 1.15) / 1.7)
    shadow = 1 - 0.45 * min(1.0, 2 * p[12]) * (1 - smooth_step(below_lid))
    for c in range(3):
        value = sample(texture, tx - p[9] * share, ty - p[10] * share, c) * shadow
        out[y, x, c] = int(out[y, x, c] * (1 - cover) + value * cover + 0.5)


@inlined()
def _draw_lid(out, pixel, in_lids, below_rest, below, edge, p, lids):  # type: ignore[no-untyped-def]
    """Skin from the fold down to the rim, then the lashes along the rim."""
    (x, y), unit, shut = pixel, p[11], p[12]
    band = _LID_BAND * unit
    skin = smooth_step((below_rest + band) / (0.55 * band)) * min(1.0, max(0.0, 0.5 - below))
    # Over the ball the lid is all there at once; lashes and paint above it give way by and by.
    ball = smooth_step(below_rest / (0.017 * unit) + 0.5)
    skin *= ball * smooth_step(6 * shut) + (1 - ball) * smooth_step(1.7 * shut)
    skin *= smooth_step(edge / (_PAST_CORNER * unit) + 1)
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
        value = sample(lids, in_lids[0], in_lids[1], c) * turn
        value = out[y, x, c] * (1 - skin) + value * skin
        out[y, x, c] = int(value * (1 - line) + p[15 + c] * line + 0.5)
