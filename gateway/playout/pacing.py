"""A session's media time, which counts from its start, and when each tick of it is due."""

from __future__ import annotations

import math
from collections.abc import Hashable
from fractions import Fraction
from typing import Generic, TypeVar

RATE_HZ = 48_000
"""Sound that leaves the gateway."""

TICK_SAMPLES = 960
"""One step of the pacing clock: 20 ms."""

TICK_S = TICK_SAMPLES / RATE_HZ

HALF_TICK_SAMPLES = TICK_SAMPLES // 2
"""Silence leaves in pieces of 10 ms while an answer is awaited, whose voice begins behind any."""

LONG_TICK_SAMPLES = 2 * TICK_SAMPLES
"""A picture's time of 25 a second: where nobody says or awaits anything, one leaves with each."""

_HALF_S = HALF_TICK_SAMPLES / RATE_HZ

VIDEO_HZ = 90_000
"""Clock of picture timestamps, as in RTP."""

SOUND_TIME_BASE = Fraction(1, RATE_HZ)
VIDEO_TIME_BASE = Fraction(1, VIDEO_HZ)

# Sound encoders look ahead, so their first packet starts before the first sample:
# the session's time begins here so that no timestamp is ever negative.
ORIGIN_SAMPLES = 4800

# After a longer stop (a suspended laptop) the past is not caught up with.
MAX_LAG_S = 0.5
# Of a tick: so little before its time it is due, for clocks and their sums are not exact.
_EPSILON = 1e-6


def to_video_clock(samples: int) -> int:
    """Media time in samples -> in ticks of the picture clock."""
    return samples * VIDEO_HZ // RATE_HZ


def to_samples(video_ticks: int) -> int:
    """Media time in ticks of the picture clock -> in samples."""
    return video_ticks * RATE_HZ // VIDEO_HZ


Member = TypeVar("Member", bound=Hashable)


class Schedule(Generic[Member]):
    """Says whose tick is due, the one that has waited longest first.

    Pure: time comes as an argument, in seconds of one clock. All ticks lie on one grid of 20 ms,
    so that whoever keeps the schedule wakes once for everybody; only a member that had half a tick
    is beside it, until it has another half. A long tick is two of them, and begins with everybody
    else's. A member that rests is not due; its media time goes on, and `wake` says by how much.
    """

    def __init__(self) -> None:
        self._next: dict[Member, int] = {}
        """When the next tick of each is due, in half ticks: on the grid these are even."""
        self._resting: dict[Member, int] = {}
        self._origin_s: float | None = None

    def __len__(self) -> int:
        """How many have ticks to come."""
        return len(self._next)

    def join(self, member: Member, now: float) -> None:
        """Its first tick is due with the next of the others, or at once where there are none."""
        self._next[member] = self._place(now)

    def leave(self, member: Member) -> None:
        """It has no tick any more. May be called again."""
        self._next.pop(member, None)
        self._resting.pop(member, None)

    def rest(self, member: Member) -> None:
        """It has no tick until `wake`."""
        if member in self._next:
            self._resting[member] = self._next.pop(member)

    def rests(self, member: Member) -> bool:
        """Whether it waits for `wake`."""
        return member in self._resting

    def wake(self, member: Member, now: float) -> int:
        """Its ticks go on with the next of the others; how many samples it has slept through."""
        slept_at = self._resting.pop(member, None)
        if slept_at is None:
            return 0
        self._next[member] = max(slept_at, self._place(now))
        return (self._next[member] - slept_at) * HALF_TICK_SAMPLES

    def due(self, now: float) -> list[tuple[Member, float]]:
        """Members with a tick that is due, and its time, the earliest first.

        Each is listed once, and its next tick is then 20 ms after this one, however late this one
        is, unless it `lasts` otherwise; only a stop of more than MAX_LAG_S is not caught up with.
        """
        if self._origin_s is None:
            return []
        newest = math.floor((now - self._origin_s) / _HALF_S + _EPSILON)
        waiting = [(place, member) for member, place in self._next.items() if place <= newest]
        waiting.sort(key=lambda item: item[0])
        for place, member in waiting:
            late = newest - place
            # Whole ticks are left out, so that it stays on the grid, or beside it.
            left_out = late - late % 2 if late * _HALF_S > MAX_LAG_S else 0
            self._next[member] = place + left_out + 2
        return [(member, self._origin_s + place * _HALF_S) for place, member in waiting]

    def may_be_long(self, member: Member) -> bool:
        """Whether the tick that it was just due for begins where long ones do."""
        return (self._next[member] - 2) % 4 == 0

    def lasts(self, member: Member, samples: int) -> None:
        """So long is the tick that it was just due for, in whole halves: its next is behind it."""
        if member in self._next:
            self._next[member] += samples // HALF_TICK_SAMPLES - 2

    def wait_s(self, now: float) -> float | None:
        """How long no tick is due; None where nobody has any to come."""
        if self._origin_s is None or not self._next:
            return None
        return max(0.0, self._origin_s + min(self._next.values()) * _HALF_S - now)

    def _place(self, now: float) -> int:
        """The first place on the grid that has not passed, in half ticks; the first member begins
        the grid.
        """
        if self._origin_s is None:
            self._origin_s = now
        return 2 * math.ceil((now - self._origin_s) / TICK_S - _EPSILON)
