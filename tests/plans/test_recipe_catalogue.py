"""Every network of the product is compiled, or the catalogue says why it is not."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from visavis.errors import InvalidInputError, PlanError
from visavis.models.listing import pullable_catalog
from visavis.plans.graphs import float_graph, graph_for
from visavis.plans.recipe import PlanRecipe, recipes_of
from visavis.plans.surgery import PASSES

CATALOG = pullable_catalog()
PLANS = [(name, recipe) for name in CATALOG.names for recipe in recipes_of(name)]
NETWORKS = (".onnx", ".tflite", ".gguf")


@pytest.mark.parametrize("name", CATALOG.names)
def test_every_network_is_a_plan_or_says_why_not(name: str) -> None:
    manifest = CATALOG.manifest(name)
    files = {file.path for file in manifest.files} | {
        path for step in manifest.prepare for path in step.outputs
    }
    if manifest.shipped is not None:
        files |= set(manifest.shipped.files)
    sources = {path for step in manifest.prepare for path in step.inputs}
    networks = {path for path in files - sources if path.endswith(NETWORKS)}
    planned = {recipe.graph for recipe in manifest.plans}
    assert networks == planned | set(manifest.cpu_only)
    assert not planned & set(manifest.cpu_only)


@pytest.mark.parametrize(("name", "recipe"), PLANS, ids=lambda value: getattr(value, "name", value))
def test_recipes_name_what_is_in_the_graph(
    name: str, recipe: PlanRecipe, bundle: Callable[[str], Path]
) -> None:
    model = float_graph(bundle(name), recipe)
    given = {t.name: [d.dim_value for d in t.type.tensor_type.shape.dim] for t in model.graph.input}
    nodes = [node.name for node in model.graph.node]
    assert all(any(fnmatchcase(name, glob) for name in nodes) for glob in recipe.keep_fp32)
    for profile in recipe.profiles:
        varying = {tensor for tensor, sizes in given.items() if 0 in sizes}
        assert varying <= set(profile.shapes) <= set(given)
        for tensor, allowed in profile.shapes.items():
            for size, low, high in zip(given[tensor], allowed.min, allowed.max, strict=True):
                assert size in (0, low) and (size == 0 or low == high), tensor


def test_recipes_name_passes_that_exist() -> None:
    assert {name for _, recipe in PLANS for name in recipe.passes} <= set(PASSES)


def test_a_request_outside_is_refused_before_it_reaches_the_gpu() -> None:
    recipe = next(recipe for recipe in recipes_of("smart-turn"))
    with pytest.raises(InvalidInputError, match=r"input_features has the shape \[9, 80, 800\]; "):
        recipe.check({"input_features": (9, 80, 800)})


def test_a_precision_that_is_not_offered_is_refused(tmp_path: Path) -> None:
    recipe = next(r for r in recipes_of("whisper-base") if r.name == "encoder")
    with pytest.raises(PlanError, match="plan encoder is made in fp32, fp16, not in int8"):
        graph_for(tmp_path, recipe, "int8")


def test_a_file_that_is_missing_or_no_onnx_is_named(tmp_path: Path) -> None:
    (recipe,) = recipes_of("audio-to-face")
    with pytest.raises(PlanError, match=r"audio_to_face\.onnx cannot be read"):
        graph_for(tmp_path, recipe, "fp32")
    (tmp_path / recipe.graph).write_bytes(b"no network at all")
    with pytest.raises(PlanError, match=r"audio_to_face\.onnx is no ONNX model"):
        graph_for(tmp_path, recipe, "fp32")
    unknown = recipe.model_copy(update={"rebuild": "anything"})
    with pytest.raises(PlanError, match="names the builder 'anything'; there are whisper_decoder"):
        graph_for(tmp_path, unknown, "fp32")
