"""Keeps laid-out weights on disk: made once, whole or not at all, made anew when damaged.

`<cache>/visavis/plans/<bundle>/weights.<key>.gguf`, with its digest in a file beside it. The
key stands for the published file and for how it is laid out.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path

from visavis.bundles.compile.build_progress import Cancelled, stop_if
from visavis.bundles.compile.plans.cache import PlanCache, require_room
from visavis.bundles.gguf.header import GgufError, GgufHeader, read_header
from visavis.bundles.gguf.layout import (
    LAYOUT_REVISION,
    GgmlType,
    OnFraction,
    rewrite,
    to_lay_out,
    written_bytes,
)
from visavis.bundles.store.installed import recorded_sha256
from visavis.serving.errors import PlanCancelledError, PlanError
from visavis.whole_file import placed_whole

log = logging.getLogger(__name__)

_DIGEST_SUFFIX = ".sha256"
_UNFINISHED = ".weights-"


def laid_out_file(
    source: Path,
    bundle: str,
    *,
    cache: PlanCache | None = None,
    on_fraction: OnFraction = lambda _: None,
    cancelled: Cancelled = lambda: False,
) -> Path:
    """The file to load in place of `source`: laid out for a CPU, made now if it must be.

    Gives `source` itself where nothing would be gained, and, with a warning, where the file
    cannot be read, written or kept: a start never fails for this. Only a cancel raises,
    PlanCancelledError, and leaves nothing. Blocks: call it on a thread.
    """
    try:
        return _find_or_make(source, bundle, cache or PlanCache(), on_fraction, cancelled)
    except PlanCancelledError:
        raise
    except GgufError as error:
        log.info("%s is loaded as it is: %s", source, error)
    except (PlanError, OSError) as error:
        log.warning("%s is loaded as published, which is slower: %s", bundle, error)
    return source


def _find_or_make(
    source: Path, bundle: str, cache: PlanCache, on_fraction: OnFraction, cancelled: Cancelled
) -> Path:
    with source.open("rb") as file:
        header = read_header(file)
        types = to_lay_out(header.tensors)
        if not types:
            return source
        sha256 = recorded_sha256(source) or _sha256(file)
        path = cache.folder / bundle / f"weights.{_key(sha256)}.gguf"
        if _is_whole(path):
            return path
        with cache.locked(f"{bundle}.weights", cancelled):
            if _is_whole(path):  # another process has made it meanwhile
                return path
            if _take_over(path):
                return path
            if path.exists():
                log.warning("%s is damaged: it is made anew", path)
            if _sha256(file) != sha256:
                raise PlanError(
                    f"{source} is not what was pulled: run `visavis models verify {bundle}`"
                )
            started = time.monotonic()
            _make(path, file, header, types, on_fraction, cancelled)
            took_s = time.monotonic() - started
    log.info("%s laid out for this processor in %.1f s: %s", bundle, took_s, path)
    return path


def _make(
    path: Path,
    file: io.BufferedReader,
    header: GgufHeader,
    types: Mapping[str, GgmlType],
    on_fraction: OnFraction,
    cancelled: Cancelled,
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f"{_UNFINISHED}*"):  # of a process that was killed
        left.unlink(missing_ok=True)
    require_room(
        path.parent,
        "the laid-out weights",
        written_bytes(header, types, os.fstat(file.fileno()).st_size),
    )
    digest_path = _digest_path(path)
    # A digest that fits by chance must not stand beside a file that is not finished.
    digest_path.unlink(missing_ok=True)
    with placed_whole(path, prefix=_UNFINISHED) as target:
        hashed = _Hashed(target)
        rewrite(file, header, hashed, types, on_fraction=on_fraction, cancelled=cancelled)
        stop_if(cancelled)
    with placed_whole(digest_path, prefix=_UNFINISHED) as target:
        target.write(f"{hashed.sha256.hexdigest()}\n".encode())
    for other in path.parent.glob("weights.*.gguf"):
        if other != path:
            _digest_path(other).unlink(missing_ok=True)
            other.unlink(missing_ok=True)


def _take_over(path: Path) -> bool:
    """Move what was made of the very same file when its bundle had another name."""
    for other in path.parents[1].glob(f"*/{path.name}"):
        if other != path and _is_whole(other):
            path.parent.mkdir(parents=True, exist_ok=True)
            os.replace(_digest_path(other), _digest_path(path))
            os.replace(other, path)
            log.info("%s is taken over from %s", path, other.parent.name)
            return True
    return False


class _Hashed:
    """Writes to a file, and knows the digest of what it wrote."""

    def __init__(self, file: io.BufferedWriter) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()

    def write(self, content: bytes, /) -> object:
        self.sha256.update(content)
        return self._file.write(content)


def _is_whole(path: Path) -> bool:
    """Is `path` what was written? Reads all of it: it is about to be loaded anyway."""
    try:
        told = _digest_path(path).read_text(encoding="ascii").strip()
        with path.open("rb") as file:
            return _sha256(file) == told
    except (OSError, UnicodeDecodeError):
        return False


def _sha256(file: io.BufferedReader) -> str:
    file.seek(0)
    return hashlib.file_digest(file, "sha256").hexdigest()


def _key(source_sha256: str) -> str:
    return hashlib.sha256(f"{source_sha256} {LAYOUT_REVISION}".encode()).hexdigest()[:24]


def _digest_path(path: Path) -> Path:
    return path.with_suffix(_DIGEST_SUFFIX)
