"""The inside of the mouth: teeth made once per avatar, and the loop that paints what the lips leave
open.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from services.face.avatar import topology
from services.face.avatar.hidden import fill_hidden
from services.face.avatar.mesh import HeadFrame
from services.face.draw.compiling import inlined, inner
from services.face.draw.raster import (
    TABLE,
    opening_box,
    place_in_opening,
    sample,
    smooth_step,
)

TEETH_SCALE = 240
"""Texture pixels per eye distance."""
_MM = 1 / 90
"""Eye distances per millimetre: 90 mm lie between the outer corners of the eyes."""
_UPPER_WIDTHS_MM = (8.6, 6.7, 7.7, 7.0, 6.8, 9.5)
"""From the middle outwards; upper and lower sizes after Wheeler's dental anatomy."""
_UPPER_HEIGHTS_MM = (10.4, 9.2, 10.0, 8.6, 7.6, 7.0)
_UPPER_EDGE_MM = (0.0, 0.9, 0.3, 1.3, 1.9, 2.6)
"""How far a tooth ends above the edge of the front ones."""
_LOWER_WIDTHS_MM = (5.2, 5.7, 6.8, 7.0, 7.1, 10.0)
_LOWER_HEIGHTS_MM = (8.6, 8.8, 10.0, 8.5, 8.0, 7.5)
_LOWER_EDGE_MM = (0.0, 0.1, 0.0, 0.8, 1.3, 1.8)
_GUM = (0.72, 0.40, 0.38)
_SUPERSAMPLING = 4
_TONGUE = (196.0, 104.0, 102.0)
_RIM = 0.035
"""How much of a lip turns in, eye distances."""

UPPER_HALF_WIDTH, UPPER_TOP, UPPER_BOTTOM = 0.36, -0.17, 0.02
"""Extent of the upper texture around the middle of the incisal edge, eye distances."""
LOWER_HALF_WIDTH, LOWER_TOP, LOWER_BOTTOM = 0.33, -0.02, 0.15

MOUTH_PARAMETERS = 16
"""0..5 inverse affine pixel -> (u, v); 6, 7 v of the upper incisal edge and of the lower; 8 how far
the tongue is raised; 9..11 light on the inside, RGB about 1; 12 eye distance in pixels; 13 strength
of the shut seam; 14 how far the jaw is open; 15 how far the tip of the tongue is out.
"""


def teeth_texture(ivory: NDArray[np.floating], *, upper: bool) -> NDArray[np.float32]:
    """One row of teeth with gums: [h, w, 4] float32, RGB 0..255 and alpha 0..1, seen from the
    front.

    ivory: [3] RGB 0..255 of a well lit front tooth.
    """
    half, top, bottom = (
        (UPPER_HALF_WIDTH, UPPER_TOP, UPPER_BOTTOM)
        if upper
        else (LOWER_HALF_WIDTH, LOWER_TOP, LOWER_BOTTOM)
    )
    scale = TEETH_SCALE * _SUPERSAMPLING
    u = (np.arange(round(2 * half * scale)) + 0.5) / scale - half
    v = (np.arange(round((bottom - top) * scale)) + 0.5) / scale + top
    if not upper:
        v = -v
    index, across, facing = _arch(u, upper=upper)
    heights = np.array(_UPPER_HEIGHTS_MM if upper else _LOWER_HEIGHTS_MM)[index]
    edges = np.array(_UPPER_EDGE_MM if upper else _LOWER_EDGE_MM)[index]
    canine = index == 2
    rounding = np.where(
        canine, 0.7 * np.abs(across) ** 1.6, (0.3 if upper else 0.2) * np.abs(across) ** 6
    )
    edge_v = -(edges + rounding) * _MM
    neck_v = -(edges + heights - 1.3 * np.abs(across) ** 2.2) * _MM
    depth = edge_v[None] - v[:, None]  # up from the edge
    alpha = _ramp(depth, 0.5 * _MM)
    crown = np.clip(depth / (heights * _MM), 0, 1)
    body = 0.93 + 0.07 * np.sin(np.pi * np.clip(crown * 0.9 + 0.1, 0, 1))
    rounded = 1 - 0.10 * np.abs(across) ** 5 - 0.03 * across**2
    gap = 1 - (0.12 if upper else 0.08) * np.exp(-(((1 - np.abs(across)) * 3.6) ** 2) * 3)
    shade = body * (rounded * gap * facing)[None]
    warm = np.array([1.0, 0.97, 0.90])
    tip = np.array([0.97, 0.985, 1.0])
    tint = tip + (warm - tip) * _smooth(crown * 1.3)[..., None]
    colour = np.asarray(ivory, np.float64) * tint * shade[..., None]
    gum = _ramp(neck_v[None] - v[:, None], 0.5 * _MM)[..., None]
    gum_colour = np.asarray(_GUM) * float(np.mean(ivory)) * (0.55 + 0.45 * facing)[None, :, None]
    colour = colour * (1 - gum) + gum_colour * gum
    fade = np.clip((half - np.abs(u)) / 0.02, 0, 1)
    rgba = np.concatenate([colour, (alpha * fade[None])[..., None]], axis=2).astype(np.float32)
    size = (round(len(u) / _SUPERSAMPLING), round(len(v) / _SUPERSAMPLING))
    return np.ascontiguousarray(cv2.resize(rgba, size, interpolation=cv2.INTER_AREA))


