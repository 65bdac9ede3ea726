"""One child process of a stack: started, watched, restarted, ended; and where its log lies."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import IO, BinaryIO

import psutil

from visavis.large_pages import large_pages
from visavis.serving.admission.probes import kept_by_disk, waited_s
from visavis.serving.lifetime.heartbeat import BEAT_S, FD_VARIABLE, WORKING
from visavis.serving.settings import SECTIONS, env_prefix
from visavis.serving.trust import state_root
from visavis.tools.stack.silence import Reading, Silence
from visavis.tools.stack.tether import WAY, tethered
from visavis.wire.clock import MonotonicClock

log = logging.getLogger(__name__)

_KILL_AFTER_S, _KILL_AT_LAST_S = 10.0, 30.0
_POLL_S = 0.05
_LOOK_S = 0.5
_SILENT_S = 10.0
_TAIL_BYTES = 2_000
_PIPE_BYTES = 65_536
_LONGEST_LOG_BYTES = 32_000_000
"""Some ten thousand visits."""

# Five processes share one machine: numpy must not start a thread for each core in each
# of them, and glibc must give memory back rather than keep an arena for each thread.
_SHARED_MACHINE = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_TRIM_THRESHOLD_": "131072",
    "MALLOC_MMAP_THRESHOLD_": "1048576",
    **large_pages(),
}


class State(StrEnum):
    """Where a process stands, as `visavis up` shows it."""

    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    DRAINING = "draining"
    FAILED = "failed"
    STOPPED = "stopped"


class Child:
    """A command with its log in a file of its own and, while it works, a heartbeat.

    It has a process group of its own: Ctrl-C reaches the supervisor alone, which then ends its
    children in order. But no session: Linux parts the cores between sessions first (autogroup),
    and who is short of a core for a moment then may wait for 0.2 s. On Linux it also ends with the
    *thread* that called `start`.
    """

    starts_long = True
    """Whether it may be silent for long before it works."""

    def __init__(self, name: str, command: Sequence[str], log_dir: Path) -> None:
        self.name = name
        self._section = name.partition("-")[0]
        """Whose settings it is given, whatever it is called later."""
        self.state = State.STOPPED
        self.working = False
        """Whether it has said that its start is over."""
        self.ended = ""
        """How it has ended last, in words, where it was not told to."""
        self.log_path = log_dir / f"{name}.log"
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start_bytes: int | None = None
        """Where in its log that of the newest start begins; None: it has none."""
        self._kept_bytes = 0
        """How long the log was as it could not be begun anew."""
        self._heart: int | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def command(self) -> Sequence[str]:
        """What is started the next time."""
        return self._command

    def start(self, environ: Mapping[str, str] | None = None) -> None:
        """Start the process; it is not ready before it says so. Raises OSError."""
        self.state, self.working = State.STARTING, False
        self._let_go()
        self._heart, beating = os.pipe()
        os.set_blocking(self._heart, False)
        try:
            with self._open_log() as output:
                self._process = subprocess.Popen(
                    tethered(list(self.command())),
                    # The guard's leash; the kernel needs none.
                    stdin=subprocess.PIPE if WAY == "guard" else subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env={
                        **_SHARED_MACHINE,
                        **_inherited(self._section),
                        **(environ or {}),
                        FD_VARIABLE: str(beating),
                    },
                    pass_fds=(beating,),
                    process_group=0,
                )
        finally:
            os.close(beating)

    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    async def wait(self) -> int:
        """Exit status, once the process has ended."""
        assert self._process is not None, "not started"
        while (status := self._process.poll()) is None:
            await _may_have_ended(self._process.pid)
        return status

    async def beats(self) -> bool:
        """Whether it has given a sign of life since this was last asked."""
        signs = b""
        if self._heart is not None:
            with contextlib.suppress(BlockingIOError):
                signs = os.read(self._heart, _PIPE_BYTES)
        self.working = self.working or WORKING in signs
        return bool(signs)

    def computed_s(self) -> float:
        """Processor time that this start has had; 0 where the process has gone.

        More of it is a sign of life as long as it starts: on a slow machine, or one whose cores
        others have, to import or compile takes minutes, in which it beats seldom or not at all.
        """
        with contextlib.suppress(psutil.Error, LookupError):
            times = self.started().cpu_times()
            return float(times.user + times.system)
        return 0.0

    def reading(self) -> Reading:
        """What the kernel tells of it now, for whoever judges its silence."""
        now_s = MonotonicClock().now()
        try:
            pid = self.started().pid
        except (psutil.Error, LookupError):
            return Reading(now_s, 0.0, on_disk=False)
        return Reading(now_s, waited_s(pid), kept_by_disk(pid))

    def kill(self) -> None:
        """End the process at once, frozen or not, and all that it has started."""
        self._send(signal.SIGKILL)

    async def drain(self) -> None:
        """Ask the process to end once its sessions have left it, and wait until it has.

        It says itself how long it waits at most. One that falls silent meanwhile is killed.
        """
        self.state = State.DRAINING
        self._send_to_command(signal.SIGTERM)
        silence = Silence()
        while self.runs():
            await asyncio.sleep(BEAT_S)
            if await self.beats():
                silence.heard()
            else:
                silence.missed(BEAT_S, self.reading())
            if silence.too_long(_SILENT_S):
                log.warning("%s has fallen silent while it drains; it is killed", self.name)
                self.kill()
        await self.stop()

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Ask the process to end, by a signal; kill it if it has not after ten seconds in which it
        could have, or after thirty.
        """
        await asyncio.to_thread(self.end, number)

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """As `stop`, for callers without an event loop."""
        self.state = State.STOPPED
        if self._process is None:
            return
        # Before it works it knows of no other signal that ends it quietly.
        self._send(number if self.working else signal.SIGTERM)
        silence = Silence()
        while not silence.too_long(_KILL_AFTER_S, _KILL_AT_LAST_S):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_LOOK_S)
                break
            silence.missed(_LOOK_S, self.reading())
        else:
            log.warning("%s did not end when it was told to; it is killed", self.name)
            self.kill()
            self._process.wait()
        self._let_go()

    def shorten_log(self) -> None:
        """A log that has become long begins anew; what it held lies beside it, as `….log.1`, in the
        place of what lay there. A line that comes in that very moment may be lost. Where the disk
        has no room for both, it grows by as much again before the next try.
        """
        size_bytes = _size_bytes(self.log_path)
        if self._log_start_bytes is None or size_bytes - self._kept_bytes < _LONGEST_LOG_BYTES:
            return
        before = self.log_path.with_name(f"{self.log_path.name}.1")
        try:
            with self.log_path.open("rb") as log_file, open_log(before) as kept:
                kept.truncate(0)
                shutil.copyfileobj(log_file, kept)
            os.truncate(self.log_path, 0)  # it is appended to: what comes next is at its beginning
        except OSError:
            self._kept_bytes = size_bytes
            with contextlib.suppress(OSError):
                before.unlink()
        else:
            self._log_start_bytes = self._kept_bytes = 0

    def log_tail(self) -> str:
        """The end of what the newest start has logged, for an error message; "" without a log."""
        logged = b""
        if self._log_start_bytes is not None:
            with contextlib.suppress(OSError):
                logged = self.log_path.read_bytes()[self._log_start_bytes :]
        return logged[-_TAIL_BYTES:].decode(errors="replace").strip()

    def _send(self, number: signal.Signals) -> None:
        """To the process and to all of its group, of which it is the first."""
        if self._process is not None and self.runs():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def _send_to_command(self, number: signal.Signals) -> None:
        """To the command alone: what it has started is of use until it ends."""
        if self.runs():
            with contextlib.suppress(psutil.Error, LookupError, ProcessLookupError):
                self.started().send_signal(number)

    def started(self) -> psutil.Process:
        """The command's own process, which a guard has beside itself.

        Raises psutil.Error or LookupError where it has gone, or a guard has not begun it.
        """
        assert self._process is not None, "not started"
        process = psutil.Process(self._process.pid)
        return process.children()[0] if WAY == "guard" else process

    def _open_log(self) -> IO[bytes]:
        """The log's end, or our own standard error where it cannot be written: folders move
        and disks fill up, and a process without a log is better than none."""
        self._log_start_bytes = None
        try:
            file = open_log(self.log_path)
        except OSError as error:
            log.warning("%s logs to the terminal: %s", self.name, error)
            return os.fdopen(os.dup(2), "ab")
        self._log_start_bytes = file.tell()
        return file

    def _let_go(self) -> None:
        """Of what ties a process that has ended to us: its heart, a guard's leash."""
        if self._heart is not None:
            os.close(self._heart)
            self._heart = None
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()


