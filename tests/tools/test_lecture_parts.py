from dataclasses import replace
from pathlib import Path

import numpy as np

from visavis.tools.lecture import (
    MAX_PART_CHARACTERS,
    LectureOptions,
    Part,
    PartStore,
    Picture,
    part_key,
    split_script,
)

OPTIONS = LectureOptions(language="en", voice="", avatar="", speed=1.0, seed=1)


def test_paragraphs_become_parts() -> None:
    assert split_script("One.\nStill one.\n\n  \n\nTwo.\n") == ["One. Still one.", "Two."]
    assert split_script(" \n\n\t\n") == []


def test_long_paragraph_is_cut_between_sentences_and_nothing_is_lost() -> None:
    sentences = [f"This is sentence number {i} of the long paragraph." for i in range(40)]
    parts = split_script(" ".join(sentences))
    assert " ".join(parts) == " ".join(sentences)
    assert len(parts) > 1
    assert all(len(part) <= MAX_PART_CHARACTERS for part in parts)
    assert all(part.endswith(".") for part in parts)


def test_mandarin_is_cut_too() -> None:
    text = "今天天气很好。" * 100
    parts = split_script(text)
    assert "".join(parts).replace(" ", "") == text
    assert all(len(part) <= MAX_PART_CHARACTERS for part in parts)


def test_key_changes_with_everything_that_changes_the_part() -> None:
    keys = {
        part_key("a", 0, 0, OPTIONS),
        part_key("b", 0, 0, OPTIONS),
        part_key("a", 1, 0, OPTIONS),
        part_key("a", 0, 25, OPTIONS),
        part_key("a", 0, 0, replace(OPTIONS, speed=1.1)),
        part_key("a", 0, 0, replace(OPTIONS, avatar="other")),
    }
    assert len(keys) == 6
    assert part_key("a", 0, 0, OPTIONS) in keys


def test_stored_part_comes_back_and_a_cut_off_one_does_not(tmp_path: Path) -> None:
    store = PartStore(tmp_path / "parts")
    part = Part([Picture(b"\0\1key", True), Picture(b"p", False)], np.arange(1920, dtype=np.int16))
    assert store.load("k") is None
    store.save("k", part)
    back = store.load("k")
    assert back is not None
    assert list(back.pictures) == list(part.pictures)
    np.testing.assert_array_equal(back.pcm, part.pcm)
    file = tmp_path / "parts" / "k.npz"
    file.write_bytes(file.read_bytes()[:-100])
    assert store.load("k") is None
    store.clear()
    assert list(tmp_path.iterdir()) == []
