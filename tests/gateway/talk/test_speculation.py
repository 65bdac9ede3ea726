"""How many answers are prepared ahead, and what is counted of them."""

from __future__ import annotations

from typing import Any

import pytest

from gateway import metrics
from gateway.api.events import ErrorEvent, TranscriptEvent, TurnEvent
from gateway.talk.actions import AnnounceTurn, BeginAnswer, CloseTurn, ConfirmTurn, ReadAhead
from gateway.talk.conversation import Conversation, TurnTaking
from gateway.talk.speculation import Foreseeing, Speculation, SpeculationLimits, count
from tests.gateway.talk.test_conversation import answer, of, prompt


def value(counter: Any) -> float:
    """A counter's own value."""
    number: float = counter._value.get()
    return number


@pytest.fixture
def talk() -> Conversation:
    return Conversation(speculation=SpeculationLimits(before_pause=True))


def test_only_so_many_in_one_utterance() -> None:
    bets = Speculation(SpeculationLimits(per_utterance=2))
    for _ in range(2):
        assert bets.allows(1, "what", 0.9)
        bets.opened(1)
    assert not bets.allows(1, "what", 0.9)
    assert bets.allows(2, "what", 0.9)


def test_a_conversation_learns_from_bets_that_it_did_not_make() -> None:
    talk = Conversation(speculation=SpeculationLimits(discarded_share=0.5, window=2))
    talk.paused(1, "What", 0.9, 0)
    talk.final(1, "What now?", 0)
    talk.interrupt()
    assert of(talk.paused(2, "Who is it?", 0.9, 0), AnnounceTurn) == []
    assert of(talk.final(2, "Who is it?", 0), BeginAnswer)  # it is answered all the same
    talk.interrupt()
    assert of(talk.paused(3, "Why is it?", 0.9, 0), AnnounceTurn)


def test_a_filler_behind_the_question_throws_nothing_away(talk: Conversation) -> None:
    talk.paused(1, "What is the time", 0.9, 0)
    assert of(talk.partial(1, "What is the time um"), CloseTurn) == []
    actions = talk.final(1, "What is the time, um.", 1)
    assert of(actions, ConfirmTurn) == [ConfirmTurn(1)]
    assert prompt(talk.submit_text("Thanks", 2))[0] == ("user", "What is the time, um. Thanks")


def test_a_prepared_answer_that_fails_is_tried_again_without_a_word(talk: Conversation) -> None:
    talk.paused(1, "What is it?", 0.9, 0)
    actions = talk.stage_failed("llm", 1, "internal", "out of memory")
    assert of(actions, CloseTurn) == [CloseTurn(1, "discarded")]
    assert of(actions, ErrorEvent) == []
    assert prompt(talk.final(1, "What is it?", 1)) == [("user", "What is it?")]


def test_a_discarded_answer_leaves_no_trace_in_the_history(talk: Conversation) -> None:
    talk.paused(1, "Tell me", 0.9, 0)
    talk.token(1, "What?", last=True, now=0)
    talk.voice(1, 1.5, last=True, now=0)
    (closed,) = of(talk.partial(1, "Tell me about Peru"), CloseTurn)
    assert closed == CloseTurn(1, "discarded", 1.5)
    assert prompt(talk.final(1, "Tell me about Peru.", 1)) == [("user", "Tell me about Peru.")]


def test_where_no_voice_interrupts_what_was_prepared_is_the_answer(talk: Conversation) -> None:
    talk.taking = TurnTaking(interrupts=False)
    talk.speech_started(1, 0)
    talk.paused(1, "What is the time?", 0.9, 1)
    assert of(talk.final(1, "What is the time?", 1.5), ConfirmTurn) == [ConfirmTurn(1)]
    talk.speech_started(2, 2)
    assert of(talk.final(2, "And in Peru?", 3), CloseTurn) == []
    assert talk.turn is not None and talk.turn.number == 1


def test_waste_is_counted_whenever_the_stage_reports(talk: Conversation) -> None:
    counters = (
        metrics.speculation_wasted_tokens,
        metrics.speculation_wasted_voice_seconds,
        metrics.speculation_discarded,
    )
    before = [value(counter) for counter in counters]
    for turn, text in ((1, "What is"), (3, "What is the time")):
        for action in talk.paused(1, text, 0.9, 0):
            count(action)
        talk.voice(turn, turn / 2, last=False, now=0)
        if turn == 1:
            assert talk.turns.generated(1, 10) == 0  # complete before the visitor went on
        for action in talk.partial(1, f"{text} in Peru"):
            count(action)
    assert talk.turns.generated(3, 5) == 5  # cut off by it
    talk.final(1, "What is the time in Peru?", 1)
    assert talk.turns.generated(talk.epoch, 100) == 0  # of an answer that is spoken
    grown = [value(counter) - was for counter, was in zip(counters, before, strict=True)]
    assert grown == [10, 2.0, 2]


