"""Which bundle a profile takes where it wants one of several: what is here decides.

A choice is made once, as the profile is pulled (`pulling.puller.choose_profile`); from then on it
is remembered by what lies in the model folder, so that a start asks no network.
"""

from __future__ import annotations

from pathlib import Path

from visavis.bundles.store.catalogue import Alternatives, Catalog
from visavis.bundles.store.installed import State, inspect, same_files
from visavis.bundles.store.manifest import BundleManifest


def settled_profile(catalog: Catalog, name: str, model_dir: Path) -> dict[str, list[str]]:
    """Bundles by role of the profile `name`; of several the one that is here, else the last.

    The last of several is the one that can always be had.
    """
    return {
        role: [bundle_here(catalog, several, model_dir) or several[-1] for several in wanted]
        for role, wanted in catalog.profile(name).items()
    }


def settled_bundles(catalog: Catalog, name: str, model_dir: Path) -> list[str]:
    """Every bundle of `settled_profile` once, in role order."""
    roles = settled_profile(catalog, name, model_dir)
    return list(dict.fromkeys(bundle for bundles in roles.values() for bundle in bundles))


def bundle_here(catalog: Catalog, several: Alternatives, model_dir: Path) -> str | None:
    """The first that is ready, else the first of which anything is here; None where nothing is.

    What was pulled under a former name counts: a pull takes it over.
    """
    manifests = [catalog.manifest(name) for name in several]
    standings = [(m, inspect(m, m.folder(model_dir)).state) for m in manifests]
    ready = [m.name for m, state in standings if state is State.READY]
    begun = [
        m.name
        for m, state in standings
        if state is not State.MISSING or former_folder(m, model_dir) is not None
    ]
    return next(iter(ready + begun), None)


def former_folder(manifest: BundleManifest, model_dir: Path) -> Path | None:
    """Where the bundle's very files lie under a name that it had earlier."""
    folders = (model_dir / name for name in manifest.formerly)
    return next((folder for folder in folders if same_files(manifest, folder)), None)
