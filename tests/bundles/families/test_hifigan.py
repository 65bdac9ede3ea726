"""HiFi-GAN bundles against what the published generator computes; see write_references."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.bundles.families import seeded
from tests.bundles.families.compiling import compile_plans
from tests.parity import Parity
from visavis.bundles.formats.safetensors import write_safetensors
from visavis.bundles.hifigan import make_hifigan
from visavis.bundles.making import BundleOrder
from visavis.bundles.store import load_manifest
from visavis.engine import open_engine
from visavis.serving.errors import InvalidInputError

REFERENCES = np.load(Path(__file__).parent / "files" / "references.npz")


def folded(weights: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The weights as they are after remove_weight_norm()."""
    plain = {}
    for name, tensor in weights.items():
        if name.endswith("weight_v"):
            length = np.linalg.norm(tensor.reshape(len(tensor), -1), axis=1)
            scale = weights[name[:-1] + "g"].reshape(-1) / length
            plain[name[:-2]] = np.asarray(tensor * scale[:, None, None], np.float32)
        elif name.endswith("bias"):
            plain[name] = tensor
    return plain


def parametrised(weights: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The names that PyTorch 2 gives to weight norm."""
    words = {"weight_g": "parametrizations.weight.original0"}
    words["weight_v"] = "parametrizations.weight.original1"

    def named(name: str) -> str:
        start, _, last = name.rpartition(".")
        return f"{start}.{words.get(last, last)}"

    return {named(name): tensor for name, tensor in weights.items()}


def write_source(
    folder: Path, kind: str, change: Callable[..., Any] = lambda w: w, **config: Any
) -> Path:
    folder.mkdir(exist_ok=True)
    sizes = seeded.HIFIGAN[kind]
    weights = change(seeded.weights(seeded.hifigan_shapes(sizes)))
    np.savez(folder / "generator.npz", **weights)
    write_safetensors(folder / "generator.safetensors", weights)
    (folder / "config.json").write_text(json.dumps(sizes | config))
    return folder / "generator.npz"


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Path]:
    def make(source: Path, **options: Any) -> Path:
        order = BundleOrder("my-vocoder", "MIT", model_dir=tmp_path / "models", replace=True)
        return make_hifigan(order, source, **options)

    return make


def voice(folder: Path) -> NDArray[Any]:
    with open_engine(folder / "vocoder.onnx") as engine:
        return engine.infer({"mel": seeded.hifigan_mel()})["voice"]


@pytest.mark.parametrize(
    ("kind", "change"), [("v1", folded), ("v3", lambda w: w), ("v3", parametrised)]
)
def test_the_bundle_computes_what_the_published_generator_does(
    kind: str,
    change: Callable[..., Any],
    make: Callable[..., Path],
    tmp_path: Path,
    parities: list[Parity],
) -> None:
    expected = REFERENCES[f"hifigan_{kind}"]
    source = write_source(tmp_path / "in", kind, change)
    found = voice(make(source))
    assert found.shape == (1, 12 * 256)
    assert 0.02 < expected.std() < 0.9  # neither silence nor all at the ends of tanh
    error = float(np.abs(found[0] - expected).max())
    told = "against the published generator"
    parities.append(Parity(f"HiFi-GAN {kind.upper()}", told, "random weights", error))
    assert error < 1e-4
    assert np.array_equal(voice(make(source.with_suffix(".safetensors"))), found)


def test_the_manifest_says_what_it_takes(make: Callable[..., Path], tmp_path: Path) -> None:
    folder = make(write_source(tmp_path / "in", "v3"))
    manifest = load_manifest("my-vocoder", tmp_path / "models")
    assert (manifest.task, manifest.sample_rate_hz) == ("vocoder", 22050)
    assert manifest.tensors["vocoder.onnx"].inputs == {"mel": "float32[batch, 80, frames]"}
    facts = json.loads((folder / "vocoder.json").read_text())
    assert (facts["hop_samples"], facts["n_mels"], facts["fmax"]) == (256, 80, 8000)


def test_it_compiles(make: Callable[..., Path], tmp_path: Path) -> None:
    make(write_source(tmp_path / "in", "v3"))
    assert list(compile_plans("my-vocoder", tmp_path / "models", "fp16")) == ["vocoder"]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"resblock": "3"}, "resblock is '3'"),
        ({"hop_size": 300}, "multiply to 256, but hop_size is 300"),
        ({"upsample_rates": [8, 8]}, "as many numbers"),
        ({"upsample_rates": "fast"}, "no config of HiFi-GAN: invalid literal"),
        ({"resblock_dilation_sizes": [[1]]}, "as many entries"),
        ({"resblock_kernel_sizes": [3, 5, 6]}, "must be odd"),
        ({"upsample_kernel_sizes": [16, 16, 7]}, "exceed its rate"),
        ({"upsample_initial_channel": 36}, "cannot be halved"),
        ({"upsample_initial_channel": 64}, r"conv_pre.weight_g has the shape \[32, 1, 1\]"),
        ({"num_mels": 100}, r"conv_pre.weight_v has the shape \[32, 80, 7\]"),
        ({"resblock": "1"}, r"no tensor resblocks\.0\.convs1\.0"),
    ],
)
def test_what_does_not_fit_is_told(
    config: dict[str, Any], said: str, make: Callable[..., Path], tmp_path: Path
) -> None:
    with pytest.raises(InvalidInputError, match=said):
        make(write_source(tmp_path / "in", "v3", **config))


def test_a_config_is_needed(make: Callable[..., Path], tmp_path: Path) -> None:
    source = write_source(tmp_path / "in", "v3")
    (tmp_path / "in" / "config.json").rename(tmp_path / "elsewhere.json")
    with pytest.raises(InvalidInputError, match=r"config\.json: cannot be read"):
        make(source)
    assert make(source, config=tmp_path / "elsewhere.json").is_dir()
    (tmp_path / "elsewhere.json").write_text('{"sampling_rate": 22050}')
    with pytest.raises(InvalidInputError, match="no config of HiFi-GAN: it lacks 'resblock'"):
        make(source, config=tmp_path / "elsewhere.json")