# ------------------------------------------------------------ before the pause


def test_words_that_are_probably_all_are_answered_before_the_pause(talk: Conversation) -> None:
    assert of(talk.partial(1, "What is", 0.1, 0.0), AnnounceTurn) == []
    actions = talk.partial(1, "What is the time?", 0.7, 1.0)
    assert of(actions, AnnounceTurn) == [
        AnnounceTurn(1, "speech", opens=True, held=True, foreseen=True)
    ]
    assert prompt(actions) == [("user", "What is the time?")]
    assert of(actions, TurnEvent) == []
    assert of(talk.paused(1, "What is the time?", 0.9, 1.2), BeginAnswer) == []
    assert of(talk.final(1, "What is the time?", 1.5), ConfirmTurn) == [ConfirmTurn(1, 0.5)]


def test_who_asks_right_behind_an_answer_does_not_interrupt_what_is_prepared(
    talk: Conversation,
) -> None:
    talk.submit_text("Hi.", 0)
    answer(talk, 1, "Hello you.")
    talk.finished(1, 2)
    talk.speech_started(1, 2.5)
    talk.partial(1, "What is the time?", 0.7, 3.0)
    assert talk.voice_persists() == []
    assert talk.partial(1, "What is the time?", 0.9, 3.1) == []
    assert talk.paused(1, "What is the time?", 0.9, 3.2) == []
    assert of(talk.final(1, "What is the time?", 3.5), ConfirmTurn) == [ConfirmTurn(2, 0.5)]
    assert talk.voice_persists() == []


def test_words_that_have_become_likelier_to_be_all_are_shown_and_read_once(
    talk: Conversation,
) -> None:
    assert len(of(talk.partial(1, "What is the time?", 0.2, 1.0), ReadAhead)) == 1
    assert talk.partial(1, "What is the time?", 0.3, 1.1) == []
    opened = talk.partial(1, "What is the time?", 0.6, 1.2)
    assert of(opened, BeginAnswer) and not of(opened, TranscriptEvent)


def test_who_goes_on_has_never_been_answered(talk: Conversation) -> None:
    talk.partial(1, "Tell me", 0.9, 0.0)
    talk.token(1, "What?", last=False, now=0.1)
    actions = talk.partial(1, "Tell me about Peru", 0.1, 0.4)
    assert of(actions, CloseTurn) == [CloseTurn(1, "discarded")]
    assert len(of(actions, AnnounceTurn)) == len(of(actions, ReadAhead)) == 1
    actions = talk.partial(1, "Tell me about Peru now", 0.9, 0.8)
    assert of(actions, AnnounceTurn)[-1].foreseen
    assert [m[1] for m in prompt(talk.final(1, "Tell me about Peru and Chile.", 1.2))] == [
        "Tell me about Peru and Chile."
    ]
    talk.finished(talk.epoch, 2)
    assert [turn.question for turn in talk.turns._kept.values()] == [
        "Tell me about Peru and Chile."
    ]


def test_the_pauses_of_an_utterance_keep_bets_of_their_own() -> None:
    talk = Conversation(speculation=SpeculationLimits(per_utterance=3, before_pause=True))
    assert of(talk.partial(1, "One", 0.9, 0.0), BeginAnswer)
    assert of(talk.partial(1, "One two", 0.9, 0.0), BeginAnswer) == []
    for words in ("One two", "One two three"):
        assert of(talk.paused(1, words, 0.9, 0.0), BeginAnswer)
        talk.partial(1, f"{words} and")


def test_nothing_is_prepared_before_the_pause_where_that_is_not_wanted() -> None:
    talk = Conversation(speculation=SpeculationLimits(before_pause=False))
    assert of(talk.partial(1, "What is the time?", 0.99, 0.0), BeginAnswer) == []


def test_a_machine_whose_pauses_hide_all_work_makes_no_early_bets() -> None:
    quick, slow = Foreseeing(), Foreseeing()
    for _ in range(20):
        quick.prepared(0.1)
        slow.prepared(0.4)
    assert quick.gain_s == 0 and not quick.worth("What is it?", 0.95)
    assert slow.worth("What is it?", 0.5) and not slow.worth("What is it?", 0.2)
    for _ in range(20):
        slow.prepared(3.0)  # others have the machine
    assert not slow.worth("What is it?", 0.5)


def test_a_visitor_who_goes_on_behind_whole_sentences_is_learnt() -> None:
    bets = Foreseeing()
    assert bets.worth("I have a dog.", 0.6)
    for _ in range(12):
        bets.worth("I have a dog.", 0.6)
        bets.ended("I have a dog. What does it eat?", 1.0)
    assert not bets.worth("I have a cat.", 0.6)
    for _ in range(12):
        bets.worth("Who is it?", 0.6)
        bets.ended("Who is it?", 1.0)
    assert bets.worth("I have a cat.", 0.6)
