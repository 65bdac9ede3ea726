"""No work is done where no file can be written; what is written, others can read."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.full_disk import limited_files
from visavis.serving.errors import InvalidInputError, VisavisError
from visavis.tools.output import check_output, write_json


def test_a_new_and_an_old_file_are_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.MP4").touch()
    for path in (None, Path("answer.mp4"), tmp_path / "answer.mp4", tmp_path / "old.MP4"):
        check_output(path, ".mp4")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "is a folder"),
        ("answer.avi", "name it answer.mp4"),
        ("answer", "name it answer.mp4"),
        ("none/answer.mp4", "no such folder"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        check_output(tmp_path / name, ".mp4")


def test_a_folder_of_somebody_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
    with pytest.raises(InvalidInputError, match="may not write"):
        check_output(tmp_path / "answer.mp4", ".mp4")


def test_what_json_does_not_know_is_null(tmp_path: Path) -> None:
    bounds = {"skew": float("inf"), "lag": [0.5, float("nan")]}
    write_json(tmp_path / "run.json", {"bounds": bounds, "visitors": 2})

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    text = (tmp_path / "run.json").read_text()
    expected = {"bounds": {"skew": None, "lag": [0.5, None]}, "visitors": 2}
    assert json.loads(text, parse_constant=refuse) == expected


def test_a_disk_that_is_full_takes_nothing_from_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    write_json(path, {"run": 1})
    before = path.read_text()
    with limited_files(1000), pytest.raises(VisavisError, match=r"run\.json: cannot be written"):
        write_json(path, {"runs": list(range(10_000))})
    assert path.read_text() == before and list(tmp_path.iterdir()) == [path]
