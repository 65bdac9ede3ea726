"""How a face listens, thinks and speaks to somebody, besides its lips. Pure.

`follow` is called for each frame in turn; what a frame looked like (`now`) can be gone back to.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from services.face.draw.pose import POSE_INDEX, POSE_NAMES
from services.face.life.accents import Accent, AccentKind
from services.face.life.gaze import AT_VIEWER, Fixations, Look, Phase, saccade

_THINKS_AFTER_S = 0.5
"""An answer that comes sooner needed no thought."""
_TAKING_S, _LEAVING_S = 0.28, 0.3
_GONE = 0.004
_SHARE_STEP = 0.5
"""The eyes go over from what they do by themselves within two frames: a saccade."""
_HEAD_SHARE = 0.25
"""Of a look aside: the head turns along with the eyes (Freedman and Sparks, "Eye-head coordination
during head-unrestrained gaze shifts", Journal of Neurophysiology 77, 1997)."""
_UNIT_RAD = math.radians(20)
_EYES_BACK = 1.2
"""Eyes against the head, as in `Motion`."""
_TILT = 0.022
_LISTENS = {"brow_raise": 0.06, "smile": 0.05, "pitch": 0.012, "roll": 0.7 * _TILT}
_THINKING = (
    {"brow_frown": 0.22, "lips_tight": 0.35, "smile": -0.06},
    {"brow_raise": 0.2, "smile": -0.05},
    {"brow_raise": 0.08, "brow_frown": 0.12, "chin_raise": 0.2, "smile": -0.08},
)
_LOOKS = (Phase.SPEAKING, Phase.THINKING)
"""In these the eyes go where the talk has them go."""
_CUES_APART_S = 1.8


@dataclass(frozen=True, slots=True)
class Bearing:
    """What the face does about the talk at one frame."""

    phase: Phase = Phase.IDLE
    since: int = 0
    """The frame that the phase began with."""
    number: int = 0
    """How many phases there were before it."""
    begun_s: float = 0.0
    """How long after `since` the eyes left for `target`."""
    left: tuple[float, float] = AT_VIEWER
    target: tuple[float, float] = AT_VIEWER
    look: Look = field(default_factory=lambda: Look(0.0, 0.0, 0.0))
    offsets: NDArray[np.float32] = field(
        default_factory=lambda: np.zeros(len(POSE_NAMES), np.float32)
    )


class Attention:
    """Takes one face through listening, thinking and speaking; deterministic under its seed.

    One who listens has the eyes of one at rest, on the viewer mostly: so every face of an avatar
    listens alike, and that can be drawn once for all (`heard`).
    """

    def __init__(self, seed: int, fps: int) -> None:
        self.now = Bearing()
        """Where the face is; set it to go back to a frame."""
        self._seed = seed % 2**63
        self._fps = fps
        self._taking = 1 - math.exp(-1 / (fps * _TAKING_S))
        self._leaving = 1 - math.exp(-1 / (fps * _LEAVING_S))
        self._fixations: tuple[int, Phase, Fixations] | None = None
        self._cue_free = 0
        self._cues = 0

    @property
    def settled(self) -> bool:
        """Whether nothing of it moves the face any more: it rests, or it listens and has for long
        enough.
        """
        now = self.now
        if now.look.share or now.phase not in (Phase.IDLE, Phase.LISTENING):
            return False
        wanted = _LISTENING if now.phase is Phase.LISTENING else _NOTHING
        return float(np.abs(now.offsets - wanted).max()) < _GONE

    def follow(self, frame: int, phase: Phase, *, ending: bool = False) -> None:
        """Come a frame further. ending: what is said is about to be over: eyes on the viewer."""
        now = self.now
        if phase is not now.phase:
            now = Bearing(
                phase,
                frame,
                now.number + 1,
                0.0,
                (now.look.x, now.look.y),
                (now.look.x, now.look.y),
                now.look,
                now.offsets,
            )
        since_s = (frame - now.since) / self._fps
        begun_s, left, target = now.begun_s, now.left, now.target
        wanted, wanted_s = AT_VIEWER, 0.0
        if phase in _LOOKS and not ending:
            wanted, wanted_s = self._fixations_of(now).at(since_s)
        if wanted != target:
            left, target = (now.look.x, now.look.y), wanted
            begun_s = max(wanted_s, since_s - 1 / self._fps)
        x, y = saccade(left, target, since_s - begun_s)
        step = _SHARE_STEP if phase in _LOOKS else -_SHARE_STEP
        look = Look(x, y, min(1.0, max(0.0, now.look.share + step)))
        offsets = self._offsets(now, since_s, look)
        self.now = Bearing(phase, now.since, now.number, begun_s, left, target, look, offsets)

    def heard(self, frames: int) -> Bearing:
        """Of one who has listened for so many frames, and rested before."""
        if frames <= 0:
            return Bearing()
        return Bearing(Phase.LISTENING, offsets=listening_offsets(frames, self._fps))

    def answer_cue(self, frame: int) -> list[Accent]:
        """What a listener does as a phrase of the other one ends: mostly a nod, at times a smile or
        the brows, at times nothing (Maynard, "Interactional functions of a nonverbal sign: head
        movement in Japanese dyadic casual conversation", Journal of Pragmatics 11, 1987).
        """
        if frame < self._cue_free:
            return []
        rng = np.random.default_rng((self._seed, 7, self._cues))
        self._cues += 1
        chance, delay, strength, more = (float(value) for value in rng.random(4))
        self._cue_free = frame + round((_CUES_APART_S + delay) * self._fps)
        begin = frame + round((0.08 + 0.2 * delay) * self._fps)
        strength = 0.5 + 0.5 * strength
        found: list[Accent] = []
        if chance < 0.42:
            found.append(Accent(AccentKind.NOD, begin, strength, self._fps))
        elif chance < 0.68:
            found.append(Accent(AccentKind.NODS, begin, strength, self._fps))
        elif chance < 0.8:
            found.append(Accent(AccentKind.BROW, begin, 0.5 * strength, self._fps))
        if more < 0.25:
            found.append(Accent(AccentKind.SMILE, begin, strength, self._fps))
        return found

    def _fixations_of(self, now: Bearing) -> Fixations:
        known = self._fixations
        if known is None or known[:2] != (now.number, now.phase):
            seed = (self._seed, now.number)
            known = self._fixations = (now.number, now.phase, Fixations(now.phase, seed))
        return known[2]

    def _offsets(self, now: Bearing, since_s: float, look: Look) -> NDArray[np.float32]:
        wanted = np.zeros(len(POSE_NAMES), np.float32)
        if now.phase in _LOOKS:
            wanted[POSE_INDEX["yaw"]] = _HEAD_SHARE * _UNIT_RAD * _beyond(look.x)
            wanted[POSE_INDEX["pitch"]] = _HEAD_SHARE * _UNIT_RAD * _beyond(look.y)
        if now.phase is Phase.LISTENING:
            wanted = _LISTENING
        elif now.phase is Phase.THINKING and since_s >= _THINKS_AFTER_S:
            _put(wanted, _THINKING[(now.number + self._seed) % len(_THINKING)])
            wanted[POSE_INDEX["roll"]] += math.copysign(_TILT, look.x)
        leaves = now.phase in (Phase.IDLE, Phase.SPEAKING)
        share = self._leaving if leaves else self._taking
        out = np.asarray(now.offsets + np.float32(share) * (wanted - now.offsets), np.float32)
        if now.phase is Phase.IDLE and np.abs(out).max() < _GONE:
            out[:] = 0.0
        return out


def turned(pose: NDArray[np.float32], offsets: NDArray[np.float32]) -> NDArray[np.float32]:
    """A pose as it is with the offsets of a bearing; both are [len(POSE_NAMES)] float32."""
    if not offsets.any():
        return pose
    out = np.asarray(pose + offsets, np.float32)
    for axis, by in (("gaze_x", "yaw"), ("gaze_y", "pitch")):
        out[POSE_INDEX[axis]] -= _EYES_BACK * offsets[POSE_INDEX[by]]
    return out


def listening_offsets(frames: int, fps: int) -> NDArray[np.float32]:
    """Of one who has listened for so many frames, and rested before: [len(POSE_NAMES)] float32."""
    return np.asarray(_LISTENING * (1 - math.exp(-frames / (fps * _TAKING_S))), np.float32)


def _beyond(value: float) -> float:
    """What of a look is beyond the face of the viewer."""
    return math.copysign(max(0.0, abs(value) - 0.1), value)


def _put(into: NDArray[np.float32], values: dict[str, float]) -> None:
    for name, value in values.items():
        into[POSE_INDEX[name]] += value


_NOTHING = np.zeros(len(POSE_NAMES), np.float32)
_LISTENING = _NOTHING.copy()
_put(_LISTENING, _LISTENS)
