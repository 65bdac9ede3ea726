"""One child process of a stack: started, watched, restarted, ended; and where its log lies."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

import psutil

from visavis.serving.errors import SETTINGS_EXIT_STATUS
from visavis.wire.clock import Clock

# ------------------------------------------------------------ location
# Where a stack keeps its logs on this machine, and that they are nobody else's to read.


def log_dir() -> Path:
    """`$XDG_STATE_HOME/visavis/logs`, by default under `~/.local/state`."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state).expanduser() / "visavis" / "logs"


def open_log(path: Path) -> BinaryIO:
    """A log file to append to; what visitors do may stand in it: for its owner alone."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = open(path, "ab", opener=lambda name, flags: os.open(name, flags, 0o600))
    os.fchmod(log.fileno(), 0o600)  # it may have been there
    return log


# ------------------------------------------------------------ process
# One child process of a stack: started, watched, restarted, ended.

# A process that dies this often within the window is broken, not unlucky.
_MAX_DEATHS = 5
_DEATH_WINDOW_S = 60.0
_KILL_AFTER_S = 10.0
_TAIL_BYTES = 2_000

# Five processes share one machine: numpy must not start a thread for each core in each
# of them, and glibc must give memory back rather than keep an arena for each thread.
_SHARED_MACHINE = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_TRIM_THRESHOLD_": "131072",
    "MALLOC_MMAP_THRESHOLD_": "1048576",
}


class State(StrEnum):
    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    FAILED = "failed"
    STOPPED = "stopped"


class Child:
    """`python -m <module> <arguments>` with its log in a file of its own."""

    def __init__(
        self, name: str, module: str, arguments: Sequence[str], log_dir: Path, clock: Clock
    ) -> None:
        self.name = name
        self.state = State.STOPPED
        self.log_path = log_dir / f"{name}.log"
        self._command = [sys.executable, "-m", module, *arguments]
        self._clock = clock
        self._process: asyncio.subprocess.Process | None = None
        self._deaths: deque[float] = deque(maxlen=_MAX_DEATHS)
        self._log_start_bytes = 0

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def memory_bytes(self) -> int:
        """Resident set of the process, 0 if it is gone."""
        try:
            return 0 if self.pid is None else int(psutil.Process(self.pid).memory_info().rss)
        except psutil.NoSuchProcess:
            return 0

    async def start(self, environ: Mapping[str, str] | None = None) -> None:
        """Start the process; it is not ready before it says so on the bus."""
        self.state = State.STARTING
        with open_log(self.log_path) as log:
            self._log_start_bytes = log.tell()
            # A session of its own: Ctrl-C reaches the supervisor alone, which
            # then ends its children in order.
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**_SHARED_MACHINE, **os.environ, **(environ or {})},
                start_new_session=True,
            )

    async def wait(self) -> int:
        """Exit status, once the process has ended."""
        assert self._process is not None, "not started"
        return await self._process.wait()

    def died(self, status: int) -> bool:
        """Note a death with this exit status. False if the process must not be started again:
        it has died too often, or its settings are wrong and would be again."""
        now = self._clock.now()
        self._deaths.append(now)
        too_often = len(self._deaths) == _MAX_DEATHS and now - self._deaths[0] < _DEATH_WINDOW_S
        hopeless = too_often or status == SETTINGS_EXIT_STATUS
        self.state = State.FAILED if hopeless else State.RESTARTING
        return not hopeless

    def restart_delay_s(self) -> float:
        """Doubles with every recent death, from a tenth of a second."""
        return 0.1 * 2.0 ** (len(self._deaths) - 1)

    async def stop(self) -> None:
        """Ask the process to end; kill it if it has not after ten seconds."""
        self.state = State.STOPPED
        if self._process is None or self._process.returncode is not None:
            return
        self._process.terminate()
        try:
            async with asyncio.timeout(_KILL_AFTER_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    def log_tail(self) -> str:
        """The end of what the newest start has logged, for an error message."""
        if not self.log_path.is_file():
            return ""
        logged = self.log_path.read_bytes()[self._log_start_bytes :]
        return logged[-_TAIL_BYTES:].decode(errors="replace").strip()
