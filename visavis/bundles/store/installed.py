"""What is on this machine: the record beside each pulled bundle, whether it still holds, and how
a bundle is put in its place: by one writer at a time, where there is room, and whole or not at all.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, ValidationError

from visavis.bundles.store.manifest import BundleManifest
from visavis.serving.errors import ModelStoreError

RECORD_NAME = "bundle.lock.json"
_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class FileRecord(BaseModel):
    """One file as it was when the bundle was made."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sha256: str
    size_bytes: int

    @classmethod
    def of(cls, path: Path) -> FileRecord:
        """Read `path` and describe it."""
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return cls(sha256=digest, size_bytes=path.stat().st_size)


class BundleRecord(BaseModel):
    """`bundle.lock.json`: written last, so its presence says that the bundle is complete."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    version: str
    files: dict[str, FileRecord]
    prepared: dict[str, FileRecord]
    steps: dict[str, int]
    """Version of each prepare step that ran."""


class State(StrEnum):
    """How a bundle stands on this machine."""

    READY = "ready"
    MISSING = "missing"
    OUTDATED = "outdated"
    DAMAGED = "damaged"


@dataclass(frozen=True)
class Standing:
    """A bundle's state, and what is wrong with it."""

    name: str
    state: State
    problems: tuple[str, ...] = ()


def inspect(manifest: BundleManifest, folder: Path) -> Standing:
    """Compare record, manifest and file sizes; contents are not read (see `verify_files`).

    `folder` is not looked at for a bundle that is part of the product.
    """
    if manifest.shipped is not None:
        shipped = manifest.shipped
        absent = [name for name in shipped.files if not (shipped.path / name).is_file()]
        return Standing(
            manifest.name,
            State.DAMAGED if absent else State.READY,
            tuple(f"{name} is not in {shipped.package}, which brings it" for name in absent),
        )
    record = _record_of(manifest, folder)
    if record is None:
        return Standing(manifest.name, State.MISSING)
    if manifest.made is not None:
        return _standing(manifest, folder, record, _size_problem)
    steps = {step.name: step.version for step in manifest.prepare}
    outputs = {path for step in manifest.prepare for path in step.outputs}
    if not _holds(record, manifest) or record.steps != steps or not outputs <= set(record.prepared):
        return Standing(manifest.name, State.OUTDATED, ("the catalogue has a newer version",))
    return _standing(manifest, folder, record, _size_problem)


def verify_files(manifest: BundleManifest, folder: Path) -> Standing:
    """Like `inspect`, but reads every file and compares its sha256."""
    standing = inspect(manifest, folder)
    record = _record_of(manifest, folder)
    if record is None or standing.state is not State.READY:
        return standing
    return _standing(manifest, folder, record, _content_problem)


def damaged_made(maker: str, standing: Standing) -> ModelStoreError:
    """What to say of a damaged bundle that was made on this machine: nothing else can bring it."""
    return ModelStoreError(
        f"bundle {standing.name} is damaged ({'; '.join(standing.problems)}): "
        f"make it again with `visavis bundle make {maker} --replace`"
    )


def same_files(manifest: BundleManifest, folder: Path) -> bool:
    """Whether `folder` is another bundle of exactly the manifest's files, by its record."""
    record = _read_record(folder)
    return record is not None and _holds(record, manifest)


def _holds(record: BundleRecord, manifest: BundleManifest) -> bool:
    """Whether the record is of exactly the manifest's files."""
    expected = {file.path: file.sha256 for file in manifest.files}
    return {path: file.sha256 for path, file in record.files.items()} == expected


def recorded_sha256(path: Path) -> str | None:
    """The digest that a pulled bundle's file had when it was checked; None without a record."""
    record = _read_record(path.parent)
    file = None if record is None else {**record.files, **record.prepared}.get(path.name)
    return None if file is None or _size_problem(path, file) else file.sha256


def _standing(
    manifest: BundleManifest,
    folder: Path,
    record: BundleRecord,
    check: Callable[[Path, FileRecord], str | None],
) -> Standing:
    found = [
        f"{path} {problem}"
        for path, file in {**record.files, **record.prepared}.items()
        if (problem := check(folder / path, file)) is not None
    ]
    return Standing(manifest.name, State.DAMAGED if found else State.READY, tuple(found))


def _size_problem(path: Path, record: FileRecord) -> str | None:
    if not path.is_file():
        return "is missing"
    if path.stat().st_size != record.size_bytes:
        return f"has {path.stat().st_size} bytes instead of {record.size_bytes}"
    return None


