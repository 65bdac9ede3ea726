"""What the machine says of this process: processor time, the wait for a core, memory."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Self

import psutil

_PROC = "/proc"
_MEMORY = Path("/proc/meminfo")
_STATM = Path("/proc/self/statm")
_VMSTAT = Path("/proc/vmstat")
_CGROUP = Path("/sys/fs/cgroup")
_SHORT_BYTES = 128


@dataclass(frozen=True, slots=True)
class Usage:
    """Of all threads of the process, from its start on."""

    cpu_s: float
    waited_s: float
    """Time in which a thread could have run and had no core; 0 where the kernel does not tell."""
    machine_s: float = 0.0
    """Time in which the machine's cores were at work, for whomever, or kept from it by another
    machine on the same hardware (steal), all cores together; 0 where the kernel does not tell."""


@dataclass(frozen=True, slots=True)
class MachineTime:
    """CPU seconds of the whole machine since it started: what worked, and all there was."""

    busy_s: float
    total_s: float

    @classmethod
    def now(cls) -> Self:
        times = psutil.cpu_times()
        idle = times.idle + getattr(times, "iowait", 0.0)
        # Linux counts a guest's time in user time too.
        total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
        return cls(total - idle, total)


def usage() -> Usage:
    """Now. Threads that have ended count no more in `waited_s`."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return Usage(used.ru_utime + used.ru_stime, waited_s("self"), _machine_s())


def waited_s(pid: int | str) -> float:
    """See `Usage.waited_s`, of any process of this user; 0 where it has gone, too."""
    waited_ns = 0
    for task in _tasks(pid):
        try:
            waited_ns += int(_read(f"{task}/schedstat").split()[1])
        except (OSError, ValueError, IndexError):
            continue  # it has just ended, or the kernel counts nothing
    return waited_ns / 1e9


def kept_by_disk(pid: int) -> bool:
    """Whether a thread of the process waits for a disk now, and would not even hear a signal."""
    for task in _tasks(pid):
        try:
            if _read(f"{task}/stat").rpartition(b") ")[2].startswith(b"D"):
                return True
        except OSError:
            continue
    return False


def _tasks(pid: int | str) -> list[str]:
    folder = f"{_PROC}/{pid}/task"
    try:
        return [f"{folder}/{task}" for task in os.listdir(folder)]
    except OSError:
        return []


def _machine_s() -> float:
    try:
        return MachineTime.now().busy_s
    except (OSError, psutil.Error):
        return 0.0


def _read(path: str) -> bytes:
    """A short file of the kernel's. A process has dozens of threads, and the event loop waits: no
    objects for paths, buffers and text. Raises OSError."""
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, _SHORT_BYTES)
    finally:
        os.close(file)


def cores() -> float:
    """Processor cores that this process may use: of the machine, its affinity, its container."""
    if hasattr(os, "sched_getaffinity"):
        allowed = float(len(os.sched_getaffinity(0)))
    else:
        allowed = float(os.cpu_count() or 1)
    try:
        quota, period = (_CGROUP / "cpu.max").read_text("ascii").split()
        return min(allowed, int(quota) / int(period))
    except (OSError, ValueError):
        return allowed


def foreign_cores() -> float:
    """Cores of the machine that this process may not use: others' work is there first."""
    return max(0.0, (os.cpu_count() or 1) - cores())


def memory_bytes() -> int:
    """Resident memory of the process; 0 where the system does not tell."""
    try:
        return int(_STATM.read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return _told_otherwise(lambda: psutil.Process().memory_info().rss)


def _told_otherwise(ask: Callable[[], int]) -> int:
    """On a system without /proc, such as macOS; 0 where it does not tell."""
    try:
        return int(ask())
    except (OSError, psutil.Error):
        return 0


def free_memory_bytes(cgroup: Path = _CGROUP) -> int:
    """What the machine, or the container, unit or group that we are in, has left; 0 where the
    system does not tell.

    Files that were read and can be read again count as left.
    """
    free = 0
    try:
        for line in _MEMORY.read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                free = int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        return _told_otherwise(lambda: psutil.virtual_memory().available)
    for folder in _memory_groups(cgroup):
        with contextlib.suppress(OSError, ValueError):
            free = min(free, _left_in(folder))
    return free


def memory_limit_bytes(cgroup: Path = _CGROUP) -> int:
    """All that this process may use: of the machine, of the container, unit or group it is in."""
    limit = psutil.virtual_memory().total
    for folder in _memory_groups(cgroup):
        with contextlib.suppress(OSError, ValueError):
            limit = min(limit, _limit_of(folder))
    return int(limit)


def killed_for_memory() -> int:
    """How many processes the kernel has killed for want of memory since it started, for whatever
    limit; 0 where it does not tell.
    """
    with contextlib.suppress(OSError, ValueError):
        for line in _VMSTAT.read_text("ascii").splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


@cache
def _memory_groups(root: Path) -> tuple[Path, ...]:
    """Folders of the control groups that this process's memory is counted in, of either version."""
    try:
        lines = Path(_PROC, "self/cgroup").read_text("utf-8").splitlines()
    except OSError:
        return ()
    found: list[Path] = []
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0" or "memory" in controllers.split(","):
            top = root / "memory" if controllers else root
            inner = top / path.lstrip("/")
            # In a container the path may be the host's, of which nothing is here.
            found += [one for one in (inner, *inner.parents) if one.is_relative_to(top)]
    return tuple(folder for folder in found if any(_limits_in(folder)))


def _limits_in(folder: Path) -> Iterator[Path]:
    files = (folder / "memory.max", folder / "memory.limit_in_bytes")
    return (file for file in files if file.exists())


def _limit_of(folder: Path) -> int:
    """Raises OSError; ValueError where there is none."""
    return int(next(_limits_in(folder)).read_text("ascii"))


def _left_in(folder: Path) -> int:
    """Raises OSError, ValueError."""
    limit, new = _limit_of(folder), (folder / "memory.max").exists()
    used = int((folder / ("memory.current" if new else "memory.usage_in_bytes")).read_text("ascii"))
    stat = (folder / "memory.stat").read_text("ascii").split()
    counted = dict(zip(stat[::2], stat[1::2], strict=True))
    used -= int(counted.get("inactive_file" if new else "total_inactive_file", 0))
    return max(0, limit - used)
