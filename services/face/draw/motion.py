"""What a face does besides speaking: blinks, brows, gaze, sway of the head, breath, a slight smile.

Everything is a function of the seed and the frame index. Any frame can be computed on its own,
and two faces with one seed live the same life; nothing is carried from frame to frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from services.face.draw.pose import POSE_INDEX, POSE_NAMES

BLINK_PROFILE = (0.45, 1.0, 0.8, 0.35)
"""Closing is faster than opening; a blink takes 160 ms at 25 fps."""
_BLINK_SLOT_S = 4.0
"""One blink falls in the middle half of each slot, so they are 2 to 6 s apart."""
_GAZE_SLOT_S = 1.7
_DRAWS_PER_BLOCK = 64


class AccentKind(StrEnum):
    NOD = "nod"
    BROW = "brow"
    BLINK = "blink"


@dataclass(frozen=True, slots=True)
class Accent:
    """A movement that goes with something said. `frame` counts like Motion's, strength is 0..1."""

    kind: AccentKind
    frame: int
    strength: float = 1.0

    @property
    def frames(self) -> int:
        """How long it shows."""
        return len(BLINK_PROFILE) if self.kind is AccentKind.BLINK else 20


class _Channel(IntEnum):
    """Independent streams of random numbers under one seed."""

    BLINK = 0
    GAZE = 1
    YAW = 2
    PITCH = 3
    ROLL = 4
    SHIFT = 5
    SMILE = 6
    BROW = 7
    BREATH = 8
    TALK = 9
    TREMOR = 10