def seen_teeth(
    rgb: NDArray[np.uint8],
    lips: NDArray[np.float64],
    frame: HeadFrame,
    drawn: NDArray[np.float32],
    ivory: NDArray[np.float64],
) -> NDArray[np.float32]:
    """`drawn` [h, w, 4] (a `teeth_texture`) with the upper teeth that a smiling portrait `rgb` [H,
    W, 3] itself shows.

    rgb: uint8; drawn and the result: float32; lips: landmarks [468, 2] float64 in pixels; ivory:
    [3] as for `teeth_texture`. The lower lip of a smile follows the edges of the upper teeth, so it
    bounds them; what the lips hide is continued from what they show.
    """
    local = frame.local(lips)
    upper, lower = local[list(topology.UPPER_INNER_LIP)], local[list(topology.LOWER_INNER_LIP)]
    edge = float(lower[5, 1]) - 0.012
    for _ in range(2):
        found = _cut_teeth(rgb, frame, upper, lower, drawn.shape[:2], edge, ivory)
        if found is None:
            return drawn
        filled, arc = found
        # The texture hangs from the edge of the front teeth: cut again where that was found.
        edge += float(arc[len(arc) // 2])
    height, width = drawn.shape[:2]
    u, v = _texture_axes(width, height)
    reach = 0.5 * float(upper[-1, 0] - upper[0, 0])
    middle = 0.5 * float(upper[-1, 0] + upper[0, 0])
    ends = np.clip((reach - 0.015 - np.abs(u - middle)) / 0.03, 0, 1)
    alpha = _ramp(arc[None] - v[:, None], 0.6 * _MM) * ends[None]
    return np.ascontiguousarray(np.dstack([filled, alpha.astype(np.float32)]))


def _texture_axes(width: int, height: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """u and v of the columns and rows of an upper teeth texture, v from the incisal edge."""
    u = (np.arange(width) + 0.5) / TEETH_SCALE - UPPER_HALF_WIDTH
    return u, (np.arange(height) + 0.5) / TEETH_SCALE + UPPER_TOP


def _cut_teeth(
    rgb: NDArray[np.uint8],
    frame: HeadFrame,
    upper: NDArray[np.float64],
    lower: NDArray[np.float64],
    shape: tuple[int, ...],
    edge: float,
    ivory: NDArray[np.float64],
) -> tuple[NDArray[np.float32], NDArray[np.float64]] | None:
    """Teeth between the rims `upper` and `lower` [11, 2] as a texture [h, w, 3] that hangs from v =
    `edge`.

    With it comes the line where the teeth end, [w] from that edge. None when hardly any teeth are
    seen.
    """
    height, width = shape
    u, v = _texture_axes(width, height)
    grid = frame.pixels(np.stack(np.meshgrid(u, v + edge), axis=-1).reshape(-1, 2))
    x, y = grid.astype(np.float32).reshape(height, width, 2).transpose(2, 0, 1)
    seen = np.asarray(cv2.remap(rgb, x, y, cv2.INTER_CUBIC), np.uint8)
    margin = 0.014
    top = np.interp(u, upper[:, 0], upper[:, 1]) + margin - edge
    bottom = np.interp(u, lower[:, 0], lower[:, 1]) - margin - edge
    inside = (v[:, None] > top[None]) & (v[:, None] < bottom[None])
    if not inside.any():
        return None
    bright = seen.max(axis=2)
    # Lip and gum are coloured and the gaps dark, teeth are neither.
    paleness = seen.min(axis=2) / np.maximum(bright, 1)
    inside &= (paleness > ivory.min() / ivory.max() - 0.16) & (
        bright > 0.62 * np.percentile(bright[inside], 80)
    )
    if inside.mean() < 0.03:
        return None
    filled = fill_hidden(seen, inside.astype(np.float32)).astype(np.float32)
    # As bright all over as where light falls fully: shadow is added when painting.
    level = cv2.GaussianBlur(filled.max(axis=2), (0, 0), 0.05 * TEETH_SCALE)
    filled *= np.clip(ivory.max() / np.maximum(level, 1.0), 0.8, 1.6)[..., None].astype(np.float32)
    columns = np.flatnonzero(inside.sum(axis=0) >= 3)
    lowest = height - 1 - np.argmax(inside[::-1], axis=0)
    arc = np.interp(np.arange(width), columns, v[lowest[columns]])
    smooth = cv2.blur(arc[None], (9, 1), borderType=cv2.BORDER_REPLICATE)
    return filled, cv2.GaussianBlur(smooth, (0, 0), 4)[0]


def _arch(
    u: NDArray[np.float64], *, upper: bool
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Per column u: which tooth from the middle, place across it (-1..1), and how much it faces the
    light (0..1).
    """
    widths = np.array(_UPPER_WIDTHS_MM if upper else _LOWER_WIDTHS_MM)
    half_width, deep = (30.0, 44.0) if upper else (27.0, 40.0)
    angle = np.linspace(0, 0.5 * np.pi, 4000)
    x, z = half_width * np.sin(angle), deep * (1 - np.cos(angle))
    length = np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(x), np.diff(z)))])
    along = np.interp(np.abs(u) / _MM, x, length)
    ends = np.cumsum(widths)
    index = np.minimum(np.searchsorted(ends, along), len(widths) - 1)
    across = np.clip(2 * (along - (ends - widths)[index]) / widths[index] - 1, -1, 1)
    steepness = np.interp(np.abs(u) / _MM, x, np.gradient(z, x + 1e-9 * np.arange(len(x))))
    return index, across, 0.35 + 0.65 / (1 + (steepness / 1.3) ** 2)


def _ramp(distance: NDArray[np.float64], width: float) -> NDArray[np.float64]:
    return _smooth(distance / width + 0.5)


def _smooth(x: NDArray[np.float64]) -> NDArray[np.float64]:
    t = np.clip(x, 0, 1)
    return t * t * (3 - 2 * t)


@inner()
def draw_mouth(
    out: NDArray[np.uint8],
    bounds: NDArray[np.float64],
    table: NDArray[np.float64],
    p: NDArray[np.float64],
    upper_teeth: NDArray[np.float32],
    lower_teeth: NDArray[np.float32],
) -> None:
    """Paints teeth, tongue and the dark behind them into the opening of the lips, and the seam
    where they touch.

    out: [H, W, 3] uint8; bounds, table: from `opening_table`; p: [MOUTH_PARAMETERS] float64; teeth:
    [h, w, 4] float32 from `teeth_texture`.
    """
    x0, y0, x1, y1 = opening_box(bounds, table, out.shape[0], out.shape[1])
    unit = p[12]
    widest = 0.0
    for s in range(TABLE):
        widest = max(widest, table[1, s] - table[0, s])
    # A little less light falls through a narrow slit. Lips close and open ten times a second: teeth
    # that were as much darker as they are would flicker.
    lit = 0.92 + 0.08 * smooth_step(widest / (0.10 * unit))
    reach = int(_RIM * unit) + 1
    for y in range(max(0, y0 - reach), min(out.shape[0], y1 + reach)):
        for x in range(x0, x1):
            along, height, rise, fall = place_in_opening(bounds, table, x, y)
            if along <= 0 or along >= bounds[4]:
                continue
            edge = min(along, bounds[4] - along)
            below, above = height - rise, fall - height
            _shade_rim(out, x, y, below, above, edge, p)
            if p[13] > 0:
                _draw_seam(out, x, y, height - 0.5 * (rise + fall), fall - rise, edge, p)
            # The dark reaches a little over the rims: their own edge is ragged.
            over = 0.7 + 0.35 * min(1.0, (fall - rise) / 2.5)
            # So the edge is softer outwards alone.
            soft = 1.4 + 0.008 * unit
            over += soft - 1.4
            cover = (
                min(1.0, max(0.0, (below + over) / soft))
                + min(1.0, max(0.0, (above + over) / soft))
                - 1.0
            )
            if cover <= 0:
                continue
            cover *= smooth_step(edge / (0.03 * unit) + 0.1)
            at = p[0] * x + p[1] * y + p[2], p[3] * x + p[4] * y + p[5]
            red, green, blue = _inside(
                at, below / unit, above / unit, edge / unit, p, upper_teeth, lower_teeth, lit
            )
            out[y, x, 0] = int(out[y, x, 0] * (1 - cover) + min(255.0, red) * cover + 0.5)
            out[y, x, 1] = int(out[y, x, 1] * (1 - cover) + min(255.0, green) * cover + 0.5)
            out[y, x, 2] = int(out[y, x, 2] * (1 - cover) + min(255.0, blue) * cover + 0.5)


@inlined()
def _shade_rim(out, x, y, below, above, edge, p):  # type: ignore[no-untyped-def]
    """Lips roll in: towards the opening they look away from the light, the upper one most."""
    width, gap = _RIM * p[12], below + above
    if gap <= 0 or (below > 0 and above > 0):
        return
    off, most = (-below, 0.42) if below <= 0 else (-above, 0.26)
    if off >= width:
        return
    shade = most * (1 - smooth_step(off / width)) * smooth_step(gap / (0.06 * p[12]))
    shade *= smooth_step(edge / (0.06 * p[12]))
    out[y, x, 0] = int(out[y, x, 0] * (1 - 0.8 * shade) + 0.5)
    out[y, x, 1] = int(out[y, x, 1] * (1 - shade) + 0.5)
    out[y, x, 2] = int(out[y, x, 2] * (1 - shade) + 0.5)


@inlined()
def _draw_seam(out, x, y, off, gap, edge, p):  # type: ignore[no-untyped-def]
    """The fine shadow where lips touch; it gives way to the dark of the mouth as they part."""
    width = 0.011 * p[12]
    strength = p[13] * np.exp(-((off / width) ** 2)) * (1 - smooth_step(gap / (0.03 * p[12])))
    strength *= smooth_step(edge / (0.035 * p[12]))
    out[y, x, 0] = int(out[y, x, 0] * (1 - 0.8 * strength))
    out[y, x, 1] = int(out[y, x, 1] * (1 - strength))
    out[y, x, 2] = int(out[y, x, 2] * (1 - strength))


@inlined()
def _inside(at, below, above, edge, p, upper_teeth, lower_teeth, lit):  # type: ignore[no-untyped-def]
    """Colour at (u, v) in the mouth; below, above, edge: distances to the upper lip, the lower lip
    and the nearer corner.
    """
    u, v = at
    # Back of the mouth: nearly black, a little red where light comes in over the lower lip.
    glow = 1.0 - smooth_step(above / 0.16)
    red, green, blue = 34.0 + 40.0 * glow, 12.0 + 14.0 * glow, 12.0 + 13.0 * glow
    # Tongue: a dome behind the lower teeth, raised towards the upper ones on demand.
    across = u / 0.25
    crest = (
        p[7]
        - (0.012 + 0.17 * p[14] + (0.05 + 0.12 * p[14]) * p[8]) * max(0.0, 1 - across * across)
        + 0.012
    )
    tongue = smooth_step((v - crest) / 0.04 + 0.5) * (1 - smooth_step((abs(across) - 0.75) / 0.3))
    if tongue > 0:
        front = smooth_step((v - crest) / 0.12)
        light = (0.42 + 0.40 * front) * (1 - 0.14 * np.exp(-((across / 0.10) ** 2)))
        red += (_TONGUE[0] * light - red) * tongue
        green += (_TONGUE[1] * light - green) * tongue
        blue += (_TONGUE[2] * light - blue) * tongue
    tx = (u + LOWER_HALF_WIDTH) * TEETH_SCALE - 0.5
    ty = (v - p[7] - LOWER_TOP) * TEETH_SCALE - 0.5
    if 0 <= tx < lower_teeth.shape[1] - 1 and 0 <= ty < lower_teeth.shape[0] - 1:
        alpha = sample(lower_teeth, tx, ty, 3)
        light = 0.80 * (0.86 + 0.14 * smooth_step(below / 0.10))
        red += (sample(lower_teeth, tx, ty, 0) * light - red) * alpha
        green += (sample(lower_teeth, tx, ty, 1) * light - green) * alpha
        blue += (sample(lower_teeth, tx, ty, 2) * light - blue) * alpha
    tx = (u + UPPER_HALF_WIDTH) * TEETH_SCALE - 0.5
    ty = (v - p[6] - UPPER_TOP) * TEETH_SCALE - 0.5
    if 0 <= tx < upper_teeth.shape[1] - 1 and 0 <= ty < upper_teeth.shape[0] - 1:
        alpha = sample(upper_teeth, tx, ty, 3)
        light = 0.82 + 0.18 * smooth_step(below / 0.05)
        red += (sample(upper_teeth, tx, ty, 0) * light - red) * alpha
        green += (sample(upper_teeth, tx, ty, 1) * light - green) * alpha
        blue += (sample(upper_teeth, tx, ty, 2) * light - blue) * alpha
    if p[15] > 0:
        red, green, blue = _tip(u, v, p, red, green, blue)
    # The lips shade what lies right behind them, the cheeks the corners.
    shade = (
        (0.9 + 0.1 * smooth_step(min(below, above) / 0.02))
        * (0.45 + 0.55 * smooth_step(edge / 0.11))
        * lit
    )
    return red * shade * p[9], green * shade * p[10], blue * shade * p[11]


@inlined()
def _tip(u, v, p, red, green, blue):  # type: ignore[no-untyped-def]
    """The tip of the tongue between the teeth, over what is there: under the upper edges, before
    the lower ones.
    """
    across = u / 0.17
    top = p[6] - 0.010 + 0.03 * across * across + 0.05 * (1 - p[15])
    tongue = smooth_step((v - top) / 0.014 + 0.5) * (1 - smooth_step((abs(across) - 0.7) / 0.35))
    round_ = smooth_step((v - top) / 0.06)
    light = (0.62 + 0.32 * round_) * (1 - 0.10 * np.exp(-((across / 0.14) ** 2)))
    red += (_TONGUE[0] * light - red) * tongue
    green += (_TONGUE[1] * light - green) * tongue
    return red, green, blue + (_TONGUE[2] * light - blue) * tongue
