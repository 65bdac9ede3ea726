"""A face as those take it who draw it themselves: 52 blendshapes and where the head is."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visavis.arkit import ARKIT_NAMES
from visavis.client.errors import GatewayError

_RECORD = struct.Struct(f"<I{len(ARKIT_NAMES)}s6h")


@dataclass(frozen=True, slots=True)
class Pose:
    """The face at one moment. It takes the place of all poses that are not earlier."""

    media_ms: int
    """When, as the mp4 counts time."""
    weights: NDArray[np.float32]
    """[52] float32, 0..1, in the order of ARKIT_NAMES."""
    yaw: float
    """Radians, to the picture's right; pitch: down; roll: clockwise."""
    pitch: float
    roll: float
    shift: tuple[float, float]
    """How far the head is carried right and down, in sides of the portrait."""
    breath: float
    """0..1"""

    def named(self) -> dict[str, float]:
        """Weights by ARKit's names."""
        return dict(zip(ARKIT_NAMES, map(float, self.weights), strict=True))


def poses_of(message: bytes) -> Iterator[Pose]:
    """The poses of one message of the WebSocket `…/face`. Raises GatewayError for what is none."""
    if len(message) % _RECORD.size:
        raise GatewayError("not_poses", f"face: {len(message)} bytes are no whole number of poses")
    for media_ms, weights, *place in _RECORD.iter_unpack(message):
        yaw, pitch, roll, right, down, breath = (value / 10_000 for value in place)
        shapes = np.frombuffer(weights, np.uint8).astype(np.float32) / np.float32(255)
        yield Pose(media_ms, shapes, yaw, pitch, roll, (right, down), breath)
