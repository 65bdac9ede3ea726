"""Whether a cached plan still is what its bundle asks for, found out without making the graph."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from visavis.bundles.compile.plans.cache import PlanEntry, PlanState
from visavis.bundles.compile.plans.record import COMPILER_REVISION
from visavis.bundles.store.installed import RECORD_NAME
from visavis.bundles.store.recipe import PlanRecipe, Precision

_GRAPH_CODE = (
    "compile/float_graphs.py",
    "compile/graphs.py",
    "compile/precision",
    "compile/surgery",
    "hibari.py",
    "kokoro.py",
    "moonshine.py",
    "piper/splines.py",
    "piper/vits.py",
    "store/recipe.py",
    "whisper/graph.py",
)
# Beside the code of the precisions; what was measured changes no graph.
_NO_GRAPH_CODE = ("__pycache__", "findings.json")
_GRAPH_PACKAGES = ("onnx", "onnxruntime")


@dataclass(frozen=True)
class PlanRequest:
    """One plan of one bundle."""

    bundle: str
    folder: Path
    recipe: PlanRecipe
    precision: Precision
    workspace_bytes: int | None = None

    def __str__(self) -> str:
        return f"{self.bundle} {self.recipe.name} {self.precision}"


def state_of(
    entry: PlanEntry, compilers: Mapping[str, str], request: PlanRequest | None
) -> tuple[PlanState, str]:
    """How a cached plan stands, and why it does not hold.

    `compilers`: module name -> name and version, of those that can be used here. `request`: what
    the bundle asks for now, None if it no longer asks for this plan.
    """
    record = entry.record
    if record is None or entry.problem:
        return PlanState.DAMAGED, entry.problem
    here = compilers.get(record.key.compiler.split()[0])
    if here is None:
        return PlanState.STALE, f"{record.key.compiler} is not installed here"
    if here != record.key.compiler:
        return PlanState.STALE, f"built by {record.key.compiler}, here is {here}"
    if record.key.revision != COMPILER_REVISION:
        return PlanState.STALE, "built by another version of visavis"
    if request is None:
        return PlanState.STALE, "the bundle is gone or asks for no such plan"
    if record.source_sha256 != source_digest(request):
        return PlanState.STALE, "the bundle, its recipe or what makes the graph has changed"
    return PlanState.FRESH, ""


def source_digest(request: PlanRequest) -> str:
    """sha256 over all that the graph is made of: bundle files, recipe, code and packages.

    Making the graph can take minutes; this takes milliseconds where the bundle has a record.
    """
    told = hashlib.sha256()
    for part in (
        _files_digest(request.folder),
        request.recipe.model_dump_json(),
        request.precision,
        _code_digest(),
    ):
        told.update(part.encode() + b"\n")
    return told.hexdigest()


def _files_digest(folder: Path) -> str:
    record = folder / RECORD_NAME
    if record.is_file():
        return hashlib.sha256(record.read_bytes()).hexdigest()
    return tree_digest(folder)


@cache
def _code_digest() -> str:
    told = hashlib.sha256()
    here = Path(__file__).parents[2]
    for name in _GRAPH_CODE:
        told.update(f"{name} {tree_digest(here / name)}\n".encode())
    for package in _GRAPH_PACKAGES:
        try:
            told.update(f"{package} {version(package)}\n".encode())
        except PackageNotFoundError:
            continue
    return told.hexdigest()


def tree_digest(root: Path, names: str = "*") -> str:
    """sha256 over a file, or over those of a folder and below whose names fit."""
    told = hashlib.sha256()
    for path in sorted(root.rglob(names)) if root.is_dir() else [root]:
        if path.is_file() and not set(_NO_GRAPH_CODE) & set(path.parts):
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            told.update(f"{path.relative_to(root.parent)} {digest}\n".encode())
    return told.hexdigest()
