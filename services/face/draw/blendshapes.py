"""FacePose -> the 52 weights of ARKit's face, for clients that draw their own head."""

from __future__ import annotations

import struct
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from services.face.draw.pose import FacePose
from visavis.arkit import ARKIT_NAMES as ARKIT_NAMES


def arkit_weights(pose: FacePose) -> NDArray[np.float32]:
    """Weights in the order of ARKIT_NAMES: [52] float32, each in 0..1."""
    # Between pictures the caches are full of other things: what takes fewer steps takes less.
    weights = np.array(_ordered({**_AT_REST, **_mouth(pose), **_eyes(pose), **_brows(pose)}))
    np.minimum(weights, 1.0, out=weights)
    return np.asarray(np.maximum(weights, 0.0, out=weights), np.float32)


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


_AT_REST = dict.fromkeys(ARKIT_NAMES, 0.0)
_ordered = itemgetter(*ARKIT_NAMES)


def _mouth(pose: FacePose) -> dict[str, float]:
    closed, bite = pose.lips_closed, pose.lower_lip_under_teeth
    parted, wide = 1 - closed, pose.mouth_wide
    # Lips that are shut or bitten hide the tongue.
    up, out = (tongue * parted * (1 - bite) for tongue in (pose.tongue_up, pose.tongue_out))
    # Teeth leave room for the tongue, and for the lip below them.
    jaw = max(pose.jaw_open, 0.1 * bite * parted, 0.16 * up, 0.22 * out)
    # ARKit's pucker is a kiss and its funnel an open round mouth: the jaw decides between them.
    funnel = pose.pucker * min(1.0, jaw / 0.4)
    lower = 0.35 * jaw + 0.2 * wide + 0.12 * up + 0.13 * out + pose.lower_lip_down
    lower *= parted * (1 - bite)
    upper = 0.2 * jaw + 0.1 * wide + 0.1 * bite + 0.9 * pose.upper_lip_raise
    upper = (upper + 0.25 * pose.nose_wrinkle) * parted
    press = 0.45 * closed + 0.5 * pose.lips_tight * parted
    stretch = 0.8 * wide + 0.9 * pose.mouth_stretch
    smile, frown = max(0.0, pose.smile), max(0.0, -pose.smile)
    cheek = 0.4 * smile + pose.cheek_raise
    return {
        "cheekSquintLeft": cheek,
        "cheekSquintRight": cheek,
        "jawOpen": jaw,
        # mouthClose moves the lips together against jawOpen: it must not exceed it.
        "mouthClose": jaw * closed,
        "mouthDimpleLeft": 0.2 * wide + pose.dimple_left,
        "mouthDimpleRight": 0.2 * wide + pose.dimple_right,
        "mouthFrownLeft": frown,
        "mouthFrownRight": frown,
        "mouthFunnel": 0.8 * funnel + 0.1 * bite,
        "mouthLowerDownLeft": lower,
        "mouthLowerDownRight": lower,
        "mouthPressLeft": press,
        "mouthPressRight": press,
        "mouthPucker": pose.pucker - 0.5 * funnel,
        # The lower lip goes in under the upper teeth, which the upper lip bares: in the middle,
        # where mouthShrugUpper raises it, and hardly aside, where mouthUpperUp does.
        "mouthRollLower": 0.6 * bite + 0.3 * closed + 0.3 * pose.lips_tight,
        "mouthRollUpper": 0.25 * closed + 0.3 * pose.lips_tight,
        "mouthShrugLower": pose.chin_raise,
        "mouthShrugUpper": 0.5 * bite,
        "mouthSmileLeft": smile + 0.45 * wide + 0.35 * pose.dimple_left,
        "mouthSmileRight": smile + 0.45 * wide + 0.35 * pose.dimple_right,
        "mouthStretchLeft": stretch,
        "mouthStretchRight": stretch,
        "mouthUpperUpLeft": upper,
        "mouthUpperUpRight": upper,
        "noseSneerLeft": pose.nose_wrinkle,
        "noseSneerRight": pose.nose_wrinkle,
        # Further out, with this jaw, it comes through the lower lip of the heads that ship.
        "tongueOut": 0.2 * up + 0.26 * out,
    }


def _eyes(pose: FacePose) -> dict[str, float]:
    # The picture's right is the person's left. Each eye turns in to see what is near.
    apart = 0.08 * pose.gaze_far
    left, right = pose.gaze_x + apart, pose.gaze_x - apart
    smile, cheek = max(0.0, pose.smile), pose.cheek_raise
    down, upwards = 0.6 * max(0.0, pose.gaze_y), 0.6 * max(0.0, -pose.gaze_y)
    squint = 0.1 * smile + 0.8 * pose.lids_tight + 0.3 * cheek
    wide = 0.15 * max(0.0, pose.brow_raise) + 0.8 * pose.lids_wide
    return {
        "eyeBlinkLeft": pose.blink_left,
        "eyeBlinkRight": pose.blink_right,
        "eyeLookDownLeft": down,
        "eyeLookDownRight": down,
        "eyeLookInLeft": 0.6 * max(0.0, -left),
        "eyeLookInRight": 0.6 * max(0.0, right),
        "eyeLookOutLeft": 0.6 * max(0.0, left),
        "eyeLookOutRight": 0.6 * max(0.0, -right),
        "eyeLookUpLeft": upwards,
        "eyeLookUpRight": upwards,
        "eyeSquintLeft": squint,
        "eyeSquintRight": squint,
        "eyeWideLeft": wide,
        "eyeWideRight": wide,
    }


def _brows(pose: FacePose) -> dict[str, float]:
    raised, lowered = max(0.0, pose.brow_raise), max(0.0, -pose.brow_raise)
    down = lowered + 0.7 * pose.brow_frown
    return {
        "browDownLeft": down,
        "browDownRight": down,
        "browInnerUp": 0.8 * raised + 0.9 * pose.inner_brow_raise,
        "browOuterUpLeft": 0.7 * raised,
        "browOuterUpRight": 0.7 * raised,
    }
