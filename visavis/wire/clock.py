"""The only place where the platform reads the time.

A simulation may have all clocks of a process go slower than the world's (`dilate`): then a machine
does the work of many, one second of theirs after the other.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import secrets
import sys
import time
import zlib
from pathlib import Path
from typing import Protocol

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_BOOT_ID_ON_MACOS = b"kern.bootsessionuuid"
_TIME_NAMESPACE = Path("/proc/self/ns/time")


# Of Linux the one, of macOS the other.
_THROUGH_SLEEP: int = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", 0))

_dilation = 1.0


def dilate(factor: float) -> None:
    """From now on a second of this process takes `factor` seconds of the world's.

    For simulations, before anything has read the time. Processes of one host that are dilated alike
    share a clock, as they do without. Timers of gRPC and of the system are not dilated.
    """
    global _dilation
    if not factor >= 1:
        raise ValueError(f"a dilation of {factor} would be faster than the world")
    _dilation = factor
    clock_id.cache_clear()


def dilation() -> float:
    """How many of the world's seconds a second of this process takes; 1 unless it simulates."""
    return _dilation


def monotonic_ns() -> int:
    """This moment on the process's monotonic clock, nanoseconds."""
    now = time.monotonic_ns()
    return now if _dilation == 1.0 else round(now / _dilation)


def unix_s() -> float:
    """Seconds since 1970 on the world's clock, which machines agree on about."""
    return time.time()


def epoch_ns(moment_ns: int) -> int:
    """A moment of the process's monotonic clock as nanoseconds since 1970, by the host's time."""
    return time.time_ns() - round((monotonic_ns() - moment_ns) * _dilation)


def through_sleep_s() -> float:
    """The world's seconds, which go on while the machine sleeps where the system counts them:
    those of a monotonic clock may not. The origin is arbitrary.
    """
    if sys.platform == "win32":  # that goes on by itself there
        return time.monotonic()
    return time.clock_gettime(_THROUGH_SLEEP)


class Clock(Protocol):
    """Seconds that only go forward; the origin is arbitrary."""

    def now(self) -> float:
        """This moment."""
        ...


class MonotonicClock:
    """The host's monotonic clock, shared by all processes of one host."""

    def now(self) -> float:
        """This moment, in seconds since about the host's start."""
        return time.monotonic() / _dilation


def _boot_id() -> str:
    """The same for all processes until the machine is started anew; drawn where it tells none."""
    with contextlib.suppress(OSError):
        return _BOOT_ID.read_text("ascii").strip()
    told = ctypes.create_string_buffer(64)
    size = ctypes.c_size_t(len(told))
    with contextlib.suppress(AttributeError, TypeError):  # a C library without this call, or none
        ask = ctypes.CDLL(None).sysctlbyname
        if ask(_BOOT_ID_ON_MACOS, told, ctypes.byref(size), None, ctypes.c_size_t(0)) == 0:
            return told.value.decode("ascii")
    return secrets.token_hex(16)


@functools.cache
def clock_id() -> int:
    """Names this process's monotonic clock, 1 to 2^32 - 1.

    On Linux all processes of one boot and one time namespace share a clock, containers
    included; on macOS all of one boot. Elsewhere nothing says so, and each process counts as
    having its own.
    """
    boot = _boot_id()
    namespace = os.readlink(_TIME_NAMESPACE) if _TIME_NAMESPACE.exists() else ""
    slower = f" {_dilation:g}" if _dilation != 1.0 else ""
    return zlib.crc32(f"{boot} {namespace}{slower}".encode()) or 1
