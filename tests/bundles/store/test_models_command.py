"""`visavis models`: what a person sees, and the exit status that a script sees."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner, Result

from tests.bundles.store.conftest import Store
from visavis.tools.cli.models import models_app


@pytest.fixture
def shop(store: Store, without_pip: None, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The store's registry and folders as the user's own, through the environment."""
    store.host("ear", {"a": b"weights"}, licence_note="ours")
    monkeypatch.setenv("VISAVIS_CATALOG_DIR", str(store.root / "catalog"))
    monkeypatch.setenv("VISAVIS_MODEL_DIR", str(store.models))
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", store.registry.index_url)
    monkeypatch.setenv("COLUMNS", "200")
    return store


def run(*arguments: str) -> Result:
    return CliRunner().invoke(models_app, list(arguments))


def test_pull_list_verify_in_a_row(shop: Store) -> None:
    assert "missing" in line_of(run("list"), "ear")
    pulled = run("pull", "ear")
    assert pulled.exit_code == 0, pulled.output
    assert "ear is ready" in pulled.output
    assert "was here" in line_of(run("pull", "ear"), "ear")
    assert "ready" in line_of(run("list"), "ear")
    verified = run("verify")
    assert verified.exit_code == 0
    assert "ready" in line_of(verified, "ear")


def line_of(result: Result, name: str) -> str:
    """The line of a table that begins with `name`."""
    return next(line for line in result.output.splitlines() if line.startswith(f"│ {name} "))


def test_list_can_be_read_on_a_narrow_terminal(
    shop: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    listed = run("list").output
    assert "…" not in listed
    assert max(map(len, listed.splitlines())) <= 80
    for shown in ("fastspeech2-mbmelgan-zh", "Mandarin", "silero-vad, smart-turn"):
        assert shown in listed
    assert listed.count("fastspeech2-mbmelgan-zh") > 1, "as a bundle and in its profiles"


def test_verify_names_the_damage_and_the_cure(shop: Store) -> None:
    run("pull", "ear")
    (shop.models / "ear" / "a").write_bytes(b"weightz")
    found = run("verify", "ear")
    assert found.exit_code == 1
    assert "a has sha256" in found.output
    assert "visavis models pull --repair ear" in found.output
    assert run("pull", "--repair", "ear").exit_code == 0
    assert (shop.models / "ear" / "a").read_bytes() == b"weights"


def test_verify_of_an_empty_folder_says_how_to_begin(shop: Store) -> None:
    found = run("verify")
    assert found.exit_code == 0
    assert "visavis models pull" in found.output
    assert run("verify", "ear").exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("pull", "eer"), "Did you mean ear"),
        (("pull", "--profile", "defolt"), "Did you mean default"),
        (("verify", "nose"), "there is no bundle named 'nose'"),
        (("licences", "nose"), "there is no bundle named 'nose'"),
    ],
)
def test_wrong_names_end_with_status_1_and_a_hint(
    shop: Store, arguments: tuple[str, ...], said: str
) -> None:
    result = run(*arguments)
    assert result.exit_code == 1
    assert said in result.output
    assert "Traceback" not in result.output


def test_licences_are_told_with_their_notes(shop: Store) -> None:
    told = run("licences", "ear", "qwen2.5-coder-0.5b-instruct").output
    assert "ours" in told
    assert "Apache-2.0" in told
    assert "no licence at all" in told


def test_help_teaches(shop: Store) -> None:
    assert "visavis models pull --profile better" in run("pull", "--help").output
    assert "VISAVIS_MODEL_DIR" in run("--help").output
