"""The avatars that a face can wear: those that ship with it, and those made from uploads."""

from __future__ import annotations

import contextlib
import errno
import logging
import re
import shutil
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from services.face.avatar.avatar import (
    FILES,
    Avatar,
    load_avatar,
    read_about,
    read_portrait,
    save_avatar,
)
from services.face.avatar.consent import Consent
from services.face.avatar.making.maker import make_avatar
from services.face.avatar.making.portrait import PortraitStudio
from services.face.avatar.packing import (
    Buried,
    Deleted,
    FileVersion,
    file_version,
    forget_aside,
    mark_of,
    new_mark,
    pack,
    set_aside,
    unpacked,
)
from services.face.draw.renderer import picture_at_rest
from services.face.engines.base import AvatarInfo
from visavis.serving.errors import (
    AlreadyExistsError,
    AtCapacityError,
    InvalidInputError,
    UnknownNameError,
)
from visavis.wire.subjects import AVATARS

log = logging.getLogger(__name__)

DEFAULT_AVATAR = "default"
_BUILTIN_FOLDER = Path(__file__).parents[1] / "avatars"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
LOOPS = ".loops"
"""Folder of loops of idle life: of an avatar's folder, or of all that ship with the product."""
_SHARED = ".shared"
"""File of an avatar's folder: its digest in the bucket that all replicas share."""
_MARK = ".mark"
"""File of an avatar's folder: what tells it from any other. Those that were made before there were
marks have none, and are not buried: another one may have the same digest."""
_GONE, _NEW = ".gone-", ".new-"
"""Of folders of avatars that are being deleted, or written."""
_WRITTEN_WITHIN_S = 600.0
"""Whoever has not written an avatar by then was cut off."""
KeptT = TypeVar("KeptT")
_KEPT_LOADED = 16
"""Loaded avatars kept for the next session; each takes about 8 MB."""
_MOST_TOLD = 20
"""Of the names that there are, where one is not: a message is no list."""


def check_new(name: str, taken: Sequence[str], uploaded: int, most: int) -> None:
    """Whether an avatar of that name may be made, where `uploaded` of at most `most` there are.

    Raises InvalidInputError, AlreadyExistsError, AtCapacityError.
    """
    if not is_name(name):
        better = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:64]
        advice = f"; {better!r} would do" if 2 * len(better) > len(name) else ""
        raise InvalidInputError(
            f"{name[:80]!r} is no avatar name: 1 to 64 letters A to Z, digits, _ and - are "
            f"allowed{advice}"
        )
    if name in taken:
        raise AlreadyExistsError(f"there is already an avatar {name!r}")
    if uploaded >= most:
        raise AtCapacityError(
            f"there are {uploaded} avatars, and {most} are allowed: delete one first, "
            "or raise the face's max_avatars"
        )


def is_name(name: str) -> bool:
    """Whether an avatar may be called so."""
    return _NAME.fullmatch(name) is not None


def no_avatar(name: str, names: Sequence[str]) -> UnknownNameError:
    """What to say where `names` has no such name."""
    more = f" and {len(names) - _MOST_TOLD} more" if len(names) > _MOST_TOLD else ""
    there = ", ".join(names[:_MOST_TOLD])
    return UnknownNameError(f"no avatar {name[:64]!r}; there are: {there}{more}")


def not_kept(name: str, error: OSError) -> AtCapacityError | AlreadyExistsError:
    """What to say of an avatar that could not be written."""
    if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
        return AlreadyExistsError(f"there is already an avatar {name!r}")
    return AtCapacityError(f"avatar {name!r} could not be kept: {error.strerror or error}")


