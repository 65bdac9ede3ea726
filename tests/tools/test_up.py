"""What is wrong with what `visavis up` is told, said before anything is pulled or started."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from visavis.serving.errors import SettingsError
from visavis.tools.cli import up
from visavis.tools.cli.main import app
from visavis.tools.cli.up import replica_counts


def test_replicas_are_counted_by_service() -> None:
    assert replica_counts("") == {}
    assert replica_counts("face=2, tts = 3,gateway=1") == {"face": 2, "tts": 3, "gateway": 1}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("nose=2", "no service 'nose'; known are asr, llm, tts, face, gateway"),
        ("face", "'face': a number from 1 to 32"),
        ("face=two", "'face=two': a number from 1 to 32"),
        ("face=0", "from 1 to 32"),
        ("face=-1", "from 1 to 32"),
        ("face=33", "from 1 to 32"),
        ("face=2,face=3", "face is named twice"),
    ],
)
def test_what_is_wrong_is_named(wrong: str, said: str) -> None:
    with pytest.raises(typer.BadParameter, match=said):
        replica_counts(wrong)


def test_wrong_replicas_end_the_command_before_anything_is_pulled() -> None:
    result = CliRunner().invoke(app, ["up", "--replicas", "nose=2"])
    assert result.exit_code == 2
    assert "--replicas" in result.output and "nose" in result.output


class BeganError(Exception):
    """All was in order: weights would be pulled now."""


@pytest.fixture(autouse=True)
def _nothing_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    def begin(*_: object) -> None:
        raise BeganError

    monkeypatch.setattr(up, "chosen_bundles", begin)
    for name in ("API_KEY", "API_KEY_FILE", "ACCESS_FILE", "CONFIG"):
        monkeypatch.delenv(f"VISAVIS_GATEWAY_{name}", raising=False)


@pytest.mark.parametrize("option", ["--config", "--answers", "--knowledge"])
def test_a_file_that_is_not_there_is_told_at_once(option: str) -> None:
    result = CliRunner().invoke(app, ["up", option, "nope"])
    assert result.exit_code == 2
    assert option in result.output and "'nope' does not exist" in result.output


def test_a_configuration_that_is_no_toml_is_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "visavis.toml"
    file.write_text("[gateway\n")
    error = CliRunner().invoke(app, ["up", "--config", str(file)]).exception
    assert isinstance(error, SettingsError) and "--config" in str(error) and "TOML" in str(error)


@pytest.mark.parametrize(
    ("told", "environment", "wanted"),
    [
        ("", {}, SettingsError),
        ("[gateway]\nport = 8080\n", {}, SettingsError),
        ("[gateway]\naccess_file = 'keys.toml'\n", {}, BeganError),
        ("", {"VISAVIS_GATEWAY_API_KEY": "secret"}, BeganError),
        ("", {"VISAVIS_GATEWAY_ACCESS_FILE": "keys.toml"}, BeganError),
    ],
)
def test_who_would_be_reached_without_a_key_is_told_at_once(
    tmp_path: Path, told: str, environment: dict[str, str], wanted: type[Exception]
) -> None:
    file = tmp_path / "visavis.toml"
    file.write_text(told)
    flags = ["up", "--host", "0.0.0.0", "--config", str(file)]
    error = CliRunner(env=environment).invoke(app, flags).exception
    assert isinstance(error, wanted), error
    if wanted is SettingsError:
        assert "0.0.0.0" in str(error) and "--api-key-file" in str(error)
