"""A session's media time, which counts from its start, and the one loop that paces it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from fractions import Fraction

from gateway import metrics
from visavis.wire.clock import Clock

RATE_HZ = 48_000
"""Sound that leaves the gateway."""

TICK_SAMPLES = 960
"""One step of the pacing clock: 20 ms."""

TICK_S = TICK_SAMPLES / RATE_HZ

VIDEO_HZ = 90_000
"""Clock of picture timestamps, as in RTP."""

SOUND_TIME_BASE = Fraction(1, RATE_HZ)
VIDEO_TIME_BASE = Fraction(1, VIDEO_HZ)

# Sound encoders look ahead, so their first packet starts before the first sample:
# the session's time begins here so that no timestamp is ever negative.
ORIGIN_SAMPLES = 4800

# After a longer stop (a suspended laptop) the past is not caught up with.
MAX_LAG_S = 0.5


def to_video_clock(samples: int) -> int:
    """Media time in samples -> in ticks of the picture clock."""
    return samples * VIDEO_HZ // RATE_HZ


def to_samples(video_ticks: int) -> int:
    """Media time in ticks of the picture clock -> in samples."""
    return video_ticks * RATE_HZ // VIDEO_HZ


async def pace(tick: Callable[[], None], clock: Clock) -> None:
    """Call `tick` at start + n x 20 ms, for ever.

    A late tick is followed by the next at its own time, not 20 ms later.
    """
    deadline = clock.now()
    while True:
        tick()
        deadline += TICK_S
        lag = clock.now() - deadline
        if lag > MAX_LAG_S:
            deadline += lag
        metrics.tick_late_seconds.observe(max(0.0, lag))
        await asyncio.sleep(max(0.0, -lag))
