"""The product's plans compile as they are served, each for all of its profiles.

NVIDIA's own compiler reads all of each and makes plans of its first layers; nothing loads them.
What a GPU computes with them, whole, is for `make gpu-test`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any

import onnx
import pytest

from tests.bundles.compile.compiling import rtx, with_few_layers
from tests.bundles.compile.float_graphs import FloatGraphs
from visavis.bundles.compile.builder import PlanBuilder
from visavis.bundles.compile.graphs import in_precision
from visavis.bundles.compile.plans.cache import PlanCache
from visavis.bundles.compile.plans.freshness import PlanRequest
from visavis.bundles.compile.precision import calibration_for, to_int8
from visavis.bundles.compile.survey import Checked, every_request
from visavis.bundles.compile.targets import PORTABLE
from visavis.bundles.store import bundle_path, recipes_of
from visavis.bundles.store.catalogue import pullable_catalog
from visavis.bundles.store.recipe import PlanRecipe, Precision

CATALOG = pullable_catalog()
PLANS = [(name, recipe) for name in CATALOG.names for recipe in recipes_of(name)]
# What stands for them is compiled: moonshine-tiny-en, whose networks are the same and narrower, and
# a small Whisper out of the same code and with the same recipes, in
# `tests/bundles/families/test_whisper.py`. `visavis engine check` compiles these, too.
STOOD_FOR = ("moonshine-base-en", "whisper-base")
READ = [(name, recipe) for name, recipe in PLANS if name not in STOOD_FOR]
# Read in all that it is served in, and no more: it is the first step but for the keys and values
# that it is given.
NOT_COMPILED = {("moonshine-tiny-en", "decoder-next")}

# Of the sets that ranges are found by. How exact a plan is in 8 bits is for the quality gates.
_CALIBRATED_ON = 1


@dataclass(frozen=True)
class Planned:
    """One recipe with its graph in 32 bits, which is made once for all precisions."""

    bundle: str
    folder: Path
    recipe: PlanRecipe
    graph: onnx.ModelProto

    def request(self, precision: Precision) -> PlanRequest:
        return PlanRequest(self.bundle, self.folder, self.recipe, precision)

    def make_graph(
        self, folder: Path, recipe: PlanRecipe, precision: Precision, _: Any
    ) -> onnx.ModelProto:
        if precision == "fp32":
            return self.graph
        graph = with_few_layers(self.graph)
        if precision == "int8":
            few = islice(calibration_for(folder, recipe), _CALIBRATED_ON)
            return to_int8(graph, few, recipe.keep_fp32)
        return in_precision(graph, folder, recipe, precision)


@pytest.fixture(scope="module", params=READ, ids=lambda plan: f"{plan[0]}-{plan[1].name}")
def planned(request: pytest.FixtureRequest, float_graphs: FloatGraphs) -> Planned:
    name, recipe = request.param
    graph = float_graphs.load(name, recipe.name)
    return Planned(name, bundle_path(name), recipe, graph)


def test_the_recipe_names_what_is_in_the_graph(planned: Planned) -> None:
    recipe, graph = planned.recipe, planned.graph.graph
    given = {t.name: [d.dim_value for d in t.type.tensor_type.shape.dim] for t in graph.input}
    nodes = [node.name for node in graph.node]
    assert all(any(fnmatchcase(name, glob) for name in nodes) for glob in recipe.keep_fp32)
    for profile in recipe.profiles:
        varying = {tensor for tensor, sizes in given.items() if 0 in sizes}
        assert varying <= set(profile.shapes) <= set(given)
        for tensor, allowed in profile.shapes.items():
            for size, low, high in zip(given[tensor], allowed.min, allowed.max, strict=True):
                assert size in (0, low) and (size == 0 or low == high), tensor


@pytest.fixture
def builder(planned: Planned, tmp_path: Path) -> PlanBuilder:
    return PlanBuilder(rtx(), PORTABLE, PlanCache(tmp_path), make_graph=planned.make_graph)


@pytest.mark.timeout(300)
def test_it_compiles_as_it_is_served(
    planned: Planned, builder: PlanBuilder, compiled: list[Checked]
) -> None:
    """In one plan for all of its profiles; in 8 bits, too, where that passed its gate."""
    kinds: dict[Precision, str] = {"fp16": "HALF", "int8": "INT8"}
    for precision, kind in kinds.items():
        request = planned.request(precision)
        if precision not in planned.recipe.precisions or builder.refusal(request, b""):
            continue
        graph = builder.graph(request)
        if (request.bundle, request.recipe.name) in NOT_COMPILED:
            assert kind in {layer.dtype for layer in builder.layers(graph)}
            continue
        plan = builder.compile(graph, request)
        assert kind in {layer.dtype for layer in plan.layers}
        profiles = ", ".join(profile.name for profile in planned.recipe.profiles)
        size, layers = len(plan.content), len(plan.layers)
        compiled.append(Checked(request, profiles, size, plan.build_s, layers))


def test_the_command_leaves_out_nothing_that_is_here() -> None:
    requests, left_out = every_request()
    # Bundles that the user made are none of the product's.
    asked = {(r.bundle, r.recipe.name, r.precision) for r in requests if r.bundle in CATALOG.names}
    everything = {(name, r.name, p) for name, r in PLANS for p in r.precisions}
    missing = {name for name, *_ in everything - asked}
    assert asked <= everything
    assert all(any(f"{name} is not pulled" in why for why in left_out) for name in missing)
    assert not {name for name, *_ in asked} & missing
