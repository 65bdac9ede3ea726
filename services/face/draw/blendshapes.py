"""FacePose -> the 52 weights of ARKit's face, for clients that draw their own head."""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from services.face.draw.pose import FacePose

ARKIT_NAMES = (
    "browDownLeft",
    "browDownRight",
    "browInnerUp",
    "browOuterUpLeft",
    "browOuterUpRight",
    "cheekPuff",
    "cheekSquintLeft",
    "cheekSquintRight",
    "eyeBlinkLeft",
    "eyeBlinkRight",
    "eyeLookDownLeft",
    "eyeLookDownRight",
    "eyeLookInLeft",
    "eyeLookInRight",
    "eyeLookOutLeft",
    "eyeLookOutRight",
    "eyeLookUpLeft",
    "eyeLookUpRight",
    "eyeSquintLeft",
    "eyeSquintRight",
    "eyeWideLeft",
    "eyeWideRight",
    "jawForward",
    "jawLeft",
    "jawOpen",
    "jawRight",
    "mouthClose",
    "mouthDimpleLeft",
    "mouthDimpleRight",
    "mouthFrownLeft",
    "mouthFrownRight",
    "mouthFunnel",
    "mouthLeft",
    "mouthLowerDownLeft",
    "mouthLowerDownRight",
    "mouthPressLeft",
    "mouthPressRight",
    "mouthPucker",
    "mouthRight",
    "mouthRollLower",
    "mouthRollUpper",
    "mouthShrugLower",
    "mouthShrugUpper",
    "mouthSmileLeft",
    "mouthSmileRight",
    "mouthStretchLeft",
    "mouthStretchRight",
    "mouthUpperUpLeft",
    "mouthUpperUpRight",
    "noseSneerLeft",
    "noseSneerRight",
    "tongueOut",
)


def arkit_weights(pose: FacePose) -> NDArray[np.float32]:
    """Weights in the order of ARKIT_NAMES: [52] float32, each in 0..1."""
    weights = {**_mouth(pose), **_eyes(pose), **_brows(pose)}
    ordered = [weights.get(name, 0.0) for name in ARKIT_NAMES]
    return np.clip(np.array(ordered, np.float32), 0.0, 1.0)


def head_rotation(pose: FacePose) -> NDArray[np.float32]:
    """Yaw, pitch and roll in radians, signed as in FacePose: [3] float32."""
    return np.array([pose.yaw, pose.pitch, pose.roll], np.float32)


def coded(pose: FacePose) -> bytes:
    """As VideoCodec.BLENDSHAPES has it: 64 bytes."""
    weights = np.rint(255 * arkit_weights(pose)).astype(np.uint8)
    place = (pose.shift_x, pose.shift_y, pose.breath)
    fine = np.clip(np.rint(_FINE * np.array([*head_rotation(pose), *place])), -32768, 32767)
    return weights.tobytes() + _PLACE.pack(*fine.astype(int))


_FINE = 10_000
_PLACE = struct.Struct("<6h")


def _both(name: str, value: float) -> dict[str, float]:
    return {f"{name}Left": value, f"{name}Right": value}


def _mouth(pose: FacePose) -> dict[str, float]:
    jaw, closed, bite = pose.jaw_open, pose.lips_closed, pose.lower_lip_under_teeth
    # ARKit's pucker is a kiss and its funnel an open round mouth: the jaw decides between them.
    funnel = pose.pucker * min(1.0, jaw / 0.4)
    weights = {
        "jawOpen": jaw,
        # mouthClose moves the lips together against jawOpen: it must not exceed it.
        "mouthClose": jaw * closed,
        "mouthFunnel": 0.8 * funnel,
        "mouthPucker": pose.pucker - 0.5 * funnel,
        "mouthRollLower": 0.75 * bite + 0.3 * closed,
        "mouthRollUpper": 0.25 * closed,
        "mouthShrugUpper": 0.2 * bite,
        "tongueOut": 0.1 * pose.tongue_up,
    }
    weights |= _both("mouthPress", 0.45 * closed)
    weights |= _both("mouthStretch", 0.5 * pose.mouth_wide)
    weights |= _both("mouthDimple", 0.2 * pose.mouth_wide)
    weights |= _both("mouthSmile", max(0.0, pose.smile) + 0.25 * pose.mouth_wide)
    weights |= _both("mouthFrown", max(0.0, -pose.smile))
    parted, wide = 1 - closed, pose.mouth_wide
    weights |= _both("mouthLowerDown", (0.35 * jaw + 0.2 * wide) * parted * (1 - bite))
    weights |= _both("mouthUpperUp", (0.2 * jaw + 0.1 * wide + 0.25 * bite) * parted)
    weights |= _both("cheekSquint", 0.4 * max(0.0, pose.smile))
    return weights


def _eyes(pose: FacePose) -> dict[str, float]:
    # The picture's right is the person's left.
    to_left, to_right = max(0.0, pose.gaze_x), max(0.0, -pose.gaze_x)
    return {
        "eyeBlinkLeft": pose.blink_left,
        "eyeBlinkRight": pose.blink_right,
        "eyeLookOutLeft": 0.6 * to_left,
        "eyeLookInRight": 0.6 * to_left,
        "eyeLookOutRight": 0.6 * to_right,
        "eyeLookInLeft": 0.6 * to_right,
        **_both("eyeLookDown", 0.6 * max(0.0, pose.gaze_y)),
        **_both("eyeLookUp", 0.6 * max(0.0, -pose.gaze_y)),
        **_both("eyeSquint", 0.3 * max(0.0, pose.smile)),
        **_both("eyeWide", 0.3 * max(0.0, pose.brow_raise)),
    }


def _brows(pose: FacePose) -> dict[str, float]:
    raised, lowered = max(0.0, pose.brow_raise), max(0.0, -pose.brow_raise)
    return {
        "browInnerUp": 0.8 * raised,
        **_both("browOuterUp", 0.7 * raised),
        **_both("browDown", lowered + 0.7 * pose.brow_frown),
    }
