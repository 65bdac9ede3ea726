"""The model store: bundles of weights with manifests, pulled from where packages come from.

A bundle is a folder of files that one model needs. `bundle_path(name)` says where a pulled one
lies, and `verify(names)` reads every file again; `pulling.puller.pull(names)` brings it. Who only
asks for paths imports no HTTP client: that is within `pulling` alone.

`manifest`: the schema of `bundle.toml`.
`recipe`: its part about plans: graph, passes, precisions and shapes.
`catalogue`: which bundles and profiles exist, and where pulled ones live.
`choice`: which bundle a profile takes where it wants one of several.
`lookup`: what a manifest says, found by where the bundle or a file of it lies.
`installed`: what is on this machine, and how a bundle is put in its place.
`shared`: bundles that were made on one machine reach the others over the bus.
`pulling`: a folder, how bundles come onto this machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from visavis.bundles.store.catalogue import Catalog, default_catalog, default_model_dir
from visavis.bundles.store.choice import settled_profile
from visavis.bundles.store.installed import (
    Standing,
    State,
    damaged_made,
    inspect,
    verify_files,
)
from visavis.bundles.store.manifest import BundleManifest
from visavis.bundles.store.recipe import PlanRecipe
from visavis.serving.errors import ModelStoreError

__all__ = [
    "BundleManifest",
    "Catalog",
    "Standing",
    "State",
    "bundle_path",
    "default_catalog",
    "load_manifest",
    "profile",
    "recipes_of",
    "verify",
]


def bundle_path(
    name: str, model_dir: Path | None = None, *, catalog: Catalog | None = None
) -> Path:
    """The folder of a pulled bundle, complete and current by its record.

    Cheap: sizes are compared, contents are not read. Raises ModelStoreError, with the
    command to run, if the bundle is unknown, not pulled, outdated or incomplete.
    """
    manifest = (catalog or default_catalog(model_dir)).manifest(name)
    folder = manifest.folder(default_model_dir(model_dir))
    standing = inspect(manifest, folder)
    if standing.state is State.READY:
        return folder
    if manifest.shipped is not None:
        raise ModelStoreError(
            f"bundle {name} is part of the product: {'; '.join(standing.problems)}; "
            "install visavis with that part"
        )
    if manifest.made is not None:
        raise damaged_made(manifest.made.maker, standing)
    what = {
        State.MISSING: "is not pulled",
        State.OUTDATED: "is pulled, but an older version of it",
        State.DAMAGED: f"is damaged ({'; '.join(standing.problems)})",
    }[standing.state]
    raise ModelStoreError(f"bundle {name} {what}: run `visavis models pull {name}`")


def load_manifest(
    name: str, model_dir: Path | None = None, *, catalog: Catalog | None = None
) -> BundleManifest:
    """The manifest of `name`; ModelStoreError with near names if it is unknown."""
    return (catalog or default_catalog(model_dir)).manifest(name)


def recipes_of(name: str, model_dir: Path | None = None) -> list[PlanRecipe]:
    """The recipes in the manifest of `name`; empty where nothing of it runs on a GPU.

    Raises ModelStoreError if there is no such bundle.
    """
    return list(load_manifest(name, model_dir).plans)


def profile(
    name: str, model_dir: Path | None = None, *, catalog: Catalog | None = None
) -> dict[str, list[str]]:
    """Bundles by role (asr, llm, tts, face) of the profile `name`.

    Where it wants one of several, it is the one that is in `model_dir`; no network is asked.
    """
    return settled_profile(
        catalog or default_catalog(model_dir), name, default_model_dir(model_dir)
    )


def verify(
    names: Sequence[str], *, model_dir: Path | None = None, catalog: Catalog | None = None
) -> list[Standing]:
    """Read every file of the bundles and compare its sha256; raises only for unknown names."""
    catalog = catalog or default_catalog(model_dir)
    folder = default_model_dir(model_dir)
    manifests = [catalog.manifest(name) for name in names]
    return [verify_files(manifest, folder / manifest.name) for manifest in manifests]
