"""Bundles that come with the product: listed like any other, never pulled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.bundles.store.conftest import file_of, pypi, to_toml
from visavis.bundles.store import State, bundle_path, load_manifest, verify
from visavis.bundles.store.catalogue import Catalog, pullable_catalog
from visavis.bundles.store.manifest import parse_manifest
from visavis.bundles.store.pulling.puller import pull
from visavis.serving.errors import ModelStoreError

OWN = {"package": "services.face", "folder": "weights", "files": ["audio_to_face.onnx"]}


def own(**changes: Any) -> str:
    table: dict[str, Any] = {
        "name": "own",
        "version": "1",
        "task": "face",
        "summary": "moves lips",
        "licence": "Apache-2.0",
        "shipped": OWN,
    }
    return to_toml(table | changes)


def test_its_folder_is_the_products_own(tmp_path: Path) -> None:
    folder = bundle_path("audio-to-face", tmp_path)
    assert (folder / "audio_to_face.onnx").is_file()
    assert tmp_path not in folder.parents
    assert load_manifest("audio-to-face").size_bytes > 100_000


def test_a_pull_brings_nothing(tmp_path: Path) -> None:
    (done,) = pull(["audio-to-face"], model_dir=tmp_path, force=True)
    assert done.path == bundle_path("audio-to-face")
    assert list(tmp_path.iterdir()) == []
    (standing,) = verify(["audio-to-face"], model_dir=tmp_path)
    assert standing.state is State.READY


def test_a_part_that_is_not_installed_is_named(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(own(shipped={**OWN, "files": ["lips.onnx"]}))
    with pytest.raises(ModelStoreError, match=r"lips\.onnx is not in services\.face, which brings"):
        bundle_path("own", catalog=Catalog([tmp_path]))
    for package in ("no_such_package", "no_such.package"):
        (tmp_path / "own.toml").write_text(own(shipped={**OWN, "package": package}))
        with pytest.raises(ModelStoreError, match="install visavis with that part"):
            bundle_path("own", catalog=Catalog([tmp_path]))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"files": [file_of("a", b"a", pypi("ear", "a"))]}, "has no files and prepare steps"),
        ({"shipped": {**OWN, "files": []}}, "shipped.files: "),
        ({"shipped": {**OWN, "folder": "../weights"}}, "no '..'"),
        ({"shipped": {**OWN, "package": "services/face"}}, "shipped.package: "),
        ({"cpu_only": {"lips.onnx": "small"}}, "lips.onnx is to be a plan or to stay on the CPU"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ModelStoreError) as caught:
        parse_manifest(own(**changes), "own.toml")
    assert said in str(caught.value)


def test_networks_that_stay_on_the_cpu_say_why() -> None:
    for name in pullable_catalog().names:
        for path, why in pullable_catalog().manifest(name).cpu_only.items():
            assert len(why) > 30, (name, path)
