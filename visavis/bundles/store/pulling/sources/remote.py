"""What a source resolves to: an address that a file can be downloaded from.

For a file of a model hub it is told here; the hub's address is never written, only asked for.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlsplit
from urllib.request import url2pathname

from visavis.bundles.store.manifest import Archive
from visavis.serving.errors import ModelStoreError


@dataclass(frozen=True)
class Digest:
    """A digest that a registry states for a whole archive."""

    algorithm: str
    hex: str

    def matches(self, path: Path) -> bool:
        """Read `path` and compare."""
        with path.open("rb") as file:
            return hashlib.file_digest(file, self.algorithm).hexdigest() == self.hex

    @classmethod
    def from_table(cls, digests: Mapping[str, str]) -> Digest | None:
        """The strongest of {algorithm: hex}; None when none is worth trusting."""
        for algorithm in ("sha512", "sha384", "sha256"):
            if algorithm in digests:
                return cls(algorithm, digests[algorithm].lower())
        return None

    @classmethod
    def from_integrity(cls, integrity: str) -> Digest | None:
        """Subresource integrity as npm states it: `sha512-<base64>`, several apart by spaces."""
        table: dict[str, str] = {}
        for item in integrity.split():
            algorithm, _, encoded = item.partition("-")
            try:
                table[algorithm] = base64.b64decode(encoded.split("?")[0], validate=True).hex()
            except binascii.Error:
                continue
        return cls.from_table(table)


@dataclass(frozen=True)
class Remote:
    """A download: address, and what is known of it beforehand."""

    url: str
    digest: Digest | None = None
    size_bytes: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class LocalFile:
    """Already on this machine; it is read where it lies and never deleted."""

    path: Path


def resolve(archive: Archive) -> Remote:
    """Address of the file; ModelStoreError where no hub is known."""
    path = quote(archive.variant)
    url = f"{hub_endpoint()}/{archive.name}/resolve/{quote(archive.version, safe='')}/{path}"
    token = os.environ.get("HF_TOKEN")
    return Remote(url, headers={"Authorization": f"Bearer {token}"} if token else {})


def hub_endpoint() -> str:
    """HF_ENDPOINT, else the constant of huggingface_hub where that package is installed.

    Raises ModelStoreError where there is neither.
    """
    if given := os.environ.get("HF_ENDPOINT"):
        return given.rstrip("/")
    try:
        from huggingface_hub.constants import ENDPOINT
    except ImportError as error:
        raise ModelStoreError(
            "no model hub is configured: set HF_ENDPOINT, or `pip install huggingface_hub`"
        ) from error
    return str(ENDPOINT).rstrip("/")


def without_password(url: str) -> str:
    """`url` without user name and password, fit for a message."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def local_path(url: str) -> Path | None:
    """The path behind a `file://` URL; None for any other URL."""
    parts = urlsplit(url)
    return Path(url2pathname(parts.path)) if parts.scheme == "file" else None