def _content_problem(path: Path, record: FileRecord) -> str | None:
    found = FileRecord.of(path)
    return None if found == record else f"has sha256 {found.sha256} instead of {record.sha256}"


def _record_of(manifest: BundleManifest, folder: Path) -> BundleRecord | None:
    """A made bundle's manifest is its record: it was written last, with every digest in it."""
    if manifest.made is None:
        return _read_record(folder)
    if not folder.is_dir():
        return None
    files = {
        file.path: FileRecord(sha256=file.sha256, size_bytes=file.size_bytes)
        for file in manifest.made.files
    }
    return BundleRecord(
        name=manifest.name, version=manifest.version, files=files, prepared={}, steps={}
    )


def _read_record(folder: Path) -> BundleRecord | None:
    try:
        return BundleRecord.model_validate_json((folder / RECORD_NAME).read_bytes())
    except (OSError, ValidationError):
        return None


@contextmanager
def locked(folder: Path, say: Callable[[str], None], timeout_s: float = -1.0) -> Iterator[None]:
    """Hold the model folder against other processes and threads.

    Below 0 the wait has no end. Raises ModelStoreError after `timeout_s`.
    """
    lock = FileLock(folder / ".pull.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        say("another pull is running on this folder; waiting for it")
        try:
            lock.acquire(timeout=timeout_s)
        except Timeout as error:
            raise ModelStoreError(
                f"another pull has held {folder} for {timeout_s:g} s; "
                "let it finish and run this again"
            ) from error
    try:
        yield
    finally:
        lock.release()


def new_staging(folder: Path, name: str) -> Path:
    """An empty folder where the bundle `name` is put together; under the lock, after `sweep`."""
    staging = folder / f".staging-{name}"
    staging.mkdir()
    return staging


def swap_in(staging: Path, target: Path) -> None:
    """Put the finished bundle in place; an older one goes only when the new one stands."""
    old = target.with_name(f".old-{target.name}")
    if target.exists():
        os.replace(target, old)
    try:
        os.replace(staging, target)
    except OSError:
        if old.exists():
            os.replace(old, target)
        raise
    _discard(old)


def take_away(target: Path) -> None:
    """Delete a bundle; only under the lock, after `sweep`. Moved aside at once, so that whatever
    cuts it off leaves no part of it under its name.
    """
    gone = target.with_name(f".staging-{target.name}")
    os.replace(target, gone)
    _discard(gone)


def _discard(folder: Path) -> None:
    """Of a link to another disk what it leads to is not ours to delete; a file may lie there, too,
    where a bundle should.
    """
    if folder.is_symlink() or folder.is_file():
        folder.unlink(missing_ok=True)
    else:
        shutil.rmtree(folder, ignore_errors=True)


def sweep(folder: Path) -> None:
    """Remove what a killed pull left; only under the lock."""
    for old in folder.glob(".old-*"):
        target = folder / old.name.removeprefix(".old-")
        if not target.exists():
            os.replace(old, target)
    for left in (*folder.glob(".staging-*"), *folder.glob(".old-*")):
        _discard(left)


class DiskFullError(ModelStoreError):
    """There is not enough room; no other source could help."""


def free_bytes(folder: Path) -> int:
    """Bytes that may still be written under `folder`."""
    return shutil.disk_usage(folder).free


def require_space(folder: Path, needed_bytes: int, free: Callable[[Path], int]) -> None:
    """DiskFullError if `needed_bytes` do not fit under `folder`."""
    available = free(folder)
    if available < needed_bytes:
        raise DiskFullError(
            f"{needed_bytes / 1e6:,.0f} MB are needed in {folder}, {available / 1e6:,.0f} MB are "
            "free: make room, or choose another disk with --model-dir or VISAVIS_MODEL_DIR"
        )


def as_store_error(error: OSError, folder: Path) -> ModelStoreError:
    """A failed write as an error that says what to do."""
    if error.errno in _DISK_FULL:
        return DiskFullError(
            f"the disk of {folder} is full: make room and pull again, "
            "or choose another disk with --model-dir or VISAVIS_MODEL_DIR"
        )
    return ModelStoreError(
        f"cannot write in {folder}: {error.strerror or error}; "
        "choose another folder with HOME, or for weights alone VISAVIS_MODEL_DIR"
    )
