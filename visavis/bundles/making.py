"""What every maker shares: a bundle with manifest and digests appears whole or not at all."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError

from visavis.bundles.formats.toml_text import to_toml
from visavis.bundles.store.catalogue import (
    MANIFEST_FILE,
    default_catalog,
    default_model_dir,
    pullable_catalog,
)
from visavis.bundles.store.installed import (
    FileRecord,
    as_store_error,
    locked,
    new_staging,
    swap_in,
    sweep,
    take_away,
)
from visavis.bundles.store.manifest import BundleManifest, Task, parse_manifest
from visavis.bundles.store.recipe import Precision
from visavis.serving.errors import AlreadyExistsError, InvalidInputError, ModelStoreError

Table = dict[str, Any]
Shapes = Mapping[str, tuple[Sequence[int], Sequence[int], Sequence[int]]]
"""Input, or pattern of inputs -> (min, opt, max)."""
Say = Callable[[str], None]
"""Takes a line about what is being done now."""

_NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")


@dataclass(frozen=True)
class BundleOrder:
    """What the user decides about a bundle."""

    name: str
    licence: str
    """Of the weights: an SPDX name, or whatever their owner calls it."""
    licence_note: str = ""
    summary: str = ""
    """Instead of the maker's own."""
    version: str = "1"
    model_dir: Path | None = None
    replace: bool = False
    """Take the place of a bundle of this name that was made earlier."""


@dataclass(frozen=True)
class BundleFacts:
    """What a maker found out about a model; the files' tensors are read off them."""

    task: Task
    summary: str
    languages: Sequence[str] = ()
    """BCP 47 codes."""
    sample_rate_hz: int | None = None
    plans: Sequence[Table] = ()
    """What is compiled for a GPU; see `plan`."""
    cpu_only: Mapping[str, str] = field(default_factory=dict)
    """Network files that are never compiled: path -> why."""


def plan(
    name: str,
    graph: str,
    shapes: Shapes,
    *,
    profile: str = "speech",
    precisions: Sequence[Precision] = ("fp32", "fp16"),
    rebuild: str = "",
    passes: Sequence[str] = (),
    keep_fp32: Sequence[str] = (),
) -> Table:
    """One [[plans]] table with one profile; `shapes`: input (or pattern) -> (min, opt, max).

    The keys and their patterns are those of `visavis.bundles.store.recipe`.
    """
    table: Table = {"name": name, "graph": graph}
    if rebuild:
        table["rebuild"] = rebuild
    if passes:
        table["passes"] = list(passes)
    if tuple(precisions) != ("fp32", "fp16"):
        table["precisions"] = list(precisions)
    if keep_fp32:
        table["keep_fp32"] = list(keep_fp32)
    table["profiles"] = [profile_table(profile, shapes)]
    return table


def profile_table(name: str, shapes: Shapes) -> Table:
    """One [[plans.profiles]] table, for `plan` and for those beside its one."""
    ranges = {
        tensor: {"min": list(low), "opt": list(usual), "max": list(high)}
        for tensor, (low, usual, high) in shapes.items()
    }
    return {"name": name, "shapes": ranges}


def write_bundle(
    order: BundleOrder,
    maker: str,
    sources: Sequence[Path],
    fill: Callable[[Path], BundleFacts],
    say: Say = lambda line: None,
) -> Path:
    """Make a bundle; its folder comes back, ready for `visavis.bundles.store.bundle_path`.

    `sources` are the files that `fill` reads: they are named in the manifest with their
    digests. `fill` writes the bundle's files into the empty folder that it is given. Raises
    InvalidInputError for an order that cannot be, AlreadyExistsError where the name is taken,
    ModelStoreError where the folder cannot be written; and what `fill` raises. Nothing is
    left then.
    """
    folder = default_model_dir(order.model_dir)
    _check(order, folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder, say):
            sweep(folder)
            _check(order, folder)  # another maker may have been faster
            staging = new_staging(folder, order.name)
            try:
                facts = fill(staging)
                say("writing the manifest")
                text = _manifest_text(order, maker, sources, facts, staging)
                (staging / MANIFEST_FILE).write_text(text, encoding="utf-8")
                swap_in(staging, folder / order.name)
            finally:
                shutil.rmtree(staging, ignore_errors=True)
    except OSError as error:
        raise as_store_error(error, folder) from error
    return folder / order.name


