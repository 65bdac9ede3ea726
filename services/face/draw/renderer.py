"""A pose becomes a picture."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from services.face.avatar import topology
from services.face.avatar.avatar import TEXTURE_SCALE, Avatar
from services.face.avatar.shapes import SHAPES
from services.face.draw import mouth
from services.face.draw.eyes import EYE_PARAMETERS, draw_eye
from services.face.draw.head_turn import (
    HEAD_PARAMETERS,
    add_shapes,
    fill_head,
    shut_lips,
    to_rest,
    turn_head,
)
from services.face.draw.pose import FacePose
from services.face.draw.raster import (
    NOWHERE,
    TABLE,
    fraction_bits,
    locate_texels,
    opening_table,
    paint_box,
    paint_texels,
)

_GAZE_REACH = 0.045
"""How far the iris travels at full gaze, in eye distances: 20 degrees on an eyeball of 12 mm."""
_LIMITS = {"smile": (-1.0, 1.0), "brow_raise": (-0.7, 1.0), "brow_frown": (0.0, 1.5)}
_UPPER_LIP = np.array(topology.UPPER_LIP_ROWS, np.int32)
_LOWER_LIP = np.array(topology.LOWER_LIP_ROWS, np.int32)
_MOUTH = np.array([topology.UPPER_INNER_LIP, topology.LOWER_INNER_LIP])
_RIGHT_EYE = np.array([topology.RIGHT_UPPER_LID, topology.RIGHT_LOWER_LID])
_LEFT_EYE = np.array([topology.LEFT_UPPER_LID, topology.LEFT_LOWER_LID])
_EYES = (_RIGHT_EYE, _LEFT_EYE[:, ::-1])
"""Rims of each eye from the right corner to the left, as those of the mouth."""


class Renderer:
    """Draws one avatar. No state from picture to picture; one thread at a time."""

    def __init__(self, avatar: Avatar) -> None:
        self._avatar = avatar
        self._frame = avatar.frame
        self._mesh = avatar.mesh
        self._shapes = np.ascontiguousarray(avatar.shapes, np.float64)
        source = avatar.mesh.source
        self._source = (source * TEXTURE_SCALE + (TEXTURE_SCALE - 1) / 2).astype(np.float32)
        self._triangles = avatar.visible_triangles()
        self._upper_teeth = avatar.upper_teeth.astype(np.float32)
        self._upper_teeth[..., 3] /= 255.0
        self._lower_teeth = mouth.teeth_texture(avatar.ivory, upper=False)
        self._texels = avatar.texture.reshape(-1).view("<u4")
        self._fraction_bits = fraction_bits(avatar.texture.shape[0], avatar.texture.shape[1])
        # What every picture overwrites: nothing of it is read before.
        self._texel_at = np.empty((avatar.size, avatar.size), np.uint32)
        self._head = np.zeros(HEAD_PARAMETERS)
        self._bounds = np.zeros(5)
        self._table = np.zeros((2, TABLE))
        self._lip_depth = float(self._mesh.depth[_MOUTH[0]].mean())
        self._eye_depths = [float(self._mesh.depth[eye[0]].mean()) for eye in _EYES]
        self._to_local = (self._frame.axes.T / self._frame.eye_distance).tolist()
        lip = avatar.colour_at(topology.LOWER_LIP_ROWS[1][3:8])
        self._openings = [(_MOUTH.ravel(), (lip * 0.35).astype(np.uint8))]
        for eye, skin in (
            (_RIGHT_EYE, topology.RIGHT_UNDER_EYE),
            (_LEFT_EYE, topology.LEFT_UNDER_EYE),
        ):
            colour = (avatar.colour_at(skin[1:-1]) * 0.8).astype(np.uint8)
            self._openings.append((eye.ravel(), colour))

    @property
    def size(self) -> int:
        """Width and height of the pictures, pixels."""
        return self._avatar.size

    def render(self, pose: FacePose) -> NDArray[np.uint8]:
        """The picture of `pose`: RGB [size, size, 3] uint8, a new array. The same pose gives the
        same bytes.
        """
        avatar = self._avatar
        places = self._places(pose)
        out = avatar.background.copy()
        # Under mouth and eyes a crack in the mesh may show: dark lip, skin.
        for vertices, colour in self._openings:
            paint_box(out, places, vertices, colour)
        columns, rows, bits = avatar.texture.shape[1], avatar.texture.shape[0], self._fraction_bits
        self._texel_at.fill(NOWHERE)
        locate_texels(
            places.astype(np.float32),
            self._source,
            self._triangles,
            rows,
            columns,
            bits,
            self._texel_at,
        )
        paint_texels(self._texel_at, bits, self._texels, columns, out.reshape(-1))
        self._draw_mouth(out, places, pose)
        self._draw_eyes(out, places, pose)
        return out

    def _places(self, pose: FacePose) -> NDArray[np.float64]:
        """Every vertex [N, 2] in pixels; `_head` is set to the pose, too."""
        blink_left, blink_right = _lids(pose)
        lids = {"blink_left": blink_left, "blink_right": blink_right}
        weights = np.array(
            [lids[name] if name in lids else _limited(pose, name) for name in SHAPES], np.float64
        )
        mesh, frame = self._mesh, self._frame
        places = np.empty_like(self._avatar.rest)
        add_shapes(self._avatar.rest, self._shapes, weights, places)
        shut = min(1.0, max(0.0, pose.lips_closed))
        if shut > 0:
            shut_lips(places, shut, _UPPER_LIP, _LOWER_LIP)
            for lining in mesh.linings[:2]:
                strip = lining.strip[1:-1]
                places[strip] = places[lining.edge[1:-1]] + mesh.offsets[strip]
        fill_head(self._head, pose, frame.pivot, frame.eye_distance, self.size)
        turn_head(places, mesh.depth, mesh.weight, self._head)
        return places

    def _to_rest(self, at: NDArray[np.floating], depth: float) -> tuple[float, ...]:
        """Affine map of the picture to rest pixels, as `to_rest`, for what is fixed to the skull
        around `at` [2].
        """
        step = 0.1 * self._frame.eye_distance
        return to_rest(float(at[0]), float(at[1]), depth, step, self._head)

    def _draw_mouth(
        self, out: NDArray[np.uint8], places: NDArray[np.float64], pose: FacePose
    ) -> None:
        avatar, frame = self._avatar, self._frame
        opening_table(places[_MOUTH[0]], places[_MOUTH[1]], self._bounds, self._table)
        unit = frame.eye_distance
        a, b, c, d, e, f = self._to_rest(avatar.mouth_middle, self._lip_depth - 0.04 * unit)
        c, f = c - avatar.mouth_middle[0], f - avatar.mouth_middle[1]
        (ux, uy), (vx, vy) = self._to_local
        jaw, pucker = _limited(pose, "jaw_open"), _limited(pose, "pucker")
        lower_edge = 0.018 + 0.275 * jaw * (1 - 0.8 * _limited(pose, "lips_closed"))
        parameters = np.zeros(mouth.MOUTH_PARAMETERS)
        parameters[0:9] = (
            *(ux * a + uy * d, ux * b + uy * e, ux * c + uy * f),
            *(vx * a + vy * d, vx * b + vy * e, vx * c + vy * f),
            avatar.teeth_edge,
            # Rounded lips stand out from the teeth, cover the lower and shade the upper.
            lower_edge + 0.03 * pucker,
            _limited(pose, "tongue_up"),
        )
        parameters[9:12] = avatar.mouth_light * (1 - 0.4 * pucker)
        parameters[12:15] = unit, avatar.seam, jaw
        mouth.draw_mouth(
            out, self._bounds, self._table, parameters, self._upper_teeth, self._lower_teeth
        )

    def _draw_eyes(
        self, out: NDArray[np.uint8], places: NDArray[np.float64], pose: FacePose
    ) -> None:
        unit = self._frame.eye_distance
        reach = _GAZE_REACH * unit * TEXTURE_SCALE
        blink_left, blink_right = _lids(pose)
        for eye, depth, iris, shut in zip(
            _EYES, self._eye_depths, self._avatar.iris, (blink_right, blink_left), strict=True
        ):
            opening_table(places[eye[0]], places[eye[1]], self._bounds, self._table)
            a, b, c, d, e, f = (TEXTURE_SCALE * term for term in self._to_rest(iris, depth))
            shift = (TEXTURE_SCALE - 1) / 2
            parameters = np.zeros(EYE_PARAMETERS)
            parameters[0:6] = a, b, c + shift, d, e, f + shift
            parameters[6:8] = iris[:2] * TEXTURE_SCALE + shift
            parameters[8] = iris[2] * TEXTURE_SCALE
            parameters[9] = reach * _limited(pose, "gaze_x")
            parameters[10] = 0.7 * reach * _limited(pose, "gaze_y")
            parameters[11:13] = unit, shut
            parameters[13:15] = self._avatar.lids_at
            parameters[15:18] = self._avatar.lash
            draw_eye(
                out, self._bounds, self._table, parameters, self._avatar.texture, self._avatar.lids
            )


def _limited(pose: FacePose, name: str) -> float:
    low, high = _LIMITS.get(name, (-1.0, 1.0) if name.startswith("gaze") else (0.0, 1.0))
    return min(high, max(low, float(getattr(pose, name))))


def _lids(pose: FacePose) -> tuple[float, float]:
    """How far the left and the right lid come down: blink, and the gaze that they follow."""
    gaze = _limited(pose, "gaze_y")
    follow = 0.18 * max(0.0, gaze)
    left, right = _limited(pose, "blink_left"), _limited(pose, "blink_right")
    return max(0.0, left + follow * (1 - left)), max(0.0, right + follow * (1 - right))
