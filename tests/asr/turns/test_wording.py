"""Texts are continued, not rewritten; of unfinished speech a window slides, and words stay."""

from services.asr.hearing.detectors import SAMPLE_RATE_HZ
from services.asr.turns.wording import (
    WINDOW_SAMPLES,
    PartialText,
    agreement,
    continued,
    units_of,
    without_marks,
)


def test_units_joined_give_the_text_again() -> None:
    for text, language in (
        ("It was the best of times, it was", "en"),
        ("密码是7、9 和 OK。", "zh"),
        ("", "en"),
    ):
        assert "".join(units_of(text, language)) == text


def test_units_agree_whatever_their_case_and_marks() -> None:
    one, other = units_of("It was, the best", "en"), units_of("it was the worst", "en")
    assert agreement(one, other) == 3


def test_a_beginning_that_is_kept() -> None:
    for kept, text, language, whole in (
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
    ):
        assert continued(kept, text, language) == whole


def test_marks_at_the_end_are_not_yet_sure() -> None:
    assert without_marks("It was the best of times, ") == "It was the best of times"


SECOND = SAMPLE_RATE_HZ


def test_words_on_which_two_looks_agree_are_kept_but_for_the_last() -> None:
    partial = PartialText("en", 0)
    partial.take_look(0, SECOND, "I would like two go")
    assert partial.stable == ""
    partial.take_look(0, 2 * SECOND, "I would like to go to the station")
    assert partial.stable == "I would like"
    partial.take_look(0, 3 * SECOND, "I could like to go to the station tomorrow")
    assert partial.text == "I would like to go to the station tomorrow"
    assert partial.stable == "I would like"


def test_two_looks_at_the_same_sound_are_one_opinion() -> None:
    partial = PartialText("en", 0)
    for end in (SECOND, SECOND + 100):
        partial.take_look(0, end, "one two three four five six")
    assert partial.stable == ""


def test_what_is_left_behind_stays_in_front() -> None:
    partial = PartialText("en", 0)
    partial.take_look(0, 5 * SECOND, "one two three four five six")
    partial.take_look(0, 6 * SECOND, "one two three four five six seven eight")
    assert partial.is_full(WINDOW_SAMPLES)
    partial.leave_head(0, 4 * SECOND, "one two three")
    assert not partial.is_full(WINDOW_SAMPLES)
    assert partial.stable == "one two three four five"
    partial.take_look(4 * SECOND, 7 * SECOND, "for five six seven eight nine")
    assert partial.text == "one two three four five six seven eight nine"


def test_a_word_that_looks_have_missed_makes_its_neighbour_none_of_two() -> None:
    partial = PartialText("en", 0)
    partial.take_look(0, 2 * SECOND, "we went the house by night")
    partial.take_look(0, 3 * SECOND, "we went the house by night")
    assert partial.stable == "we went the"
    assert partial.whole("we went to the house by night") == "we went the house by night"


def test_a_look_at_a_window_that_has_moved_on_is_void() -> None:
    partial = PartialText("en", 0)
    partial.leave_head(0, SECOND, "one")
    assert not partial.take_look(0, 2 * SECOND, "one two")
    assert partial.text == "one"


def test_chinese_is_kept_by_the_character_but_not_while_it_is_written_in_latin() -> None:
    partial = PartialText("zh", 0)
    partial.take_look(0, SECOND, "欢迎大家来体验他们")
    partial.take_look(0, 2 * SECOND, "欢迎大家来体验达摩院推出的")
    assert partial.stable == "欢迎大家来体验"
    digits = PartialText("zh", 0)
    digits.take_look(0, SECOND, "ERmsansi wu liu qi ba")
    digits.take_look(0, 2 * SECOND, "ERmsansi wu liu qi ba jiu")
    assert digits.stable == ""
