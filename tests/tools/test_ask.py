"""What `visavis ask` takes for a sound file, and what for words."""

from __future__ import annotations

from pathlib import Path

import pytest

from visavis.serving.errors import InvalidInputError
from visavis.tools.cli.ask import spoken_question


def test_a_file_of_no_known_kind_is_not_asked_as_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert spoken_question("s.txt") is None
    (tmp_path / "s.txt").write_text("Why is the sky blue?")
    with pytest.raises(InvalidInputError, match=r"s\.txt: .*\.flac, .*\.wav"):
        spoken_question("s.txt")
    assert spoken_question("Why is the sky blue? " * 1000) is None


def test_what_is_no_sound_is_told_without_the_number_of_an_error(tmp_path: Path) -> None:
    (tmp_path / "s.wav").write_text("Why is the sky blue?")
    with pytest.raises(InvalidInputError, match=r"s\.wav: not a sound file .*: Invalid data found"):
        spoken_question(str(tmp_path / "s.wav"))
