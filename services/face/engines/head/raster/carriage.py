"""Where a pose carries the head, and how much light gets into its mouth."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from services.face.draw.blendshapes import ARKIT_NAMES
from services.face.draw.compiling import inlined, inner

MOST_TURN = 0.6
"""Radians; nobody's neck turns its head further before a camera."""
_MOST_SHIFT = 0.1
_BREATH = 2.2 / 512
"""How far a breath lifts the shoulders, in picture heights."""
_SHUT_LIGHT, _OPENS = 0.3, 2.5
_JAW, _SHUT = ARKIT_NAMES.index("jawOpen"), ARKIT_NAMES.index("mouthClose")
_LIPS = tuple(
    ARKIT_NAMES.index(f"mouth{shape}{side}")
    for shape in ("LowerDown", "UpperUp")
    for side in ("Left", "Right")
)


class Placing(NamedTuple):
    """Where a pose carries the head: from metres to the camera's, right, up and forward."""

    still: NDArray[np.float32]
    """[3, 4] of what does not turn."""
    turned: NDArray[np.float32]
    """[3, 4] of what turns with the head."""
    rotation: NDArray[np.float32]
    """[3, 3] of the head."""
    opened: float
    """0..1 how much light gets into the mouth."""


@inner()
def placing(carriage, weights, model):  # type: ignore[no-untyped-def]
    """carriage: [6] float64 yaw, pitch, roll, shift right, shift down and breath of a FacePose."""
    yaw, pitch, roll = (
        _within(carriage[0], MOST_TURN),
        _within(carriage[1], MOST_TURN),
        _within(carriage[2], MOST_TURN),
    )
    c, s, d, t = math.cos(yaw), math.sin(yaw), math.cos(pitch), math.sin(pitch)
    e, u = math.cos(roll), math.sin(roll)
    x, y, z = (c, 0.0, s), (t * s, d, -t * c), (-d * s, t, d * c)
    # Breath lifts the shoulders, and through the neck a little of the head.
    lift = _BREATH * model.width * min(max(carriage[5], 0.0), 1.0)
    aside = model.width * _within(carriage[3], _MOST_SHIFT)
    up = 0.23 * lift - model.width * _within(carriage[4], _MOST_SHIFT)
    rotation, shift = np.empty((3, 3), np.float32), (aside, up, 0.0)
    still, turned = np.zeros((3, 4), np.float32), np.zeros((3, 4), np.float32)
    camera, neck = model.camera, model.neck
    for k in range(3):
        turn = e * x[k] + u * y[k], e * y[k] - u * x[k], z[k]
        for row in range(3):
            rotation[row, k] = turn[row]
    for row in range(3):
        for k in range(3):
            axis = camera[3 * row + k]
            still[row, k] = axis
            still[row, 3] += axis * ((lift if k == 1 else 0.0) - camera[9 + k])
            carried = neck[k] + shift[k] - camera[9 + k]
            for j in range(3):
                turned[row, j] += axis * rotation[k, j]
                carried -= rotation[k, j] * neck[j]
            turned[row, 3] += axis * carried
    return Placing(still, turned, rotation, _opened(weights))


@inlined()
def _within(number, most):  # type: ignore[no-untyped-def]
    return min(max(number, -most), most)


@inlined()
def _opened(weights):  # type: ignore[no-untyped-def]
    """How much light gets to the teeth: between lips that hardly part, next to none."""
    parted = weights[_JAW] - weights[_SHUT]
    for k in _LIPS:
        parted += np.float32(0.4) * weights[k]
    return min(max(_SHUT_LIGHT + _OPENS * np.float64(parted), _SHUT_LIGHT), 1.0)
