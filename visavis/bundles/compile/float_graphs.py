"""From a bundle's files to the ONNX graph of a recipe in 32 bits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

import onnx
from google.protobuf.message import DecodeError, EncodeError

from visavis.bundles.compile.build_progress import Cancelled, stop_if
from visavis.bundles.compile.surgery.passes import apply_passes
from visavis.bundles.store.lookup import manifest_of
from visavis.bundles.store.recipe import PlanRecipe
from visavis.serving.errors import PlanError


def float_graph(
    bundle_dir: Path, recipe: PlanRecipe, cancelled: Cancelled | None = None
) -> onnx.ModelProto:
    """The graph of `recipe` in 32 bits: read or rebuilt, passes applied.

    Raises PlanError if a file is missing or no ONNX, or a pass does not fit; PlanCancelledError
    once `cancelled` says so.
    """
    if recipe.rebuild:
        model = _rebuilt(bundle_dir, recipe)
    else:
        model = _read(bundle_dir / recipe.graph)
    stop_if(cancelled)
    return apply_passes(model, recipe.passes, cancelled)


def graphs_like_its_plans(model: Path) -> dict[str, Callable[[Path], bytes]]:
    """Who write in 32 bits what each plan of a bundle's file is compiled from, by the names of the
    plans; empty where there are none. They raise PlanError as float_graph does."""
    return {recipe.name: partial(_written, recipe) for recipe in _recipes(model)}


def graph_like_its_plan(model: Path) -> bytes:
    """A bundle's file with the inputs and outputs of its plan, in 32 bits; as it is where nothing
    or several plans are made of it. Raises PlanError as float_graph does."""
    recipes = _recipes(model)
    if len(recipes) != 1:
        return model.read_bytes()
    return _written(recipes[0], model)


def _written(recipe: PlanRecipe, model: Path) -> bytes:
    graph = float_graph(model.parent, recipe)
    try:
        return graph.SerializeToString()
    except (EncodeError, ValueError) as error:
        raise PlanError(f"plan {recipe.name} cannot be written: {error}") from error


def _recipes(model: Path) -> list[PlanRecipe]:
    manifest = manifest_of(model.parent)
    return [r for r in manifest.plans if r.graph == model.name] if manifest is not None else []


def _read(path: Path) -> onnx.ModelProto:
    try:
        return onnx.load(path)
    except OSError as error:
        raise PlanError(f"{path} cannot be read ({error}): pull the bundle again") from error
    except DecodeError as error:
        raise PlanError(f"{path} is no ONNX model: {error}") from error


def _rebuilt(bundle_dir: Path, recipe: PlanRecipe) -> onnx.ModelProto:
    if recipe.rebuild not in _REBUILDS:
        raise PlanError(
            f"plan {recipe.name} names the builder {recipe.rebuild!r}; "
            f"there are {', '.join(_REBUILDS)}"
        )
    return _REBUILDS[recipe.rebuild](bundle_dir)


def _whisper(side: Literal["decoder", "encoder"]) -> Callable[[Path], onnx.ModelProto]:
    def build(bundle_dir: Path) -> onnx.ModelProto:
        from visavis.bundles.whisper import graph

        return graph.float_model(bundle_dir, side)

    return build


_REBUILDS: dict[str, Callable[[Path], onnx.ModelProto]] = {
    "whisper_decoder": _whisper("decoder"),
    "whisper_encoder": _whisper("encoder"),
}
