"""Which questions are the same one."""

from __future__ import annotations

import pytest

from gateway.answers.questions import normalised


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
