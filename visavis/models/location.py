"""Where pulled bundles live on this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_root() -> Path:
    """The user's cache folder: XDG_CACHE_HOME, else the platform's custom."""
    if given := os.environ.get("XDG_CACHE_HOME"):
        return Path(given).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    return Path.home() / ".cache"


def model_dir(given: Path | None = None) -> Path:
    """`given`, else VISAVIS_MODEL_DIR, else `<cache>/visavis/models`; it need not exist yet."""
    if given is not None:
        return given.expanduser()
    if setting := os.environ.get("VISAVIS_MODEL_DIR"):
        return Path(setting).expanduser()
    return cache_root() / "visavis" / "models"
