"""Compiled plans and timing caches on disk: kept whole, recognised when they no longer hold.

`<cache>/visavis/plans/<bundle>/<plan>.<precision>.<key>.plan`, beside it a sidecar
`.json` with the digest. A plan is only ever handed out after its content was compared.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from filelock import FileLock, Timeout

from visavis.bundles.compile.build_progress import Cancelled
from visavis.bundles.compile.plans.record import PlanKey, PlanRecord, read_record
from visavis.bundles.store.catalogue import cache_root
from visavis.serving.errors import PlanCancelledError, PlanError
from visavis.whole_file import placed_whole

_LOCK_POLL_S = 0.25


def plan_dir(given: Path | None = None) -> Path:
    """`given`, else VISAVIS_PLAN_DIR, else `<cache>/visavis/plans`; it need not exist yet."""
    if given is not None:
        return given.expanduser()
    if setting := os.environ.get("VISAVIS_PLAN_DIR"):
        return Path(setting).expanduser()
    return cache_root() / "visavis" / "plans"


def require_room(folder: Path, what: str, size_bytes: int) -> None:
    """PlanError if so much does not fit under `folder`."""
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < size_bytes:
        raise PlanError(
            f"{what} take {size_bytes / 1e6:,.0f} MB, and {folder} has "
            f"{free_bytes / 1e6:,.0f} MB free; make room, or choose another folder with "
            "VISAVIS_PLAN_DIR"
        )


class PlanState(StrEnum):
    """How a cached plan stands."""

    FRESH = "fresh"
    STALE = "stale"
    DAMAGED = "damaged"


@dataclass(frozen=True)
class CachedPlan:
    """A plan on disk with its sidecar."""

    path: Path
    record: PlanRecord

    def read(self) -> bytes:
        """The plan, compared with its digest. PlanError if it is damaged: it is never loaded."""
        content, problem = _content_of(self.path, self.record)
        if problem:
            raise PlanError(f"{self.path}: {problem}; `visavis engine build` makes it anew")
        return content


@dataclass(frozen=True)
class PlanEntry:
    """What the cache folder holds under one name; `record` is None where it cannot be read."""

    path: Path
    record: PlanRecord | None
    problem: str = ""
    """Why it is damaged; "" where it is whole."""

    def __str__(self) -> str:
        if self.record is None:
            return f"{self.path.parent.name}/{self.path.stem}"
        return f"{self.record.bundle} {self.record.plan} {self.record.precision}"


@dataclass(frozen=True)
class Wanted:
    """What a plan must be, before its graph is made: that alone can take minutes."""

    bundle: str
    plan: str
    precision: str
    compiler: str
    target: str
    workspace_bytes: int | None
    source_sha256: str
    revision: int

    def matches(self, record: PlanRecord) -> bool:
        """Was `record` made from and for the same?"""
        key = record.key
        return self == Wanted(
            record.bundle,
            record.plan,
            record.precision,
            key.compiler,
            key.target,
            key.workspace_bytes,
            record.source_sha256,
            key.revision,
        )


class PlanCache:
    """One folder of plans. Processes may share it: writers lock, readers compare digests."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = plan_dir(folder)

    def entries(self) -> Iterator[PlanEntry]:
        """Every plan in the folder, read and compared; also those without plan or sidecar."""
        stems = {
            path.with_suffix("")
            for pattern in ("*/*.plan", "*/*.json")
            for path in self.folder.glob(pattern)
        }
        for stem in sorted(stems):
            path = stem.with_name(f"{stem.name}.plan")
            record = read_record(stem.with_name(f"{stem.name}.json"))
            if isinstance(record, str):
                yield PlanEntry(path, None, record)
            else:
                yield PlanEntry(path, record, _content_of(path, record)[1])

    def for_this_processor(self) -> list[Path]:
        """What networks on the CPU are loaded from instead of their bundles: weights that were laid
        out, and graphs that were optimised.
        """
        kept = (self.folder.glob(names) for names in ("*/weights.*.gguf", "*/*.ort"))
        return sorted(path for paths in kept for path in paths)

    def find(self, wanted: Wanted) -> CachedPlan | None:
        """The whole plan that is as `wanted`, None where there is none (or only a damaged one)."""
        folder = self.folder / wanted.bundle
        for sidecar in sorted(folder.glob(f"{wanted.plan}.{wanted.precision}.*.json")):
            record = read_record(sidecar)
            if isinstance(record, PlanRecord) and wanted.matches(record):
                found = CachedPlan(sidecar.with_suffix(".plan"), record)
                return None if _content_of(found.path, record)[1] else found
        return None

    def find_key(self, bundle: str, plan: str, precision: str, key: PlanKey) -> CachedPlan | None:
        """The whole plan of `key`, whatever its source was."""
        path = self.folder / bundle / f"{plan}.{precision}.{key.digest}.plan"
        record = read_record(path.with_suffix(".json"))
        if isinstance(record, str) or record.key != key or _content_of(path, record)[1]:
            return None
        return CachedPlan(path, record)

    def store(self, record: PlanRecord, content: bytes) -> CachedPlan:
        """Keep `content`; older plans of the same purpose go. PlanError if it cannot be written."""
        path = self.folder / record.bundle / f"{record.name}.plan"
        sidecar = path.with_suffix(".json")
        with _told_as_plan_error(self.folder):
            path.parent.mkdir(parents=True, exist_ok=True)
            # An interrupted write must not leave a sidecar that fits by chance.
            sidecar.unlink(missing_ok=True)
            _write_whole(path, content)
            _write_whole(sidecar, record.model_dump_json(indent=1).encode())
            self._drop_superseded(record)
        return CachedPlan(path, record)

    def amend(self, cached: CachedPlan, source_sha256: str) -> CachedPlan:
        """The same plan turned out to be right for another source: write that down."""
        record = cached.record.model_copy(update={"source_sha256": source_sha256})
        with _told_as_plan_error(self.folder):
            _write_whole(
                cached.path.with_suffix(".json"), record.model_dump_json(indent=1).encode()
            )
        return CachedPlan(cached.path, record)

    @contextmanager
    def locked(self, name: str, cancelled: Cancelled | None = None) -> Iterator[None]:
        """Only one process builds `name` at a time; the others wait here and then find it.

        Raises PlanCancelledError while it waits, PlanError where the folder cannot be used.
        """
        path = self.folder / ".locks" / f"{name}.lock"
        with _told_as_plan_error(self.folder):
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock(path)
            while True:
                if cancelled is not None and cancelled():
                    raise PlanCancelledError("the build was cancelled before it began")
                with contextlib.suppress(Timeout):
                    lock.acquire(timeout=_LOCK_POLL_S)
                    break
        try:
            yield
        finally:
            lock.release()

    def timing_cache(self, compiler: str, target: str) -> bytes | None:
        """The compiler's timings for `target`, None where there are none or they are damaged."""
        try:
            content = self._timing_path(compiler, target).read_bytes()
        except OSError:
            return None
        digest, timings = content[:32], content[32:]
        return timings if hashlib.sha256(timings).digest() == digest else None

    def store_timing_cache(self, compiler: str, target: str, timings: bytes) -> None:
        """Keep the timings for the next build. PlanError if they cannot be written."""
        path = self._timing_path(compiler, target)
        with _told_as_plan_error(self.folder):
            path.parent.mkdir(parents=True, exist_ok=True)
            _write_whole(path, hashlib.sha256(timings).digest() + timings)

    def _timing_path(self, compiler: str, target: str) -> Path:
        name = hashlib.sha256(f"{compiler}\n{target}".encode()).hexdigest()[:24]
        return self.folder / ".timing" / f"{name}.timing"

    def _drop_superseded(self, record: PlanRecord) -> None:
        """Remove what this plan replaces: same purpose, other graph or version of the compiler."""
        folder = self.folder / record.bundle
        for sidecar in folder.glob(f"{record.plan}.{record.precision}.*.json"):
            other = read_record(sidecar)
            if sidecar.stem == record.name or (
                isinstance(other, PlanRecord) and _purpose(other) != _purpose(record)
            ):
                continue
            sidecar.with_suffix(".plan").unlink(missing_ok=True)
            sidecar.unlink(missing_ok=True)


def _purpose(record: PlanRecord) -> tuple[str, str, int | None]:
    return record.key.compiler.split()[0], record.key.target, record.key.workspace_bytes


def _content_of(path: Path, record: PlanRecord) -> tuple[bytes, str]:
    """(content, what is wrong with it)."""
    try:
        content = path.read_bytes()
    except OSError as error:
        return b"", f"the plan cannot be read: {error.strerror}"
    if len(content) != record.size_bytes:
        return b"", f"the plan has {len(content)} bytes instead of {record.size_bytes}"
    if hashlib.sha256(content).hexdigest() != record.plan_sha256:
        return b"", "the plan's sha256 is not the one that was written"
    return content, ""


def _write_whole(path: Path, content: bytes) -> None:
    with placed_whole(path, prefix=f".{path.name}.") as file:
        file.write(content)


@contextmanager
def _told_as_plan_error(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PlanError(
            f"the plan cannot be kept in {folder}: {error.strerror or error}; make room, or "
            "choose another folder with VISAVIS_PLAN_DIR"
        ) from error
