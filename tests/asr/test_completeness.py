"""What words say about the end of a turn."""

import pytest

from services.asr.completeness import finished_odds, fused

GOES_ON = [
    ("I want to go to Paris and.", "en"),
    ("Can you tell me how to get to the?", "en"),
    ("I would like a table for.", "en"),
    ("The thing that I really need is.", "en"),
    ("I think, um,", "en"),
    ("So,", "en"),
    ("He was not.", "en"),
    ("If it rains tomorrow.", "en"),
    ("My number is 555.", "en"),
    ("Nine, four, six.", "en"),
    ("The code is seven, nine.", "en"),
    ("我想去北京,然后", "zh"),
    ("我们可以坐公共汽车或者", "zh"),
    ("如果明天下雨。", "zh"),
    ("我的电话号码是138。", "zh"),
    ("嗯", "zh"),
    ("一二三四", "zh"),
]
FINISHED = [
    ("Who are you?", "en"),
    ("Yes.", "en"),
    ("Thank you very much.", "en"),
    ("你好", "zh"),
    ("现在几点", "zh"),
    ("你能给我讲一个故事吗?", "zh"),
]
SAYS_NOTHING = [
    ("That is not what I was asking for.", "en"),
    ("Tell me what it is.", "en"),
    ("I was born in 1984.", "en"),
    ("My number is 555 123 4567.", "en"),
    ("The code is 7924,", "en"),
    ("I am 45.", "en"),
    ("Of course not.", "en"),
    ("我喜欢苹果", "zh"),
    ("", "en"),
    ("...", "en"),
]


@pytest.mark.parametrize(("text", "language"), GOES_ON)
def test_nobody_ends_like_this(text: str, language: str) -> None:
    assert finished_odds(text, language) < -1
    assert fused(0.99, finished_odds(text, language)) < 0.7


@pytest.mark.parametrize(("text", "language"), FINISHED)
def test_this_is_complete(text: str, language: str) -> None:
    assert finished_odds(text, language) > 1


@pytest.mark.parametrize(("text", "language"), SAYS_NOTHING)
def test_elsewhere_the_words_leave_it_to_the_turn_detector(text: str, language: str) -> None:
    assert finished_odds(text, language) == 0.0
    assert fused(0.6, 0.0) == pytest.approx(0.6)


def test_a_hanging_word_outweighs_a_sure_turn_detector() -> None:
    assert fused(1.0, finished_odds("We could take the bus or.", "en")) < 0.3


def test_certainty_needs_both() -> None:
    assert fused(1.0, 0.0) < 0.96 <= fused(1.0, finished_odds("What time is it?", "en"))
