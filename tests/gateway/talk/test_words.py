"""What words amount to."""

from __future__ import annotations

import pytest

from gateway.talk.words import (
    asks,
    is_backchannel,
    is_echo,
    is_misheard_hum,
    joined,
    same_question,
    without_echo,
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("what is it", "What is it?"),
        ("What is the time, um", "What is the time?"),
        ("Uh, what is the time?", "What is the time?"),
        ("Don’t pay $1,234.50 at 10:30!", "don't pay 1234.50 at 10:30"),
        ("You can not go", "You cannot go."),
        ("今天天气怎么样", "今天天气怎么样？"),
        ("嗯，今天天气怎么样啊", "今天天气怎么样"),
    ],
)
def test_the_same_question(one: str, other: str) -> None:
    assert same_question(one, other) and same_question(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("What is it", "What is it not"),
        ("Is it 3.5?", "Is it 35?"),
        ("Is it 3 5?", "Is it 35?"),
        ("Is it -5 degrees?", "Is it 5 degrees?"),
        ("Do you like C?", "Do you like C++?"),
        ("你喜欢", "你喜欢吗"),
        ("他去了", "他去了没"),
        ("Call me", "Call me a taxi"),
    ],
)
def test_another_question(one: str, other: str) -> None:
    assert not same_question(one, other)


LISTENS = [
    "Uh-huh.", "Mm-hmm", "Yeah, right.", "OK, I see.", "Hm?", "…", "That's fair.", "Oh, how nice!",
    "I see what you mean.", "So true, yeah.", "嗯。", "嗯，对。", "好的，明白了", "说得有道理。",
    "哦，原来是这么回事！",
]  # fmt: skip
INTERRUPTS = [
    "Stop.", "Wait.", "No.", "Right, but why?", "OK stop", "What?", "Well done.",
    "停", "等一下", "不对", "好的停", "我觉得不对",
]  # fmt: skip


@pytest.mark.parametrize("text", LISTENS)
def test_a_listener_s_word(text: str) -> None:
    assert is_backchannel(text)


@pytest.mark.parametrize("text", INTERRUPTS)
def test_an_interruption(text: str) -> None:
    assert not is_backchannel(text)
    assert not is_backchannel(text, asked=True)


def test_what_is_an_answer_to_a_question_and_what_is_not() -> None:
    for text in ("Yes.", "好的", "That's fair.", "Oh, how nice!", "I see what you mean."):
        assert not is_backchannel(text, asked=True), text
    for text in ("Mm-hm", "Well."):
        assert is_backchannel(text, asked=True), text


def test_the_beginning_of_a_listener_s_word_may_become_one() -> None:
    assert not is_backchannel("I")
    for text in ("I", "yeah go", "sounds"):
        assert is_backchannel(text, complete=False), text
    for text in ("I want", "no", "how"):
        assert not is_backchannel(text, complete=False), text


def test_a_question_is_seen_by_its_mark() -> None:
    assert asks("Do you want more? ") and asks('Said "Really?"') and asks("好吗？")
    assert not asks("No.") and not asks("")


SAID = "The sea is a vast and mysterious place, home to many ships."


@pytest.mark.parametrize(
    ("text", "sounds_like_it", "complete", "echo"),
    [
        ("a vast and mysterious place", False, True, True),
        ("vast and mysteries place home", False, True, True),
        ("place mysterious and vast a", False, True, False),
        ("many ships", False, True, False),  # a visitor who asks back
        ("many ships", True, True, True),
        ("Stop.", True, True, False),
        ("Stop", True, False, True),  # too early to say
        ("how many people live there", True, True, False),
    ],
)
def test_our_own_words(text: str, sounds_like_it: bool, complete: bool, echo: bool) -> None:
    assert is_echo(text, SAID, sounds_like_it=sounds_like_it, complete=complete) is echo


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Deplanetary.", "To plant a tree, dig a hole"),
        ("Eat each morning at flu over the.", "a quiet village. Each morning it flew over the"),
        ("To plammatory dig up", "To plant a tree, dig a hole"),
    ],
)
def test_our_own_words_misheard(text: str, said: str) -> None:
    assert is_echo(text, said, sounds_like_it=True, complete=True)


def test_what_a_visitor_says_is_not_our_words_misheard() -> None:
    said = "To plant a tree, dig a hole twice as wide as its roots. Set it in straight."
    for text in ("Can I ask something else?", "Let us talk about music.", "What do you mean?"):
        assert not is_echo(text, said, sounds_like_it=True, complete=True), text
    alike = "on the tops of the hills"
    assert not is_echo("Stop", alike, sounds_like_it=True, complete=True), "it stops people"


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("The sea is a vast and mysterious place. Wait, what is it?", "Wait, what is it?"),
        ("vax and mysterious place home to many. Stop", "Stop"),
        ("The sea is a vast", ""),
        ("What is the capital of France?", "What is the capital of France?"),
    ],
)
def test_what_a_visitor_says_into_our_echo(text: str, rest: str) -> None:
    assert without_echo(text, SAID) == rest


