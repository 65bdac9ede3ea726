"""Words heard wrong."""

import pytest

from visavis.tools.bench.word_errors import edits, edits_to_prefixes, word_error_rate, words


def test_words_have_no_case_no_punctuation_and_chinese_ones_are_characters() -> None:
    assert words("Don’t STOP, it's 5!") == ["don't", "stop", "it's", "5"]
    assert words("今天，GPT 好。") == ["今", "天", "gpt", "好"]


@pytest.mark.parametrize(
    ("heard", "said", "count"),
    [("a b c", "a b c", 0), ("a x c", "a b c", 1), ("a c", "a b c", 1), ("a b b c", "a b c", 1),
     ("", "a b", 2), ("x y", "", 2)],
)  # fmt: skip
def test_edits(heard: str, said: str, count: int) -> None:
    assert edits(heard.split(), said.split()) == count


def test_edits_to_every_prefix() -> None:
    assert edits_to_prefixes(["a", "b"], ["a", "b", "c"]) == [2, 1, 0, 1]


def test_rate_is_by_words_said() -> None:
    assert word_error_rate("the cat", "The cat sat.") == pytest.approx(1 / 3)
    assert word_error_rate("anything", "") is None
