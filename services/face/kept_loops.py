"""Loops of idle life on disk, so that they are drawn once and not at every start of the face.

Each lies beside its avatar, and goes with it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path

from services.face.avatar.store import LOOPS
from services.face.draw.pictures import Encoded
from visavis.whole_file import placed_whole

log = logging.getLogger(__name__)

_CHECK_BYTES = 32


class KeptLoops:
    """The loops of all avatars below `root`, in so many bytes; those used last stay.

    What it does blocks, and never fails: a loop that cannot be had is drawn anew. Several processes
    may share a disk.
    """

    def __init__(self, root: Path, limit_bytes: int) -> None:
        self._root = root
        self._limit_bytes = limit_bytes
        self._told = False

    def read(self, file: Path) -> list[Encoded]:
        """The pictures so far; none where they are not here, or damaged."""
        try:
            packed = file.read_bytes()
            os.utime(file)
            return _unpacked(packed)
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            log.warning("the loop in %s is drawn anew: %s", file, error)
            return []

    def keep(self, file: Path, pictures: Sequence[Encoded]) -> None:
        """Nothing where its avatar was deleted meanwhile, or another process keeps more of it."""
        there = self.read(file)
        if there[:1] == list(pictures[:1]) and len(there) >= len(pictures):
            return
        packed = _packed(pictures)
        if len(packed) > self._limit_bytes:
            return
        try:
            # The folder of an avatar that was deleted is not to come back.
            file.parent.mkdir(parents=file.parent.name != LOOPS, exist_ok=True)
            # First of all: where a disk is full, what is there stays.
            with placed_whole(file, prefix=".new-") as aside:
                aside.write(packed)
            self._forget_older(file)
            self._keep_within_limit(file)
        except OSError as error:
            if not self._told:
                log.warning("loops of idle life are not kept between starts: %s", error)
            self._told = True

    def _forget_older(self, file: Path) -> None:
        """The same of the avatar as it looked before."""
        _, _, kind = file.name.partition(".")
        for other in file.parent.glob(f"*.{kind}"):
            if other != file:
                other.unlink(missing_ok=True)

    def _keep_within_limit(self, newest: Path) -> None:
        found = [*self._root.glob(f"{LOOPS}/*/*"), *self._root.glob(f"*/{LOOPS}/*.*")]
        by_use = sorted((path.stat().st_mtime, path.stat().st_size, path) for path in found)
        over_bytes = sum(size for _, size, _ in by_use) - self._limit_bytes
        for _, size, path in by_use:
            if over_bytes <= 0:
                return
            if path != newest:
                path.unlink(missing_ok=True)
                over_bytes -= size


def _packed(pictures: Sequence[Encoded]) -> bytes:
    """SHA-256 of what follows, then a line of JSON, then the pictures, one behind the other."""
    about = {
        "sizes": [len(picture.payload) for picture in pictures],
        "keyframes": [k for k, picture in enumerate(pictures) if picture.keyframe],
    }
    line = json.dumps(about).encode() + b"\n"
    content = b"".join([line, *(picture.payload for picture in pictures)])
    return hashlib.sha256(content).digest() + content


def _unpacked(packed: bytes) -> list[Encoded]:
    """Raises ValueError for what is damaged."""
    check, content = packed[:_CHECK_BYTES], memoryview(packed)[_CHECK_BYTES:]
    if hashlib.sha256(content).digest() != check:
        raise ValueError("it is damaged")
    at = packed.index(b"\n", _CHECK_BYTES) + 1
    about = json.loads(packed[_CHECK_BYTES:at])
    keyframes, pictures = set(about["keyframes"]), []
    for k, size in enumerate(about["sizes"]):
        pictures.append(Encoded(packed[at : at + size], k in keyframes))
        at += size
    return pictures
