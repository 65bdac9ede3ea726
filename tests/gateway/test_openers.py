"""Openers: after which words, when, and how the answer follows. Pure: all times made up."""

from __future__ import annotations

import itertools
import random

import pytest

from gateway.answers.opener_cue import AnswerPace, OpenerCue, OpenerLimits, Sight, Verdict
from gateway.answers.openers import Joint, answer_behind, fits, in_text

PHRASES = ("Well,", "Let me see,", "Hm,")


@pytest.mark.parametrize(
    ("question", "language"),
    [
        ("What is the capital of France?", "en"),
        ("Hello, can you tell me where the station is?", "en-GB"),
        ("Who are you?", "en"),
        ("法国的首都是哪里？", "zh"),
        ("你好，请问你叫什么名字？", "zh-CN"),
        ("Wo ist der Bahnhof?", "de"),
    ],
)
def test_a_question_may_be_answered_with_an_opener(question: str, language: str) -> None:
    assert fits(question, language)


@pytest.mark.parametrize(
    ("question", "language"),
    [
        *[(q, "en") for q in ("Hello", "Thank you.", "Thank you very much!", "Yes", "Why?")],
        *[(q, "en") for q in ("How are you?", "Okay, how are you today?", "See you later!")],
        *[(q, "en") for q in ("Stop talking right now.", "Could you please repeat that?")],
        *[(q, "en") for q in ("Go on with the story.", "So, never mind about that.")],
        *[(q, "zh") for q in ("你好", "谢谢你", "再见", "对", "很高兴认识你。", "你最近好吗？")],
        *[(q, "zh") for q in ("请再说一遍好吗", "等一下我还没说完", "不要再说了吧")],
    ],
)
def test_nobody_thinks_before_a_greeting_or_a_command(question: str, language: str) -> None:
    assert not fits(question, language)


@pytest.mark.parametrize(
    ("opener", "pieces", "joined"),
    [
        ("Well, ", ["The", " capital is Paris."], "the capital is Paris."),
        ("Well, ", ["Th", "ere", " are two."], "there are two."),
        ("Well, ", ["It", "'s Paris."], "it's Paris."),
        ("Well, ", ["I", " think so."], "I think so."),
        ("Well, ", ["I'm", " fine."], "I'm fine."),
        ("Well, ", ["Paris", " is."], "Paris is."),
        ("Well, ", ["IT", " is a field."], "IT is a field."),
        ("Well, ", ["42", "."], "42."),
        ("Well, ", ["The"], "the"),
        ("嗯，", ["法国", "的首都"], "法国的首都"),
        ("Good question. ", ["The", " capital"], "The capital"),
    ],
)
def test_only_a_function_word_loses_its_capital(
    opener: str, pieces: list[str], joined: str
) -> None:
    joint = Joint(opener)
    last = len(pieces) - 1
    text = "".join(joint.feed(piece, last=i == last) for i, piece in enumerate(pieces))
    assert text == joined
    assert len(text) == len("".join(pieces)), "marks count characters"


def test_a_word_is_shown_once_it_is_complete() -> None:
    joint = Joint("Well, ")
    assert joint.feed("Th") == ""
    assert joint.feed("e sky") == "the sky"
    assert joint.feed(" Is") == " Is"


def test_a_blank_follows_where_the_script_has_blanks() -> None:
    assert in_text("Well,") == "Well, "
    assert in_text("嗯，") == "嗯，"


# ------------------------------------------------------------ when


def cue(pace: AnswerPace | None = None, share: float = 1.0) -> OpenerCue:
    return OpenerCue(OpenerLimits(share, patience_s=0.06), pace or AnswerPace(), random.Random(1))


def sight(**more: object) -> Sight:
    known = {"fits": True, "known": False, "voice": False, "confirmed_s": 10.0, "begun_s": 9.9}
    return Sight(**{**known, **more})  # type: ignore[arg-type]


def pace(whole_s: float, from_token_s: float) -> AnswerPace:
    made = AnswerPace()
    made.came(0.0, whole_s - from_token_s, whole_s)
    return made


