"""Downloads of one pull: each archive once, a few at a time, kept until nobody needs it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from visavis.models.download import Downloader
from visavis.models.manifest import Archive, BundleFile, PartsSource
from visavis.models.sources.remote import LocalFile
from visavis.models.sources.resolver import Resolver


def archives_of(file: BundleFile, choice: int) -> list[Archive]:
    """The archives of one source of a file, in joining order."""
    source = file.sources[choice]
    if isinstance(source, PartsSource):
        return [member.archive for member in source.members()]
    return [source.archive]


class Fetcher:
    """A context manager: leaving it stops what still runs."""

    def __init__(self, resolver: Resolver, downloader: Downloader, cancel: threading.Event) -> None:
        self._resolver = resolver
        self._downloader = downloader
        self._cancel = cancel
        self._pool: ThreadPoolExecutor | None = None
        self._futures: dict[Archive, Future[Path]] = {}
        self._users: Counter[Archive] = Counter()

    def start(self, archives: Iterable[Archive], threads: int) -> None:
        """Begin to download in the order given; an archive named twice comes once."""
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="pull")
        for archive in archives:
            self._users[archive] += 1
            self._submit(archive)

    def _submit(self, archive: Archive) -> Future[Path]:
        if archive not in self._futures:
            assert self._pool is not None  # start() comes first
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

    def release(self, archives: Iterable[Archive]) -> None:
        """One bundle is done with these; what no other bundle of this pull needs is deleted."""
        for archive in archives:
            self._users[archive] -= 1
            if self._users[archive] <= 0:
                self._downloader.discard(archive)

    def __enter__(self) -> Fetcher:
        return self

    def __exit__(self, *_: object) -> None:
        self._cancel.set()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
