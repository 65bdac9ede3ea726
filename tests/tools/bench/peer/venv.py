"""Pipecat's own virtual environment, made once from its pinned requirements."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console

from visavis.serving.errors import VisavisError

REQUIREMENTS = Path(__file__).with_name("requirements.txt")


def default_folder() -> Path:
    """Another one whenever the requirements change."""
    key = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:10]
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache).expanduser() / "visavis" / "bench" / f"pipecat-{key}"


def ready_python(folder: Path, console: Console) -> Path:
    """The environment's interpreter; made first where it is not there.

    Raises VisavisError with pip's own words.
    """
    python = folder / "bin" / "python"
    complete = folder / "complete"
    if complete.is_file():
        return python
    with console.status(f"Installing Pipecat into {folder} …"):
        _run([sys.executable, "-m", "venv", "--clear", str(folder)])
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        _run([*pip, "-r", str(REQUIREMENTS)])
    complete.touch()
    return python


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise VisavisError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
