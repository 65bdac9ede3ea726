"""A visitor goes on with a question that seemed to be over: both parts are one question."""

from __future__ import annotations

import pytest

from gateway import metrics
from gateway.api.events import AnswerEvent, TranscriptEvent, TurnEvent
from gateway.talk.actions import (
    AnnounceTurn,
    BeginAnswer,
    CloseTurn,
    ConfirmTurn,
    PauseTurn,
    ReadAhead,
    ResumeTurn,
)
from gateway.talk.conversation import Conversation
from gateway.talk.history import SpokenMark
from gateway.talk.speculation import count
from gateway.talk.turn import GOES_ON_WITHIN_S, REACTION_S
from tests.gateway.talk.test_conversation import of, prompt
from tests.gateway.talk.test_speculation import value

MARKS = [SpokenMark(4, 0.4), SpokenMark(10, 0.9)]


@pytest.fixture
def talk() -> Conversation:
    """Turn 1 is to answer what was taken for all of the question, a second ago."""
    talk = Conversation("Be brief.")
    talk.speech_started(1, 0)
    talk.final(1, "What is the capital of Peru?", 1)
    return talk


def answer(talk: Conversation, played_s: float) -> None:
    """The answer of turn 1 is heard, so much of it."""
    talk.token(1, "Lima, of course.", last=True, now=1)
    talk.voice(1, 2.0, MARKS, last=True, now=1)
    talk.started(1)
    talk.played(1, played_s, 1 + played_s)


def said(talk: Conversation) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in talk.said]


WHOLE = "What is the capital of Peru? And of Chile?"


def test_all_of_it_is_read_ahead_and_prepared(talk: Conversation) -> None:
    talk.speech_started(2, 1.5)
    (ahead,) = of(talk.partial(2, "And of Chi"), ReadAhead)
    assert ahead.messages[-1].content == "What is the capital of Peru? And of Chi"
    actions = talk.paused(2, "And of Chile?", 0.9, 2)
    assert of(actions, AnnounceTurn) == [AnnounceTurn(3, "speech", opens=True, held=True)]
    assert prompt(actions)[1:] == [("user", WHOLE)]
    assert said(talk) == [("user", "What is the capital of Peru?")]
    talk.token(3, "Santiago.", last=False, now=2)
    actions = talk.final(2, "and of Chile", 2)
    assert of(actions, ConfirmTurn) == [ConfirmTurn(3)]
    assert of(actions, AnswerEvent) == [AnswerEvent(turn=3, text="Santiago.")]
    assert said(talk) == [("user", "What is the capital of Peru? and of Chile")]


def test_it_goes_on_as_often_as_it_likes(talk: Conversation) -> None:
    talk.speech_started(2, 1.5)
    talk.final(2, "And of Chile?", 2)
    talk.speech_started(3, 2.5)
    actions = talk.final(3, "And of Cuba?", 3)
    assert of(actions, CloseTurn) == [CloseTurn(2, "replaced")]
    assert of(actions, TranscriptEvent) == [
        TranscriptEvent(utterance=1, text=f"{WHOLE} And of Cuba?", final=True, turn=3)
    ]
    assert said(talk) == [("user", f"{WHOLE} And of Cuba?")]


@pytest.mark.parametrize("played_s", [0.1, 0.3, 0.4 + REACTION_S - 0.05])
def test_less_than_a_word_of_the_answer_leaves_no_trace(
    talk: Conversation, played_s: float
) -> None:
    answer(talk, played_s)
    talk.speech_started(2, 1 + played_s)
    # It goes on until the voice lasts; what he hears then came too late to make him speak.
    talk.played(1, played_s + 0.5, 2)
    talk.voice_persists()
    actions = talk.partial(2, "And of Chile, too")
    assert of(actions, CloseTurn) == [CloseTurn(1, "replaced", 2.0)]
    talk.final(2, "And of Chile?", 3)
    assert said(talk) == [("user", WHOLE)]


def test_who_has_heard_a_word_interrupts(talk: Conversation) -> None:
    answer(talk, 0.4 + REACTION_S)
    talk.speech_started(2, 2)
    actions = talk.partial(2, "And of Chile, too")
    (event,) = of(actions, TurnEvent)
    assert (event.event, event.reason, event.heard) == ("interrupted", "speech", "Lima,")
    actions = talk.final(2, "And of Chile?", 3)
    assert of(actions, TranscriptEvent)[0].utterance == 2
    assert said(talk) == [
        ("user", "What is the capital of Peru?"), ("assistant", "Lima,"), ("user", "And of Chile?"),
    ]  # fmt: skip


