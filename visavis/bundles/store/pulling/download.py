"""Resumable downloads into the cache, and what a pull reports while it works."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

import httpx

from visavis.bundles.store.installed import as_store_error, free_bytes, require_space
from visavis.bundles.store.manifest import Archive
from visavis.bundles.store.pulling.sources.remote import Remote, without_password
from visavis.bundles.store.pulling.web import Web, retryable
from visavis.serving.errors import ModelStoreError

_KEPT_S = 30 * 86_400.0
"""So long a partial download waits for the pull that goes on with it."""


def downloads_in(model_dir: Path) -> Path:
    """Where archives lie while they come, and what an interrupted pull has of them."""
    return model_dir / ".downloads"


def came_bytes(folder: Path, archives: Iterable[Archive]) -> int:
    """How much of `archives` an earlier try has left in `folder`."""
    targets = [_target(folder, archive) for archive in archives]
    return sum(_size(path) for target in targets for path in (target, _part(target)))


def forget_abandoned(folder: Path) -> None:
    """Remove what no pull has gone on with for a month; only under the lock."""
    now_s = time.time()
    for path in folder.glob("*"):
        if now_s - path.stat().st_mtime > _KEPT_S:
            path.unlink()


class PullProgress(Protocol):
    """What a pull reports while it works, from several threads; the command line draws it."""

    def transferred(self, task: str, done_bytes: int, total_bytes: int | None) -> None:
        """`task` has `done_bytes` of `total_bytes` (None: the server does not say)."""

    def finished(self, task: str) -> None:
        """`task` needs no bar any more."""

    def prepared(self, bundle: str, text: str, fraction: float) -> None:
        """A prepare step of `bundle` is at `fraction` (0..1) of its work."""

    def say(self, text: str) -> None:
        """A line worth reading: a retry, a bundle that is ready, a wait for another pull."""


class SilentProgress:
    """Reports nothing."""

    def transferred(self, task: str, done_bytes: int, total_bytes: int | None) -> None:
        del task, done_bytes, total_bytes

    def finished(self, task: str) -> None:
        del task

    def prepared(self, bundle: str, text: str, fraction: float) -> None:
        del bundle, text, fraction

    def say(self, text: str) -> None:
        del text


class _Interrupted(Exception):
    """The transfer stopped early; trying again may help."""

    def __init__(self, reason: str, retry_after: str | None = None) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class Downloader:
    """Fetches archives into one folder; what is there of an earlier try is continued."""

    def __init__(
        self,
        web: Web,
        folder: Path,
        progress: PullProgress,
        free: Callable[[Path], int] = free_bytes,
    ) -> None:
        self._web = web
        self._folder = folder
        self._progress = progress
        self._free = free

    def target(self, archive: Archive) -> Path:
        """Where `archive` lies when it is complete."""
        return _target(self._folder, archive)

    def discard(self, archive: Archive) -> None:
        """Delete what was downloaded of `archive`."""
        target = self.target(archive)
        for path in (target, _part(target), _note(target)):
            path.unlink(missing_ok=True)

    def remove_folder(self) -> None:
        """Remove the folder, unless partial downloads are kept there for the next pull."""
        with contextlib.suppress(OSError):
            self._folder.rmdir()

    def fetch(self, archive: Archive, remote: Remote) -> Path:
        """Download `archive`; its path. Raises ModelStoreError where it cannot be had."""
        target = self.target(archive)
        if target.exists() and (remote.digest is None or remote.digest.matches(target)):
            return target
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._fetch(archive, remote, target)
        except OSError as error:
            raise as_store_error(error, self._folder) from error
        finally:
            self._progress.finished(archive.label)
        return target

    def _fetch(self, archive: Archive, remote: Remote, target: Path) -> None:
        part, failures, best_bytes = _part(target), 0, 0
        while True:
            self._web.patience.check()
            offset = self._resume_offset(remote, target)
            try:
                if not _complete(remote, part, offset):
                    self._transfer(archive, remote, target, offset)
                self._check(remote, part)
                break
            except (httpx.RequestError, _Interrupted) as error:
                done = part.stat().st_size if part.exists() else 0
                # A line that drops again and again but moves forward is worth patience.
                failures = 1 if done > best_bytes else failures + 1
                best_bytes = max(best_bytes, done)
                reason = str(error) or type(error).__name__
                if failures >= self._web.patience.attempts:
                    raise self._lost(archive, remote, reason) from error
                self._progress.say(f"{archive.label}: {reason}; trying again")
                retry_after = error.retry_after if isinstance(error, _Interrupted) else None
                self._web.patience.pause(failures, retry_after)
        os.replace(part, target)
        _note(target).unlink(missing_ok=True)

    def _lost(self, archive: Archive, remote: Remote, reason: str) -> ModelStoreError:
        return ModelStoreError(
            f"{archive.label} could not be downloaded from {_shown(remote.url)}: {reason}. "
            "Check the network and pull again: it goes on where it was"
        )

    def _resume_offset(self, remote: Remote, target: Path) -> int:
        """Bytes of an earlier try that surely belong to the same file; else 0."""
        part, note = _part(target), _note(target)
        if not part.exists() or not note.exists():
            return 0
        try:
            known = json.loads(note.read_text(encoding="utf-8"))
        except ValueError:
            return 0
        same_digest = remote.digest is not None and known.get("digest") == remote.digest.hex
        if not (same_digest or known.get("etag")):
            return 0
        return part.stat().st_size

    def _transfer(self, archive: Archive, remote: Remote, target: Path, offset: int) -> None:
        part = _part(target)
        headers = {**remote.headers, "Accept-Encoding": "identity"}
        etag = _etag(target)
        if offset:
            headers["Range"] = f"bytes={offset}-"
            if etag:
                headers["If-Range"] = etag
        with self._web.stream(remote.url, headers) as answer:
            offset = self._accept(archive, answer, part, offset)
            total = _total(answer, offset, remote)
            if total is not None:
                require_space(self._folder, total - offset, self._free)
            _write_note(target, remote, answer)
            done = offset
            # No chunk size: blocks as they arrive, so that a cut loses nothing that came.
            with part.open("ab" if offset else "wb") as file:
                for block in answer.iter_raw():
                    self._web.patience.check()
                    file.write(block)
                    done += len(block)
                    self._progress.transferred(archive.label, done, total)
        if total is not None and done < total:
            raise _Interrupted(f"the connection broke after {done} of {total} bytes")

    def _accept(self, archive: Archive, answer: httpx.Response, part: Path, offset: int) -> int:
        """The offset at which the answer's bytes belong; raises if the answer is no file."""
        status = answer.status_code
        if status == httpx.codes.PARTIAL_CONTENT:
            found = re.match(r"bytes (\d+)-", answer.headers.get("content-range", ""))
            if found and int(found[1]) == offset:
                return offset
        if status in (httpx.codes.PARTIAL_CONTENT, httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE):
            part.unlink(missing_ok=True)
            raise _Interrupted("the server continued at another place; starting over")
        if retryable(status):
            raise _Interrupted(f"the server answers {status}", answer.headers.get("retry-after"))
        if answer.is_error:
            raise ModelStoreError(
                f"{archive.label}: {_shown(str(answer.url))} answers {status} "
                f"{answer.reason_phrase}; check the address and your access to it"
            )
        if answer.headers.get("content-type", "").startswith("text/html"):
            raise ModelStoreError(
                f"{archive.label}: {_shown(str(answer.url))} is a web page and not the file, as "
                "where a network or a proxy wants a login: open it in a browser, and pull again"
            )
        return 0

    def _check(self, remote: Remote, part: Path) -> None:
        if remote.size_bytes is not None and part.stat().st_size != remote.size_bytes:
            size = part.stat().st_size
            part.unlink()
            raise _Interrupted(f"{size} bytes came, the registry says {remote.size_bytes}")
        if remote.digest is not None and not remote.digest.matches(part):
            part.unlink()
            raise _Interrupted(
                f"what came does not have the {remote.digest.algorithm} that the registry states"
            )


