"""A pose for whoever speaks VMC (Virtual Motion Capture protocol, by sh-akira): OSC over UDP.

Each frame has a value for each blendshape, then the word to apply them; about once a second the
sender says that it is there. Pure.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence

from gateway.faces.poses import REST, Pose
from visavis.arkit import APPLE_NAMES, ARKIT_NAMES, IN_APPLES_ORDER

PORT = 39_539
"""By custom."""
MOST_BYTES = 1400
"""Of a datagram, so that none is cut up on its way."""
_ALIVE_S = 1.0

Quaternion = tuple[float, float, float, float]
"""x, y, z, w."""
_AT_ONCE = struct.pack(">Q", 1)
"""A bundle's time tag: as it comes."""


class VmcSender:
    """Makes the datagrams of one destination."""

    def __init__(self, names: str) -> None:
        """names: of NAMES."""
        self._values = NAMES[names]
        self._said_s: float | None = None

    def frame(self, pose: Pose, at_s: float) -> list[bytes]:
        """Datagrams for a pose. at_s: its time, from any beginning on."""
        found = self._frame(pose)
        if self._said_s is None or not 0 <= at_s - self._said_s < _ALIVE_S:
            self._said_s = at_s
            alive = [osc_message("/VMC/Ext/OK", 1), osc_message("/VMC/Ext/T", float(at_s))]
            found = [*osc_bundles(alive, MOST_BYTES), *found]
        return found

    def rest(self) -> list[bytes]:
        """Datagrams for the end: else the mouth would stay open."""
        return self._frame(REST)

    def _frame(self, pose: Pose) -> list[bytes]:
        values = self._values(pose)
        messages = [
            osc_message("/VMC/Ext/Blend/Val", name, float(value)) for name, value in values.items()
        ]
        x, y, z, w = head_rotation(pose)
        head = osc_message("/VMC/Ext/Bone/Pos", "Head", 0.0, 0.0, 0.0, x, y, z, w)
        return osc_bundles([head, *messages, osc_message("/VMC/Ext/Blend/Apply")], MOST_BYTES)


def head_rotation(pose: Pose) -> Quaternion:
    """In Unity's axes: x to the figure's right, y up, z to where it looks, left-handed.

    What is the picture's right to us is the figure's left. First roll, then pitch, then yaw.
    """
    yaw, pitch, roll = -pose.yaw / 2, pose.pitch / 2, pose.roll / 2
    cy, sy = math.cos(yaw), math.sin(yaw)
    cx, sx = math.cos(pitch), math.sin(pitch)
    cz, sz = math.cos(roll), math.sin(roll)
    return (
        cy * sx * cz + sy * cx * sz,
        sy * cx * cz - cy * sx * sz,
        cy * cx * sz - sy * sx * cz,
        cy * cx * cz + sy * sx * sz,
    )


def _apples(pose: Pose) -> Mapping[str, float]:
    weights = pose.weights[list(IN_APPLES_ORDER)].tolist()
    return dict(zip(APPLE_NAMES, weights, strict=True))


def _ours(pose: Pose) -> Mapping[str, float]:
    return dict(zip(ARKIT_NAMES, pose.weights.tolist(), strict=True))


def _expressions(pose: Pose) -> Mapping[str, float]:
    """VRM 1.0's, as sums of weights: as the page's own figures have it (head/vrm.js)."""

    def both(name: str) -> float:
        return (pose[f"{name}Left"] + pose[f"{name}Right"]) / 2

    jaw, pucker, funnel = pose["jawOpen"], pose["mouthPucker"], pose["mouthFunnel"]
    wide = min(1.0, 2 * both("mouthStretch"))
    shut = min(1.0, 2.2 * both("mouthPress"))
    parted, spread = 1 - shut, 1 - min(1.0, pucker + funnel)
    values = {
        "aa": 1.5 * jaw * spread * (1 - 0.6 * wide) * parted,
        "ih": 0.5 * wide * parted,
        "ou": pucker * parted,
        "ee": 0.6 * wide * min(1.0, 0.3 + 2 * jaw) * parted,
        "oh": min(1.0, 1.3 * funnel) * parted,
        "blink": both("eyeBlink"),
        "happy": 0.8 * max(0.0, both("mouthSmile") - 0.25 * wide),
        "angry": 0.5 * both("browDown"),
        "sad": 0.6 * both("mouthFrown"),
        "relaxed": 0.0,
    }
    return {name: min(1.0, max(0.0, value)) for name, value in values.items()}


_OLD_NAMES = {
    "aa": "A",
    "ih": "I",
    "ou": "U",
    "ee": "E",
    "oh": "O",
    "blink": "Blink",
    "happy": "Joy",
    "angry": "Angry",
    "sad": "Sorrow",
    "relaxed": "Fun",
}


def _old_expressions(pose: Pose) -> Mapping[str, float]:
    """VRM 0.x's."""
    return {_OLD_NAMES[name]: value for name, value in _expressions(pose).items()}


NAMES: Mapping[str, Callable[[Pose], Mapping[str, float]]] = {
    "ARKit": _apples,
    "arkit": _ours,
    "vrm1": _expressions,
    "vrm0": _old_expressions,
}
"""What a figure's blendshapes may be called: 52 with capitals ("perfect sync") or without, or the
expressions of VRM.
"""


def osc_message(address: str, *values: str | int | float) -> bytes:
    """One message of Open Sound Control 1.0: texts, which are ASCII, and numbers."""
    tags, body = ",", b""
    for value in values:
        if isinstance(value, str):
            tags, body = tags + "s", body + _text(value)
        elif isinstance(value, int):
            tags, body = tags + "i", body + struct.pack(">i", value)
        else:
            tags, body = tags + "f", body + struct.pack(">f", value)
    return _text(address) + _text(tags) + body


def osc_bundles(messages: Sequence[bytes], most_bytes: int) -> list[bytes]:
    """Messages in order, in as few bundles as fit into datagrams of `most_bytes`."""
    found: list[bytes] = []
    head = bundle = b"#bundle\0" + _AT_ONCE
    for each in messages:
        element = struct.pack(">i", len(each)) + each
        if len(bundle) > len(head) and len(bundle) + len(element) > most_bytes:
            found.append(bundle)
            bundle = head
        bundle += element
    return [*found, bundle]


def _text(text: str) -> bytes:
    """Ends with a zero, filled up to fours."""
    data = text.encode("ascii", "replace") + b"\0"
    return data + bytes(-len(data) % 4)