def test_who_waits_long_for_an_answer_asks_anew(talk: Conversation) -> None:
    talk.speech_started(2, 1.1 + GOES_ON_WITHIN_S)
    actions = talk.final(2, "Are you there?", 6)
    assert of(actions, CloseTurn) == [CloseTurn(1, "interrupted")]
    assert of(actions, TranscriptEvent)[0].text == "Are you there?"


def test_a_prepared_question_is_as_old_as_its_end() -> None:
    talk = Conversation()
    talk.paused(1, "What is the capital of Peru?", 0.9, 0)
    talk.final(1, "What is the capital of Peru?", 9)
    talk.speech_started(2, 9 + GOES_ON_WITHIN_S)
    assert of(talk.final(2, "And of Chile?", 14), CloseTurn) == [CloseTurn(1, "replaced")]


@pytest.mark.parametrize("words", ["Uh-huh.", "嗯"])
def test_a_listener_s_word_goes_on_with_nothing(talk: Conversation, words: str) -> None:
    talk.speech_started(2, 1.5)
    assert of(talk.final(2, words, 2), ResumeTurn) == [ResumeTurn(1, 0.0)]
    assert talk.turn is not None and talk.turn.number == 1
    assert said(talk) == [("user", "What is the capital of Peru?")]


def test_a_listener_s_word_that_grows_into_the_rest_is_shown_once(talk: Conversation) -> None:
    talk.speech_started(2, 1.5)
    assert of(talk.partial(2, "Okay"), TranscriptEvent)[0].utterance == 2
    actions = talk.partial(2, "Okay but in Chile")
    assert of(actions, TranscriptEvent) == [
        TranscriptEvent(utterance=2, text="", final=True),
        TranscriptEvent(
            utterance=1, text="What is the capital of Peru? Okay but in Chile", final=False
        ),
    ]


def test_what_was_taken_for_the_rest_and_is_none_leaves_the_question(talk: Conversation) -> None:
    talk.speech_started(2, 1.5)
    talk.partial(2, "The")
    actions = talk.discarded(2, 2)
    assert of(actions, AnnounceTurn) == [AnnounceTurn(3, "speech", opens=True)]
    assert prompt(actions)[1:] == [("user", "What is the capital of Peru?")]
    assert of(actions, TranscriptEvent)[-1] == TranscriptEvent(
        utterance=1, text="What is the capital of Peru?", final=True, turn=3
    )
    assert said(talk) == [("user", "What is the capital of Peru?")]


@pytest.mark.parametrize("part", ["asr", "bus"])
def test_the_question_is_answered_where_nobody_listens_any_more(
    talk: Conversation, part: str
) -> None:
    talk.speech_started(2, 1.5)
    talk.partial(2, "And of")
    lost = talk.bus_lost("gone", 2) if part == "bus" else talk.stage_lost("asr", "gone", 2)
    assert prompt(lost)[1:] == [("user", "What is the capital of Peru?")]


@pytest.mark.parametrize(
    "partials, words",
    [
        (["No", "No more than"], "No more than twenty euros."),
        (["Enough"], "Enough for four people."),
        (["不", "不太"], "不太贵的。"),
        (["别"], "别的城市呢？"),
        ([], "等于多少？"),
    ],
)
def test_a_rest_may_begin_as_what_stops_people_does(
    talk: Conversation, partials: list[str], words: str
) -> None:
    talk.speech_started(2, 1.5)
    for partial in partials:
        assert of(talk.partial(2, partial), TurnEvent) in ([], [talk_replaced()])
    talk.final(2, words, 3)
    assert len(said(talk)) == 1 and said(talk)[0][1].endswith(words)


def talk_replaced() -> TurnEvent:
    return TurnEvent(turn=1, event="replaced", played_ms=0)


@pytest.mark.parametrize(
    "words", ["Stop.", "Wait", "No, I mean Chile.", "等一下", "不是，我说的是智利。"]
)
def test_what_stops_people_is_no_rest_of_a_question(talk: Conversation, words: str) -> None:
    talk.speech_started(2, 1.5)
    actions = talk.partial(2, words)
    assert of(actions, CloseTurn) == [CloseTurn(1, "interrupted")]
    assert of(actions, TranscriptEvent)[0].utterance == 2


@pytest.mark.parametrize("words", ["No.", "Enough!", "不。"])
def test_a_word_alone_may_be_its_beginning_and_is_none_once_it_is_all(
    talk: Conversation, words: str
) -> None:
    talk.speech_started(2, 1.5)
    assert of(talk.partial(2, words), CloseTurn) == []
    assert of(talk.final(2, words, 2), CloseTurn) == [CloseTurn(1, "interrupted")]


