"""Whether this Python, and the system around it, can run visavis: `make` asks before it begins.

Ends with one line that says what is wrong and what to do. Pythons that are too old read it, too,
from 3.6 on: so it has no annotations.
"""

import contextlib
import ctypes
import importlib.util
import platform
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"
_RANGE = re.compile(r'^requires-python = ">=3\.(\d+),<3\.(\d+)"', re.M)


def minors():
    """The minor versions of Python 3 for which every locked package is built, oldest first."""
    oldest, too_new = _RANGE.search(PYPROJECT.read_text(encoding="utf-8")).groups()
    return range(int(oldest), int(too_new))


def complaint(version, kind, lacking, others):
    """What is wrong, in a line; empty: nothing.

    version: major and minor. kind: what is unusual about this Python; empty: nothing.
    lacking: what the system lacks, by the names of Debian's packages. others: commands of Pythons
    that are here and would do.
    """
    known = minors()
    if kind or version[0] != 3 or version[1] not in known:
        told = f"visavis runs on Python 3.{known[0]} to 3.{known[-1]}, the ordinary 64-bit CPython"
        this = f"{version[0]}.{version[1]}" + (f", {kind}" if kind else "")
        if others:
            return f"{told}; this one is {this}. There is {others[0]}: make run PYTHON={others[0]}"
        other = f"python3.{known[-1]}"
        return f"{told}; this one is {this}. Install {other}, then: make run PYTHON={other}"
    if lacking:
        names = " ".join(lacking)
        return f"visavis needs {names}, as Debian and Ubuntu call it: sudo apt install {names}"
    return ""


def kind():
    """What is unusual about this Python; empty: nothing."""
    if platform.python_implementation() != "CPython":
        return platform.python_implementation()
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "free-threaded"
    return "32-bit" if sys.maxsize < 1 << 32 else ""


def lacking():
    """Debian's packages of what the system lacks."""
    # Debian has the one in a package of its own, without which the other makes half an environment.
    if not all(map(importlib.util.find_spec, ("ensurepip", "venv"))):
        yield f"python3.{sys.version_info[1]}-venv"
    if sys.platform == "linux":
        # llama.cpp's threads: the one library that no wheel brings.
        try:
            ctypes.CDLL("libgomp.so.1")
        except OSError:
            yield "libgomp1"


def others():
    """Commands of Pythons that are here and would do, newest first."""
    for minor in reversed(minors()):
        name = f"python3.{minor}"
        with contextlib.suppress(OSError):
            if not subprocess.call([name, "-c", ""], stderr=subprocess.DEVNULL):
                yield name


if __name__ == "__main__":
    sys.exit(complaint(sys.version_info[:2], kind(), [*lacking()], [*others()]) or None)