class FolderStore(ABC, Generic[KeptT]):
    """Keeps avatars of one kind by name, a folder each. Thread-safe.

    It is a shelf: those of users can be kept alike with those of other replicas. Stores of several
    kinds may share a folder: a kind's avatars are those that have its record.
    """

    bucket = AVATARS

    def __init__(self, folder: Path, builtin: Path, files: Sequence[str], *, most: int) -> None:
        """`folder`: of at most `most` uploaded avatars of all kinds, made when first needed.
        `builtin`: those that ship with the product. `files`: all that an avatar's folder holds, the
        record first.
        """
        self._folder = folder
        self._builtin = builtin
        self._files = tuple(files)
        self._deleted = Deleted(folder)
        self._buried = Buried(folder)
        self._most = most
        self._changing = threading.Lock()
        self._loading = threading.Lock()
        self._loaded: OrderedDict[str, tuple[FileVersion | None, KeptT]] = OrderedDict()
        """Another process may put another avatar in the folder."""
        self.on_gone: Callable[[str], None] = lambda name: None
        """Told, on any thread, of an avatar that is deleted: nobody is to keep anything of it."""
        self._forget_cut_off()

    @abstractmethod
    def _read(self, folder: Path) -> KeptT:
        """The avatar of a folder. Raises InvalidInputError for a damaged one."""

    @abstractmethod
    def _info(self, name: str, folder: Path) -> AvatarInfo:
        """What is known of it without loading it. Raises as `_read` does."""

    @abstractmethod
    def _portrait(self, folder: Path) -> bytes:
        """JPEG. Raises as `_read` does."""

    def names(self) -> list[str]:
        """Every avatar, the shipped ones first."""
        builtin = self._in(self._builtin)
        return builtin + [name for name in self._in(self._folder) if name not in builtin]

    def infos(self) -> list[AvatarInfo]:
        """What is known of each avatar without loading it, in the order of `names`."""
        found = []
        for name in self.names():
            try:
                info = self._info(name, self._folder_of(name))
                found.append(replace(info, loops=self._loops_of(name)))
            except UnknownNameError:
                continue  # deleted meanwhile
            except InvalidInputError as error:
                log.warning("left out of the list of avatars: %s", error)
        return found

    def portrait(self, name: str) -> bytes:
        """JPEG. UnknownNameError lists what exists."""
        return self._portrait(self._folder_of(name))

    def is_builtin(self, name: str) -> bool:
        """Whether it ships with the product, and so cannot be deleted."""
        return self._is_there(self._builtin, name)

    def has(self, name: str) -> bool:
        """Whether there is one of that name."""
        return any(self._is_there(folder, name) for folder in (self._builtin, self._folder))

    def load(self, name: str) -> KeptT:
        """The avatar of that name. UnknownNameError lists what exists."""
        with self._loading:
            folder = self._folder_of(name)
            record = file_version(folder / self._files[0])
            known, avatar = self._loaded.get(name, (None, None))
            if avatar is None or known != record:
                # Worked out here, under the lock, not twice by two sessions that start together.
                avatar = self._read(folder)
                self._loaded[name] = record, avatar
            self._loaded.move_to_end(name)
            while len(self._loaded) > _KEPT_LOADED:
                self._loaded.popitem(last=False)
            return avatar

    def check_new(self, name: str) -> None:
        """Raises InvalidInputError, AlreadyExistsError, AtCapacityError where making one would be
        in vain.
        """
        check_new(name, self.names(), len(_folders_in(self._folder)), self._most)

    def delete(self, name: str) -> None:
        """Forgets an uploaded avatar, and all that was set aside of its name.

        Raises InvalidInputError for a shipped one, UnknownNameError.
        """
        if self.is_builtin(name):
            raise InvalidInputError(f"avatar {name!r} ships with the product and stays")
        with self._changing:
            folder = self._folder_of(name)
            digest, mark = noted(folder / _SHARED), noted(folder / _MARK)
            try:
                self._note_deleted(name, digest, mark)
            except OSError:  # of a full disk: what goes makes room for the notes
                self._remove(name)
                self._note_deleted(name, digest, mark)
            self._remove(name)

    def _note_deleted(self, name: str, digest: str, mark: str) -> None:
        self._deleted.note(name, digest)
        if digest and mark:
            self._buried.add([digest])

    # As a shelf

    def kept(self) -> dict[str, str]:
        return {name: noted(self._folder / name / _SHARED) for name in self._in(self._folder)}

    def pack(self, name: str) -> bytes:
        folder = self._folder / name
        return pack({file: folder / file for file in self._files}, noted(folder / _MARK))

    def take(self, name: str, packed: bytes, digest: str) -> None:
        files = unpacked(packed, self._files)
        if not is_name(name) or self.is_builtin(name):
            raise ValueError(f"{name!r} is no name for an avatar of a user")

        # Under another name it is another one: the digest of the first is to be buried.
        mark = mark_of(packed) if digest else new_mark()

        def write(folder: Path) -> None:
            write_files(folder, files)
            (folder / _SHARED).write_text(digest)
            if mark:
                (folder / _MARK).write_text(mark)

        with self._changing:
            self._replace(name, write)

    def note(self, name: str, digest: str) -> None:
        (self._folder / name / _SHARED).write_text(digest)

    def drop(self, name: str) -> None:
        with self._changing:
            self._remove(name)

    def deleted(self) -> dict[str, str]:
        return self._deleted.all()

    def settle(self, name: str) -> None:
        self._deleted.settle(name)

    def buried(self) -> frozenset[str]:
        return self._buried.all()

    def bury(self, digests: Collection[str]) -> None:
        self._buried.add(digests)

    def _remove(self, name: str) -> None:
        with self._loading:
            self._loaded.pop(name, None)
        if self._is_there(self._folder, name):
            self._discard(self._folder / name)
        forget_aside(self._folder / name)
        self._forget_cut_off()
        self.on_gone(name)

    def _forget_cut_off(self) -> None:
        """What is left of avatars that were deleted, or written, as their process was killed."""
        began_s = time.time() - _WRITTEN_WITHIN_S
        for cut_off in (*self._folder.glob(f"{_GONE}*"), *self._folder.glob(f"{_NEW}*")):
            with contextlib.suppress(FileNotFoundError):  # another process was faster
                if cut_off.name.startswith(_GONE) or cut_off.stat().st_mtime < began_s:
                    shutil.rmtree(cut_off, ignore_errors=True)

    def _discard(self, there: Path) -> None:
        """Moved away at once, so that whatever cuts it off leaves no part of it under its name."""
        gone = self._folder / f"{_GONE}{new_mark()}"
        with contextlib.suppress(FileNotFoundError):  # another process was faster
            there.rename(gone)
            shutil.rmtree(gone)

    def _add(self, name: str, write: Callable[[Path], None]) -> None:
        """A new one, whose files `write` writes into a folder. Raises as `check_new` does, and
        AtCapacityError where it cannot be written.
        """

        def marked(folder: Path) -> None:
            write(folder)
            (folder / _MARK).write_text(new_mark())

        with self._changing:
            self.check_new(name)
            try:
                self._place(name, marked)
            except OSError as error:
                raise not_kept(name, error) from error

    def _replace(self, name: str, write: Callable[[Path], None]) -> None:
        """Two replicas on one disk may do it at once: the other one has done it then."""
        there = self._folder / name
        if there.exists():
            if noted(there / _SHARED):
                self._discard(there)
            else:
                log.warning("avatar %r is another one than the replicas share", name)
                set_aside(there)
        self._place(name, write)

    def _place(self, name: str, write: Callable[[Path], None]) -> None:
        """Written aside and moved in place, so that nobody ever sees half an avatar."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._forget_cut_off()
        with tempfile.TemporaryDirectory(prefix=_NEW, dir=self._folder) as aside:
            made = Path(aside) / name
            made.mkdir()
            write(made)
            made.rename(self._folder / name)

    def _folder_of(self, name: str) -> Path:
        for folder in (self._builtin, self._folder):
            if self._is_there(folder, name):
                return folder / name
        raise no_avatar(name, self.names())

    def _loops_of(self, name: str) -> Path:
        """Folder for an avatar's loops of idle life, which need not be there."""
        if self.is_builtin(name):
            return self._folder / LOOPS / name
        return self._folder / name / LOOPS

    def _in(self, folder: Path) -> list[str]:
        return [name for name in _folders_in(folder) if self._is_there(folder, name)]

    def _is_there(self, folder: Path, name: str) -> bool:
        return is_name(name) and (folder / name / self._files[0]).is_file()


