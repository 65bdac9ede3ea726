"""An avatar's files for the replicas that share it: as one piece of bytes, replaced, deleted."""

from __future__ import annotations

import io
import lzma
import re
import secrets
import shutil
import zipfile
import zlib
from collections.abc import Collection, Mapping
from pathlib import Path

FileVersion = tuple[int, int]
_DELETED = ".deleted-"
_BURIED = ".buried"
_MARK = re.compile("[0-9a-f]{16}")
LARGEST_BYTES = 32_000_000
"""Of one avatar, packed or not."""
# A zip archive may also be encrypted, or packed in a way that nobody reads.
_DAMAGE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError)


def file_version(path: Path) -> FileVersion | None:
    """Another one once the file was replaced; None where it is gone."""
    try:
        told = path.stat()
    except FileNotFoundError:
        return None
    return told.st_ino, told.st_mtime_ns


def new_mark() -> str:
    """Tells an avatar from every other one, also from one that is made of the same files."""
    return secrets.token_hex(8)


def pack(files: Mapping[str, Path], mark: str = "") -> bytes:
    """Files under these names; those that are not there are left out. Raises OSError.

    Equal files and marks give equal bytes.
    """
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name in sorted(files):
            if files[name].is_file():
                # Without the file's own date and rights. What is in it is compressed already.
                archive.writestr(zipfile.ZipInfo(name), files[name].read_bytes())
        archive.comment = mark.encode()
    return packed.getvalue()


def is_packed(content: bytes) -> bool:
    """Whether it is an archive, by its first bytes."""
    return content.startswith(b"PK\x03\x04")


def unpacked(packed: bytes, allowed: Collection[str]) -> dict[str, bytes]:
    """Content by name. Raises ValueError where it is not what `pack` made of such files."""
    if strange := [name for name in packed_names(packed) if name not in allowed]:
        raise ValueError(f"a packed avatar has files of other names: {strange[:3]}")
    return read_packed(packed, allowed)


def mark_of(packed: bytes) -> str:
    """With what it was packed; "": with none. Raises ValueError where it is no archive."""
    try:
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            mark = archive.comment.decode(errors="replace")
    except _DAMAGE as error:
        raise ValueError(f"a packed avatar is damaged: {error}") from None
    return mark if _MARK.fullmatch(mark) else ""


def packed_names(packed: bytes) -> list[str]:
    """Of the files in an archive. Raises ValueError where it is none."""
    try:
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            return [entry.filename for entry in archive.infolist() if not entry.is_dir()]
    except _DAMAGE as error:
        raise ValueError(f"a packed avatar is damaged: {error}") from None


def read_packed(packed: bytes, wanted: Collection[str]) -> dict[str, bytes]:
    """Content by name of those of an archive's files that are wanted. Raises ValueError."""
    try:
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            entries = [e for e in archive.infolist() if e.filename in wanted]
            if sum(entry.file_size for entry in entries) > LARGEST_BYTES:
                raise ValueError(f"a packed avatar has more than {LARGEST_BYTES} bytes")
            return {entry.filename: archive.read(entry) for entry in entries}
    except _DAMAGE as error:
        raise ValueError(f"a packed avatar is damaged: {error}") from None


class Deleted:
    """Notes, in a store's folder, of what was deleted there and may be in the bucket still.

    They outlive the process: who deletes may have no bus.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def note(self, name: str, digest: str) -> None:
        """digest: in the bucket; "": it never was there. Raises OSError."""
        if digest:
            (self._folder / f"{_DELETED}{name}").write_text(digest)

    def all(self) -> dict[str, str]:
        """Digests by name."""
        notes = self._folder.glob(f"{_DELETED}*")
        return {note.name.removeprefix(_DELETED): note.read_text() for note in notes}

    def settle(self, name: str) -> None:
        """It is not in the bucket any more. Raises OSError."""
        (self._folder / f"{_DELETED}{name}").unlink(missing_ok=True)


class Buried:
    """Digests, in a store's folder, of what was deleted for good: no names, and nothing of it.

    Kept for ever: a replica that comes back, and has one of them, is not believed.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / _BURIED

    def all(self) -> frozenset[str]:
        """Raises OSError."""
        try:
            return frozenset(self._file.read_text().split())
        except FileNotFoundError:
            return frozenset()

    def add(self, digests: Collection[str]) -> None:
        """Raises OSError."""
        if new := sorted(set(digests) - self.all()):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("a") as file:  # another process may share the folder
                file.write("".join(f"{digest}\n" for digest in new))


def forget_aside(path: Path) -> None:
    """Delete whatever was set aside of that name. Raises OSError."""
    aside = re.compile(rf"\.replaced-\d+-{re.escape(path.name)}")
    for other in path.parent.glob(".replaced-*"):
        if aside.fullmatch(other.name):
            shutil.rmtree(other) if other.is_dir() else other.unlink()


def set_aside(path: Path) -> None:
    """Out of the way of what has its name now, and kept: somebody made it. Raises OSError."""
    if path.exists():
        number = sum(1 for _ in path.parent.glob(f".replaced-*-{path.name}"))
        path.rename(path.with_name(f".replaced-{number}-{path.name}"))
