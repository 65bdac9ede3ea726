"""The question set: the same every time, labelled to the sample."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from visavis.tools.bench.questions import SETS, Line, set_folder, write_line
from visavis.tools.bench.visitor.clips import RATE_HZ, load_clips


def test_every_line_of_a_set_has_a_name_and_a_text_of_its_own() -> None:
    for lines in SETS.values():
        assert len({line.name for line in lines}) == len({line.text for line in lines}) > 0
        assert len({line.name for line in lines}) == len(lines)


def test_another_sound_lies_in_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = set_folder("questions", "tiny")
    assert folder == set_folder("questions", "tiny")
    assert folder.is_relative_to(tmp_path)
    assert folder != set_folder("questions", "default")
    monkeypatch.setitem(SETS, "questions", SETS["questions"][1:])
    assert folder != set_folder("questions", "tiny")


def test_a_line_is_written_with_its_text_and_where_its_speech_lies(tmp_path: Path) -> None:
    voice = np.zeros(RATE_HZ, np.int16)
    voice[1000:12_000] = 4000
    write_line(tmp_path, Line("en-01", "Hello?", "en", 0.9), voice)
    (clip,) = load_clips(tmp_path)
    assert (clip.name, clip.text, clip.language) == ("en-01", "Hello?", "en")
    assert clip.speech_s == pytest.approx(11_000 / RATE_HZ)
    assert clip.pcm[clip.span.end_samples - 1] == 4000
    assert clip.span.end_samples == len(clip.pcm), "what follows the speech is true silence"
    assert clip.span.method.startswith("label")
