"""The file of answers: what it may say, and what is said where it is wrong; which questions are the
same one.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from gateway.answers.book import read_book
from gateway.answers.questions import normalised
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


@pytest.mark.parametrize(
    ("one", "other", "language"),
    [
        ("What are your opening hours?", "what are your opening hours", "en"),
        ("What’s your name?", "Um, so what is your name, please?", "en"),
        ("Hello, excuse me, where is the lift?", "Where is the lift?", "en"),
        ("You can't park here?", "you can not park here", "en"),
        ("Who are you?", "Oh, well, who, uh, are you? Thank you.", "en"),
        ("Ｗｉ－Ｆｉ？", "wi-fi?", "en"),
        ("你们几点开门？", "嗯，请问你们几点开门呢", "zh"),
        ("你们几点开门？", "你好 请问 你们 几点 开门 啊，谢谢！", "zh"),
        ("门票多少钱?", "不好意思，我想问一下，门票多少钱？", "zh"),
        ("９点开门吗？", "9点开门吗", "zh"),
    ],
)
def test_questions_that_mean_the_same(one: str, other: str, language: str) -> None:
    """In whatever country the language is spoken."""
    assert normalised(one, f"{language}-XX") == normalised(other, language)


@pytest.mark.parametrize(
    ("one", "other", "language"),
    [
        ("When do you open?", "When do you close?", "en"),
        ("Can I park here?", "Can I not park here?", "en"),
        ("Where is the ER?", "Where is the?", "en"),
        ("Do you teach C?", "Do you teach C++?", "en"),
        ("Is it 3.5 or -5 degrees?", "Is it 3 5 or 5 degrees?", "en"),
        ("这个多少钱？", "多少钱？", "zh"),
        ("开门吗？", "开门", "zh"),
        ("我的余额是多少？", "我的余是多少？", "zh"),
        ("Um, wer?", "wer?", "de"),
    ],
)
def test_questions_that_differ_stay_different(one: str, other: str, language: str) -> None:
    assert normalised(one, language) != normalised(other, language)


@pytest.mark.parametrize(("text", "language"), [("Hello!", "en"), ("你好。", "zh"), ("Um…", "en")])
def test_a_question_of_fillers_alone_stays(text: str, language: str) -> None:
    assert normalised(text, language)


def test_fillers_without_end_hold_nobody_up() -> None:
    # What was not answered yet is one question, and grows: each is to be looked at a few times.
    began_s = time.process_time()
    assert normalised("吧" * 40_000, "zh") == "吧" * 40_000
    assert time.process_time() - began_s < 3.0
