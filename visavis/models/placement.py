"""Putting a bundle in its place: one writer at a time, and whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from visavis.errors import ModelStoreError


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
    shutil.rmtree(old, ignore_errors=True)


def sweep(folder: Path) -> None:
    """Remove what a killed pull left; only under the lock."""
    for old in folder.glob(".old-*"):
        target = folder / old.name.removeprefix(".old-")
        if not target.exists():
            os.replace(old, target)
    for left in (*folder.glob(".staging-*"), *folder.glob(".old-*")):
        shutil.rmtree(left, ignore_errors=True)
