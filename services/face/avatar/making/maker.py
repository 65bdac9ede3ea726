"""Makes an avatar of a portrait: mesh, resting face, shapes, background, and the colours of its
mouth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import cv2
import numpy as np
from numpy.typing import NDArray

from services.face.avatar import topology
from services.face.avatar.avatar import TEETH_EDGE_PARTED, TEETH_EDGE_SHUT, Avatar
from services.face.avatar.hidden import continue_behind
from services.face.avatar.making.lids import paint_lids
from services.face.avatar.making.portrait import Portrait
from services.face.avatar.mesh import FaceMesh, HeadFrame, build_mesh, head_frame
from services.face.avatar.shapes import build_shapes, closed_mouth
from services.face.draw.mouth import seen_teeth, teeth_texture

_DEFAULT_IVORY = (228.0, 216.0, 196.0)
_OPENING = (*topology.UPPER_INNER_LIP, *topology.LOWER_INNER_LIP[-2:0:-1])
"""Outline of what lies between the lips."""
_CHEEKS = (50, 280, 205, 425, 36, 266, 101, 330)
_OPEN_GAP = 0.03
"""Lips further apart than this, in eye distances, may show what is between them."""


def make_avatar(
    portrait: Portrait, *, name: str, licence: str, source_note: str, created: str
) -> Avatar:
    """Everything that can be worked out once."""
    rgb, points = portrait.rgb, portrait.landmarks.points
    size = rgb.shape[0]
    frame = head_frame(points)
    parted = shows_inside(rgb, points, frame)
    mesh = build_mesh(points, size)
    rest = mesh.source + closed_mouth(mesh, frame, parted=parted)
    if parted:
        mesh = replace(mesh, source=_without_fringe(mesh))
    middle = rest[list(topology.UPPER_INNER_LIP)].mean(axis=0)
    frame = HeadFrame(middle, frame.axes, frame.eye_distance, frame.pivot)
    lips = points[:, :2].astype(np.float64)
    opening = lips[list(_OPENING)]
    light = _light(rgb, points, portrait.landmarks.iris)
    # A rim outside the matte is tinted by the person: it counts as hidden.
    rim = cv2.dilate(portrait.person, np.ones((9, 9), np.uint8))
    background = continue_behind(rgb, rim > 0.01, reach=0.35 * frame.eye_distance)
    lids, lids_at, lash = paint_lids(rgb, points, frame)
    ivory = _ivory(rgb, opening, light) if parted else np.array(_DEFAULT_IVORY)
    upper_teeth = teeth_texture(ivory, upper=True)
    if parted:
        upper_teeth = seen_teeth(rgb, lips, frame, upper_teeth, ivory)
    upper_teeth[..., 3] *= 255
    matte = np.round(explained_matte(rgb, background, portrait.person) * 255).astype(np.uint8)
    matte[matte < 6] = 0
    return Avatar(
        name=name,
        licence=licence,
        source_note=source_note,
        created=created,
        portrait=rgb,
        background=background,
        matte=matte,
        mesh=mesh,
        frame=frame,
        rest=rest,
        shapes=build_shapes(mesh, frame, rest, brow_room(rgb, points, frame)),
        iris=portrait.landmarks.iris.astype(np.float64),
        lids=lids,
        lids_at=lids_at,
        lash=lash,
        upper_teeth=np.clip(np.round(upper_teeth), 0, 255).astype(np.uint8),
        mouth_middle=middle,
        ivory=ivory,
        mouth_light=light,
        teeth_edge=TEETH_EDGE_PARTED if parted else TEETH_EDGE_SHUT,
        seam=0.5 if parted else _seam(rgb, points, frame),
    )


def explained_matte(
    rgb: NDArray[np.uint8], background: NDArray[np.uint8], person: NDArray[np.float32]
) -> NDArray[np.float32]:
    """`person` [H, W] float32 0..1, raised where so little of it could not give the portrait's
    colour. rgb, background: [H, W, 3] uint8.

    A pixel is person * alpha + background * (1 - alpha); no colour of the person lies outside
    0..255, which bounds alpha from below.
    """
    seen, behind = rgb.astype(np.float32), background.astype(np.float32)
    darker = 1 - seen / np.maximum(behind, 1)
    lighter = (seen - behind) / np.maximum(255 - behind, 1)
    least = np.clip(np.maximum(darker, lighter).max(axis=2), 0, 1)
    # Nothing is raised from nothing: where the matte sees no trace of a person, there is none.
    trace = np.clip(cv2.GaussianBlur(person, (0, 0), 2.0) / 0.06, 0, 1)
    return np.asarray(np.maximum(person, least * trace), np.float32)


def _without_fringe(mesh: FaceMesh) -> NDArray[np.float64]:
    """Places in the portrait [N, 2] such that the rims of parted lips take no colour from the teeth
    between them.
    """
    source = mesh.source.copy()
    for rows in (topology.UPPER_LIP_ROWS, topology.LOWER_LIP_ROWS):
        inner, middle, next_row = (list(row) for row in (rows[-1], rows[-2], rows[-3]))
        # In the corners of a smile the dark behind the teeth begins: stay clear of it altogether.
        corner = np.abs(np.linspace(-1, 1, len(inner)))[:, None] ** 4
        target = mesh.source[middle] * (1 - corner) + mesh.source[next_row] * corner
        source[inner] += np.maximum(0.55, corner) * (target - mesh.source[inner])
        for end in (0, -1):
            source[middle[end]] = mesh.source[next_row[end]]
    for lining in mesh.linings[:2]:
        strip, edge = lining.strip[1:-1], lining.edge[1:-1]
        source[strip] = source[edge] - 0.6 * mesh.offsets[strip]
    return source


def shows_inside(rgb: NDArray[np.uint8], points: NDArray[np.floating], frame: HeadFrame) -> bool:
    """Whether teeth or the dark behind them are seen between the lips of a portrait.

    rgb: [H, W, 3] uint8; points: landmarks [468, 3] float in its pixels. Full lips that are shut
    are measured as parted: so what lies between decides, which is paler than a lip, or far darker.
    """
    if float(np.ptp(frame.local(points[[13, 14], :2])[:, 1])) < _OPEN_GAP:
        return False
    inside = _colours_within(rgb, points, _OPENING)
    lip = _lip_colour(rgb, points)
    if len(inside) < 8:
        return False
    bright = inside.max(axis=1)
    paler = inside.min(axis=1) / np.maximum(bright, 1) > lip.min() / max(lip.max(), 1) + 0.1
    teeth = paler & (bright > 0.8 * lip.max())
    dark = bright < 0.5 * lip.max()
    return bool((teeth | dark).mean() > 0.3)


def _seam(rgb: NDArray[np.uint8], points: NDArray[np.floating], frame: HeadFrame) -> float:
    """Shadow between lips that are shut in the portrait, 0..1: as dark as the line that it shows
    there, as far as that is taken for an opening and so painted over.
    """
    gap = float(np.ptp(frame.local(points[[13, 14], :2])[:, 1]))
    inside = _colours_within(rgb, points, _OPENING)
    if len(inside) < 8:
        return 0.15
    bright = inside.max(axis=1) / max(float(_lip_colour(rgb, points).max()), 1.0)
    darkness = 1 - float(np.percentile(bright, 15))
    return float(np.clip(darkness * min(1.0, gap / 0.02), 0.15, 0.6))


def _lip_colour(rgb: NDArray[np.uint8], points: NDArray[np.floating]) -> NDArray[np.float64]:
    """Median [3], RGB 0..255."""
    x, y = np.clip(np.round(points[list(topology.LIPS), :2]).astype(int), 0, len(rgb) - 1).T
    return np.asarray(np.median(rgb[y, x].astype(np.float64), axis=0))


def _colours_within(
    rgb: NDArray[np.uint8], points: NDArray[np.floating], rim: Sequence[int]
) -> NDArray[np.float64]:
    """Pixels [K, 3] of `rgb` within a closed rim of landmarks."""
    mask = np.zeros(rgb.shape[:2], np.uint8)
    cv2.fillPoly(mask, [np.round(points[list(rim), :2]).astype(np.int32)], 1)
    return rgb[mask > 0].astype(np.float64)


def _light(
    rgb: NDArray[np.uint8], points: NDArray[np.floating], iris: NDArray[np.floating]
) -> NDArray[np.float64]:
    """How the face is lit, [3] RGB about 1: how brightly from the bright part of the cheeks, in
    which colour from the whites of the eyes. iris: [2, 3] x, y, radius; pixels.
    """
    xy = np.clip(np.round(points[list(_CHEEKS), :2]).astype(int), 0, rgb.shape[0] - 1)
    bright = float(np.percentile(rgb[xy[:, 1], xy[:, 0]].max(axis=1), 70))
    masked = rgb.copy()
    for x, y, radius in iris:
        cv2.circle(masked, (round(x), round(y)), round(1.2 * radius) + 1, (0, 0, 0), cv2.FILLED)
    whites = np.vstack(
        [
            _colours_within(masked, points, (*upper, *lower[-2:0:-1]))
            for upper, lower in (
                (topology.RIGHT_UPPER_LID, topology.RIGHT_LOWER_LID),
                (topology.LEFT_UPPER_LID, topology.LEFT_LOWER_LID),
            )
        ]
    )
    level = np.clip(0.25 + 0.75 * bright / 215.0, 0.45, 1.05)
    return np.asarray(level * _tint(whites[whites.max(axis=1) > 0]))


def _tint(whites: NDArray[np.float64]) -> NDArray[np.float64]:
    """Colour of the light that falls on white [K, 3], RGB: [3] with 1 for the strongest.

    From warm to cold as lamps and sky are: blue against green tells. Red tells nothing, for lids
    and skin redden whites.
    """
    if len(whites) < 12:
        return np.ones(3)
    bright = whites.max(axis=1)
    _, green, blue = np.median(whites[bright >= np.percentile(bright, 60)], axis=0)
    coldness = blue / max(green, 1.0)
    warm, cold = (np.clip(share, 0.4, 1.0) ** 0.8 for share in (coldness / 0.85, 1.05 / coldness))
    return np.array([cold, (warm * cold) ** 0.35, warm])


def _ivory(
    rgb: NDArray[np.uint8], opening: NDArray[np.float64], light: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Colour of the teeth that the portrait shows, as if fully lit; a usual one where it shows
    none.
    """
    mask = np.zeros(rgb.shape[:2], np.uint8)
    cv2.fillPoly(mask, [np.round(opening).astype(np.int32)], 255)
    pixels = rgb[mask > 0].astype(np.float64)
    if len(pixels) < 20:
        return np.array(_DEFAULT_IVORY)
    bright = pixels.mean(axis=1)
    best = pixels[bright >= np.percentile(bright, 65)]
    colour = np.median(best, axis=0)
    saturation = 1 - colour.min() / max(1.0, colour.max())
    if saturation > 0.3 or colour.max() < 110:
        return np.array(_DEFAULT_IVORY)
    return np.asarray(np.minimum(colour / light, 250.0), np.float64)


