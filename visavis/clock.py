"""The only place where the platform reads the time."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Seconds that only go forward; the origin is arbitrary."""

    def now(self) -> float: ...


class MonotonicClock:
    """The host's monotonic clock, shared by all processes of one host."""

    def now(self) -> float:
        return time.monotonic()