class AvatarStore(FolderStore[Avatar]):
    """Keeps avatars that were made of photographs, and makes them; that one at a time."""

    def __init__(
        self, folder: Path, open_studio: Callable[[], PortraitStudio], *, most: int = 100
    ) -> None:
        """`folder`, `most`: see `FolderStore`. `open_studio`: called at the first upload."""
        super().__init__(folder, _BUILTIN_FOLDER, FILES, most=most)
        self._open_studio = open_studio
        self._studio: PortraitStudio | None = None

    def load(self, name: str = "") -> Avatar:
        """The avatar of that name, "" for the default. UnknownNameError lists what exists."""
        return super().load(name or DEFAULT_AVATAR)

    def make(self, name: str, picture: NDArray[np.uint8], consent: Consent | None = None) -> Avatar:
        """An avatar of a picture, RGB [H, W, 3] uint8, that is kept nowhere yet. One at a time.

        Raises InvalidInputError, which tells why a picture will not do.
        """
        if self._studio is None:
            self._studio = self._open_studio()
        avatar = make_avatar(
            self._studio.take(picture),
            name=name,
            licence="as uploaded",
            source_note="upload",
            created=datetime.now(UTC).date().isoformat(),
        )
        return replace(avatar, consent=consent)

    def keep(self, avatar: Avatar) -> AvatarInfo:
        """Adds one that was made here. Raises as `check_new` does, and AtCapacityError where it
        cannot be written.
        """
        at_rest = picture_at_rest(avatar)
        self._add(avatar.name, lambda folder: save_avatar(avatar, folder, at_rest))
        return AvatarInfo(avatar.name, avatar.size, False, avatar.licence, avatar.consent)

    def _read(self, folder: Path) -> Avatar:
        avatar = load_avatar(folder)
        _ = avatar.texture
        return avatar

    def _info(self, name: str, folder: Path) -> AvatarInfo:
        about = read_about(folder)
        builtin = self.is_builtin(name)
        return AvatarInfo(name, about.size, builtin, about.licence, about.consent)

    def _portrait(self, folder: Path) -> bytes:
        return read_portrait(folder)


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Files by name into a folder. Raises OSError."""
    for file, content in files.items():
        (folder / file).write_bytes(content)


def noted(file: Path) -> str:
    """What a file beside an avatar says of it; "" where it is not there."""
    try:
        return file.read_text()
    except FileNotFoundError:
        return ""


def _folders_in(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return sorted(entry.name for entry in folder.iterdir() if is_name(entry.name))
