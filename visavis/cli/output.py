"""Whether a result can be written where it is wanted: found out before any work is done."""

from __future__ import annotations

import os
from pathlib import Path

from visavis.errors import InvalidInputError


def check_output(path: Path, *, suffix: str = ".mp4", what: str = "videos are mp4") -> None:
    """Raises InvalidInputError, with what to do instead, if no such file can be written."""
    folder = path.absolute().parent
    if path.is_dir():
        raise InvalidInputError(
            f"{path}: is a folder; name a file, such as {path / f'answer{suffix}'}"
        )
    if path.suffix.lower() != suffix:
        raise InvalidInputError(f"{path}: {what}; name it {path.stem}{suffix}")
    if not folder.is_dir():
        raise InvalidInputError(f"{folder}: no such folder; make it first, or choose another")
    blocked = path if path.exists() else folder
    if not os.access(blocked, os.W_OK):
        raise InvalidInputError(f"{blocked}: you may not write there; choose another place")