@pytest.mark.parametrize("held", [False, True])
def test_who_takes_it_back_is_not_answered_and_leaves_no_question(
    talk: Conversation, held: bool
) -> None:
    talk.speech_started(2, 1.5)
    talk.partial(2, "And of")
    if held:
        talk.paused(2, "And of Chile?", 0.9, 2)
    talk.interrupt()
    assert of(talk.discarded(2, 2), BeginAnswer) == []
    assert prompt(talk.final(3, "How old are you?", 20))[1:] == [("user", "How old are you?")]


@pytest.mark.parametrize("parts", ["button", "text", "app"])
def test_captions_show_a_question_alone_once_nothing_goes_on_with_it(
    talk: Conversation, parts: str
) -> None:
    talk.speech_started(2, 1.5)
    talk.partial(2, "And of Chile")
    match parts:
        case "button":
            told = talk.interrupt()
        case "text":
            told = talk.submit_text("What is Peru?", 2)
        case _:
            told = talk.speak_unasked("say", 2)
    first = TranscriptEvent(utterance=1, text="What is the capital of Peru?", final=True)
    assert of(told, TranscriptEvent)[0] == first
    (second, *_) = of(talk.final(2, "And of Chile?", 3), TranscriptEvent)
    assert (second.utterance, second.text) == (2, "And of Chile?")


def test_words_that_come_late_are_answered_into_what_goes_on_and_shown_once() -> None:
    """He speaks again before it is known what he said: the answer waits for him."""
    talk = Conversation()
    talk.speech_started(1, 0)
    talk.speech_started(2, 1.5)
    talk.partial(2, "And of", now=1.55)  # of a question of its own, so far
    late = talk.final(1, "What is the capital of Peru?", 1.6)
    assert of(late, PauseTurn) == [PauseTurn(1)] and talk.state == "listening"
    actions = talk.partial(2, "And of", now=1.7)
    assert of(actions, CloseTurn) == [CloseTurn(1, "replaced")]
    assert of(actions, TranscriptEvent) == [
        TranscriptEvent(utterance=2, text="", final=True),
        TranscriptEvent(utterance=1, text="What is the capital of Peru? And of", final=False),
    ]
    talk.final(2, "And of Chile?", 2.6)
    assert said(talk) == [("user", WHOLE)] and talk.state == "thinking"


def test_captions_of_a_question_that_another_s_late_words_part_come_to_their_end(
    talk: Conversation,
) -> None:
    talk.speech_started(2, 1.1)
    talk.speech_started(3, 1.3)
    talk.partial(3, "And of", now=1.4)  # of turn 1's question, so far
    assert of(talk.final(2, "Wait a moment please.", 1.6), TranscriptEvent) == [
        TranscriptEvent(utterance=1, text="What is the capital of Peru?", final=True),
        TranscriptEvent(utterance=2, text="Wait a moment please.", final=True, turn=3),
    ]


def test_what_is_typed_meanwhile_is_another_question(talk: Conversation) -> None:
    talk.speech_started(2, 1.5)
    actions = talk.submit_text("What is Peru?", 2)
    assert of(actions, TranscriptEvent)[0].text == "What is Peru?"
    talk.speech_started(3, 2.5)
    # A typed question is complete as it is sent.
    actions = talk.final(3, "And Chile?", 3)
    assert of(actions, CloseTurn) == [CloseTurn(2, "interrupted")]
    assert of(actions, TranscriptEvent)[0].text == "And Chile?"


def test_an_answer_that_comes_to_its_end_is_an_answer(talk: Conversation) -> None:
    answer(talk, 0.1)
    talk.speech_started(2, 1.1)
    talk.finished(1, 1.2)
    actions = talk.final(2, "And of Chile?", 3)
    assert prompt(actions)[1:] == [
        ("user", "What is the capital of Peru?"),
        ("assistant", "Lima, of course."),
        ("user", "And of Chile?"),
    ]


def test_what_a_false_end_cost_is_counted(talk: Conversation) -> None:
    wasted = metrics.speculation_wasted_voice_seconds
    before, discarded = value(wasted), value(metrics.speculation_discarded)
    talk.voice(1, 1.5, last=False, now=1)
    talk.speech_started(2, 1.5)
    for action in talk.partial(2, "And of Chile, too"):
        count(action)
    assert value(wasted) == before + 1.5
    assert value(metrics.speculation_discarded) == discarded
    assert talk.turns.generated(1, 7) == 7  # tokens for nothing
