"""What the language model is told, and what of an answer counts as heard."""

from __future__ import annotations

import time

import pytest

from gateway.talk.actions import Call, Message
from gateway.talk.history import History, SpokenMark, heard_text, system_message, word_start_s


@pytest.mark.parametrize(
    ("text", "played_s", "voice_s", "heard"),
    [
        ("one two three", 0.0, 3.0, ""),
        ("", 1.0, 1.0, ""),
        ("one two three", 3.0, 3.0, "one two three"),
        ("one two three", 2.0, 3.0, "one two"),
        ("one two three", 0.5, 3.0, ""),
        ("one two three", 99.0, None, "one two three"),
        ("a" * 15 + " " + "b" * 15, 1.0, None, "a" * 15),
        ("你好世界", 0.5, None, "你好"),
        ("你好世界", 1.0, 2.0, "你好"),
        ("说 hello 吧", 0.3, None, "说"),
    ],
)
def test_cut_at_a_word(text: str, played_s: float, voice_s: float | None, heard: str) -> None:
    assert heard_text(text, played_s=played_s, voice_s=voice_s) == heard


WORDS = [SpokenMark(3, 0.5), SpokenMark(7, 2.0), SpokenMark(13, 2.5)]


@pytest.mark.parametrize(
    ("played_s", "heard"),
    [
        (0.1, ""),
        (0.45, ""),
        (0.48, "one"),  # but for a breath
        (1.9, "one"),  # however long the second word takes
        (2.0, "one two"),
        (2.6, "one two three"),
        (9.0, "one two three"),
    ],
)
def test_what_the_voice_tells_is_exact(played_s: float, heard: str) -> None:
    assert heard_text("one two three", played_s=played_s, marks=WORDS) == heard


def test_a_mark_behind_several_words_shares_its_time_out() -> None:
    marks = [SpokenMark(8, 4.0)]
    assert heard_text("aaa bbb ccc", played_s=1.9, marks=marks) == "aaa"
    later = [SpokenMark(3, 0.5), SpokenMark(7, 4.0), SpokenMark(15, 8.0)]
    assert heard_text("aaa bbb ccc ddd", played_s=5.9, marks=later) == "aaa bbb"
    assert heard_text("aaa bbb ccc ddd", played_s=6.1, marks=later) == "aaa bbb ccc"
    assert heard_text("aaa bbb ccc", played_s=4.0, marks=marks) == "aaa bbb"
    assert heard_text("aaa bbb ccc", played_s=5.9, voice_s=6.0, marks=marks) == "aaa bbb"
    assert heard_text("aaa bbb ccc", played_s=6.0, voice_s=6.0, marks=marks) == "aaa bbb ccc"


def test_the_word_that_is_being_spoken() -> None:
    assert word_start_s(WORDS, 0.2) == 0.0
    assert word_start_s(WORDS, 1.0) == 0.5
    assert word_start_s(WORDS, 2.6) is None
    assert word_start_s([], 1.0) is None


def test_the_answer_is_in_the_session_s_language() -> None:
    assert system_message("Be kind.", "en-GB") == "Be kind. Answer in English."
    assert system_message("", "zh") == ""
    assert system_message("Be kind.", "xx") == "Be kind."
    assert system_message("友好。", "zh-CN") == "友好。 请用简体中文回答。"


def test_a_long_conversation_begins_elsewhere_only_now_and_then() -> None:
    history, beginnings = History("A sage."), set()
    for number in range(500):
        history.visitor(f"Question {number}?")
        system, first, *_ = prompt = history.prompt("And now?")
        assert (system.content, first.role) == ("A sage.", "user")
        assert prompt[-1].content == f"Question {number}? And now?"
        beginnings.add(first.content)
        history.face(f"Answer {number}.")
    assert len(beginnings) <= 20
    assert len(history.said) <= 100


def test_an_answer_that_is_given_again_is_told_once_and_all_questions_stay() -> None:
    # A small model that reads an answer twice gives it again, whatever is asked.
    history = History("")
    said = [
        ("What causes thunder?", "The universe is full of mysteries, and thunder is one."),
        ("Is it far?", "Yes, it is."),
        ("My number is 555.", "The universe is full of mysteries, and one is thunder."),
        ("Is it loud?", "Yes, it is."),
        ("Where is Rome?", "In Italy, on the Tiber."),
    ]
    for question, answer in said:
        history.visitor(question)
        history.face(answer)
    # Nothing is put in that was not there: behind it all would have to be read anew.
    assert [message.content for message in history.prompt("Thanks.")] == [
        *["What causes thunder\nIs it far?", "Yes, it is."],
        *["My number is 555.", "The universe is full of mysteries, and one is thunder."],
        *["Is it loud?", "Yes, it is."],
        *["Where is Rome?", "In Italy, on the Tiber.", "Thanks."],
    ]
    assert len(history.said) == 10, "what was said stays as it was"
    # Nobody knows how much will be heard of an answer that is being spoken.
    history.visitor("And Ostia?")
    spoken = [Message("assistant", "In Italy, on the Tiber.")]
    before, after = history.prompt("Hm?"), history.prompt("Hm?", spoken)
    assert after == (*before[:-1], Message("user", "And Ostia?"), *spoken, Message("user", "Hm?"))
    history.face("In Italy, on the Tiber.")
    assert [message.content for message in history.prompt("Hm?")[-3:]] == [
        *["Where is Rome\nAnd Ostia?", "In Italy, on the Tiber.", "Hm?"]
    ]


def test_an_answer_for_which_something_was_called_stands_each_time() -> None:
    history = History("")
    for number in "12":
        call = Call(number, "weather", "{}")
        history.visitor("Is it warm?")
        called = [Message("assistant", "", (call,)), Message("tool", "20", (), number)]
        history.face("It is warm outside today.", called)
    assert len(history.prompt("And tomorrow?")) == 9


@pytest.mark.parametrize("marks", [" ", ".", "-", "…"])
def test_lines_of_marks_alone_hold_nobody_up(marks: str) -> None:
    # As long as may be typed: to search such a line for marks at its end takes a second and more.
    line = f"a{marks * 7998}x"
    unanswered, answered = History(""), History("")
    unanswered.carry_on([Message("user", line)] * 20)
    answer = "It is the same answer again."
    answered.carry_on([Message("user", line), Message("assistant", answer)] * 20)
    began_s = time.process_time()
    (question,) = unanswered.prompt("hi")
    assert len(question.content) == 20 * len(f"{line} ") + len("hi")
    assert answered.prompt("hi")[0].content == "\n".join([line] * 20)
    assert time.process_time() - began_s < 1.0
