"""Which spoken word is which word of the text."""

from __future__ import annotations

import pytest

from services.tts.speech_options import SpeechOptions
from services.tts.text.chunker import Pause, Phrase
from services.tts.word_ends import (
    ends_of_kept_words,
    ends_of_words,
    last_spoken_words,
    owners_within,
    place_words,
)
from tests.tts.fakes import HOPS_PER_WORD, word_synthesizer
from visavis.wire.media import TextMark


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello there, you.", ["Hello", " there,", " you."]),
        ("a **bold** - one", ["a", " **bold**", " - one"]),
        ("你好，世界", ["你", "好，", "世", "界"]),
        ("用iPhone吧", ["用", "iPhone", "吧"]),
        (" ...", []),
    ],
)
def test_words_of_a_text(text: str, words: list[str]) -> None:
    start, found = 0, []
    for end in ends_of_words(text):
        found.append(text[start:end])
        start = end
    assert found == words


@pytest.mark.parametrize(
    ("raw", "text", "words"),
    [
        (
            "It is 谢谢 (xièxie), **yes**",
            "It is 谢谢, yes",
            ["It", " is", " 谢", "谢", " (xièxie), **yes**"],
        ),
        ("the docs (https://a.b/c) say", "the docs say", ["the", " docs", " (https://a.b/c) say"]),
        ("a=b or c", "a等于b or c", []),
    ],
)
def test_words_that_are_left_out_go_with_the_next_one(
    raw: str, text: str, words: list[str]
) -> None:
    start, found = 0, []
    for end in ends_of_kept_words(raw, text):
        found.append(raw[start:end])
        start = end
    assert found == words


@pytest.mark.parametrize(
    ("text", "spoken", "owners"),
    [
        ("one two three", 3, [0, 1, 2]),
        ("in 1984 it was", 5, [0, 2, 3, 4]),  # nineteen eighty-four
        ("in 1984 or 1985 it", 7, [0, None, None, 5, 6]),
        ("one two three", 2, [None] * 3),
        ("one two three", 4, [None] * 3),  # and nobody knows which
        ("花儿红", 2, [None] * 3),  # two characters, one syllable
    ],
)
def test_a_number_takes_what_is_left_over(text: str, spoken: int, owners: list[int | None]) -> None:
    assert last_spoken_words(text, spoken) == owners


def test_words_are_placed_in_the_block_where_they_end() -> None:
    assert place_words([0, None, 1], [5, 12], 0, 8) == ((0, 5),)
    assert place_words([0, None, 1], [5, 12], 8, 20) == ((2, 4),)
    assert owners_within([0, None, 1, 2], 1, 2) == [None, None, 0, 1]


def test_marks_count_the_characters_of_the_whole_answer() -> None:
    synthesizer, _ = word_synthesizer()
    answer = synthesizer.answer(SpeechOptions())
    phrases = [Phrase("One **two**,", Pause.CLAUSE), Phrase(" three.", Pause.SENTENCE)]
    pieces = [piece for phrase in phrases for piece in answer.say(phrase)]
    marks = [mark for piece in pieces for mark in piece.marks]
    word = HOPS_PER_WORD * 300
    pause = next(p for p in pieces if p.pts_samples == 2 * word)
    assert [m.chars for m in marks] == [3, 12, 12, 19]
    end = TextMark(12, 2 * word, pause=True)
    assert marks[:3] == [TextMark(3, word), TextMark(12, 2 * word), end]
    assert pause.marks == (end,)  # of the phrase
    assert marks[3].samples == answer.produced_samples
