"""bundle.toml: what is accepted, and how clearly the rest is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.bundles.store.conftest import file_of, pypi, to_toml
from visavis.bundles.store.catalogue import ROLES, pullable_catalog
from visavis.bundles.store.manifest import BundleManifest, PartsSource, parse_manifest
from visavis.serving.errors import ModelStoreError


def manifest(**changes: Any) -> str:
    table: dict[str, Any] = {
        "name": "ear",
        "version": "1",
        "task": "asr",
        "summary": "hears",
        "licence": "MIT",
        "files": [file_of("a.onnx", b"a", pypi("ear", "ear/a.onnx"))],
    }
    table.update(changes)
    return to_toml({key: value for key, value in table.items() if value is not None})


def parse(**changes: Any) -> BundleManifest:
    return parse_manifest(manifest(**changes), "ear.toml")


@pytest.mark.parametrize("licence", [None, ""])
def test_a_missing_licence_is_named(licence: str | None) -> None:
    with pytest.raises(ModelStoreError, match=r"ear\.toml: licence is missing; every bundle must"):
        parse(licence=licence)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"license": "MIT"}, "license is not a key of bundle.toml"),
        ({"task": "singing"}, "task: "),
        ({"name": "Ear Drum"}, "name: "),
        ({"sample_rate_hz": 0}, "sample_rate_hz: "),
        ({"files": []}, "files: "),
        ({"files": [file_of("../a", b"a", pypi("ear", "a"))]}, "no '..'"),
        ({"files": [file_of("/a", b"a", pypi("ear", "a"))]}, "relative path"),
        ({"files": [file_of("a", b"a", pypi("ear", "../../etc/passwd"))]}, "no '..'"),
        ({"files": [file_of("a", b"a")]}, "sources: "),
        ({"files": [file_of("a", b"a", {"kind": "ftp"})]}, "kind"),
        ({"files": [file_of("a", b"a", pypi("ear", "a"))] * 2}, "made twice: a"),
        (
            {"prepare": [{"name": "cook", "inputs": ["raw"], "outputs": ["done"]}]},
            "step cook reads raw, which nothing makes",
        ),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ModelStoreError) as caught:
        parse(**changes)
    assert "ear.toml" in str(caught.value)
    assert said in str(caught.value)


def test_text_that_is_not_toml_says_where() -> None:
    with pytest.raises(ModelStoreError, match=r"ear\.toml is not valid TOML: .*line 2"):
        parse_manifest('name = "ear"\nversion = ?\n', "ear.toml")


def test_listed_parts_keep_the_order_given() -> None:
    listed = [pypi("ear", f"{name}.bin") for name in ("z", "a", "m")]
    source = parse(files=[file_of("a", b"a", {"kind": "parts", "parts": listed})]).files[0]
    assert isinstance(source.sources[0], PartsSource)
    assert [part.member for part in source.sources[0].members()] == ["z.bin", "a.bin", "m.bin"]


@pytest.mark.parametrize("pattern", [{}, {"first": 1}, {"first": 3, "last": 2}])
def test_a_pattern_without_its_range_is_refused(pattern: dict[str, int]) -> None:
    source = {"kind": "parts", "parts": [pypi("ear-part{n}", "ear_{n}/{n:02}.bin", **pattern)]}
    with pytest.raises(ModelStoreError, match="first"):
        parse(files=[file_of("a", b"a", source)])


@pytest.mark.parametrize("name", pullable_catalog().names)
def test_every_shipped_bundle_is_valid_and_states_its_licence(name: str) -> None:
    shipped = pullable_catalog().manifest(name)
    assert shipped.licence
    assert shipped.licence_note


def test_shipped_profiles_name_shipped_bundles() -> None:
    catalog = pullable_catalog()
    assert catalog.profile_names == ["edge", "tiny", "default", "better"]
    for profile in catalog.profile_names:
        assert set(catalog.profile(profile)) == set(ROLES)
        wanted = [several for role in catalog.profile(profile).values() for several in role]
        assert {name for several in wanted for name in several} <= set(catalog.names)


def test_terms_that_bind_the_user_are_told() -> None:
    catalog = pullable_catalog()
    assert "NON-COMMERCIAL" in catalog.manifest("fastspeech2-mbmelgan-zh").licence_note
    for name in ("qwen2.5-coder-0.5b-instruct", "qwen2.5-coder-1.5b-instruct"):
        assert "no licence at all" in catalog.manifest(name).licence_note
