"""Words heard wrong."""

import pytest

from visavis.tools.bench.figures.word_errors import count_errors, edits, words


def test_words_have_no_case_no_punctuation_and_chinese_ones_are_characters() -> None:
    assert words("Don’t STOP, Mr. O'Neil: it's 5!") == ["dont", "stop", "mr", "oneil", "its", "5"]
    assert words("今天，GPT好，ABC 你") == ["今", "天", "gpt", "好", "abc", "你"]


@pytest.mark.parametrize(
    ("heard", "said", "count"),
    [("a b c", "a b c", 0), ("a x c", "a b c", 1), ("a c", "a b c", 1), ("a b b c", "a b c", 1),
     ("", "a b", 2), ("x y", "", 2)],
)  # fmt: skip
def test_edits(heard: str, said: str, count: int) -> None:
    assert edits(heard.split(), said.split()) == count


def test_errors_are_counted_over_everything() -> None:
    count = count_errors([("one two three", "one too three"), ("four", "four")])
    assert (count.wrong, count.said, count.rate) == (1, 4, 0.25)
    assert count_errors([("", "anything")]).rate is None
