"""Wav2Lip bundles against what the published code computes on the same random weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from services.face.engines.choice import open_face_engine
from services.face.settings import FaceSettings
from tests.bundles.families.compiling import compile_plans
from tests.parity import Parity
from training.wav2lip.reference import random_inputs, random_weights
from visavis.bundles.formats.safetensors import write_safetensors
from visavis.bundles.formats.weights import Checked
from visavis.bundles.making import BundleOrder
from visavis.bundles.store import load_manifest
from visavis.bundles.wav2lip import make_wav2lip, wav2lip_model
from visavis.engine import open_engine
from visavis.serving.errors import InvalidInputError

Weights = dict[str, NDArray[np.float32]]


@pytest.fixture(scope="module")
def weights() -> Weights:
    return random_weights()


@pytest.fixture(scope="module")
def models(weights: Weights, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder with the bundle "random-mouths"."""
    folder = tmp_path_factory.mktemp("wav2lip")
    source = folder / "generator.safetensors"
    # As a data-parallel training names them.
    write_safetensors(source, {f"module.{name}": values for name, values in weights.items()})
    make_wav2lip(BundleOrder("random-mouths", "none", model_dir=folder / "models"), source)
    source.unlink()
    return folder / "models"


def test_it_computes_what_the_published_code_does(models: Path, parities: list[Parity]) -> None:
    with np.load(Path(__file__).parent / "files" / "wav2lip.npz") as reference:
        at, wanted = reference["at"], reference["picture"]
    mel, face = random_inputs()
    with open_engine(models / "random-mouths" / "wav2lip.onnx") as engine:
        picture = engine.infer({"mel": mel, "face": face})["picture"]
        # A batch is as good as one after the other.
        alone = engine.infer({"mel": mel[1:], "face": face[1:]})["picture"]
    assert wanted.std() > 0.1
    error = float(np.abs(picture.ravel()[at] - wanted).max())
    parities.append(Parity("Wav2Lip", "rebuilt from a checkpoint", "random weights", error))
    assert error < 2e-5
    np.testing.assert_allclose(alone, picture[1:], atol=2e-5)


def test_the_manifest_tells_what_the_face_asks(models: Path) -> None:
    manifest = load_manifest("random-mouths", models)
    assert manifest.task == "face_mouth"
    assert manifest.tensors["wav2lip.onnx"].inputs == {
        "mel": "float32[batch, 1, 80, 16]",
        "face": "float32[batch, 6, 96, 96]",
    }


def test_its_plan_compiles(models: Path) -> None:
    plans = compile_plans("random-mouths", models, "fp16")
    # 36 million weights.
    assert 70e6 < plans["mouth"] < 140e6


async def test_the_engine_that_draws_with_it_takes_it(models: Path, tmp_path: Path) -> None:
    """What it draws, and how that is served, is for `tests/face/engines/test_choice.py`."""
    engine = open_face_engine(
        FaceSettings(
            engine="wav2lip", engine_bundle="random-mouths", model_dir=models, avatar_dir=tmp_path
        )
    )
    await engine.load()
    await engine.close()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"audio_encoder.3.conv_block.0.bias": None}, "has no tensor audio_encoder.3.conv_block"),
        (
            {"face_encoder_blocks.0.0.conv_block.0.weight": np.zeros((16, 6, 5, 5), np.float32)},
            r"has the shape \[16, 6, 5, 5\]; \[16, 6, 7, 7\] is needed",
        ),
    ],
)
def test_another_network_is_refused(
    weights: Weights, change: dict[str, NDArray[np.float32] | None], said: str
) -> None:
    changed = {name: values for name, values in {**weights, **change}.items() if values is not None}
    with pytest.raises(InvalidInputError, match=said):
        wav2lip_model(Checked(changed, "other.pth"))
