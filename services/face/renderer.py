"""A pose becomes a picture."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from services.face import mouth, topology
from services.face.avatar import TEXTURE_SCALE, Avatar
from services.face.eyes import EYE_PARAMETERS, draw_eye
from services.face.pose import FacePose
from services.face.raster import TABLE, draw_triangles, opening_table
from services.face.shapes import SHAPES

_CAMERA = 7.0
"""Distance of the camera, in eye distances."""
_GAZE_REACH = 0.045
"""How far the iris travels at full gaze, in eye distances: 20 degrees on an eyeball of 12 mm."""
_LIP_FOLLOW = (0.4, 0.62, 0.82, 1.0)
"""How much each row of a lip, outer to inner, goes along when the lips shut."""
_LIP_PRESS = (0.13, 0.1, 0.05, 0.0)
"""How much each row draws in towards the seam when the lips press."""
_LIMITS = {"smile": (-1.0, 1.0), "brow_raise": (-0.7, 1.0), "brow_frown": (0.0, 1.5)}


class Renderer:
    """Draws one avatar. No state from picture to picture; one thread at a time."""

    def __init__(self, avatar: Avatar) -> None:
        self._avatar = avatar
        self._frame = avatar.frame
        self._mesh = avatar.mesh
        self._shapes = avatar.shapes.astype(np.float64)
        source = avatar.mesh.source
        self._source = (source * TEXTURE_SCALE + (TEXTURE_SCALE - 1) / 2).astype(np.float32)
        self._triangles = avatar.visible_triangles()
        self._upper_teeth = avatar.upper_teeth.astype(np.float32)
        self._upper_teeth[..., 3] /= 255.0
        self._lower_teeth = mouth.teeth_texture(avatar.ivory, upper=False)
        self._texels = avatar.texture.reshape(-1).view("<u4")
        self._bounds = np.zeros(5)
        self._table = np.zeros((2, TABLE))
        lip = avatar.colour_at(topology.LOWER_LIP_ROWS[1][3:8])
        self._openings = [
            ([*topology.UPPER_INNER_LIP, *topology.LOWER_INNER_LIP], (lip * 0.35).astype(np.uint8))
        ]
        for upper, lower, skin in (
            (topology.RIGHT_UPPER_LID, topology.RIGHT_LOWER_LID, topology.RIGHT_UNDER_EYE),
            (topology.LEFT_UPPER_LID, topology.LEFT_LOWER_LID, topology.LEFT_UNDER_EYE),
        ):
            self._openings.append(
                ([*upper, *lower], (avatar.colour_at(skin[1:-1]) * 0.8).astype(np.uint8))
            )

    @property
    def size(self) -> int:
        """Width and height of the pictures, pixels."""
        return self._avatar.size

    def render(self, pose: FacePose) -> NDArray[np.uint8]:
        """The picture of `pose`: RGB [size, size, 3] uint8, a new array. The same pose gives the
        same bytes.
        """
        places = self._places(pose)
        out = self._avatar.background.copy()
        self._line_openings(out, places)
        draw_triangles(
            places.astype(np.float32),
            self._source,
            self._triangles,
            self._texels,
            self._avatar.texture.shape[1],
            self._avatar.background,
            out,
        )
        self._draw_mouth(out, places, pose)
        self._draw_eyes(out, places, pose)
        return out

    def _line_openings(self, out: NDArray[np.uint8], places: NDArray[np.float64]) -> None:
        """Paints under mouth and eyes what a crack in the mesh may show: dark lip, skin."""
        for rows, colour in self._openings:
            low = np.maximum(places[rows].min(axis=0), 0).astype(int)
            high = np.ceil(places[rows].max(axis=0)).astype(int) + 1
            out[low[1] : high[1], low[0] : high[0]] = colour

    def _places(self, pose: FacePose) -> NDArray[np.float64]:
        """Every vertex [N, 2] in pixels."""
        blink_left, blink_right = _lids(pose)
        weights = [
            blink_left
            if name == "blink_left"
            else blink_right
            if name == "blink_right"
            else _limited(pose, name)
            for name in SHAPES
        ]
        places = self._avatar.rest + np.tensordot(weights, self._shapes, axes=1)
        self._shut_lips(places, min(1.0, max(0.0, pose.lips_closed)))
        return self._turn(places, self._mesh.depth, self._mesh.weight, pose)

    def _shut_lips(self, places: NDArray[np.float64], shut: float) -> None:
        """Brings the inner rims of the lips together, in place."""
        if shut <= 0:
            return
        upper = places[list(topology.UPPER_INNER_LIP)]
        lower = places[list(topology.LOWER_INNER_LIP)]
        seam = 0.55 * upper + 0.45 * lower
        for rows, inner in ((topology.UPPER_LIP_ROWS, upper), (topology.LOWER_LIP_ROWS, lower)):
            for row, follow, press in zip(rows, _LIP_FOLLOW, _LIP_PRESS, strict=True):
                index = list(row[1:-1])
                together = (seam[1:-1] - inner[1:-1]) * follow
                thinner = (inner[1:-1] - places[index]) * press
                places[index] += shut * (together + thinner)
        for lining in self._mesh.linings[:2]:
            strip = lining.strip[1:-1]
            places[strip] = places[lining.edge[1:-1]] + self._mesh.offsets[strip]

    def _turn(
        self,
        places: NDArray[np.float64],
        depth: NDArray[np.float64] | float,
        weight: NDArray[np.float64] | float,
        pose: FacePose,
    ) -> NDArray[np.float64]:
        """`places` [N, 2] after the motion of head and shoulders."""
        unit = self._frame.eye_distance
        x, y = (places - self._frame.pivot).T
        z = depth + np.zeros_like(x)
        cos, sin = math.cos(pose.yaw), math.sin(pose.yaw)
        x, z = x * cos + z * sin, z * cos - x * sin
        cos, sin = math.cos(pose.pitch), math.sin(pose.pitch)
        y, z = y * cos + z * sin, z * cos - y * sin
        cos, sin = math.cos(pose.roll), math.sin(pose.roll)
        x, y = x * cos - y * sin, x * sin + y * cos
        # Nearer parts grow: weak perspective around the middle of the face.
        grow = 1 + (z - depth) / (_CAMERA * unit)
        x, y = x * grow, (y + 0.9 * unit) * grow - 0.9 * unit
        size = self._avatar.size
        turned = self._frame.pivot + np.stack(
            [x + pose.shift_x * size, y + pose.shift_y * size], axis=1
        )
        moved = places + (turned - places) * np.reshape(weight, (-1, 1))
        # Breath lifts the shoulders, and through the neck a little of the head.
        moved[:, 1] -= pose.breath * size / 512 * (0.5 + 1.7 * np.asarray(1 - np.asarray(weight)))
        return np.asarray(moved)

    def _anchor(self, at: NDArray[np.float64], depth: float, pose: FacePose) -> NDArray[np.float64]:
        """Affine map [2, 3] of rest pixels to pictures for what is fixed to the skull around `at`
        [2].
        """
        step = 0.1 * self._frame.eye_distance
        corners = at + np.array([[0.0, 0.0], [step, 0.0], [0.0, step]])
        moved = self._turn(corners, depth, 1.0, pose)
        linear = ((moved[1:] - moved[0]) / step).T
        return np.column_stack([linear, moved[0] - linear @ at])

    def _draw_mouth(
        self, out: NDArray[np.uint8], places: NDArray[np.float64], pose: FacePose
    ) -> None:
        avatar, frame = self._avatar, self._frame
        upper = np.ascontiguousarray(places[list(topology.UPPER_INNER_LIP)])
        lower = np.ascontiguousarray(places[list(topology.LOWER_INNER_LIP)])
        opening_table(upper, lower, self._bounds, self._table)
        lips = float(self._mesh.depth[list(topology.UPPER_INNER_LIP)].mean())
        to_picture = self._anchor(avatar.mouth_middle, lips - 0.04 * frame.eye_distance, pose)
        to_rest = _inverse(to_picture)
        local = frame.axes.T / frame.eye_distance
        parameters = np.zeros(mouth.MOUTH_PARAMETERS)
        parameters[0:6] = np.column_stack(
            [local @ to_rest[:, :2], local @ (to_rest[:, 2] - avatar.mouth_middle)]
        ).ravel()
        parameters[6] = avatar.teeth_edge
        jaw = _limited(pose, "jaw_open")
        parameters[7] = 0.018 + 0.275 * jaw * (1 - 0.8 * _limited(pose, "lips_closed"))
        parameters[14] = jaw
        # Rounded lips stand out from the teeth, cover the lower and shade the upper.
        parameters[7] += 0.03 * _limited(pose, "pucker")
        parameters[8] = _limited(pose, "tongue_up")
        parameters[9:12] = avatar.mouth_light * (1 - 0.4 * _limited(pose, "pucker"))
        parameters[12] = frame.eye_distance
        parameters[13] = avatar.seam
        mouth.draw_mouth(
            out, self._bounds, self._table, parameters, self._upper_teeth, self._lower_teeth
        )

    def _draw_eyes(
        self, out: NDArray[np.uint8], places: NDArray[np.float64], pose: FacePose
    ) -> None:
        unit = self._frame.eye_distance
        reach = _GAZE_REACH * unit * TEXTURE_SCALE
        rows = (
            (topology.RIGHT_UPPER_LID, topology.RIGHT_LOWER_LID),
            (topology.LEFT_UPPER_LID[::-1], topology.LEFT_LOWER_LID[::-1]),
        )
        blink_left, blink_right = _lids(pose)
        for (top, bottom), iris, shut in zip(
            rows, self._avatar.iris, (blink_right, blink_left), strict=True
        ):
            upper, lower = (
                np.ascontiguousarray(places[list(top)]),
                np.ascontiguousarray(places[list(bottom)]),
            )
            opening_table(upper, lower, self._bounds, self._table)
            depth = float(self._mesh.depth[list(top)].mean())
            to_source = (
                _inverse(self._anchor(iris[:2].astype(np.float64), depth, pose)) * TEXTURE_SCALE
            )
            to_source[:, 2] += (TEXTURE_SCALE - 1) / 2
            parameters = np.zeros(EYE_PARAMETERS)
            parameters[0:6] = to_source.ravel()
            parameters[6:8] = iris[:2] * TEXTURE_SCALE + (TEXTURE_SCALE - 1) / 2
            parameters[8] = iris[2] * TEXTURE_SCALE
            parameters[9] = reach * _limited(pose, "gaze_x")
            parameters[10] = 0.7 * reach * _limited(pose, "gaze_y")
            parameters[11] = unit
            parameters[12] = shut
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


def _inverse(affine: NDArray[np.float64]) -> NDArray[np.float64]:
    """Inverse of an affine map [2, 3]."""
    linear = np.linalg.inv(affine[:, :2])
    return np.column_stack([linear, -linear @ affine[:, 2]])