class Motion:
    """Moves a face that lives: blinks, gaze, sway, breath, at `fps`. Immutable."""

    def __init__(self, seed: int, fps: int = 25) -> None:
        self.seed = seed
        self.fps = fps
        self._block = lru_cache(maxsize=64)(self._draw_block)

    def pose(
        self, frame: int, *, speech: float = 0.0, accents: Sequence[Accent] = ()
    ) -> NDArray[np.float32]:
        """Everything but the lips at a frame: [len(POSE_NAMES)] float32.

        `speech` is how much the face is speaking, 0..1, and should change over some frames.
        """
        time_s = frame / self.fps
        out = np.zeros(len(POSE_NAMES), np.float32)
        self._sway(out, time_s, speech)
        self._face(out, time_s, speech)
        self._gaze(out, frame, speech)
        lids = self._blink(frame)
        for accent in accents:
            lids = max(lids, self._accent(out, frame, accent))
        out[POSE_INDEX["blink_left"]] = lids
        out[POSE_INDEX["blink_right"]] = lids
        return out

    def _sway(self, out: NDArray[np.float32], time_s: float, speech: float) -> None:
        """Two bands each: a slow drift, and a livelier one that grows with speech."""
        lively = 0.35 + 0.65 * speech
        for name, channel, slow, fast in (
            ("yaw", _Channel.YAW, 0.050, 0.022),
            ("pitch", _Channel.PITCH, 0.022, 0.014),
            ("roll", _Channel.ROLL, 0.024, 0.012),
        ):
            drift = self._noise(channel, time_s, 0.22)
            talk = self._noise(_Channel.TALK, time_s + 1000.0 * channel, 0.9)
            out[POSE_INDEX[name]] = slow * drift + fast * lively * talk
        breath = self._breath(time_s)
        out[POSE_INDEX["breath"]] = breath
        out[POSE_INDEX["pitch"]] -= 0.006 * breath
        out[POSE_INDEX["shift_x"]] = 0.007 * self._noise(_Channel.SHIFT, time_s, 0.2)
        rise = self._noise(_Channel.SHIFT, time_s + 5000.0, 0.2) - breath
        out[POSE_INDEX["shift_y"]] = 0.003 * rise

    def _face(self, out: NDArray[np.float32], time_s: float, speech: float) -> None:
        smile = 0.13 + 0.05 * self._noise(_Channel.SMILE, time_s, 0.12)
        out[POSE_INDEX["smile"]] = smile * (1.0 - 0.45 * speech)
        brow = self._noise(_Channel.BROW, time_s, 0.35)
        out[POSE_INDEX["brow_raise"]] = 0.05 * brow + 0.05 * speech * (brow + 0.6)
        out[POSE_INDEX["brow_frown"]] = 0.04 * max(0.0, -brow)

    def _breath(self, time_s: float) -> float:
        """About 15 breaths a minute, in faster than out, never quite regular."""
        phase = 2 * np.pi * 0.25 * time_s + 0.9 * self._noise(_Channel.BREATH, time_s, 0.1)
        return float(0.5 - 0.5 * np.cos(phase + 0.35 * np.sin(phase)))

    def _gaze(self, out: NDArray[np.float32], frame: int, speech: float) -> None:
        slot_frames = round(_GAZE_SLOT_S * self.fps)
        slot, into = divmod(frame, slot_frames)
        # A saccade of this size takes about 50 ms: one frame lies between two fixations.
        mix = {0: 0.6}.get(into, 1.0)
        looks = zip(self._fixation(slot - 1, speech), self._fixation(slot, speech), strict=True)
        for axis, (before, after) in enumerate(looks):
            tremor = self._draw(_Channel.TREMOR, 2 * (frame // 11) + axis) - 0.5
            at = before + mix * (after - before) + 0.025 * tremor
            # The eyes turn against the head, so that they stay on the camera while it sways.
            name, turned = (("gaze_x", "yaw"), ("gaze_y", "pitch"))[axis]
            out[POSE_INDEX[name]] = at - float(1.2 * out[POSE_INDEX[turned]])

    def _fixation(self, slot: int, speech: float) -> tuple[float, float]:
        """Where the eyes rest: mostly on the camera, now and then beside it."""
        chance, x, y = (self._draw(_Channel.GAZE, 3 * slot + part) for part in range(3))
        away = chance < 0.22
        reach = (0.32 if away else 0.07) * (1.0 - 0.4 * speech)
        return (2 * x - 1) * reach, 0.6 * (2 * y - 1) * reach

    def _blink(self, frame: int) -> float:
        slot_frames = round(_BLINK_SLOT_S * self.fps)
        lids = 0.0
        for slot in (frame // slot_frames - 1, frame // slot_frames):
            position, twice = (self._draw(_Channel.BLINK, 2 * slot + part) for part in range(2))
            start = slot * slot_frames + round((0.25 + 0.5 * position) * slot_frames)
            lids = max(lids, _blink_at(frame - start))
            if twice < 0.15:
                lids = max(lids, _blink_at(frame - start - len(BLINK_PROFILE) - 3))
        return lids

    def _accent(self, out: NDArray[np.float32], frame: int, accent: Accent) -> float:
        """Add an accent to the pose; for a blink the lids are returned instead."""
        into = frame - accent.frame
        if accent.kind is AccentKind.BLINK:
            return _blink_at(into)
        bump = accent.strength * _bump(into / accent.frames)
        if accent.kind is AccentKind.NOD:
            out[POSE_INDEX["pitch"]] += 0.05 * bump
        else:
            out[POSE_INDEX["brow_raise"]] += 0.38 * bump
        return 0.0

    def _noise(self, channel: _Channel, time_s: float, rate_hz: float) -> float:
        """Smooth noise in -1..1, a cubic B-spline over random knots: little above `rate_hz`."""
        knot, mix = divmod(time_s * 2 * rate_hz, 1.0)
        values = [2 * self._draw(channel, int(knot) + step) - 1 for step in (-1, 0, 1, 2)]
        weights = (
            (1 - mix) ** 3 / 6,
            (3 * mix**3 - 6 * mix**2 + 4) / 6,
            (-3 * mix**3 + 3 * mix**2 + 3 * mix + 1) / 6,
            mix**3 / 6,
        )
        return float(sum(w * v for w, v in zip(weights, values, strict=True))) * 1.5

    def _draw(self, channel: _Channel, index: int) -> float:
        """The index-th number of a channel, uniform in 0..1. The index may be negative."""
        block, place = divmod(index, _DRAWS_PER_BLOCK)
        return self._block(int(channel), block)[place]

    def _draw_block(self, channel: int, block: int) -> list[float]:
        """Philox is a generator with a counter, so it can start at any block."""
        key = self.seed % 2**64 + (channel << 64)
        bits = np.random.Philox(key=key, counter=(block % 2**64) << 128)
        numbers: list[float] = np.random.Generator(bits).random(_DRAWS_PER_BLOCK).tolist()
        return numbers


def _blink_at(frame: int) -> float:
    return BLINK_PROFILE[frame] if 0 <= frame < len(BLINK_PROFILE) else 0.0


def _bump(x: float) -> float:
    """0 -> 1 -> 0 over x in 0..1, rising twice as fast as it falls."""
    if not 0.0 < x < 1.0:
        return 0.0
    return float(np.sin(np.pi * x ** (np.log(0.5) / np.log(1 / 3))) ** 2)
