"""Plans of a made bundle through NVIDIA's compiler; nothing is executed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx

from tests.bundles.compile.compiling import rtx, with_few_layers
from visavis.bundles.compile.builder import MakeGraph, PlanBuilder
from visavis.bundles.compile.graphs import graph_for, in_precision
from visavis.bundles.compile.plans.cache import PlanCache
from visavis.bundles.compile.survey import requests_of
from visavis.bundles.compile.targets import PORTABLE
from visavis.bundles.store.recipe import PlanRecipe, Precision


def kinds_read(bundle: str, plan: str, model_dir: Path, precision: Precision) -> set[str]:
    """The types in which the compiler reads the layers of a plan that it is not let compile."""
    (request,) = requests_of(bundle, plans=(plan,), precisions=[precision], model_dir=model_dir)
    builder = PlanBuilder(rtx(), PORTABLE, PlanCache(model_dir.parent / "plans"))
    return {layer.dtype for layer in builder.layers(builder.graph(request))}


def few_layers(folder: Path, recipe: PlanRecipe, precision: Precision, _: Any) -> onnx.ModelProto:
    """The graph of a plan with the first of each stack of like layers."""
    return in_precision(
        with_few_layers(graph_for(folder, recipe, "fp32")), folder, recipe, precision
    )


def compile_plans(
    bundle: str,
    model_dir: Path,
    precision: Precision,
    plans: tuple[str, ...] = (),
    make_graph: MakeGraph = graph_for,
) -> dict[str, int]:
    """Bytes of each plan by name (without `plans`: of all); fails with what the compiler says."""
    requests = requests_of(bundle, plans=plans, precisions=[precision], model_dir=model_dir)
    cache = PlanCache(model_dir.parent / "plans")
    builder = PlanBuilder(rtx(), PORTABLE, cache, make_graph=make_graph)
    # With all of its profiles, as it is served. Each alone is for who looks for what is wrong.
    made = {r.recipe.name: builder.compile(builder.graph(r), r) for r in requests}
    return {name: len(plan.content) for name, plan in made.items()}
