"""Files that commands write: that they can be written is found out before any work is done."""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from visavis.serving.errors import InvalidInputError, VisavisError


def check_output(path: Path | None, suffix: str) -> None:
    """Raises InvalidInputError, with what to do instead, if no such file can be written.

    None: nothing is to be written.
    """
    if path is None:
        return
    folder = path.absolute().parent
    if path.is_dir():
        raise InvalidInputError(
            f"{path}: is a folder; name a file, such as {path / f'answer{suffix}'}"
        )
    if path.suffix.lower() != suffix:
        raise InvalidInputError(f"{path}: name it {path.stem}{suffix}")
    if not folder.is_dir():
        raise InvalidInputError(f"{folder}: no such folder; make it first, or choose another")
    if not os.access(folder, os.W_OK):
        raise InvalidInputError(f"{folder}: you may not write there; choose another place")


def write_output(path: Path, content: str | bytes) -> None:
    """Raises VisavisError where the file cannot be written; one that was there stays, then."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")  # several commands may write it
    try:
        unfinished.write_bytes(content.encode() if isinstance(content, str) else content)
        unfinished.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise VisavisError(f"{path}: cannot be written: {error.strerror}") from error


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Readable JSON, in which a number without an end is null: JSON knows none.

    Raises VisavisError where the file cannot be written.
    """
    text = json.dumps(_finite(content), indent=1, ensure_ascii=False, allow_nan=False)
    write_output(path, text + "\n")


def _finite(content: Any) -> Any:
    if isinstance(content, Mapping):
        return {name: _finite(value) for name, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_finite(value) for value in content]
    return content if not isinstance(content, float) or math.isfinite(content) else None
