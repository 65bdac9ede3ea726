"""Which bundles and profiles exist, and where pulled ones live on this machine.

Bundles ship with visavis, are the user's own, or were made here.
"""

from __future__ import annotations

import difflib
import os
import sys
import tomllib
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from visavis.bundles.store.manifest import BundleManifest, parse_manifest
from visavis.serving.errors import ModelStoreError


def cache_root() -> Path:
    """The user's cache folder: XDG_CACHE_HOME, else the platform's custom."""
    if given := os.environ.get("XDG_CACHE_HOME"):
        return Path(given).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path.home() / ".cache"


def default_model_dir(given: Path | None = None) -> Path:
    """`given`, else VISAVIS_MODEL_DIR, else `<cache>/visavis/models`; it need not exist yet."""
    if given is not None:
        return given.expanduser()
    if setting := os.environ.get("VISAVIS_MODEL_DIR"):
        return Path(setting).expanduser()
    return cache_root() / "visavis" / "models"


MANIFEST_FILE = "bundle.toml"
PROFILES_FILE = "profiles.toml"
ROLES = ("asr", "llm", "tts", "face")


Alternatives = tuple[str, ...]
"""Bundles of which one is taken; see `visavis.bundles.store.choice`. Most are alone."""


class Catalog:
    """Manifests of one or more folders; a later folder replaces bundles of the same name."""

    def __init__(self, folders: Sequence[Traversable]) -> None:
        self._entries: dict[str, Traversable] = {}
        self._profiles: dict[str, dict[str, list[Alternatives]]] = {}
        for folder in folders:
            self._add(folder)

    def _add(self, folder: Traversable) -> None:
        if not folder.is_dir():
            raise ModelStoreError(f"the catalogue folder {folder} does not exist")
        for entry in sorted(folder.iterdir(), key=lambda item: item.name):
            if entry.name == PROFILES_FILE:
                self._profiles.update(_read_profiles(entry))
            elif entry.name.endswith(".toml"):
                self._entries[entry.name.removesuffix(".toml")] = entry

    def with_made(self, model_dir: Path) -> Catalog:
        """This catalogue and the bundles that were made in `model_dir`, which need not exist.

        None of them replaces one of the catalogue.
        """
        joined = Catalog(())
        joined._entries = _made_in(model_dir) | self._entries
        joined._profiles = self._profiles
        return joined

    @property
    def names(self) -> list[str]:
        """Every bundle, sorted."""
        return sorted(self._entries)

    @property
    def profile_names(self) -> list[str]:
        """Every profile, in the order of the file."""
        return list(self._profiles)

    def text(self, name: str) -> str:
        """The manifest of `name` as it is written; ModelStoreError if there is none."""
        if name not in self._entries:
            for manifest in self.readable()[0]:
                if name in manifest.formerly:
                    raise ModelStoreError(
                        f"bundle {name} is called {manifest.name} now: say `visavis models pull "
                        f"{manifest.name}`, which takes over what is here of it"
                    )
            raise ModelStoreError(_unknown("bundle", name, self.names))
        return self._entries[name].read_text(encoding="utf-8")

    def manifest(self, name: str) -> BundleManifest:
        """The manifest of `name`; ModelStoreError with near names if there is none."""
        text, entry = self.text(name), self._entries[name]
        made = entry.name == MANIFEST_FILE
        origin = f"{name}/{MANIFEST_FILE}" if made else entry.name
        manifest = parse_manifest(text, origin)
        if manifest.name != name:
            what = "folder" if made else "file name"
            raise ModelStoreError(
                f"{origin} says name = {manifest.name!r}; {what} and name must agree"
            )
        return manifest

    def readable(self) -> tuple[list[BundleManifest], list[str]]:
        """Manifests of all bundles, and what is wrong with those that cannot be read: a copy that
        somebody made of a bundle of his own, or damaged it, hides none of the others.
        """
        manifests, problems = [], []
        for name in self.names:
            try:
                manifests.append(self.manifest(name))
            except ModelStoreError as error:
                problems.append(str(error))
        return manifests, problems

    def profile(self, name: str) -> dict[str, list[Alternatives]]:
        """What a profile wants, by role (asr, llm, tts, face). Raises ModelStoreError."""
        if name not in self._profiles:
            raise ModelStoreError(_unknown("profile", name, self.profile_names))
        return {role: list(wanted) for role, wanted in self._profiles[name].items()}


def _made_in(model_dir: Path) -> dict[str, Traversable]:
    """Manifests of made bundles by name; folders that hold anything else are passed over."""
    if not model_dir.is_dir():
        if model_dir.exists():
            raise ModelStoreError(
                f"{model_dir} is a file, where the folder of the bundles (--model-dir, "
                "VISAVIS_MODEL_DIR) should be"
            )
        return {}
    manifests = {folder.name: folder / MANIFEST_FILE for folder in model_dir.iterdir()}
    return {name: path for name, path in manifests.items() if _says_made(path)}


def _says_made(manifest: Path) -> bool:
    if manifest.parent.name.startswith(".") or not manifest.is_file():
        return False
    try:
        text = manifest.read_text(encoding="utf-8")
        return "made" in text and "made" in tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return False


def _read_profiles(entry: Traversable) -> dict[str, dict[str, list[Alternatives]]]:
    profiles = tomllib.loads(entry.read_text(encoding="utf-8"))
    for name, roles in profiles.items():
        if not isinstance(roles, dict) or set(roles) != set(ROLES):
            raise ModelStoreError(
                f"{entry.name}: profile {name} must list bundles for {', '.join(ROLES)}"
            )
    return {
        name: {
            role: [(item,) if isinstance(item, str) else tuple(item) for item in wanted]
            for role, wanted in roles.items()
        }
        for name, roles in profiles.items()
    }


def _unknown(what: str, name: str, known: Iterable[str]) -> str:
    known = list(known)
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"There are: {', '.join(known)}."
    return f"there is no {what} named {name!r}. {hint} `visavis models list` shows all."


@cache
def _catalog(own: str) -> Catalog:
    folders: list[Traversable] = [files("visavis.bundles.store") / "catalog"]
    if own:
        folders.append(Path(own).expanduser())
    return Catalog(folders)


def pullable_catalog() -> Catalog:
    """The shipped catalogue, with the folder in VISAVIS_CATALOG_DIR (if set) laid over it."""
    return _catalog(os.environ.get("VISAVIS_CATALOG_DIR", ""))


def default_catalog(model_dir: Path | None = None) -> Catalog:
    """`pullable_catalog`, and what was made in `model_dir` (default: the user's)."""
    return pullable_catalog().with_made(default_model_dir(model_dir))
