"""The only place where the platform reads the time."""

from __future__ import annotations

import functools
import os
import secrets
import time
import zlib
from pathlib import Path
from typing import Protocol

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_TIME_NAMESPACE = Path("/proc/self/ns/time")


class Clock(Protocol):
    """Seconds that only go forward; the origin is arbitrary."""

    def now(self) -> float:
        """This moment."""
        ...


class MonotonicClock:
    """The host's monotonic clock, shared by all processes of one host."""

    def now(self) -> float:
        """This moment, in seconds since about the host's start."""
        return time.monotonic()


@functools.cache
def clock_id() -> int:
    """Names this process's monotonic clock, 1 to 2^32 - 1.

    On Linux all processes of one boot and one time namespace share a clock, containers
    included. Elsewhere nothing says so, and each process counts as having its own.
    """
    try:
        boot = _BOOT_ID.read_text("ascii").strip()
    except OSError:
        boot = secrets.token_hex(16)
    namespace = os.readlink(_TIME_NAMESPACE) if _TIME_NAMESPACE.exists() else ""
    return zlib.crc32(f"{boot} {namespace}".encode()) or 1
