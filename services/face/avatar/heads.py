"""The heads that clients draw themselves: glTF files with the 52 blendshapes as morph targets."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from services.face.engines.base import AvatarInfo
from visavis.serving.errors import UnknownNameError

_BUILTIN_FOLDER = Path(__file__).parents[1] / "heads"
_FILE = "head.glb"


@dataclass(frozen=True, slots=True)
class HeadFile:
    """A head as clients load it. glb: glTF 2.0 binary."""

    glb: bytes
    sha256: str


class Heads:
    """Says which head belongs to an avatar, and gives it: of bundles, a folder each.

    An avatar that bears a bundle's name is that head. Our own others are the first that ships with
    the product: they are pictures of such heads. What was made of somebody's photo has none.
    """

    def __init__(self, *more: Path, builtin: Path = _BUILTIN_FOLDER) -> None:
        """builtin: with those that ship with the product; more: with those of users."""
        self._builtin = builtin
        self._folders = (builtin, *more)

    def of(self, avatar: AvatarInfo) -> Path | None:
        """Where the avatar's head lies; None: it has none."""
        for folder in self._folders:
            path = folder / avatar.name / _FILE
            if path.is_file():
                return path
        return min(self._builtin.glob(f"*/{_FILE}"), default=None) if avatar.builtin else None

    def read(self, avatar: AvatarInfo) -> HeadFile:
        """Blocks. Raises UnknownNameError where the avatar has none."""
        path = self.of(avatar)
        if path is None:
            raise UnknownNameError(
                f"head: the avatar {avatar.name!r} is a photograph and has none; "
                "`head` of /v1/avatars tells which have"
            )
        return _read(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=16)
def _read(path: Path, _changed_ns: int) -> HeadFile:
    glb = path.read_bytes()
    return HeadFile(glb, hashlib.sha256(glb).hexdigest())
