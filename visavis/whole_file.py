"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def placed_whole(path: Path, *, prefix: str) -> Iterator[io.BufferedWriter]:
    """A file that appears at `path` once it is written, and not at all if that fails.

    A reader sees the old file or the new one, never a part. prefix: of its name until then.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=prefix)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
