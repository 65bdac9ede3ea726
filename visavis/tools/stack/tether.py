"""Run as a program: a command that ends with the process that wanted it, whatever ends that one.

    python tether.py WAY PARENT_PID COMMAND...

`kernel` (Linux): the kernel is told to kill this process with its parent, and the command takes
its place, with its process id. `guard` (everywhere): the command runs beside this process, which
kills it and itself once nobody holds the other end of its standard input any more.

It imports the standard library alone and is started without site-packages: in milliseconds.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading

WAY = "kernel" if sys.platform == "linux" else "guard"
"""What this machine can do."""
_PR_SET_PDEATHSIG = 1
_OOM_SCORE = "/proc/self/oom_score_adj"
_SOONER = 100
"""Thousandths of all memory: as if it had so much more."""
SIGNALLED = 128
"""A guard's exit status where a signal has ended its command is so much more than its number."""


def tethered(command: list[str]) -> list[str]:
    """The command line that runs `command`, to be started in a process group of its own."""
    # Isolated, and without the environment's packages: they would cost more than the start.
    own = [sys.executable, "-I", "-S", __file__, WAY, str(os.getpid())]
    return [*own, *command]


def _end_with(parent_pid: int) -> None:
    """Have the kernel kill this process, and what it becomes, with its parent."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:  # it ended before the kernel knew
        sys.exit(1)
    _go_first_for_memory()


def _go_first_for_memory() -> None:
    """Where memory is short the kernel kills a process that our parent starts again, and not it."""
    with contextlib.suppress(OSError, ValueError), open(_OOM_SCORE, "r+", encoding="ascii") as file:
        score = min(1000, int(file.read()) + _SOONER)
        file.seek(0)
        file.write(str(score))


def _guard(command: list[str]) -> int:
    """Exit status of `command`, which ends at the latest with our standard input."""
    # The command is in our process group and gets signals itself. A handler that does nothing
    # is not handed down to it, as ignoring would be.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, close_fds=False)
    threading.Thread(target=_kill_when_alone, daemon=True).start()
    status = process.wait()
    return status if status >= 0 else SIGNALLED - status


def _kill_when_alone() -> None:
    while os.read(0, 1):
        pass
    os.killpg(0, signal.SIGKILL)


def main() -> None:
    way, parent_pid, *command = sys.argv[1:]
    if way == "guard":
        sys.exit(_guard(command))
    _end_with(int(parent_pid))
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
