"""From a bundle's files to the ONNX graph that is handed to the compiler."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import onnx
from google.protobuf.message import DecodeError

from visavis.bundles.compile.build_progress import Cancelled, stop_if
from visavis.bundles.compile.surgery.passes import apply_passes
from visavis.bundles.store.recipe import PlanRecipe, Precision
from visavis.serving.errors import PlanError


def graph_for(
    bundle_dir: Path, recipe: PlanRecipe, precision: Precision, cancelled: Cancelled | None = None
) -> onnx.ModelProto:
    """The graph of `recipe` in `precision`: read or rebuilt, passes applied, then cast.

    Raises PlanError if the recipe does not offer the precision, a file is missing or no ONNX, or
    a pass does not fit; PlanCancelledError once `cancelled` says so.
    """
    if precision not in recipe.precisions:
        raise PlanError(
            f"plan {recipe.name} is made in {', '.join(recipe.precisions)}, not in {precision}"
        )
    model = float_graph(bundle_dir, recipe, cancelled)
    return in_precision(model, bundle_dir, recipe, precision, cancelled)


def in_precision(
    model: onnx.ModelProto,
    bundle_dir: Path,
    recipe: PlanRecipe,
    precision: Precision,
    cancelled: Cancelled | None = None,
) -> onnx.ModelProto:
    """`model`, the float graph of `recipe`, in `precision`; it stays as it is itself.

    Raises PlanError and PlanCancelledError like graph_for.
    """
    if precision == "fp32":
        return model
    # Calibration makes float graphs of its own, and so imports this module.
    from visavis.bundles.compile.precision import calibration_for, to_fp16, to_int8

    if precision == "fp16":
        return to_fp16(model, recipe.keep_fp32, cancelled)
    return to_int8(model, calibration_for(bundle_dir, recipe), recipe.keep_fp32, cancelled)


def float_graph(
    bundle_dir: Path, recipe: PlanRecipe, cancelled: Cancelled | None = None
) -> onnx.ModelProto:
    """The graph of `recipe` in 32 bits. Raises PlanError like graph_for."""
    if recipe.rebuild:
        model = _rebuilt(bundle_dir, recipe)
    else:
        model = _read(bundle_dir / recipe.graph)
    stop_if(cancelled)
    return apply_passes(model, recipe.passes, cancelled)


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
