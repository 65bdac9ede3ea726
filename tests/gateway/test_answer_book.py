"""The file of answers: what it may say, and what is said where it is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.answers.book import read_book
from visavis.serving.errors import InvalidInputError

GOOD = """
[[answers]]
language = "en-GB"
questions = ["When are you open?", "What are your hours?"]
answer = " From nine to five. "

[[answers]]
language = "zh"
questions = ["你们几点开门？"]
answer = "九点。"
persona = "*"
until = 2026-12-31

[[welcome]]
language = "en"
text = "Welcome!"
"""


def written(folder: Path, text: str, name: str = "answers.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_toml_and_json_say_the_same(tmp_path: Path) -> None:
    book = read_book(written(tmp_path, GOOD))
    assert book.texts() == [("en", "Welcome!"), ("en", "From nine to five."), ("zh", "九点。")]
    same = read_book(written(tmp_path, book.model_dump_json(), "answers.json"))
    assert same == book
    assert same.digest == book.digest
    shorter = json.loads(book.model_dump_json())
    shorter["welcome"] = []
    assert read_book(written(tmp_path, json.dumps(shorter), "b.json")).digest != book.digest


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("answers = 3", "answers"),
        ("[[answers]]\nlanguage = 'en'\nquestions = []\nanswer = 'x'", "questions"),
        ("[[answers]]\nlanguage = 'en'\nquestions = ['?!']\nanswer = 'x'", "no word"),
        ("[[answers]]\nlanguage = 'en'\nquestion = 'a'\nanswer = 'x'", "question"),
        ("[[answers]]\nlanguage = 'english!'\nquestions = ['a']\nanswer = 'x'", "language"),
        ("[[welcome]]\nlanguage = 'en'\ntext = '…'", "welcome.0.text"),
        ("[[welcome", "not TOML"),
        (
            GOOD + "[[answers]]\nlanguage='en'\nquestions=['um, when are you open']\nanswer='x'",
            "twice",
        ),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, says: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InvalidInputError, match=says) as caught:
        read_book(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_and_one_that_is_no_text(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="cannot read"):
        read_book(tmp_path / "none.toml")
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidInputError, match="not TOML"):
        read_book(binary)
    with pytest.raises(InvalidInputError, match="not JSON"):
        read_book(written(tmp_path, "{", "broken.json"))