def _complete(remote: Remote, part: Path, offset: int) -> bool:
    """Whether an earlier try had everything already and was killed just then."""
    if not offset:
        return False
    if remote.size_bytes is not None:
        return offset == remote.size_bytes
    return remote.digest is not None and remote.digest.matches(part)


def _target(folder: Path, archive: Archive) -> Path:
    key = "|".join((archive.kind, archive.name, archive.version, archive.variant))
    tail = re.sub(r"[^A-Za-z0-9.]+", "-", archive.label).strip("-")[-60:]
    return folder / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}-{tail}"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _part(target: Path) -> Path:
    return target.with_name(target.name + ".part")


def _note(target: Path) -> Path:
    return target.with_name(target.name + ".part.json")


def _shown(url: str) -> str:
    """Scheme, host and path: signed queries and passwords stay out of messages."""
    return without_password(url).partition("?")[0]


def _etag(target: Path) -> str | None:
    try:
        etag = json.loads(_note(target).read_text(encoding="utf-8")).get("etag")
    except (OSError, ValueError):
        return None
    return str(etag) if etag else None


def _write_note(target: Path, remote: Remote, answer: httpx.Response) -> None:
    """Keep what proves on the next try that it is the same file: its digest, a strong ETag."""
    etag = answer.headers.get("etag", "")
    note = {
        "digest": remote.digest.hex if remote.digest else None,
        "etag": None if etag.startswith("W/") else etag,
    }
    _note(target).write_text(json.dumps(note), encoding="utf-8")


def _total(answer: httpx.Response, offset: int, remote: Remote) -> int | None:
    # A server may send less than was asked for, and is asked for the rest.
    if told := re.fullmatch(r"bytes \d+-\d+/(\d+)", answer.headers.get("content-range", "")):
        return int(told[1])
    length = answer.headers.get("content-length")
    if length is None or "content-encoding" in answer.headers:
        return remote.size_bytes
    return offset + int(length)
