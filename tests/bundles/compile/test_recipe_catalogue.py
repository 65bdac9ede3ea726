"""Every network of the product has a plan, or the catalogue says why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from visavis.bundles.compile.graphs import graph_for
from visavis.bundles.compile.surgery.passes import PASSES
from visavis.bundles.store import recipes_of
from visavis.bundles.store.catalogue import pullable_catalog
from visavis.serving.errors import PlanError

CATALOG = pullable_catalog()
RECIPES = [recipe for name in CATALOG.names for recipe in recipes_of(name)]
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


def test_recipes_name_passes_that_exist() -> None:
    assert {name for recipe in RECIPES for name in recipe.passes} <= set(PASSES)


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