@pytest.mark.parametrize(
    ("text", "hum_odds", "goes_on"),
    [
        ("Mama.", -9.0, False),
        ("You're her.", 1.5, False),
        ("If I,", -3.2, True),
        ("A man home.", 1.5, False),
        ("And then hump and then hump.", 1.5, False),
    ],
)
def test_a_hum_that_was_taken_for_words(text: str, hum_odds: float, goes_on: bool) -> None:
    assert is_misheard_hum(text, voiced_ms=320, hum_odds=hum_odds, goes_on=goes_on)


@pytest.mark.parametrize("text", ["3", "b", "1211111", "我我我我我"])
def test_a_hum_in_mandarin_comes_out_as_no_mandarin(text: str) -> None:
    assert is_misheard_hum(text, voiced_ms=320, hum_odds=None, language="zh")
    assert not is_misheard_hum(text, voiced_ms=320, hum_odds=None, language="en")
    assert not is_misheard_hum("停", voiced_ms=320, hum_odds=None, language="zh")
    assert not is_misheard_hum("stop", voiced_ms=320, hum_odds=None, language="zh")


@pytest.mark.parametrize(
    ("text", "voiced_ms", "hum_odds", "goes_on"),
    [
        ("Stop.", 320, 4.0, False),  # it stops people, however it sounded
        ("No, wait.", 320, 4.0, True),
        ("Dot please.", 320, 4.0, False),
        ("Turn it off.", 400, 0.0, False),
        ("I want the,", 400, 0.0, True),  # three words are more than a broken one
        ("Who said that?", 400, 4.0, False),
        ("Paris.", 400, -3.0, False),
        ("You're her.", 1300, 4.0, False),  # too long for a hum
        ("If I,", 900, -3.2, True),  # so is this for a broken one
        ("Tell me her name.", 400, -0.1, False),
        ("You're her.", 320, None, False),  # nobody asked
        ("等一下", 400, None, True),
        ("", 100, 0.0, True),
    ],
)
def test_words_that_are_no_hum(
    text: str, voiced_ms: int, hum_odds: float | None, goes_on: bool
) -> None:
    assert not is_misheard_hum(text, voiced_ms=voiced_ms, hum_odds=hum_odds, goes_on=goes_on)


@pytest.mark.parametrize(
    ("text", "voiced_ms", "hum_odds", "hum"),
    [
        ("吃到了", 320, 1.0, True),  # of 知道了
        ("What?", 320, 1.0, True),
        ("吃到了", 320, 0.0, False),
        ("吃到了", 320, None, False),
        ("等一下", 320, 2.0, False),
        ("停", 320, 2.0, False),
        ("吃到了", 900, 2.0, True),
        ("吃到了", 1300, 2.0, False),
        ("我想换一个话题", 320, 2.0, False),
    ],
)
def test_a_listener_s_word_in_mandarin(
    text: str, voiced_ms: int, hum_odds: float | None, hum: bool
) -> None:
    told = is_misheard_hum(text, voiced_ms=voiced_ms, hum_odds=hum_odds, language="zh")
    assert told is hum


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        ("What is", "the capital of Peru?", "What is the capital of Peru?"),
        ("Where is Peru.", "And of what is it made?", "Where is Peru, and of what is it made?"),
        ("Where is Peru?", "And where is Chile?", "Where is Peru? And where is Chile?"),
        ("I have a dog.", "What does he eat?", "I have a dog. What does he eat?"),
        ("I have a dog.", "I like him.", "I have a dog. I like him."),
        ("I would like…", "green apples.", "I would like green apples."),
        ("I would --", "Orlando is far.", "I would Orlando is far."),
        ("秘鲁的首都", "在哪里？", "秘鲁的首都在哪里？"),
        ("秘鲁在哪里。", "还有智利呢？", "秘鲁在哪里，还有智利呢？"),
        ("我喜欢", "Python 吗", "我喜欢 Python 吗"),
        ("我喜欢。", "Python 好吗", "我喜欢。Python 好吗"),
        ("Say", "你好", "Say 你好"),
        ("", "Hello", "Hello"),
        ("...", "Hello", "Hello"),
        ("Hello", " ", "Hello"),
    ],
)
def test_what_a_pause_has_parted(first: str, second: str, both: str) -> None:
    assert joined(first, second) == both
