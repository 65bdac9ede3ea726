"""What all makers share: the bundle's place, its manifest, and what is refused."""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from visavis.bundles.compile.survey import requests_of
from visavis.bundles.formats.onnx_graph import GraphBuilder
from visavis.bundles.formats.toml_text import to_toml
from visavis.bundles.making import (
    BundleFacts,
    BundleOrder,
    plan,
    remove_bundle,
    write_bundle,
)
from visavis.bundles.store import State, bundle_path, load_manifest, recipes_of, verify
from visavis.bundles.store.lookup import kept_on_cpu
from visavis.bundles.store.pulling.puller import pull
from visavis.engine import open_engine
from visavis.serving.errors import (
    AlreadyExistsError,
    InvalidInputError,
    ModelStoreError,
    VisavisError,
)
from visavis.tools.cli.main import app

FACTS = BundleFacts(
    task="vocoder",
    summary="doubles numbers",
    languages=["en"],
    sample_rate_hz=16000,
    plans=[plan("double", "double.onnx", {"x": ((1, 1), (1, 4), (2, 8))})],
    cpu_only={"small.onnx": "it is small"},
)


def write_graphs(folder: Path) -> BundleFacts:
    for name, factor in (("double", 2.0), ("small", 0.5)):
        g = GraphBuilder(name)
        x = g.input("x", ["batch", "n"])
        g.output(g.node("Mul", x, g.weight(factor)), "y", ["batch", "n"])
        g.save(folder / f"{name}.onnx")
    return FACTS


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Path]:
    source = tmp_path / "weights.bin"
    source.write_bytes(b"weights")

    def make(name: str = "my-vocoder", *, licence: str = "MIT", **more: Any) -> Path:
        fill = more.pop("fill", write_graphs)
        order = BundleOrder(name, licence, model_dir=tmp_path / "models", **more)
        return write_bundle(order, "double", [source], fill)

    return make


def test_a_made_bundle_is_found_by_name_everywhere(
    make: Callable[..., Path], tmp_path: Path
) -> None:
    models = tmp_path / "models"
    folder = make()
    assert bundle_path("my-vocoder", models) == folder
    manifest = load_manifest("my-vocoder", models)
    assert (manifest.licence, manifest.sample_rate_hz, manifest.task) == ("MIT", 16000, "vocoder")
    assert manifest.tensors["double.onnx"].outputs == {"y": "float32[batch, n]"}
    assert manifest.made is not None
    assert [file.path for file in manifest.made.files] == ["double.onnx", "small.onnx"]
    assert [file.path for file in manifest.made.sources] == ["weights.bin"]
    (standing,) = verify(["my-vocoder"], model_dir=models)
    assert standing.state is State.READY
    assert pull(["my-vocoder"], model_dir=models)[0].seconds == 0.0
    with open_engine(folder / "double.onnx") as engine:
        assert engine.infer({"x": np.ones((1, 3), np.float32)})["y"].tolist() == [[2, 2, 2]]
    assert kept_on_cpu(folder / "small.onnx") == "it is small"
    assert [recipe.name for recipe in recipes_of("my-vocoder", models)] == ["double"]
    assert len(requests_of("my-vocoder", model_dir=models)) == 2


def test_no_catalogue_but_its_own_folder_has_it(make: Callable[..., Path], tmp_path: Path) -> None:
    make()
    with pytest.raises(ModelStoreError, match="no bundle named 'my-vocoder'"):
        load_manifest("my-vocoder", tmp_path)


def test_a_changed_file_is_found_and_a_pull_does_not_say_that_it_is_here(
    make: Callable[..., Path], tmp_path: Path
) -> None:
    path = make() / "double.onnx"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    (standing,) = verify(["my-vocoder"], model_dir=tmp_path / "models")
    assert standing.state is State.DAMAGED
    assert "double.onnx has sha256" in standing.problems[0]
    models = ["--model-dir", str(tmp_path / "models")]
    told = CliRunner().invoke(app, ["models", "pull", "--repair", "my-vocoder", *models])
    assert told.exit_code == 1
    assert "double.onnx has sha256" in told.output
    assert "bundle make double --replace" in told.output
    path.write_bytes(b"")
    with pytest.raises(ModelStoreError, match="bundle make double --replace"):
        bundle_path("my-vocoder", tmp_path / "models")


