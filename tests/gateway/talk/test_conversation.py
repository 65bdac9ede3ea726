"""The turn state machine. Pure: what happened goes in, actions come out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gateway.api.events import (
    AnswerEvent,
    ErrorEvent,
    StateEvent,
    TranscriptEvent,
    TurnEvent,
    WordsEvent,
)
from gateway.playout.pacing import RATE_HZ
from gateway.talk.actions import (
    Action,
    AnnounceTurn,
    BeginAnswer,
    CloseTurn,
    ConfirmTurn,
    Emit,
    ReadAhead,
    ResumeAnswer,
    ResumeFace,
    ResumeVoice,
)
from gateway.talk.conversation import Conversation, TurnTaking
from gateway.talk.history import SpokenMark


@pytest.fixture
def talk() -> Conversation:
    return Conversation("Be brief.")


def of(actions: list[Action], kind: type) -> list[Any]:
    """Actions of a kind, or emitted events of a kind."""
    found = [a for a in actions if isinstance(a, kind)]
    return found or [a.event for a in actions if isinstance(a, Emit) and isinstance(a.event, kind)]


def prompt(actions: list[Action]) -> list[tuple[str, str]]:
    (begin,) = of(actions, BeginAnswer)
    return [(m.role, m.content) for m in begin.messages]


def answer(talk: Conversation, turn: int, text: str, seconds: float = 2.0) -> None:
    """A whole answer has arrived and starts."""
    talk.token(turn, text, last=False, now=0)
    talk.token(turn, "", last=True, now=0)
    talk.voice(turn, seconds, last=True, now=0)
    talk.started(turn)


# ------------------------------------------------------------ typed text


def test_what_is_being_typed_is_read_ahead_unless_an_answer_is_under_way(
    talk: Conversation,
) -> None:
    (read,) = of(talk.typing("What is the cap", 0), ReadAhead)
    assert read.messages[-1].content == "What is the cap"
    assert talk.typing("What is the cap", 0) == [], "it has been read"
    talk.submit_text("Hi.", 0)
    assert talk.typing("And where", 0) == []
    answer(talk, 1, "Hello you.")
    (read,) = of(talk.typing("And where is", 0), ReadAhead)
    said = [message.content for message in read.messages]
    assert said == ["Be brief.", "Hi.", "Hello you.", "And where is"]
    assert of(talk.finished(1, 0), ReadAhead) == [read]
    talk.submit_text("And where is it?", 0)
    answer(talk, 2, "There.")
    (read,) = of(talk.finished(2, 0), ReadAhead)
    assert not read.messages[-1].content.startswith("And where"), "it has been sent"


def test_an_answer_is_read_as_it_will_have_been_heard_while_it_is_spoken(
    talk: Conversation,
) -> None:
    assert talk.stage_back("llm", 0) == [], "nothing was said yet"
    talk.submit_text("Hi.", 0)
    assert not of(talk.token(1, "[calm] Hello", last=False, now=0), ReadAhead)
    (read,) = of(talk.token(1, " you.", last=True, now=0), ReadAhead)
    assert [message.content for message in read.messages[:-1]] == ["Be brief.", "Hi.", "Hello you."]
    talk.voice(1, 1.0, last=True, now=0)
    talk.started(1)
    assert of(talk.finished(1, 0), ReadAhead) == [read]
    assert talk.stage_back("llm", 0) == [read], "another one has read nothing of it"


def test_a_sentence_that_is_typed_is_answered_ahead_and_heard_once_it_is_sent(
    talk: Conversation,
) -> None:
    actions = talk.typing("What is Peru?", 0)
    assert of(actions, AnnounceTurn) == [
        AnnounceTurn(1, "text", opens=True, held=True, foreseen=True)
    ]
    assert prompt(actions)[1:] == [("user", "What is Peru?")]
    assert not of(actions, TurnEvent) and talk.silent, "nobody is told"
    talk.token(1, "A country.", last=True, now=0.2)
    sent = talk.submit_text("What is Peru?", 1)
    assert of(sent, ConfirmTurn) and not of(sent, BeginAnswer)
    assert [event.text for event in of(sent, AnswerEvent)] == ["A country."]
    assert [m.content for m in talk.said] == ["What is Peru?"]


@pytest.mark.parametrize("then", ["another", "nothing", "spoken", "in a style", "said"])
def test_a_prepared_answer_to_what_was_typed_leaves_no_trace(talk: Conversation, then: str) -> None:
    talk.typing("Hi there.", 0)
    match then:
        case "another":
            actions = talk.submit_text("Hi there. What is Peru?", 1)
            assert prompt(actions)[1:] == [("user", "Hi there. What is Peru?")]
        case "nothing":
            assert talk.check(9) == []
            actions = talk.check(11)
            assert talk.turn is None
        case "spoken":
            actions = talk.speech_started(1, 1)
        case "in a style":
            actions = talk.submit_text("Hi there.", 1, as_prepared=False)
            assert of(actions, BeginAnswer)
        case "said":
            actions = talk.speak_unasked("say", 1)
    assert [close.outcome for close in of(actions, CloseTurn)] == ["discarded"]
    assert not any(event.event == "interrupted" for event in of(actions, TurnEvent))


def test_answers_to_what_is_typed_are_prepared_a_few_times_alone(talk: Conversation) -> None:
    text, opened = "Hi", 0
    for _ in range(9):
        text += " there."
        opened += len(of(talk.typing(text, 0), BeginAnswer))
    assert opened == 3


def test_a_turn_from_question_to_history(talk: Conversation) -> None:
    actions = talk.submit_text("Hi.", 0)
    assert of(actions, AnnounceTurn) == [AnnounceTurn(1, "text", opens=True)]
    assert prompt(actions) == [("system", "Be brief."), ("user", "Hi.")]
    assert of(actions, TranscriptEvent) == [
        TranscriptEvent(utterance=0, text="Hi.", final=True, turn=1)
    ]
    assert of(actions, StateEvent) == [StateEvent(state="thinking")]
    (piece,) = of(talk.token(1, "Hello", last=False, now=0), AnswerEvent)
    assert piece == AnswerEvent(turn=1, text="Hello")
    talk.token(1, " you.", last=True, now=0)
    talk.voice(1, 1.0, last=True, now=0)
    assert of(talk.started(1), StateEvent) == [StateEvent(state="speaking")]
    actions = talk.finished(1, 0)
    assert of(actions, CloseTurn) == [CloseTurn(1, "finished")]
    assert of(actions, StateEvent) == [StateEvent(state="idle")]
    assert prompt(talk.submit_text("And?", 0))[1:] == [
        ("user", "Hi."),
        ("assistant", "Hello you."),
        ("user", "And?"),
    ]


def test_who_was_asked_last_is_known_until_something_else_is_said(talk: Conversation) -> None:
    assert not talk.asked, "nobody has said anything"
    talk.submit_text("Hi.", 0)
    answer(talk, 1, "What is your name?")
    assert talk.asked, "he may answer before the last word"
    talk.finished(1, 0)
    assert talk.asked
    talk.paused(1, "My name is Ada.", 1.0, 0)
    talk.token(2, "Nice to meet you.", last=True, now=0)
    assert talk.asked, "an answer that is prepared has not been said"
    talk.final(1, "My name is Ada.", 0)
    talk.voice(2, 1.0, last=True, now=0)
    talk.started(2)
    assert not talk.asked


def test_text_interrupts_and_only_what_was_heard_counts(talk: Conversation) -> None:
    talk.submit_text("Count.", 0)
    answer(talk, 1, "one two three four", seconds=4.0)
    talk.played(1, 2.0, 1)
    actions = talk.submit_text("Stop, what is five?", 1)
    (event,) = [e for e in of(actions, TurnEvent) if e.event == "interrupted"]
    assert (event.turn, event.reason, event.heard) == (1, "text", "one two")
    assert prompt(actions)[1:] == [
        ("user", "Count."),
        ("assistant", "one two"),
        ("user", "Stop, what is five?"),
    ]
    assert talk.epoch == 2


def test_many_texts_without_an_answer_do_not_pile_up(talk: Conversation) -> None:
    for number in range(50):
        actions = talk.submit_text(f"What is {number}?", 0)
    assert prompt(actions)[1:] == [("user", "What is 48? What is 49?")]


# ------------------------------------------------------------ interrupt


def test_interrupt_silences_and_a_question_taken_back_is_forgotten(talk: Conversation) -> None:
    assert talk.interrupt() == [] and talk.epoch == 0, "nothing happens"
    talk.submit_text("Forget this.", 0)
    talk.interrupt()
    assert prompt(talk.submit_text("Hi.", 0))[1:] == [("user", "Hi.")]
    answer(talk, 3, "Hello you there.")
    actions = talk.interrupt()
    assert of(actions, AnnounceTurn) == [AnnounceTurn(4, "interrupt")]
    assert of(actions, CloseTurn) == [CloseTurn(3, "interrupted")]
    assert talk.state == "idle"


def test_what_belongs_to_an_old_turn_is_ignored(talk: Conversation) -> None:
    talk.submit_text("Hi.", 0)
    talk.interrupt()
    assert talk.token(1, "late", last=True, now=0) == []
    assert talk.voice(1, 1.0, last=True, now=0) == []
    assert talk.started(1) == [] and talk.finished(1, 0) == []
    assert talk.stage_failed("llm", 1, "internal", "late") == []


# ------------------------------------------------------------ speech


def test_speech_from_first_sound_to_turn(talk: Conversation) -> None:
    assert of(talk.speech_started(1, 0), StateEvent) == [StateEvent(state="listening")]
    assert of(talk.partial(1, "what is"), TranscriptEvent) == [
        TranscriptEvent(utterance=1, text="what is", final=False)
    ]
    actions = talk.final(1, "What is it?", 5)
    assert of(actions, AnnounceTurn) == [AnnounceTurn(1, "speech", opens=True)]
    assert of(actions, TurnEvent) == [TurnEvent(turn=1, event="opened")]
    assert talk.state == "thinking"


@pytest.mark.parametrize(
    ("partial", "read"),
    [("How far is the mo.", "How far is the mo"), ("月亮有多远，", "月亮有多远")],
)
def test_what_is_said_so_far_is_read_ahead(talk: Conversation, partial: str, read: str) -> None:
    talk.speech_started(1, 0)
    assert of(talk.partial(1, "What?"), ReadAhead) == [], "a single word may be any other"
    (ahead,) = of(talk.partial(1, partial), ReadAhead)
    assert [(m.role, m.content) for m in ahead.messages] == [
        ("system", "Be brief."),
        ("user", read),
    ]
    talk.submit_text("Hello", 0)
    assert of(talk.partial(1, "How far is the mo"), ReadAhead) == [], "what is typed comes first"


def test_a_pause_prepares_an_answer_that_nobody_sees_until_the_words_are_final(
    talk: Conversation,
) -> None:
    """Another full stop makes no other question of them."""
    talk.speech_started(1, 0)
    actions = talk.paused(1, "what is it", 0.8, 1)
    assert of(actions, AnnounceTurn) == [AnnounceTurn(1, "speech", opens=True, held=True)]
    assert of(actions, Emit) == []
    assert of(talk.token(1, "It is ", last=False, now=1), Emit) == []
    assert talk.finished(1, 0) == [] and talk.state == "listening"
    actions = talk.final(1, "What is it?", 2)
    assert of(actions, ConfirmTurn) == [ConfirmTurn(1)]
    assert of(actions, TranscriptEvent)[0].text == "What is it?"
    assert of(actions, BeginAnswer) == []
    assert of(actions, AnswerEvent) == [AnswerEvent(turn=1, text="It is ")]
    assert of(talk.token(1, "late.", last=True, now=2), AnswerEvent) == [
        AnswerEvent(turn=1, text="late.", final=True)
    ]


def test_a_visitor_who_goes_on_voids_what_was_prepared(talk: Conversation) -> None:
    talk.speech_started(1, 0)
    talk.paused(1, "What is", 0.8, 1)
    actions = talk.partial(1, "What is the time")
    assert of(actions, AnnounceTurn) == [AnnounceTurn(2, "speech")]
    assert of(actions, CloseTurn) == [CloseTurn(1, "discarded")]
    assert of(actions, TurnEvent) == []
    assert prompt(talk.final(1, "What is the time?", 2))[1:] == [("user", "What is the time?")]


def test_a_new_pause_replaces_what_was_prepared(talk: Conversation) -> None:
    talk.paused(1, "What", 0.8, 1)
    assert talk.paused(1, "What", 0.9, 2) == [], "it is the same one"
    actions = talk.paused(1, "What now?", 0.9, 2)
    assert of(actions, AnnounceTurn) == [AnnounceTurn(2, "speech", opens=True, held=True)]


def test_an_unlikely_end_prepares_nothing(talk: Conversation) -> None:
    assert talk.paused(1, "I would", 0.1, 1) == []
    talk.paused(1, "I would", 0.5, 1)
    actions = talk.paused(1, "I would like", 0.1, 1)
    assert of(actions, AnnounceTurn) == [AnnounceTurn(2, "speech")]


def test_an_answer_that_a_noise_has_ended_is_given_again(talk: Conversation) -> None:
    talk.speech_started(1, 0)
    asked = talk.final(1, "Is there a river under London?", 1)
    answer(talk, 1, "Yes, there are several.")
    talk.played(1, 1.5, 1)
    talk.speech_started(2, 2)
    ended = talk.paused(2, "hear it under there", 0.9, 3)  # what a recogniser made of noise
    assert of(ended, CloseTurn) == [CloseTurn(1, "interrupted")]
    again = talk.discarded(2, 4)
    assert prompt(again) == prompt(asked)
    told = [(e.utterance, e.text, e.turn) for e in of(again, TranscriptEvent)]
    number = talk.epoch
    assert told == [(2, "", None), (1, "Is there a river under London?", number)]
    answer(talk, number, "Yes, there are several.")
    talk.finished(number, 9)
    assert [said.role for said in talk.said] == ["user", "assistant"]
    talk.speech_started(3, 20)
    assert of(talk.discarded(3, 21), BeginAnswer) == []


def test_an_answer_that_its_client_has_is_not_given_again(talk: Conversation) -> None:
    talk.taking = TurnTaking(answers_again=False)
    talk.speech_started(1, 0)
    talk.final(1, "Is there a river under London?", 1)
    answer(talk, 1, "Yes, there are several.")
    talk.played(1, 1.5, 1)
    talk.speech_started(2, 2)
    ended = talk.paused(2, "hear it under there", 0.9, 3)
    assert of(ended, CloseTurn) == [CloseTurn(1, "interrupted")]
    assert of(talk.discarded(2, 4), BeginAnswer) == []
    assert [said.role for said in talk.said] == ["user", "assistant"]


def test_an_answer_that_was_stopped_over_a_noise_is_not_given_again(talk: Conversation) -> None:
    talk.speech_started(1, 0)
    talk.final(1, "Is there a river under London?", 1)
    answer(talk, 1, "Yes, there are several.")
    talk.played(1, 1.5, 2)
    talk.speech_started(2, 2)  # the click of the mouse
    talk.interrupt()
    assert of(talk.discarded(2, 2.5), BeginAnswer) == []
    assert [said.role for said in talk.said] == ["user", "assistant"]
    assert talk.state == "idle"


def test_a_pause_does_not_disturb_a_typed_question(talk: Conversation) -> None:
    talk.speech_started(1, 0)
    talk.submit_text("Typed.", 1)
    assert talk.paused(1, "spoken", 0.9, 1) == []


# ------------------------------------------------------------ faults


def test_a_language_model_that_comes_back_goes_on_behind_what_is_written(
    talk: Conversation,
) -> None:
    (asked,) = of(talk.submit_text("Hi.", 0), BeginAnswer)
    assert talk.stage_lost("llm", "gone", 0) == []
    assert talk.stage_back("llm", 1) == [replace(asked, run=1), ResumeVoice(1, 1, 0, 0.0)]
    assert talk.turn is not None
    talk.turn.source = "llm"
    talk.token(1, "[happy] Look: ", last=False, now=1)
    talk.shown(1, 1, "py", "x = 1", 1)
    talk.stage_lost("llm", "gone", 2)
    so_far = "[happy] Look: \n```py\nx = 1"
    on, voice = talk.stage_back("llm", 3)
    assert on == ResumeAnswer(1, asked.messages, 2, so_far)
    assert voice == ResumeVoice(1, 2, 0, 0.0), "it may have words that did not come here"
    talk.token(1, "So.", last=False, now=3)
    talk.stage_lost("llm", "gone", 3)
    so_far += "\n```\nSo."
    on, _ = talk.stage_back("llm", 3)
    assert on == ResumeAnswer(1, asked.messages, 3, so_far)


def test_another_voice_goes_on_at_the_last_pause_that_is_not_heard_so_soon(
    talk: Conversation,
) -> None:
    talk.submit_text("Hi.", 0)
    talk.token(1, "One. Two. Three four.", last=True, now=0)
    marks = [
        SpokenMark(4, 1.0), SpokenMark(4, 1.0, pause=True),
        SpokenMark(9, 2.0), SpokenMark(9, 2.0, pause=True), SpokenMark(15, 2.8),
    ]  # fmt: skip
    told = of(talk.voice(1, 3.0, marks, last=False, now=0), WordsEvent)
    assert [word.text for event in told for word in event.words] == ["One.", "Two.", "Three"]
    assert talk.turn is not None
    made = np.arange(100, dtype=np.int16)
    talk.turn.new_to_followers(np.zeros(3 * RATE_HZ - 100, np.int16), [])
    assert talk.turn.new_to_followers(made, marks)[1] == marks
    assert talk.stage_lost("tts", "gone", 0) == []
    assert talk.stage_back("tts", 1) == [ResumeVoice(1, 1, 9, 2.0)]
    assert not len(talk.turn.new_to_followers(np.zeros(RATE_HZ - 50, np.int16), marks[-1:])[0])
    pcm, fresh = talk.turn.new_to_followers(made, [*marks[-1:], SpokenMark(21, 3.4)])
    assert (pcm.tolist(), fresh) == (list(range(50, 100)), [SpokenMark(21, 3.4)])
    again = talk.voice(1, 1.5, [SpokenMark(15, 2.9), SpokenMark(21, 3.4)], last=False, now=1)
    assert [word.text for event in of(again, WordsEvent) for word in event.words] == ["four."]
    assert talk.turn.voice_s == 3.5
    talk.played(1, 3.0, 4)  # all pauses are behind it
    talk.stage_lost("tts", "gone", 4)
    assert talk.stage_back("tts", 4) == [ResumeVoice(1, 2, 21, 3.5)]


def test_a_turn_fails_whose_stage_does_not_come_back(talk: Conversation) -> None:
    talk.submit_text("Hi.", 100)
    talk.token(1, "Hello.", last=True, now=110)
    talk.stage_lost("tts", "gone", 111)
    assert talk.check(130) == []
    (error,) = of(talk.check(131), ErrorEvent)
    message = "tts: gone; no other one has come within 20 s"
    assert (error.code, error.message) == ("stage_lost", message)


def test_a_lost_face_ends_nothing_and_the_next_one_is_told_of_the_turn(talk: Conversation) -> None:
    talk.submit_text("Hi.", 0)
    answer(talk, 1, "Hello.")
    assert talk.stage_lost("face", "gone", 0) == []
    assert talk.stage_back("face", 1) == [ResumeFace(1)]
    assert of(talk.finished(1, 2), CloseTurn) == [CloseTurn(1, "finished")]
    assert talk.stage_back("face", 3) == []


@pytest.mark.parametrize("stage", ["llm", "tts", "asr"])
def test_a_lost_stage_whose_work_is_done_changes_nothing(talk: Conversation, stage: str) -> None:
    talk.submit_text("Hi.", 0)
    answer(talk, 1, "Hello.")
    assert talk.stage_lost(stage, "gone", 0) == []
    assert talk.state == "speaking"


@pytest.mark.parametrize("lost", ["stage", "bus"])
def test_what_somebody_else_writes_needs_no_language_model(talk: Conversation, lost: str) -> None:
    talk.speak_unasked("say", 0)
    assert talk.turn is not None
    talk.turn.source = "say"
    talk.token(1, "It is said as", last=False, now=0)
    telling = talk.stage_lost("llm", "gone", 0) if lost == "stage" else []
    assert of([*telling, *talk.stage_lost_bus("llm")], CloseTurn) == []
    answer(talk, 1, " it stands.")
    assert of(talk.finished(1, 2), CloseTurn) == [CloseTurn(1, "finished")]


@pytest.mark.parametrize("part", ["asr", "bus"])
def test_whose_last_words_are_lost_keeps_nothing_waiting(talk: Conversation, part: str) -> None:
    """An answer that was prepared for them is complete, and would wait for them for ever."""
    talk.speech_started(1, 0)
    talk.paused(1, "What is it?", 0.9, 0)
    talk.token(talk.epoch, "It is a clock.", last=True, now=0)
    talk.voice(talk.epoch, 1.0, last=True, now=0)
    actions = talk.bus_lost("gone", 1) if part == "bus" else talk.stage_lost("asr", "gone", 1)
    ended = TranscriptEvent(utterance=1, text="", final=True)
    assert of(actions, TranscriptEvent) == [ended], "no other end of it is told"
    assert (talk.state, talk.turn) == ("idle", None)
    talk.speech_started(1001, 2)
    talk.final(1001, "What is it?", 3)
    assert talk.state == "thinking"


def test_a_stage_that_lost_its_bus_is_told_again_of_a_turn_that_needs_it(
    talk: Conversation,
) -> None:
    talk.submit_text("Hi.", 0)
    talk.token(1, "Hello.", last=True, now=0)
    assert talk.stage_lost_bus("llm") == []
    assert talk.stage_lost_bus("tts") == [ResumeVoice(1, 1, 0, 0.0)]
    assert talk.stage_lost_bus("face") == [ResumeFace(1)]
    talk.interrupt()
    # It may have missed that the turn is over.
    assert of(talk.stage_lost_bus("tts"), AnnounceTurn) == [AnnounceTurn(3, "failed")]


def test_all_stages_go_on_from_what_is_here_once_the_bus_is_back(talk: Conversation) -> None:
    (asked,) = of(talk.submit_text("Hi.", 0), BeginAnswer)
    assert talk.turn is not None
    talk.turn.source = "llm"
    talk.token(1, "Hello", last=False, now=0)
    told = [ResumeAnswer(1, asked.messages, 1, "Hello"), ResumeVoice(1, 1, 0, 0.0), ResumeFace(1)]
    assert talk.bus_lost("gone", 1) == told
    talk.token(1, " you.", last=True, now=0)
    assert talk.bus_lost("gone", 1) == [ResumeVoice(1, 2, 0, 0.0), ResumeFace(1)]
    talk.voice(1, 2.0, last=True, now=0)
    assert talk.bus_lost("gone", 1) == [ResumeFace(1)]


def test_a_voice_that_has_said_more_than_is_written_here_is_cut_back_to_that(
    talk: Conversation,
) -> None:
    talk.submit_text("Hi.", 0)
    talk.token(1, "One. Two.", last=False, now=0)
    ends = [SpokenMark(4, 1.0, pause=True), SpokenMark(9, 2.0, pause=True)]
    talk.voice(1, 4.0, [*ends, SpokenMark(16, 3.5, pause=True)], last=True, now=0)
    assert of(talk.bus_lost("gone", 1), ResumeVoice) == [ResumeVoice(1, 1, 9, 2.0)]
    assert talk.turn is not None
    assert (talk.turn.voice_s, talk.turn.voice_complete) == (2.0, False)


def test_a_text_that_nobody_can_write_again_ends_with_the_bus(talk: Conversation) -> None:
    talk.speak_unasked("say", 0)
    assert talk.turn is not None
    talk.turn.source = "say"
    talk.token(1, "It is said as", last=False, now=0)
    assert of(talk.bus_lost("gone", 1), CloseTurn) == [CloseTurn(1, "failed")]


@pytest.mark.parametrize(("tokens", "stage"), [(False, "llm"), (True, "tts")])
def test_a_turn_that_stands_still_fails(talk: Conversation, tokens: bool, stage: str) -> None:
    talk.submit_text("Hi.", 100)
    if tokens:
        talk.token(1, "Hello.", last=True, now=110)
    assert talk.check(120) == []
    actions = talk.check(131)
    assert of(actions, ErrorEvent)[0].code == "timeout"
    assert of(actions, ErrorEvent)[0].message.startswith(stage)


def test_a_long_answer_does_not_time_out(talk: Conversation) -> None:
    talk.submit_text("Hi.", 0)
    answer(talk, 1, "Long.", seconds=60)
    talk.played(1, 25.0, 25)
    assert talk.check(40) == []
    assert talk.check(1000) == []


def test_a_held_turn_waits_for_the_visitor(talk: Conversation) -> None:
    talk.paused(1, "Well", 0.9, 0)
    assert talk.check(1000) == []
    talk.final(1, "Well", 1000)
    assert talk.check(1010) == []
