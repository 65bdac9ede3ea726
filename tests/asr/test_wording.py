"""Texts are continued, not rewritten."""

import pytest

from services.asr.turns.wording import agreement, continued, units_of, without_marks


@pytest.mark.parametrize(
    ("text", "language"),
    [("It was the best of times, it was", "en"), ("密码是7、9 和 OK。", "zh"), ("", "en")],
)
def test_units_joined_give_the_text_again(text: str, language: str) -> None:
    assert "".join(units_of(text, language)) == text


def test_units_agree_whatever_their_case_and_marks() -> None:
    one, other = units_of("It was, the best", "en"), units_of("it was the worst", "en")
    assert agreement(one, other) == 3


@pytest.mark.parametrize(
    ("kept", "text", "language", "whole"),
    [
        ("", "Ask not", "en", "Ask not"),
        ("Ask not", "Ask not what", "en", "Ask not what"),
        ("Ask not", "ask not, what your", "en", "Ask not, what your"),
        ("Ask not what", "As not what your country", "en", "Ask not what your country"),
        ("Ask not", "And ask not what", "en", "Ask not what"),
        ("Ask not what", "Ask what your", "en", "Ask not what your"),
        ("Ask not what", "Ask not", "en", "Ask not what"),
        ("Ask not", "", "en", "Ask not"),
        ("我想要一杯", "我想要以杯热咖啡。", "zh", "我想要一杯热咖啡。"),
        ("欢迎大家", "欢迎大家,来体验", "zh", "欢迎大家,来体验"),
    ],
)
def test_a_beginning_that_is_kept(kept: str, text: str, language: str, whole: str) -> None:
    assert continued(kept, text, language) == whole


def test_marks_at_the_end_are_not_yet_sure() -> None:
    assert without_marks("It was the best of times, ") == "It was the best of times"
