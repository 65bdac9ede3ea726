"""Where a session's recordings lie, and what becomes of them if their gateway is killed."""

from __future__ import annotations

import glob
import logging
import os
import shutil
import socket
import tempfile
from pathlib import Path

import psutil

log = logging.getLogger(__name__)

# Other machines may keep theirs in the same folder.
_HERE = f"visavis-recording@{socket.gethostname()}@"
_CLOCK_STEP_S = 5.0


def make_folder(parent: Path | None, session: str) -> Path:
    """A private folder; parent: None: among the machine's temporary ones. Raises OSError."""
    if parent is not None:
        parent.mkdir(parents=True, exist_ok=True)
    us = f"{os.getpid()}.{psutil.Process().create_time():.0f}"
    return Path(tempfile.mkdtemp(prefix=f"{_HERE}{us}@{session}-", dir=parent))


def forget_left_behind(parent: Path | None) -> None:
    """Delete recordings of gateways of this machine that were killed; for one that starts."""
    for folder in (parent or Path(tempfile.gettempdir())).glob(f"{glob.escape(_HERE)}*"):
        if not _runs(folder.name.removeprefix(_HERE).partition("@")[0]):
            log.info("recordings of a gateway that is gone are deleted: %s", folder.name)
            shutil.rmtree(folder, ignore_errors=True)


def _runs(process: str) -> bool:
    """In a container every process may have the number of the one before it."""
    number, _, began_s = process.partition(".")
    try:
        return abs(psutil.Process(int(number)).create_time() - float(began_s)) < _CLOCK_STEP_S
    except (psutil.Error, ValueError):
        return False
