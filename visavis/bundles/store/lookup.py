"""What a bundle's manifest says, found by where the bundle or a file of it lies."""

from __future__ import annotations

from pathlib import Path

from visavis.bundles.store.catalogue import default_catalog, pullable_catalog
from visavis.bundles.store.manifest import BundleManifest
from visavis.serving.errors import ModelStoreError


def bundle_of(model: Path) -> str:
    """Name of the bundle whose folder `model` lies in; the folder's own where it is in none."""
    catalog = pullable_catalog()
    for name in catalog.names:
        shipped = catalog.manifest(name).shipped
        if shipped is not None and shipped.path.resolve() == model.parent.resolve():
            return name
    return model.parent.name


def manifest_of(folder: Path) -> BundleManifest | None:
    """The manifest of the bundle in `folder`; None where it is none that is known."""
    try:
        return default_catalog(folder.parent).manifest(folder.name)
    except ModelStoreError:
        return None


def task_of(folder: Path) -> str:
    """What the bundle in `folder` does, for example "asr"; empty: it is none that is known."""
    manifest = manifest_of(folder)
    return manifest.task if manifest is not None else ""


def maker_of(folder: Path) -> str:
    """Which maker wrote the bundle in `folder`, for example "whisper"; empty: it was pulled."""
    manifest = manifest_of(folder)
    return manifest.made.maker if manifest is not None and manifest.made is not None else ""


def family_of(folder: Path) -> str:
    """Which networks do the task of the bundle in `folder`, for example "whisper"."""
    manifest = manifest_of(folder)
    if manifest is None:
        return ""
    return (manifest.made.maker if manifest.made is not None else "") or manifest.family


def kept_on_cpu(model: Path) -> str:
    """Why the manifest wants this file on the CPU even where there is a GPU; empty: it does not."""
    try:
        catalog = default_catalog(model.parent.parent)
        return catalog.manifest(bundle_of(model)).cpu_only.get(model.name, "")
    except ModelStoreError:
        return ""
