"""How many of each `visavis up` is to start, told before anything is started."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

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
