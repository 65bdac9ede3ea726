"""A file of a model hub repository. The hub's address is never written here."""

from __future__ import annotations

import os
from urllib.parse import quote

from visavis.errors import ModelStoreError
from visavis.models.manifest import Archive
from visavis.models.sources.remote import Remote


def resolve(archive: Archive) -> Remote:
    """Address of the file; ModelStoreError where no hub is known."""
    path = quote(archive.variant)
    url = f"{hub_endpoint()}/{archive.name}/resolve/{quote(archive.version, safe='')}/{path}"
    token = os.environ.get("HF_TOKEN")
    return Remote(url, headers={"Authorization": f"Bearer {token}"} if token else {})


def hub_endpoint() -> str:
    """HF_ENDPOINT, else the constant of huggingface_hub where that package is installed."""
    if given := os.environ.get("HF_ENDPOINT"):
        return given.rstrip("/")
    try:
        from huggingface_hub.constants import ENDPOINT
    except ImportError as error:
        raise ModelStoreError(
            "no model hub is configured: set HF_ENDPOINT, or `pip install huggingface_hub`"
        ) from error
    return str(ENDPOINT).rstrip("/")
