"""What a face does besides speaking: blinks, brows, gaze, sway of the head, breath, a slight smile.

Everything is a function of the seed and the frame index. Any frame can be computed on its own,
and two faces with one seed live the same life; nothing is carried from frame to frame. A life may
repeat: then its slots and knots are stretched by a few percent, so that a whole number of them fits
and the last frame goes over into the first like any other.
"""

from __future__ import annotations

import math
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
_TREMOR_SLOT_S = 0.44
_BREATHS_HZ = 0.25
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


@dataclass(frozen=True, slots=True)
class _Slots:
    """Time cut into equal slots, each with random numbers of its own."""

    frames: float
    """Length of one."""
    count: int
    """After so many the first one follows; 0: never."""

    def at(self, frame: int) -> int:
        """The slot that a frame falls into."""
        return int(frame // self.frames)

    def start(self, slot: int) -> int:
        """Its first frame."""
        return math.ceil(slot * self.frames)

    def number(self, slot: int) -> int:
        """By which its random numbers are drawn."""
        return slot % self.count if self.count else slot


class Motion:
    """Moves a face that lives: blinks, gaze, sway, breath, at `fps`. No state but what it keeps for
    speed; for one thread.
    """

    def __init__(self, seed: int, fps: int = 25, *, period_frames: int = 0) -> None:
        """period_frames: after so many frames the same life begins again; 0: never."""
        self.seed = seed
        self.fps = fps
        self.period_frames = period_frames
        self._block = lru_cache(maxsize=64)(self._draw_block)
        self._knots: dict[tuple[int, float], tuple[int, list[float]]] = {}
        """Of each noise those that were asked for last: they serve many frames in a row."""
        self._blinks, self._looks, self._tremors = (
            self._slots(seconds) for seconds in (_BLINK_SLOT_S, _GAZE_SLOT_S, _TREMOR_SLOT_S)
        )
        breaths = round(_BREATHS_HZ * period_frames / fps)
        self._breaths_hz = breaths * fps / period_frames if period_frames else _BREATHS_HZ

    def _slots(self, seconds: float) -> _Slots:
        frames = round(seconds * self.fps)
        if not self.period_frames:
            return _Slots(frames, 0)
        count = max(1, round(self.period_frames / frames))
        return _Slots(self.period_frames / count, count)

    def pose(
        self, frame: int, *, speech: float = 0.0, accents: Sequence[Accent] = ()
    ) -> NDArray[np.float32]:
        """Everything but the lips at a frame: [len(POSE_NAMES)] float32.

        `speech` is how much the face is speaking, 0..1, and should change over some frames.
        """
        within = frame % self.period_frames if self.period_frames else frame
        time_s = within / self.fps
        out = np.zeros(len(POSE_NAMES), np.float32)
        self._sway(out, time_s, speech)
        self._face(out, time_s, speech)
        self._gaze(out, within, speech)
        lids = self._blink(within)
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
            talk = self._noise(_Channel.TALK, time_s, 0.9, later_s=1000.0 * channel)
            out[POSE_INDEX[name]] = slow * drift + fast * lively * talk
        breath = self._breath(time_s)
        out[POSE_INDEX["breath"]] = breath
        out[POSE_INDEX["pitch"]] -= 0.006 * breath
        out[POSE_INDEX["shift_x"]] = 0.007 * self._noise(_Channel.SHIFT, time_s, 0.2)
        rise = self._noise(_Channel.SHIFT, time_s, 0.2, later_s=5000.0) - breath
        out[POSE_INDEX["shift_y"]] = 0.003 * rise

    def _face(self, out: NDArray[np.float32], time_s: float, speech: float) -> None:
        smile = 0.13 + 0.05 * self._noise(_Channel.SMILE, time_s, 0.12)
        out[POSE_INDEX["smile"]] = smile * (1.0 - 0.45 * speech)
        brow = self._noise(_Channel.BROW, time_s, 0.35)
        out[POSE_INDEX["brow_raise"]] = 0.05 * brow + 0.05 * speech * (brow + 0.6)
        out[POSE_INDEX["brow_frown"]] = 0.04 * max(0.0, -brow)

    def _breath(self, time_s: float) -> float:
        """About 15 breaths a minute, in faster than out, never quite regular."""
        phase = 2 * np.pi * self._breaths_hz * time_s + 0.9 * self._noise(
            _Channel.BREATH, time_s, 0.1
        )
        return float(0.5 - 0.5 * np.cos(phase + 0.35 * np.sin(phase)))

    def _gaze(self, out: NDArray[np.float32], frame: int, speech: float) -> None:
        slot, tremors = self._looks.at(frame), self._tremors
        # A saccade of this size takes about 50 ms: one frame lies between two fixations.
        mix = 0.6 if frame == self._looks.start(slot) else 1.0
        looks = zip(self._fixation(slot - 1, speech), self._fixation(slot, speech), strict=True)
        for axis, (before, after) in enumerate(looks):
            number = tremors.number(tremors.at(frame))
            tremor = self._draw(_Channel.TREMOR, 2 * number + axis) - 0.5
            at = before + mix * (after - before) + 0.025 * tremor
            # The eyes turn against the head, so that they stay on the camera while it sways.
            name, turned = (("gaze_x", "yaw"), ("gaze_y", "pitch"))[axis]
            out[POSE_INDEX[name]] = at - float(1.2 * out[POSE_INDEX[turned]])

    def _fixation(self, slot: int, speech: float) -> tuple[float, float]:
        """Where the eyes rest: mostly on the camera, now and then beside it."""
        number = self._looks.number(slot)
        chance, x, y = (self._draw(_Channel.GAZE, 3 * number + part) for part in range(3))
        away = chance < 0.22
        reach = (0.32 if away else 0.07) * (1.0 - 0.4 * speech)
        return (2 * x - 1) * reach, 0.6 * (2 * y - 1) * reach

    def _blink(self, frame: int) -> float:
        slots, lids = self._blinks, 0.0
        for slot in (slots.at(frame) - 1, slots.at(frame)):
            number = slots.number(slot)
            position, twice = (self._draw(_Channel.BLINK, 2 * number + part) for part in range(2))
            start = slots.start(slot) + round((0.25 + 0.5 * position) * slots.frames)
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

    def _noise(
        self, channel: _Channel, time_s: float, rate_hz: float, *, later_s: float = 0.0
    ) -> float:
        """Smooth noise in -1..1, a cubic B-spline over random knots: little above `rate_hz`.

        later_s: so much further on in the channel, where it is a noise of its own.
        """
        knots_hz = 2 * rate_hz
        if not self.period_frames:
            first, count = 0, 0
            knot, mix = divmod((time_s + later_s) * knots_hz, 1.0)
        else:
            period_s = self.period_frames / self.fps
            first, count = round(later_s * knots_hz), max(4, round(period_s * knots_hz))
            knot, mix = divmod(time_s * count / period_s, 1.0)
        last, values = self._knots.get((channel, later_s), (None, []))
        if last != knot:
            places = [int(knot) + step for step in (-1, 0, 1, 2)]
            numbers = [first + (place % count if count else place) for place in places]
            values = [2 * self._draw(channel, number) - 1 for number in numbers]
            self._knots[channel, later_s] = (int(knot), values)
        weights = (
            (1 - mix) ** 3 / 6,
            (3 * mix**3 - 6 * mix**2 + 4) / 6,
            (-3 * mix**3 + 3 * mix**2 + 3 * mix + 1) / 6,
            mix**3 / 6,
        )
        (a, b, c, d), (at_a, at_b, at_c, at_d) = weights, values
        return (a * at_a + b * at_b + c * at_c + d * at_d) * 1.5

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
