"""Movements that go with something said, by the face itself or by whom it listens to. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from services.face.draw.pose import POSE_INDEX
from services.face.life.blinks import BLINK_S, lid_at

_NOD_RAD, _BROW, _SMILE = 0.05, 0.38, 0.3
_SECOND_NOD = 0.6
"""Of the first one's depth: nods in a row get smaller."""


class AccentKind(StrEnum):
    NOD = "nod"
    NODS = "nods"
    """Two in a row, as a listener's."""
    BROW = "brow"
    SMILE = "smile"
    BLINK = "blink"


LISTENERS_NOD = 0.75
"""How strong a nod is that everybody who wears a face sees alike."""
_LENGTHS_S = {
    AccentKind.NOD: 0.8,
    AccentKind.NODS: 1.2,
    AccentKind.BROW: 0.8,
    AccentKind.SMILE: 2.0,
    AccentKind.BLINK: BLINK_S,
}


@dataclass(frozen=True, slots=True)
class Accent:
    """A movement that goes with something said. `frame` counts like Motion's, strength is 0..1."""

    kind: AccentKind
    frame: int
    strength: float = 1.0
    fps: int = 25

    @property
    def frames(self) -> int:
        """How long it shows."""
        return math.ceil(_LENGTHS_S[self.kind] * self.fps - 1e-6)

    def add_to(self, pose: NDArray[np.float32], frame: int) -> float:
        """Move a pose, [len(POSE_NAMES)] float32, as it does at a frame; how far it shuts the lids,
        0..1.
        """
        into = frame - self.frame
        if self.kind is AccentKind.BLINK:
            return lid_at(into / self.fps)
        x = into / self.frames
        match self.kind:
            case AccentKind.NOD:
                pose[POSE_INDEX["pitch"]] += _NOD_RAD * self.strength * _bump(x)
            case AccentKind.NODS:
                depth = _bump(x / 0.55) + _SECOND_NOD * _bump((x - 0.4) / 0.6)
                pose[POSE_INDEX["pitch"]] += _NOD_RAD * self.strength * depth
            case AccentKind.BROW:
                pose[POSE_INDEX["brow_raise"]] += _BROW * self.strength * _bump(x)
            case AccentKind.SMILE:
                pose[POSE_INDEX["smile"]] += _SMILE * self.strength * _bump(x)
                pose[POSE_INDEX["cheek_raise"]] += 0.5 * _SMILE * self.strength * _bump(x)
        return 0.0


def _bump(x: float) -> float:
    """0 -> 1 -> 0 over x in 0..1, rising twice as fast as it falls."""
    if not 0.0 < x < 1.0:
        return 0.0
    return math.sin(math.pi * x ** (math.log(0.5) / math.log(1 / 3))) ** 2
