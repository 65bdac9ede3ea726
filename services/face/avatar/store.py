"""The avatars that a face can wear: those that ship with it, and those made from uploads."""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from services.face.avatar.avatar import Avatar, load_avatar, save_avatar
from services.face.avatar.maker import make_avatar
from services.face.avatar.portrait import PortraitStudio
from visavis.serving.errors import AlreadyExistsError, InvalidInputError, UnknownNameError

DEFAULT_AVATAR = "default"
_BUILTIN_FOLDER = Path(__file__).parents[1] / "avatars"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_KEPT_LOADED = 16
"""Loaded avatars kept for the next session; each takes about 8 MB."""


class AvatarStore:
    """Folders of avatars, by name. Thread-safe; makes one avatar at a time."""

    def __init__(self, folder: Path, open_studio: Callable[[], PortraitStudio]) -> None:
        """`folder`: of uploaded avatars, made when first needed. `open_studio`: called at the first
        upload.
        """
        self._folder = folder
        self._open_studio = open_studio
        self._studio: PortraitStudio | None = None
        self._making = threading.Lock()
        self._loading = threading.Lock()
        self._loaded: OrderedDict[str, Avatar] = OrderedDict()

    def names(self) -> list[str]:
        """Every avatar, the shipped ones first."""
        builtin = _avatars_in(_BUILTIN_FOLDER)
        return builtin + [name for name in _avatars_in(self._folder) if name not in builtin]

    def is_builtin(self, name: str) -> bool:
        """Whether it ships with the product, and so cannot be deleted."""
        return name in _avatars_in(_BUILTIN_FOLDER)

    def load(self, name: str = "") -> Avatar:
        """The avatar of that name, "" for the default. UnknownNameError lists what exists."""
        name = name or DEFAULT_AVATAR
        with self._loading:
            avatar = self._loaded.get(name)
            if avatar is None:
                avatar = load_avatar(self._folder_of(name))
                # Worked out here, under the lock, not twice by two sessions that start together.
                _ = avatar.texture
                self._loaded[name] = avatar
            self._loaded.move_to_end(name)
            while len(self._loaded) > _KEPT_LOADED:
                self._loaded.popitem(last=False)
            return avatar

    def create(self, name: str, image: bytes, *, licence: str = "as uploaded") -> Avatar:
        """Makes an avatar of a picture and keeps it. InvalidInputError tells why a name or a
        picture will not do.
        """
        if not _NAME.fullmatch(name):
            raise InvalidInputError(
                f"{name!r} is no avatar name: 1 to 64 letters, digits, _ and - are allowed"
            )
        with self._making:
            if name in self.names():
                raise AlreadyExistsError(f"there is already an avatar {name!r}")
            if self._studio is None:
                self._studio = self._open_studio()
            avatar = make_avatar(
                self._studio.take(image),
                name=name,
                licence=licence,
                source_note="upload",
                created=datetime.now(UTC).date().isoformat(),
            )
            self._folder.mkdir(parents=True, exist_ok=True)
            # Written aside and moved in place, so that nobody ever sees half an avatar.
            with tempfile.TemporaryDirectory(prefix=".new-", dir=self._folder) as aside:
                made = Path(aside) / name
                made.mkdir()
                save_avatar(avatar, made)
                made.rename(self._folder / name)
        return avatar

    def delete(self, name: str) -> None:
        """Forgets an uploaded avatar; sessions that wear it keep it. InvalidInputError for a
        shipped one.
        """
        if self.is_builtin(name):
            raise InvalidInputError(f"avatar {name!r} ships with the product and stays")
        folder = self._folder_of(name)
        with self._loading:
            self._loaded.pop(name, None)
            shutil.rmtree(folder)

    def _folder_of(self, name: str) -> Path:
        for folder in (_BUILTIN_FOLDER, self._folder):
            if name in _avatars_in(folder):
                return folder / name
        raise UnknownNameError(f"no avatar {name!r}; there are: {', '.join(self.names())}")


def _avatars_in(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return sorted(
        entry.name
        for entry in folder.iterdir()
        if _NAME.fullmatch(entry.name) and (entry / "avatar.toml").is_file()
    )