def brow_room(rgb: NDArray[np.uint8], points: NDArray[np.floating], frame: HeadFrame) -> float:
    """Height of bare skin between the brows and the hair, in eye distances, the smaller of both
    sides. rgb: [H, W, 3] uint8; points: landmarks [468, 3] float in its pixels.
    """
    lab = cv2.cvtColor(cv2.GaussianBlur(rgb, (3, 3), 0), cv2.COLOR_RGB2LAB).astype(np.float64)
    size = rgb.shape[0]
    forehead = points[[topology.BROW_CENTRE, *_CHEEKS], :2].astype(int)
    skin = np.vstack(
        [lab[max(0, y - 3) : y + 4, max(0, x - 3) : x + 4].reshape(-1, 3) for x, y in forehead]
    )
    centre = np.median(skin, axis=0)
    spread = np.maximum(skin.std(axis=0), (10.0, 4.0, 5.0))
    up = -frame.axes[:, 1]
    unit = frame.eye_distance
    rooms = []
    for brow in ((105, 66, 63), (334, 296, 293)):
        side = []
        for vertex in brow:
            room = 0.0
            # The brow itself is no skin: start above it.
            for step in np.arange(0.045, 0.7, 1.5 / unit):
                x, y = np.round(points[vertex, :2] + up * step * unit).astype(int)
                if not (0 <= x < size and 0 <= y < size):
                    break
                if np.abs((lab[y, x] - centre) / spread).max() > 3.2:
                    break
                room = float(step)
            side.append(room)
        rooms.append(float(np.median(side)))
    return min(rooms)