def test_with_no_experience_the_answer_has_its_chance_first() -> None:
    one = cue()
    assert one.judge(sight(), PHRASES, 10.0)[0] is Verdict.WAIT
    assert one.judge(sight(), PHRASES, 10.059)[0] is Verdict.WAIT
    verdict, opener = one.judge(sight(), PHRASES, 10.06)
    assert verdict is Verdict.SPEAK
    assert opener in PHRASES


def test_an_answer_that_is_known_to_be_late_is_not_waited_for() -> None:
    assert cue(pace(0.5, 0.3)).judge(sight(), PHRASES, 10.0)[0] is Verdict.SPEAK


def test_an_answer_that_is_expected_at_once_is_waited_for_until_it_should_have_come() -> None:
    one = cue(pace(0.15, 0.1))  # expected at 10.05
    assert one.judge(sight(), PHRASES, 10.0)[0] is Verdict.WAIT
    assert one.judge(sight(), PHRASES, 10.1)[0] is Verdict.WAIT
    assert one.judge(sight(), PHRASES, 10.11)[0] is Verdict.SPEAK


def test_the_first_token_tells_more_than_the_question() -> None:
    one = cue(pace(0.5, 0.1))
    assert one.judge(sight(token_s=9.95), PHRASES, 10.0)[0] is Verdict.WAIT
    assert cue(pace(0.5, 0.1)).judge(sight(), PHRASES, 10.0)[0] is Verdict.SPEAK


@pytest.mark.parametrize(
    ("seen", "verdict"),
    [
        ({"voice": True}, Verdict.NOT_NEEDED),
        ({"known": True}, Verdict.NOT_NEEDED),
        ({"fits": False}, Verdict.UNFIT),
        ({"fits": False, "voice": True}, Verdict.NOT_NEEDED),
    ],
)
def test_where_none_is_spoken(seen: dict[str, bool], verdict: Verdict) -> None:
    assert cue(pace(0.5, 0.3)).judge(sight(**seen), PHRASES, 10.0) == (verdict, "")


def spoken(one: OpenerCue, turns: int, phrases: tuple[str, ...] = PHRASES) -> list[str]:
    """What `turns` turns begin with; "": nothing."""
    said = []
    for _ in range(turns):
        _, opener = one.judge(sight(), phrases, 11.0)
        if opener:
            one.said(opener)
        said.append(opener)
    return said


def test_never_the_same_one_twice_running() -> None:
    said = spoken(cue(), 40)
    assert set(said) == set(PHRASES)
    assert all(one != other for one, other in itertools.pairwise(said))
    assert spoken(cue(), 4, ("Well,",)) == ["Well,", "", "Well,", ""]


@pytest.mark.parametrize(("share", "expected"), [(0.5, 5), (0.1, 1), (0.0, 0), (0.3, 2)])
def test_no_more_than_a_share_of_the_turns_has_one(share: float, expected: int) -> None:
    said = spoken(cue(share=share), 10)
    assert sum(map(bool, said)) == expected
    if share == 0.5:
        assert not any(a and b for a, b in itertools.pairwise(said))


def test_one_that_tts_refused_counts_as_unsaid() -> None:
    one = cue()
    assert one.judge(sight(), ("Well,",), 11.0) == (Verdict.SPEAK, "Well,")
    assert one.judge(sight(), ("Well,",), 11.0) == (Verdict.SPEAK, "Well,")


def test_it_is_over_when_the_answer_is_expected_or_as_soon_as_can_be() -> None:
    soon = cue(pace(0.4, 0.3))  # expected at 10.3
    assert {soon.judge(sight(), PHRASES, 10.0)[1] for _ in range(20)} == {"Well,", "Hm,"}
    sooner = cue(pace(0.2, 0.1))
    assert (
        sooner.judge(sight(), ("Let me think about it,", "Let me see,"), 10.0)[1] == "Let me see,"
    )
    late = cue(pace(3.0, 0.1))
    assert {late.judge(sight(), PHRASES, 10.0)[1] for _ in range(20)} == set(PHRASES)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Well, the capital is Paris.", "The capital is Paris."),
        ("Well, Paris.", "Paris."),
        ("Well, iron rusts.", "iron rusts."),
        ("Well,", ""),
        ("Well, ", ""),
        ("", ""),
    ],
)
def test_the_answer_itself_is_what_the_language_model_wrote(text: str, answer: str) -> None:
    assert answer_behind("Well, ", text) == answer
    assert answer_behind("", text) == text
