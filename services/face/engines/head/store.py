"""The heads that a face can wear: those that ship with it, and those that users have added."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import cv2
import numpy as np

from services.face.avatar.avatar import jpeg
from services.face.avatar.store import FolderStore, write_files
from services.face.engines.base import AvatarInfo
from services.face.engines.head.bundle import (
    ABOUT,
    BACKGROUND,
    FILES,
    MODEL,
    PORTRAIT,
    About,
    read_about,
    read_bundle,
    read_picture,
)
from services.face.engines.head.likeness import likened
from services.face.engines.head.model import Model, model_of
from services.face.engines.head.visible import seen_alone, with_fewer_ribbons
from visavis.serving.errors import InvalidInputError

BUILTIN_FOLDER = Path(__file__).parents[2] / "heads"
_THUMBNAIL = "portrait.jpg"
_KEPT_FILES = (ABOUT, MODEL, BACKGROUND, PORTRAIT, _THUMBNAIL)


@dataclass(frozen=True)
class Head:
    """A head, ready to be drawn. Never changed, so all sessions share one."""

    model: Model
    digest: str
    """Of all that is drawn of it."""


class HeadStore(FolderStore[Head]):
    """Keeps heads, ready to be drawn in pictures of `size`²."""

    def __init__(
        self, folder: Path, *, size: int, most: int = 100, builtin: Path = BUILTIN_FOLDER
    ) -> None:
        super().__init__(folder, builtin, _KEPT_FILES, most=most)
        self._size = size

    def keep(self, name: str, files: Mapping[str, bytes]) -> AvatarInfo:
        """Adds the head of a bundle that was read without fault. Raises as `check_new` does, and
        AtCapacityError where it cannot be written.
        """
        kept = {file: files[file] for file in FILES}
        kept[_THUMBNAIL] = self._thumbnail(files[PORTRAIT])
        about = read_about(files[ABOUT])
        self._add(name, partial(write_files, files=kept))
        return AvatarInfo(name, self._size, False, about.licence, head=self._folder / name)

    def _read(self, folder: Path) -> Head:
        try:
            files = {file: (folder / file).read_bytes() for file in FILES}
        except OSError as error:
            raise _damaged(folder, error) from error
        digest = hashlib.blake2b(f"{self._size}".encode(), digest_size=16)
        for file in FILES:
            digest.update(files[file])
        bundle = with_fewer_ribbons(read_bundle(files), self._size)
        model = likened(seen_alone(model_of(bundle, self._size)).in_quads(), bundle.portrait)
        return Head(model, digest.hexdigest())

    def _info(self, name: str, folder: Path) -> AvatarInfo:
        licence = self._about(folder).licence
        return AvatarInfo(name, self._size, self.is_builtin(name), licence, head=folder)

    def _about(self, folder: Path) -> About:
        try:
            return read_about((folder / ABOUT).read_bytes())
        except OSError as error:
            raise _damaged(folder, error) from error

    def _portrait(self, folder: Path) -> bytes:
        """Made anew each time for one that ships with the product: its folder has no JPEG."""
        try:
            if (folder / _THUMBNAIL).is_file():
                return (folder / _THUMBNAIL).read_bytes()
            return self._thumbnail((folder / PORTRAIT).read_bytes())
        except OSError as error:
            raise _damaged(folder, error) from error

    def _thumbnail(self, portrait: bytes) -> bytes:
        shown = read_picture({PORTRAIT: portrait}, PORTRAIT)
        side = (self._size, self._size)
        return jpeg(np.asarray(cv2.resize(shown, side, interpolation=cv2.INTER_AREA), np.uint8))


def _damaged(folder: Path, error: OSError) -> InvalidInputError:
    return InvalidInputError(f"head bundle {folder} is damaged: {error}; add it again")