def _size_bytes(path: Path) -> int:
    """0 where there is no such file."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


async def _may_have_ended(pid: int) -> None:
    """Return once that child has ended or, where no kernel tells, after a moment."""
    if sys.platform != "linux":
        await asyncio.sleep(_POLL_S)
        return
    try:
        told = os.pidfd_open(pid)
    except (AttributeError, OSError):
        await asyncio.sleep(_POLL_S)
        return
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(told, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(told)
        os.close(told)


def memory_bytes(children: Sequence[Child]) -> dict[str, int]:
    """Resident set of each child and of what it has started, by name, 0 if it is gone.

    One look at the machine's processes for all of them: each child leads a group of its own.
    """
    sizes = {child.name: 0 for child in children}
    names = {child.pid: child.name for child in children if child.pid is not None}
    for pid in psutil.pids():
        with contextlib.suppress(OSError, psutil.Error):  # it has just gone, or is another user's
            group = os.getpgid(pid)
            if group in names:
                sizes[names[group]] += int(psutil.Process(pid).memory_info().rss)
    return sizes


def _inherited(section: str) -> dict[str, str]:
    """Our environment less what is another process' own: its keys, above all."""
    own = env_prefix(section)
    others = tuple(map(env_prefix, SECTIONS))
    return {
        variable: value
        for variable, value in os.environ.items()
        if variable.startswith(own) or not variable.startswith(others)
    }


def python_child(name: str, module: str, arguments: Sequence[str], log_dir: Path) -> Child:
    """`python -m <module> <arguments>`."""
    return Child(name, [sys.executable, "-m", module, *arguments], log_dir)


def log_dir() -> Path:
    """`$XDG_STATE_HOME/visavis/logs`, by default under `~/.local/state`."""
    return state_root() / "logs"


def make_log_dir(folder: Path) -> None:
    """For its owner alone where it is new: what visitors do may stand in it. Raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def open_log(path: Path) -> BinaryIO:
    """A log file to append to, for its owner alone. Raises OSError."""
    make_log_dir(path.parent)
    log = open(path, "ab", opener=lambda name, flags: os.open(name, flags, 0o600))
    os.fchmod(log.fileno(), 0o600)  # it may have been there
    return log
