"""What a face does besides speaking: blinks, brows, gaze, sway of the head, breath, a slight smile.

Everything is a function of the seed and the frame index. Any frame can be computed on its own, and
two faces with one seed live the same life; nothing is carried from frame to frame. A life may be
made of segments, each of which can follow any other: they begin and end with the same pose at the
same speed, since the knots around their ends are common to all. They come in an order of which
no minute is like another, so that what is drawn of them once serves for hours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, auto
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from services.face.draw.pose import POSE_INDEX, POSE_NAMES
from services.face.life.accents import Accent
from services.face.life.blinks import BLINK_S, lid_at
from services.face.life.gaze import AT_VIEWER, Look, saccade
from visavis.wire.idle_order import segment_of

_BLINK_SLOT_S = 3.5
"""One blink falls into each slot: 17 a minute at rest (Bentivoglio et al., "Analysis of blink rate
patterns in normal subjects", Movement Disorders 12, 1997)."""
_TWICE, _TWICE_GAP_S = 0.03, 0.12
_GAZE_SLOT_S = 1.7
_TREMOR_SLOT_S = 0.44
_BREATHS_HZ = 0.25
_APART = 4096
"""Numbers of one segment."""
_DRAWS_PER_BLOCK = 64


class _Channel(IntEnum):
    """Independent streams of random numbers under one seed."""

    BLINK = auto()
    GAZE = auto()
    TREMOR = auto()
    YAW = auto()
    YAW_TALK = auto()
    PITCH = auto()
    PITCH_TALK = auto()
    ROLL = auto()
    ROLL_TALK = auto()
    SHIFT = auto()
    RISE = auto()
    SMILE = auto()
    BROW = auto()
    BREATH = auto()


@dataclass(frozen=True, slots=True)
class _At:
    """A moment of the life: seconds of its segment; where it has none, of all."""

    time_s: float
    segment: int


class Motion:
    """Moves a face that lives: blinks, gaze, sway, breath, at `fps`. No state but what it keeps for
    speed; for one thread.
    """

    def __init__(
        self, seed: int, fps: int = 25, *, segments: int = 0, segment_frames: int = 0
    ) -> None:
        """segments: the life is made of so many, each of so many frames; 0: it never repeats."""
        self.seed = seed
        self.fps = fps
        self.segments = segments
        self.segment_frames = segment_frames
        self._length_s = segment_frames / fps
        self._draws = _Draws(seed)
        self._knots: dict[_Channel, tuple[tuple[int, int], list[float]]] = {}
        """Of each noise those that were asked for last: they serve many frames in a row."""
        breaths = max(1, round(_BREATHS_HZ * self._length_s))
        self._breaths_hz = breaths / self._length_s if segments else _BREATHS_HZ

    def pose(
        self,
        frame: int,
        *,
        speech: float = 0.0,
        accents: Sequence[Accent] = (),
        look: Look | None = None,
    ) -> NDArray[np.float32]:
        """Everything but the lips at a frame: [len(POSE_NAMES)] float32.

        `speech` is how much the face is speaking, 0..1, and should change over some frames. look:
        where the eyes rest instead of where they would.
        """
        return self._pose(self._at(frame), frame, speech, accents, look)

    def drawn_pose(self, index: int, accents: Sequence[Accent] = ()) -> NDArray[np.float32]:
        """As `pose` of the index-th frame of all segments, one after the other by number."""
        segment, within = divmod(index, self.segment_frames)
        return self._pose(_At(within / self.fps, segment), index, 0.0, accents, None)

    def _pose(
        self,
        at: _At,
        frame: int,
        speech: float,
        accents: Sequence[Accent],
        look: Look | None,
    ) -> NDArray[np.float32]:
        out = np.zeros(len(POSE_NAMES), np.float32)
        self._sway(out, at, speech)
        self._face(out, at, speech)
        self._gaze(out, at, look)
        lids = self._blink(at)
        for accent in accents:
            lids = max(lids, accent.add_to(out, frame))
        out[POSE_INDEX["blink_left"]] = lids
        out[POSE_INDEX["blink_right"]] = lids
        return out

    def blinks_within(self, frame: int, seconds: float) -> bool:
        """Whether a blink is under way at the frame, or begins that soon after it."""
        step = max(1, round(BLINK_S * self.fps / 2))
        last = frame + round(seconds * self.fps)
        return any(self._blink(self._at(k)) > 0 for k in range(frame, last + 1, step))

    def _at(self, frame: int) -> _At:
        if not self.segments:
            return _At(frame / self.fps, 0)
        block, within = divmod(frame, self.segment_frames)
        return _At(within / self.fps, segment_of(block, self.segments))

    def _sway(self, out: NDArray[np.float32], at: _At, speech: float) -> None:
        """Two bands each: a slow drift, and a livelier one that grows with speech."""
        lively = 0.35 + 0.65 * speech
        for name, drifts, talks, slow, fast in (
            ("yaw", _Channel.YAW, _Channel.YAW_TALK, 0.050, 0.022),
            ("pitch", _Channel.PITCH, _Channel.PITCH_TALK, 0.022, 0.014),
            ("roll", _Channel.ROLL, _Channel.ROLL_TALK, 0.024, 0.012),
        ):
            drift, talk = self._noise(drifts, at, 0.22), self._noise(talks, at, 0.9)
            out[POSE_INDEX[name]] = slow * drift + fast * lively * talk
        breath = self._breath(at)
        out[POSE_INDEX["breath"]] = breath
        out[POSE_INDEX["pitch"]] -= 0.006 * breath
        out[POSE_INDEX["shift_x"]] = 0.007 * self._noise(_Channel.SHIFT, at, 0.2)
        out[POSE_INDEX["shift_y"]] = 0.003 * (self._noise(_Channel.RISE, at, 0.2) - breath)

    def _face(self, out: NDArray[np.float32], at: _At, speech: float) -> None:
        smile = 0.13 + 0.05 * self._noise(_Channel.SMILE, at, 0.12)
        out[POSE_INDEX["smile"]] = smile * (1.0 - 0.45 * speech)
        brow = self._noise(_Channel.BROW, at, 0.35)
        out[POSE_INDEX["brow_raise"]] = 0.05 * brow + 0.05 * speech * (brow + 0.6)
        out[POSE_INDEX["brow_frown"]] = 0.04 * max(0.0, -brow)

    def _breath(self, at: _At) -> float:
        """About 15 breaths a minute, in faster than out, never quite regular."""
        phase = 2 * math.pi * self._breaths_hz * at.time_s
        phase += 0.9 * self._noise(_Channel.BREATH, at, 0.1)
        return 0.5 - 0.5 * math.cos(phase + 0.35 * math.sin(phase))

    # Eyes

    def _gaze(self, out: NDArray[np.float32], at: _At, look: Look | None) -> None:
        x, y = self._glance(at) if look is None or look.share < 1 else AT_VIEWER
        if look is not None:
            x, y = x + look.share * (look.x - x), y + look.share * (look.y - y)
        out[POSE_INDEX["gaze_far"]] = min(1.0, 2.5 * math.hypot(x, y))
        tremor, _, _ = self._slot(at, _TREMOR_SLOT_S)
        for axis, value in enumerate((x, y)):
            value += 0.025 * (self._draws.at(_Channel.TREMOR, 2 * tremor + axis) - 0.5)
            # The eyes turn against the head, so that they stay on the camera while it sways.
            name, turned = (("gaze_x", "yaw"), ("gaze_y", "pitch"))[axis]
            out[POSE_INDEX[name]] = value - float(1.2 * out[POSE_INDEX[turned]])

    def _glance(self, at: _At) -> tuple[float, float]:
        """Where the eyes rest by themselves: mostly on the viewer, now and then beside him."""
        number, start_s, slot_s = self._slot(at, _GAZE_SLOT_S)
        count = round(self._length_s / slot_s)
        slot = number % _APART if self.segments else number
        since_s = at.time_s - start_s - 0.55 * slot_s * self._draws.at(_Channel.GAZE, 4 * number)
        # Segments end as they begin, whichever follows: with the eyes on the viewer.
        first, last = bool(self.segments) and slot == 0, bool(self.segments) and slot == count - 1
        before = AT_VIEWER if first else self._fixation(number - 1)
        return saccade(before, AT_VIEWER if last else self._fixation(number), since_s)

    def _fixation(self, number: int) -> tuple[float, float]:
        chance, x, y = (self._draws.at(_Channel.GAZE, 4 * number + part) for part in (1, 2, 3))
        reach = 0.32 if chance < 0.2 else 0.07
        return (2 * x - 1) * reach, 0.6 * (2 * y - 1) * reach

    def _blink(self, at: _At) -> float:
        number, start_s, slot_s = self._slot(at, _BLINK_SLOT_S)
        place, twice = (self._draws.at(_Channel.BLINK, 2 * number + part) for part in range(2))
        since_s = at.time_s - start_s - (0.08 + 0.58 * place) * slot_s
        lids = lid_at(since_s)
        return max(lids, lid_at(since_s - BLINK_S - _TWICE_GAP_S)) if twice < _TWICE else lids

    # Time

    def _slot(self, at: _At, seconds: float) -> tuple[int, float, float]:
        """Of equal slots of about so long the one that holds a moment: the number by which its
        random numbers are drawn, when it begins, and how long it is.
        """
        if not self.segments:
            slot = math.floor(at.time_s / seconds)
            return slot, slot * seconds, seconds
        seconds = self._length_s / max(1, round(self._length_s / seconds))
        slot = math.floor(at.time_s / seconds + 1e-9)
        return _APART * at.segment + slot, slot * seconds, seconds

    def _noise(self, channel: _Channel, at: _At, rate_hz: float) -> float:
        """Smooth noise in -1..1, little of it above `rate_hz`."""
        knots_hz = 2 * rate_hz
        count = 0
        if self.segments:
            count = max(4, round(self._length_s * knots_hz))
            knots_hz = count / self._length_s
        knot, mix = divmod(at.time_s * knots_hz, 1.0)
        key = (at.segment, int(knot))
        last, values = self._knots.get(channel, (None, []))
        if last != key:
            places = [int(knot) + step for step in (-1, 0, 1, 2)]
            if count:
                places = [_knot_number(place % count, count, at.segment) for place in places]
            values = [2 * self._draws.at(channel, place) - 1 for place in places]
            self._knots[channel] = (key, values)
        return _spline(values, mix)


def _knot_number(place: int, count: int, segment: int) -> int:
    """Those around the ends are common to all segments."""
    return place if place in (count - 1, 0, 1) else _APART * (segment + 1) + place


class _Draws:
    """Streams of random numbers under one seed, any of which can be had at once."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._block = lru_cache(maxsize=64)(self._draw_block)

    def at(self, channel: int, index: int) -> float:
        """The index-th number of a channel, uniform in 0..1. The index may be negative."""
        block, place = divmod(index, _DRAWS_PER_BLOCK)
        return self._block(channel, block)[place]

    def _draw_block(self, channel: int, block: int) -> list[float]:
        """Philox is a generator with a counter, so it can start at any block."""
        key = self._seed % 2**64 + (channel << 64)
        bits = np.random.Philox(key=key, counter=(block % 2**64) << 128)
        numbers: list[float] = np.random.Generator(bits).random(_DRAWS_PER_BLOCK).tolist()
        return numbers


def _spline(knots: list[float], mix: float) -> float:
    """A cubic B-spline over four knots in -1..1, `mix` of the way from the second to the third;
    stretched so that it comes close to the ends of that range.
    """
    a, b, c, d = knots
    return 1.5 * (
        a * (1 - mix) ** 3 / 6
        + b * (3 * mix**3 - 6 * mix**2 + 4) / 6
        + c * (-3 * mix**3 + 3 * mix**2 + 3 * mix + 1) / 6
        + d * mix**3 / 6
    )