def remove_bundle(name: str, model_dir: Path | None = None) -> Path:
    """Delete a made bundle. Raises ModelStoreError for one that is unknown or was not made, or
    where the folder cannot be written.
    """
    folder = default_model_dir(model_dir)
    manifest = default_catalog(model_dir).manifest(name)
    if manifest.made is None:
        raise ModelStoreError(f"bundle {name} was not made here; delete {folder / name} yourself")
    try:
        with locked(folder, lambda line: None):
            sweep(folder)
            take_away(folder / name)
    except OSError as error:
        raise as_store_error(error, folder) from error
    return folder / name


def made_bundles(model_dir: Path | None = None) -> tuple[list[BundleManifest], list[str]]:
    """Manifests of every bundle that was made in this folder, by name, and what is wrong with those
    that cannot be read.
    """
    manifests, problems = default_catalog(model_dir).readable()
    return [manifest for manifest in manifests if manifest.made is not None], problems


def _check(order: BundleOrder, folder: Path) -> None:
    if not _NAME.fullmatch(order.name):
        raise InvalidInputError(
            f"name: {order.name!r} must be of a-z, 0-9, '.' and '-', beginning with a letter or "
            "digit"
        )
    if not order.licence.strip():
        raise InvalidInputError(
            "licence: say under which terms these weights may be used, as an SPDX name (MIT, "
            "Apache-2.0, CC-BY-4.0) or in your words ('proprietary, internal use')"
        )
    if order.name in pullable_catalog().names:
        raise AlreadyExistsError(
            f"name: {order.name} is a bundle of the catalogue; choose another name"
        )
    target = folder / order.name
    if not target.exists():
        return
    if order.name not in default_catalog(folder).names:
        raise AlreadyExistsError(f"name: {target} exists and is no bundle; choose another name")
    if not order.replace:
        raise AlreadyExistsError(
            f"name: a bundle {order.name} was made already; --replace makes it anew"
        )


def _manifest_text(
    order: BundleOrder, maker: str, sources: Sequence[Path], facts: BundleFacts, folder: Path
) -> str:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    table: Table = {
        "name": order.name,
        "version": order.version,
        "task": facts.task,
        "summary": order.summary or facts.summary,
        "languages": list(facts.languages),
        "sample_rate_hz": facts.sample_rate_hz,
        "licence": order.licence.strip(),
        "licence_note": order.licence_note or None,
        "made": {
            "maker": maker,
            "files": [_described(path, path.relative_to(folder).as_posix()) for path in paths],
            "sources": [_described(path, path.name) for path in sources],
        },
        "tensors": {path.name: _tensors(path) for path in paths if path.suffix == ".onnx"},
        "plans": list(facts.plans),
        "cpu_only": dict(facts.cpu_only),
    }
    text = to_toml({key: value for key, value in table.items() if value not in (None, [], {})})
    parse_manifest(text, f"the manifest of {order.name}")
    return text


def _described(path: Path, name: str) -> Table:
    return {"path": name, **FileRecord.of(path).model_dump()}


def _tensors(path: Path) -> Table:
    """What goes into and comes out of a graph, as manifests write it."""
    try:
        graph = onnx.load(path, load_external_data=False).graph
    except DecodeError as error:
        raise ModelStoreError(f"{path.name} is no ONNX model: {error}") from error
    return {
        "inputs": {value.name: _tensor(value) for value in graph.input},
        "outputs": {value.name: _tensor(value) for value in graph.output},
    }


def _tensor(value: onnx.ValueInfoProto) -> str:
    kind = value.type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type).name
    sizes = (d.dim_param or (str(d.dim_value) if d.dim_value else "?") for d in kind.shape.dim)
    return f"{dtype}[{', '.join(sizes)}]"
