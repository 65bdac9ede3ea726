"""A place where no file can be written is told before any work is done."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from visavis.serving.errors import InvalidInputError
from visavis.tools.output import check_output


def test_a_new_and_an_old_file_are_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_output(None, ".mp4")
    check_output(tmp_path / "answer.mp4", ".mp4")
    (tmp_path / "answer.MP4").touch()
    check_output(tmp_path / "answer.MP4", ".mp4")
    monkeypatch.chdir(tmp_path)
    check_output(Path("answer.mp4"), ".mp4")


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