@pytest.mark.parametrize(
    ("name", "licence", "said"),
    [
        ("My Voice", "MIT", "name: 'My Voice' must be of a-z"),
        ("../voice", "MIT", "name: '../voice' must be"),
        ("voice", " ", "licence: say under which terms"),
        ("whisper-base", "MIT", "whisper-base is a bundle of the catalogue"),
    ],
)
def test_an_order_that_cannot_be_is_refused(
    make: Callable[..., Path], name: str, licence: str, said: str
) -> None:
    with pytest.raises(VisavisError) as caught:
        make(name, licence=licence)
    assert said in str(caught.value)


def test_a_name_that_is_taken_needs_replace(make: Callable[..., Path], tmp_path: Path) -> None:
    make()
    with pytest.raises(AlreadyExistsError, match="--replace"):
        make()
    make(replace=True, licence="Apache-2.0")
    assert load_manifest("my-vocoder", tmp_path / "models").licence == "Apache-2.0"
    (tmp_path / "models" / "junk").mkdir()
    with pytest.raises(AlreadyExistsError, match="is no bundle"):
        make("junk", replace=True)


def test_of_a_maker_that_fails_nothing_is_left(make: Callable[..., Path], tmp_path: Path) -> None:
    def fail(folder: Path) -> BundleFacts:
        write_graphs(folder)
        raise InvalidInputError("the weights are too heavy")

    with pytest.raises(InvalidInputError, match="too heavy"):
        make(fill=fail)
    assert [path.name for path in (tmp_path / "models").iterdir()] == [".pull.lock"]


def test_only_made_bundles_are_removed(make: Callable[..., Path], tmp_path: Path) -> None:
    folder = make()
    with pytest.raises(ModelStoreError, match="was not made here"):
        remove_bundle("whisper-base", tmp_path / "models")
    remove_bundle("my-vocoder", tmp_path / "models")
    assert not folder.exists()


def test_a_removal_that_was_cut_off_leaves_no_half(
    make: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(folder: Path, **more: Any) -> None:
        (folder / "bundle.toml").unlink()
        raise KeyboardInterrupt

    folder = make()
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(shutil, "rmtree", cut_off)
        remove_bundle("my-vocoder", tmp_path / "models")
    assert not folder.exists()
    make()
    assert {path.name for path in folder.parent.iterdir()} == {".pull.lock", "my-vocoder"}


def test_a_bundle_on_another_disk_is_removed_from_here(
    make: Callable[..., Path], tmp_path: Path
) -> None:
    folder = make()
    elsewhere = folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(elsewhere)
    remove_bundle("my-vocoder", tmp_path / "models")
    assert not folder.is_symlink()
    assert (elsewhere / "bundle.toml").is_file()


def test_the_commands_list_and_remove(make: Callable[..., Path], tmp_path: Path) -> None:
    make()
    models = ["--model-dir", str(tmp_path / "models")]
    shown = CliRunner().invoke(app, ["bundle", "list", *models], catch_exceptions=False)
    assert "doubles numbers" in shown.output
    assert CliRunner().invoke(app, ["models", "verify", *models]).exit_code == 0
    CliRunner().invoke(app, ["bundle", "remove", "my-vocoder", *models], catch_exceptions=False)
    shown = CliRunner().invoke(app, ["bundle", "list", *models], catch_exceptions=False)
    assert "None was made yet" in shown.output


def test_a_copy_of_a_bundle_hides_no_other(make: Callable[..., Path], tmp_path: Path) -> None:
    folder = make()
    shutil.copytree(folder, folder.with_name("my-vocoder.bak"))
    models = ["--model-dir", str(tmp_path / "models")]
    for command, status in (("bundle list", 0), ("models list", 0), ("models verify", 1)):
        told = CliRunner().invoke(app, [*command.split(), *models])
        assert told.exit_code == status, command
        assert "my-vocoder " in told.output
        assert "my-vocoder.bak/bundle.toml says name = 'my-vocoder'" in told.output


def test_a_file_is_told_from_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("none")
    for command in ("bundle list", "models list", "models verify"):
        told = CliRunner().invoke(app, [*command.split(), "--model-dir", str(tmp_path / "models")])
        assert told.exit_code == 1
        assert "models is a file" in (told.output or str(told.exception)), command


def test_tables_come_back_from_toml_as_they_were() -> None:
    table = {
        "text": 'a "quoted" \\ line\nand a next \x7f 声',
        "flag": True,
        "numbers": [1, 2.5],
        "empty": {},
        "deep": {"er": {"word": "x"}},
        "items": [{"a": 1, "inner": [{"b": {"min": [1], "max": [2]}}]}, {"a": 2}],
        "shapes": {"past_{0..5}": {"min": [1], "opt": [1], "max": [2]}},
    }
    assert tomllib.loads(to_toml(table)) == table
    with pytest.raises(TypeError):
        to_toml({"path": Path("a")})
