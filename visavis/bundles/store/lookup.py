"""What a bundle's manifest says about a model file, found by where the file lies."""

from __future__ import annotations

from pathlib import Path

from visavis.bundles.store.catalogue import default_catalog, pullable_catalog
from visavis.serving.errors import ModelStoreError


def bundle_of(model: Path) -> str:
    """Name of the bundle whose folder `model` lies in; the folder's own where it is in none."""
    catalog = pullable_catalog()
    for name in catalog.names:
        shipped = catalog.manifest(name).shipped
        if shipped is not None and shipped.path.resolve() == model.parent.resolve():
            return name
    return model.parent.name


def maker_of(folder: Path) -> str:
    """Which maker wrote the bundle in `folder`, for example "whisper"; empty: it was pulled."""
    try:
        made = default_catalog(folder.parent).manifest(folder.name).made
    except ModelStoreError:
        return ""
    return made.maker if made is not None else ""


def kept_on_cpu(model: Path) -> str:
    """Why the manifest wants this file on the CPU even where there is a GPU; empty: it does not."""
    try:
        catalog = default_catalog(model.parent.parent)
        return catalog.manifest(bundle_of(model)).cpu_only.get(model.name, "")
    except ModelStoreError:
        return ""
