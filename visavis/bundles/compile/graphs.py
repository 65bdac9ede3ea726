"""The ONNX graph of a recipe in one precision, as it is handed to the compiler."""

from __future__ import annotations

from pathlib import Path

import onnx

from visavis.bundles.compile.build_progress import Cancelled
from visavis.bundles.compile.float_graphs import float_graph
from visavis.bundles.compile.precision import calibration_for, to_fp16, to_int8
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
    if precision == "fp16":
        return to_fp16(model, recipe.keep_fp32, cancelled)
    return to_int8(model, calibration_for(bundle_dir, recipe), recipe.keep_fp32, cancelled)
