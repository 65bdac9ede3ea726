"""A pose as Apple's Live Link Face sends it to Unreal by UDP, and a take as its table. Pure."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from uuid import NAMESPACE_DNS, uuid5

from gateway.faces.poses import REST, Pose
from visavis.arkit import APPLE_NAMES, IN_APPLES_ORDER

PORT = 11_111
"""By custom."""
FPS = 25
NAMES = (
    *APPLE_NAMES,
    *("HeadYaw", "HeadPitch", "HeadRoll"),
    *("LeftEyeYaw", "LeftEyePitch", "LeftEyeRoll"),
    *("RightEyeYaw", "RightEyePitch", "RightEyeRoll"),
)
"""The 61 values of a frame."""
_VERSION = 6
_ORDER = list(IN_APPLES_ORDER)


class LiveLinkSender:
    """Makes the datagrams of one destination."""

    def __init__(self, subject: str) -> None:
        """subject: what the engine lists the face as."""
        self._head = (
            _VERSION.to_bytes() + _text(str(uuid5(NAMESPACE_DNS, subject))) + _text(subject)
        )
        self._frame = 0

    def frame(self, pose: Pose, at_s: float) -> list[bytes]:
        """One datagram for a pose. at_s: its time, from any beginning on."""
        self._frame = round(at_s * FPS) & 0x7FFFFFFF
        return [self._datagram(pose)]

    def rest(self) -> list[bytes]:
        """For the end."""
        self._frame += 1
        return [self._datagram(REST)]

    def _datagram(self, pose: Pose) -> bytes:
        values = values_of(pose)
        at = struct.pack(">ifii", self._frame, 0.0, FPS, 1)
        return self._head + at + struct.pack(f">B{len(values)}f", len(values), *values)


def values_of(pose: Pose) -> list[float]:
    """In the order of NAMES: the head's angles in radians, the eyes' as shares of a full look."""
    return [
        *pose.weights[_ORDER].tolist(),
        *(pose.yaw, pose.pitch, pose.roll),
        pose["eyeLookOutLeft"] - pose["eyeLookInLeft"],
        *(pose["eyeLookDownLeft"] - pose["eyeLookUpLeft"], 0.0),
        pose["eyeLookInRight"] - pose["eyeLookOutRight"],
        *(pose["eyeLookDownRight"] - pose["eyeLookUpRight"], 0.0),
    ]


def table(take: Iterable[tuple[int, Pose]]) -> Iterator[str]:
    """Lines of the CSV that Unreal and Blender import. take: frames, counted at FPS, and poses."""
    yield ",".join(("Timecode", "BlendShapeCount", *NAMES)) + "\n"
    for frame, pose in take:
        seconds, rest = divmod(frame, FPS)
        minutes, second = divmod(seconds, 60)
        timecode = f"{minutes // 60:02}:{minutes % 60:02}:{second:02}:{rest:02}.000"
        values = ",".join(f"{value:.8f}" for value in values_of(pose))
        yield f"{timecode},{len(NAMES)},{values}\n"


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">i", len(data)) + data
