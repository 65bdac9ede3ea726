"""What a session's poses say, as numbers: the inside of VideoCodec.BLENDSHAPES."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from visavis.arkit import ARKIT_NAMES
from visavis.wire.media import BLENDSHAPE_COUNT, BLENDSHAPES_BYTES

_PLACE = struct.Struct("<6h")
_FINE = 1 / 10_000
_INDEX = {name: index for index, name in enumerate(ARKIT_NAMES)}


@dataclass(frozen=True, slots=True)
class Pose:
    """One instant of a face. weights: [52] float32 in 0..1, in the order of ARKIT_NAMES; angles in
    radians, to the picture's right, down, and clockwise in the picture.
    """

    weights: NDArray[np.float32] = field(default_factory=lambda: np.zeros(52, np.float32))
    yaw: float = 0.0
    pitch: float = 0.0
    roll: float = 0.0

    def __getitem__(self, name: str) -> float:
        """The weight of one blendshape."""
        return float(self.weights[_INDEX[name]])


REST = Pose()
"""A face that does nothing."""


def pose_of(payload: bytes) -> Pose | None:
    """What a picture of the codec says; None where it is none."""
    if len(payload) != BLENDSHAPES_BYTES:
        return None
    weights = np.frombuffer(payload, np.uint8, BLENDSHAPE_COUNT).astype(np.float32)
    yaw, pitch, roll, *_ = _PLACE.unpack_from(payload, BLENDSHAPE_COUNT)
    return Pose(weights / np.float32(255), yaw * _FINE, pitch * _FINE, roll * _FINE)
