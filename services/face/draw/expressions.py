"""What a style does to the face besides the lips: brows, lids, corners of the mouth, head.

Pure. Offsets are added to the pose that life (motion.py) and speech give, and eased.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from services.face.draw.pose import POSE_INDEX, POSE_NAMES
from visavis.styles import NEUTRAL

# After the action units of EMFACS (Ekman, Friesen and Hager, FACS, 2002), as far as a pose has
# them: happy 6+12, sad 1+4+15, angry 4+5+23, surprised 1+2+5. Lids: 0 open, 1 shut. Portraits
# mostly smile a little, and what is not happy has to take that away first.
_OFFSETS: Mapping[str, Mapping[str, float]] = {
    NEUTRAL: {},
    "happy": {"smile": 0.5, "brow_raise": 0.12, "lids": 0.12, "pitch": -0.012},
    "sad": {
        "smile": -0.95,
        "brow_raise": 0.15,
        "brow_frown": 0.5,
        "lids": 0.26,
        "pitch": 0.05,
        "gaze_y": 0.12,
    },
    "angry": {
        "smile": -0.95,
        "brow_raise": -0.45,
        "brow_frown": 1.3,
        "lids": 0.08,
        "pitch": 0.025,
    },
    "surprised": {"smile": -0.35, "brow_raise": 0.95, "pitch": -0.03},
    "calm": {"lids": 0.2, "brow_raise": -0.05, "pitch": 0.01},
    "excited": {"smile": 0.62, "brow_raise": 0.6, "pitch": -0.02},
    "whisper": {"smile": -0.2, "brow_raise": 0.2, "lids": 0.06, "pitch": 0.03, "roll": 0.03},
}
_LIDS = [POSE_INDEX["blink_left"], POSE_INDEX["blink_right"]]
SPEAKING_S, RESTING_S = 0.22, 0.9
"""Time constants: how fast a face takes an expression, and how slowly it lets go of one."""
_GONE = 0.01
"""An expression of which so little is left is let go of: nobody sees it."""


def offsets_of(style: str) -> NDArray[np.float32]:
    """[len(POSE_NAMES)] float32, the lids' share in both blinks; zeros for an unknown style."""
    out = np.zeros(len(POSE_NAMES), np.float32)
    for name, value in _OFFSETS.get(style, {}).items():
        out[_LIDS if name == "lids" else POSE_INDEX[name]] = value
    return out


def express(pose: NDArray[np.float32], offsets: NDArray[np.float32]) -> NDArray[np.float32]:
    """The pose with an expression: lids come down by their share of what was open.

    pose, offsets and the result: [len(POSE_NAMES)] float32, see `FacePose`.
    """
    if not offsets.any():
        return pose.copy()
    out = pose + offsets
    out[_LIDS] = pose[_LIDS] + offsets[_LIDS] * (1 - pose[_LIDS])
    return np.asarray(out, np.float32)


class Expressions:
    """Brings one face from style to style: which holds when, and how far the face has come."""

    def __init__(self, fps: int) -> None:
        self.offsets = offsets_of(NEUTRAL)
        """Where the face is; set it to go back to a frame."""
        self._speaking = 1 - math.exp(-1 / (fps * SPEAKING_S))
        self._resting = 1 - math.exp(-1 / (fps * RESTING_S))
        self._turn = 0
        self._cues: list[tuple[float, str]] = []

    def cue(self, turn: int, time_s: float, style: str) -> None:
        """From this time of the turn's voice on it is said in `style`. Older turns are ignored."""
        if turn < self._turn:
            return
        if turn > self._turn:
            self._turn, self._cues = turn, []
        style = style or NEUTRAL
        if not self._cues or self._cues[-1][1] != style:
            self._cues.append((time_s, style))

    def follow(self, turn: int, time_s: float) -> None:
        """Come a frame closer to the style of this time."""
        style = NEUTRAL
        if turn == self._turn:
            style = next((s for at_s, s in reversed(self._cues) if at_s <= time_s), NEUTRAL)
        self._approach(style, self._speaking)

    def rest(self) -> None:
        """Let go, a frame's worth."""
        self._approach(NEUTRAL, self._resting)
        if np.abs(self.offsets).max() < _GONE:
            self.offsets = offsets_of(NEUTRAL)

    def _approach(self, style: str, share: float) -> None:
        if style != NEUTRAL or self.offsets.any():
            self.offsets = self.offsets + np.float32(share) * (offsets_of(style) - self.offsets)
