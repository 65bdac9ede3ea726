"""Units of the session's media time: what listeners hear and see counts from its start."""

from __future__ import annotations

from fractions import Fraction

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


def to_video_clock(samples: int) -> int:
    """Media time in samples -> in ticks of the picture clock."""
    return samples * VIDEO_HZ // RATE_HZ


def to_samples(video_ticks: int) -> int:
    """Media time in ticks of the picture clock -> in samples."""
    return video_ticks * RATE_HZ // VIDEO_HZ
