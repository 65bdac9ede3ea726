"""Whether a video can be written where it is wanted: found out before any work is done."""

from __future__ import annotations

import os
from pathlib import Path

from visavis.errors import InvalidInputError

_SUFFIX = ".mp4"


def check_output(path: Path) -> None:
    """Raises InvalidInputError, with what to do instead, if no mp4 can be written to `path`."""
    folder = path.absolute().parent
    if path.is_dir():
        raise InvalidInputError(f"{path}: is a folder; name a file, such as {path / 'answer.mp4'}")
    if path.suffix.lower() != _SUFFIX:
        raise InvalidInputError(f"{path}: videos are mp4; name it {path.stem}{_SUFFIX}")
    if not folder.is_dir():
        raise InvalidInputError(f"{folder}: no such folder; make it first, or choose another")
    blocked = path if path.exists() else folder
    if not os.access(blocked, os.W_OK):
        raise InvalidInputError(f"{blocked}: you may not write there; choose another place")
