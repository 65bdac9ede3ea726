"""How a sentence may go on, and where Chinese text may be cut."""

from __future__ import annotations

import pytest

from services.tts.text.english import going_on
from services.tts.text.mandarin import may_part


@pytest.mark.parametrize(
    ("ahead", "expected"),
    [
        (" w", "with the world."),
        (" x", "part of the world."),
        ("heating ", "heating the world."),
        (" P", "part of the world."),
        ("", ""),
        ("世界", ""),
        (" 3", ""),
    ],
)
def test_words_that_begin_as_what_follows(ahead: str, expected: str) -> None:
    assert going_on(ahead) == expected


@pytest.mark.parametrize(
    ("before", "after", "may"),
    [
        ("世界上最大的动物", "是狮", True),
        ("世界上最大的动", "物是", False),  # a frequent word
        ("学习英语", "需要", True),
        ("我的", "名字", False),  # leans on what follows
        ("他们喜欢", "的是", False),
        ("我今年三", "十五", False),  # a number
        ("我现在应", "该去", False),  # a word of the dictionary of readings
    ],
)
def test_characters_are_parted_between_words(before: str, after: str, may: bool) -> None:
    assert may_part(before, after) is may
