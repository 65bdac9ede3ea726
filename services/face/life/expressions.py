"""What an emotion, or a style, does to the face besides the lips: facial actions over time.

Pure. Offsets are added to the pose that life (motion.py) and speech give. An expression comes with
its own onset, stands at its apex for a while, goes back to what is left of it while it lasts, and
is let go of slowly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from services.face.draw.pose import POSE_INDEX, POSE_NAMES
from visavis.styles import NEUTRAL

_Values = Mapping[str, float]

# Action units of FACS (Ekman, Friesen and Hager, "Facial Action Coding System", 2002) as a pose
# has them. Where a photograph cannot do one, what it can do of it is beside it. Lids: 0 open, 1
# shut. AU 25 and 26, lips parted and jaw dropped, are the voice's own while it speaks.
_ACTIONS: Mapping[str, _Values] = {
    "1": {"inner_brow_raise": 0.8, "brow_raise": 0.2},
    "2": {"brow_raise": 0.8},
    "4": {"brow_frown": 1.0, "brow_raise": -0.2},
    "5": {"lids_wide": 1.0},
    "6": {"cheek_raise": 1.0},
    "7": {"lids_tight": 1.0, "lids": 0.1},
    "9": {"nose_wrinkle": 1.0, "brow_frown": 0.5},
    "10": {"upper_lip_raise": 1.0},
    "12": {"smile": 1.0},
    "14R": {"dimple_right": 1.0},
    "15": {"smile": -1.0},
    "16": {"lower_lip_down": 1.0},
    "17": {"chin_raise": 1.0},
    "20": {"mouth_stretch": 1.0},
    "23": {"lips_tight": 1.0},
}


@dataclass(frozen=True, slots=True)
class Emotion:
    """Action units and how strong each is, what the head does along with them, and how it comes.

    articulation: how wide the mouth opens in speech, 1 as usual.
    """

    actions: _Values
    beside: _Values
    onset_s: float = 0.22
    """Time constant of its coming."""
    apex_s: float = 1.2
    left: float = 0.8
    """What of it stays after the apex while it lasts."""
    articulation: float = 1.0


# The seven of EMFACS (Friesen and Ekman, "EMFACS-7", 1983), contempt on one side. Portraits mostly
# smile a little, and what is not joy has to take that away first.
EMOTIONS: Mapping[str, Emotion] = {
    "anger": Emotion(
        {"4": 1.2, "5": 0.35, "7": 0.5, "23": 0.6},
        {"smile": -0.95, "brow_raise": -0.2, "pitch": 0.025},
        articulation=1.1,
    ),
    "contempt": Emotion(
        {"12": 0.05, "14R": 0.9},
        {"lids": 0.14, "pitch": -0.03, "roll": 0.03, "brow_raise": 0.08},
        onset_s=0.3,
        articulation=0.95,
    ),
    "disgust": Emotion(
        {"9": 0.8, "10": 0.4, "15": 0.55, "16": 0.25},
        {"lids": 0.16, "pitch": -0.02, "roll": -0.02, "brow_raise": -0.15},
    ),
    "fear": Emotion(
        {"1": 0.9, "2": 0.55, "4": 0.6, "5": 0.8, "7": 0.25, "20": 0.6},
        {"smile": -0.45, "pitch": -0.025},
        onset_s=0.14,
    ),
    "joy": Emotion({"6": 0.3, "12": 0.6}, {"brow_raise": 0.12, "pitch": -0.012}, left=0.9),
    "sadness": Emotion(
        {"1": 0.75, "4": 0.5, "15": 0.95},
        {"brow_raise": 0.1, "lids": 0.26, "pitch": 0.05, "gaze_y": 0.12},
        onset_s=0.4,
        apex_s=2.5,
        left=0.9,
        articulation=0.88,
    ),
    "surprise": Emotion(
        {"1": 0.95, "2": 0.95, "5": 0.7},
        {"smile": -0.35, "pitch": -0.03},
        onset_s=0.12,
        apex_s=0.8,
        left=0.6,
        articulation=1.12,
    ),
}
STYLES: Mapping[str, Emotion] = {
    NEUTRAL: Emotion({}, {}),
    "happy": EMOTIONS["joy"],
    "sad": EMOTIONS["sadness"],
    "angry": EMOTIONS["anger"],
    "surprised": EMOTIONS["surprise"],
    "afraid": EMOTIONS["fear"],
    "disgusted": EMOTIONS["disgust"],
    "contemptuous": EMOTIONS["contempt"],
    "calm": Emotion({}, {"lids": 0.2, "brow_raise": -0.05, "pitch": 0.01}, articulation=0.94),
    "excited": Emotion(
        {"1": 0.4, "2": 0.6, "5": 0.35, "6": 0.5, "12": 0.62},
        {"pitch": -0.02},
        articulation=1.18,
    ),
    "whisper": Emotion(
        {},
        {"smile": -0.2, "brow_raise": 0.2, "lids": 0.06, "pitch": 0.03, "roll": 0.03},
        articulation=0.8,
    ),
}
_LIDS = [POSE_INDEX["blink_left"], POSE_INDEX["blink_right"]]
_RESTING_S = 0.9
"""Time constant of letting go."""
_SETTLING_S = 1.0
"""And of going from the apex to what is left of it."""
_ARTICULATING_S = 0.3
_GONE = 0.01
"""An expression of which so little is left is let go of: nobody sees it."""


def emotion_of(name: str) -> Emotion:
    """Of one of the seven, or of a style; neutral for a name that is neither."""
    return EMOTIONS.get(name) or STYLES.get(name) or STYLES[NEUTRAL]


@cache
def offsets_of(style: str) -> NDArray[np.float32]:
    """[len(POSE_NAMES)] float32 at the apex, the lids' share in both blinks, not to be written to;
    zeros for an unknown style.
    """
    emotion, out = emotion_of(style), np.zeros(len(POSE_NAMES), np.float32)
    acted = [(_ACTIONS[unit], strength) for unit, strength in emotion.actions.items()]
    for values, strength in (*acted, (emotion.beside, 1.0)):
        for name, value in values.items():
            out[_LIDS if name == "lids" else POSE_INDEX[name]] += strength * value
    out.flags.writeable = False
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


@dataclass(frozen=True, slots=True)
class Expressed:
    """How far a face has come with its expression."""

    offsets: NDArray[np.float32]
    articulation: float = 1.0


class Expressions:
    """Brings one face from style to style: which holds when, and how far the face has come."""

    def __init__(self, fps: int) -> None:
        self.now = Expressed(offsets_of(NEUTRAL))
        """Where the face is; set it to go back to a frame."""
        self._fps = fps
        self._turn = 0
        self._cues: list[tuple[float, str]] = []

    @property
    def offsets(self) -> NDArray[np.float32]:
        """[len(POSE_NAMES)] float32, to be added to a pose by `express`."""
        return self.now.offsets

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
        since_s, style = 0.0, NEUTRAL
        if turn == self._turn:
            cues = ((time_s - at_s, s) for at_s, s in reversed(self._cues) if at_s <= time_s)
            since_s, style = next(cues, (0.0, NEUTRAL))
        emotion = emotion_of(style)
        past_s = since_s - 2 * emotion.onset_s - emotion.apex_s
        level = 1.0
        if past_s > 0:
            level = emotion.left + (1 - emotion.left) * math.exp(-past_s / _SETTLING_S)
        self._approach(style, level, emotion.onset_s)

    def rest(self) -> None:
        """Let go, a frame's worth."""
        self._approach(NEUTRAL, 1.0, _RESTING_S)
        if np.abs(self.offsets).max() < _GONE:
            self.now = Expressed(offsets_of(NEUTRAL), self.now.articulation)

    def _approach(self, style: str, level: float, within_s: float) -> None:
        offsets, articulation = self.now.offsets, self.now.articulation
        if style != NEUTRAL or offsets.any():
            share = np.float32(1 - math.exp(-1 / (self._fps * within_s)))
            offsets = offsets + share * (np.float32(level) * offsets_of(style) - offsets)
        step = 1 - math.exp(-1 / (self._fps * _ARTICULATING_S))
        articulation += step * (emotion_of(style).articulation - articulation)
        self.now = Expressed(offsets, articulation)
