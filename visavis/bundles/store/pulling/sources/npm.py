"""Find a package's tarball on the npm registry that the user's configuration names.

Which registry, with which token: as npm itself would ask.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlsplit

from packageurl.contrib.purl2url import get_download_url

from visavis.bundles.store.manifest import Archive
from visavis.bundles.store.pulling.sources.remote import Digest, Remote, without_password
from visavis.bundles.store.pulling.web import Web
from visavis.serving.errors import ModelStoreError

_PROBE = "pkg:npm/npm@1.0.0"
PUBLIC_REGISTRY = str(get_download_url(_PROBE)).partition("npm/-/")[0]
"""npm's own default, for machines without npm and without an npmrc."""

_ASK_TIMEOUT_S = 30


@dataclass(frozen=True)
class NpmSettings:
    """Registries by scope (`""`: all others) and tokens by registry."""

    registries: Mapping[str, str] = field(default_factory=dict)
    tokens: Mapping[str, str] = field(default_factory=dict)
    """Bearer tokens by `host/path/` of the registry that they are for."""

    @classmethod
    def read(cls) -> NpmSettings:
        """NPM_CONFIG_REGISTRY, then npmrc of the project and the user, then what npm says."""
        options: dict[str, str] = {}
        own = os.environ.get("NPM_CONFIG_USERCONFIG")
        user_file = Path(own) if own else Path.home() / ".npmrc"
        for path in (user_file, Path.cwd() / ".npmrc"):
            if path.is_file():
                options.update(parse_npmrc(path.read_text(encoding="utf-8").splitlines()))
        given = os.environ.get("NPM_CONFIG_REGISTRY") or os.environ.get("npm_config_registry")
        if given:
            options["registry"] = given
        if "registry" not in options:
            options["registry"] = _ask_npm() or PUBLIC_REGISTRY
        return cls.from_options(options)

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> NpmSettings:
        """From npmrc keys: `registry`, `@scope:registry`, `//host/:_authToken`."""
        registries = {"": options.get("registry", PUBLIC_REGISTRY).rstrip("/") + "/"}
        tokens: dict[str, str] = {}
        for key, value in options.items():
            if key.startswith("@") and key.endswith(":registry"):
                registries[key.removesuffix(":registry")] = value.rstrip("/") + "/"
            if key.startswith("//") and key.endswith(":_authToken"):
                tokens[key.removeprefix("//").removesuffix(":_authToken")] = value
        return cls(registries, tokens)

    def registry(self, package: str) -> str:
        """The registry of `package`, ending in a slash."""
        scope = package.partition("/")[0] if package.startswith("@") else ""
        return self.registries.get(scope, self.registries[""])

    def headers(self, url: str) -> dict[str, str]:
        """What to send with a request to `url`: the token of its registry, if there is one."""
        address = url.partition("://")[2]
        for place, token in self.tokens.items():
            if address.startswith(place):
                return {"Authorization": f"Bearer {token}"}
        return {}


def parse_npmrc(lines: Iterable[str]) -> dict[str, str]:
    """Keys and values of an npmrc; `${NAME}` is filled in from the environment."""
    options: dict[str, str] = {}
    for line in lines:
        key, equals, value = line.partition("=")
        if equals and not key.lstrip().startswith(("#", ";")):
            plain = value.strip().strip("\"'")
            filled = re.sub(r"\$\{(\w+)\}", lambda name: os.environ.get(name[1], ""), plain)
            options[key.strip()] = filled
    return options


def _ask_npm() -> str | None:
    npm = shutil.which("npm")
    if npm is None:
        return None
    try:
        shown = subprocess.run(
            [npm, "config", "get", "registry"],
            capture_output=True,
            text=True,
            timeout=_ASK_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    answer = shown.stdout.strip()
    return answer if answer.startswith("http") else None


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
