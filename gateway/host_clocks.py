"""Where the monotonic clocks of other machines stand against ours.

Services on this machine share our clock. The others tell theirs with each status that they
give: sent, read there, received. The reading lies between the two, so half of the round trip
is the error; of the last readings the quickest counts (the clock filter of NTP, RFC 5905,
section 10).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from visavis.clock import clock_id
from visavis.media import Stamp

# Enough for a quick one to be among them, few enough that quartz does not drift (50 ppm).
_KEPT_READINGS = 8


@dataclass(frozen=True, slots=True)
class Offset:
    """What has to be added to a remote clock to have ours, and by how much it may be wrong."""

    offset_s: float
    error_s: float


class HostClocks:
    """Offsets by clock, as named in stamps. Pure: all times are passed in."""

    def __init__(self, own: int | None = None) -> None:
        self._own = clock_id() if own is None else own
        self._readings: dict[int, deque[Offset]] = {}

    def read(self, clock: int, reading_s: float, sent_s: float, received_s: float) -> None:
        """A clock said `reading_s` between two moments of ours."""
        if clock in (0, self._own):
            return
        middle_s, error_s = (sent_s + received_s) / 2, (received_s - sent_s) / 2
        readings = self._readings.setdefault(clock, deque(maxlen=_KEPT_READINGS))
        readings.append(Offset(middle_s - reading_s, error_s))

    def offset(self, clock: int) -> Offset | None:
        """None where nothing is known of a clock."""
        if clock == self._own:
            return Offset(0.0, 0.0)
        readings = self._readings.get(clock)
        return min(readings, key=lambda offset: offset.error_s) if readings else None

    def local_s(self, stamp: Stamp) -> float | None:
        """When a stamp was made, on our clock."""
        offset = self.offset(stamp.clock)
        return None if offset is None else stamp.monotonic_ns / 1e9 + offset.offset_s
