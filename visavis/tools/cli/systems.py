"""On which systems visavis runs: `python -m visavis.tools.cli.systems` says where it does not.

It imports the standard library alone: `make` asks before anything is installed.
"""

from __future__ import annotations

import sys

_OLDEST_MACOS = 14
"""For which the packages are made that ours stand on."""


def refusal(system: str, machine: str, macos: str) -> str:
    """Why it does not run there, and what to do, in one sentence; "": it does.

    system: as sys.platform; machine: the processor that Python was made for; macos: version, else
    "".
    """
    if system in ("win32", "cygwin", "msys"):
        return (
            "visavis does not run on Windows itself, but in its Linux: install WSL 2 "
            "(`wsl --install`) and begin again in there, as docs/machines.md says"
        )
    if system != "darwin":
        return ""
    if machine == "x86_64":
        return (
            "visavis runs on Macs with Apple silicon alone, for several of its packages are no "
            "longer made for Intel's processors: where this is an M1 or later, take a Python for "
            "arm64; else run it in a Linux, as docs/machines.md says"
        )
    if int(macos.partition(".")[0] or _OLDEST_MACOS) < _OLDEST_MACOS:
        return f"visavis needs macOS {_OLDEST_MACOS} or newer, for which its packages are made"
    return ""


def refusal_here() -> str:
    """Of this Python."""
    import platform  # not for every command

    return refusal(sys.platform, platform.machine(), platform.mac_ver()[0])


if __name__ == "__main__":
    sys.exit(refusal_here() or None)
