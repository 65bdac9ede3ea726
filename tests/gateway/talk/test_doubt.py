"""Speech over an answer: what stops it, what does not, and how it goes on."""

from __future__ import annotations

import pytest

from gateway.api.events import StateEvent, TranscriptEvent, TurnEvent
from gateway.stages.incoming import heard
from gateway.talk.actions import (
    AnnounceTurn,
    BeginAnswer,
    CloseTurn,
    ConfirmTurn,
    DuckTurn,
    PauseTurn,
    ResumeTurn,
)
from gateway.talk.conversation import Conversation, TurnTaking
from gateway.talk.history import SpokenMark
from gateway.talk.speech_over import WORDLESS_S
from gateway.talk.turn import LONGEST_RETURN_S
from tests.gateway.talk.test_conversation import of, prompt
from visavis.wire.media import Place, TranscriptChunk
from visavis.wire.media import TranscriptEvent as Event

ANSWER = "one two three four"
MARKS = [SpokenMark(3, 0.5), SpokenMark(7, 1.0), SpokenMark(13, 1.5), SpokenMark(18, 2.0)]


@pytest.fixture
def talk() -> Conversation:
    """An answer is being heard, in the middle of its third word."""
    talk = Conversation()
    talk.submit_text("Count.", 0)
    talk.token(1, ANSWER, last=True, now=0)
    talk.voice(1, 2.0, last=True, now=0, marks=MARKS)
    talk.started(1)
    talk.played(1, 1.25, 1)
    return talk


@pytest.fixture
def stopped(talk: Conversation) -> Conversation:
    """A voice over it has lasted."""
    talk.speech_started(1, 1)
    talk.voice_persists()
    return talk


def test_a_sound_makes_the_answer_quieter_until_it_is_over(talk: Conversation) -> None:
    assert talk.speech_started(1, 1) == [DuckTurn(1)]
    assert talk.state == "speaking"
    actions = talk.discarded(1, 1.3)
    assert of(actions, ResumeTurn) == [ResumeTurn(1, 1.0)]
    assert of(actions, AnnounceTurn) == []
    assert talk.doubt is None


def test_a_voice_that_lasts_stops_it_and_keeps_it(talk: Conversation) -> None:
    talk.speech_started(1, 1)
    actions = talk.voice_persists()
    assert of(actions, PauseTurn) == [PauseTurn(1)]
    assert of(actions, StateEvent) == [StateEvent(state="listening")]
    assert talk.voice_persists() == []
    assert talk.turn is not None


def test_what_nobody_asked_for_goes_on_where_nobody_knows_who_has_stopped_it(
    talk: Conversation,
) -> None:
    """The machine has slept meanwhile."""
    talk.finished(1, 2)
    talk.speak_unasked("say", 5)
    talk.speech_started(1, 6)
    assert talk.state == "listening"
    assert of(talk.begin_anew(7), ResumeTurn) == [ResumeTurn(2, 0.0)]
    assert talk.state == "thinking"


def test_a_voice_of_before_does_not_stop_what_is_being_prepared(talk: Conversation) -> None:
    talk.finished(1, 2)
    talk.speech_started(1, 2.1)
    talk.begin_anew(2.5)
    (begin,) = of(talk.typing("Is it open?", 3), BeginAnswer)
    assert talk.voice_persists() == []
    (opened,) = of(talk.submit_text("Is it open?", 4), TurnEvent)
    assert (opened.turn, opened.event) == (begin.turn, "opened")


@pytest.mark.parametrize("word", ["Uh-huh.", "Right, OK.", "嗯"])
def test_a_listener_s_word_lets_it_go_on_from_the_word_that_was_cut(
    stopped: Conversation, word: str
) -> None:
    actions = stopped.paused(1, word, 0.9, 1.5)
    assert of(actions, ResumeTurn) == [ResumeTurn(1, 1.0)]
    assert of(actions, StateEvent) == [StateEvent(state="speaking")]
    final = stopped.final(1, word, 2)
    assert of(final, BeginAnswer) == [] and of(final, CloseTurn) == []
    assert of(final, TranscriptEvent) == [TranscriptEvent(utterance=1, text="", final=True)]
    stopped.finished(1, 0)
    assert prompt(stopped.submit_text("And?", 3)) == [
        ("user", "Count."), ("assistant", ANSWER), ("user", "And?"),
    ]  # fmt: skip


def test_few_words_end_it_once_they_are_all(stopped: Conversation) -> None:
    assert of(stopped.partial(1, "Paris"), AnnounceTurn) == []
    (announced, *_) = of(stopped.paused(1, "Paris?", 0.9, 1.5), AnnounceTurn)
    assert announced.reason == "speech"


@pytest.mark.parametrize("word", ["Stop", "等一下", "No", "What about five"])
def test_words_end_it_where_it_was_stopped(stopped: Conversation, word: str) -> None:
    actions = stopped.partial(1, word)
    assert of(actions, AnnounceTurn) == [AnnounceTurn(2, "speech")]
    (event,) = of(actions, TurnEvent)
    assert (event.event, event.heard) == ("interrupted", "one two")
    assert prompt(stopped.final(1, word, 2)) == [
        ("user", "Count."), ("assistant", "one two"), ("user", word),
    ]  # fmt: skip


def test_a_listener_s_word_may_grow_into_a_question(talk: Conversation) -> None:
    talk.speech_started(1, 1)
    assert of(talk.partial(1, "Yeah"), AnnounceTurn) == []
    talk.paused(1, "Yeah.", 0.4, 1)
    assert talk.voice_persists() == [], "what lasts behind it does not stop the answer"
    assert of(talk.partial(1, "Yeah, but why"), AnnounceTurn) == [AnnounceTurn(2, "speech")]


def test_yes_answers_a_question_of_ours() -> None:
    talk = Conversation()
    talk.submit_text("Hi.", 0)
    talk.token(1, "More? Say yes.", last=True, now=0)
    talk.voice(1, 2.0, last=True, now=0, marks=[SpokenMark(5, 0.5), SpokenMark(14, 2.0)])
    talk.started(1)
    talk.played(1, 0.6, 1)
    talk.speech_started(1, 1)
    assert of(talk.final(1, "Yes.", 2), BeginAnswer)


def test_a_listener_s_word_over_the_very_end_is_no_question(talk: Conversation) -> None:
    talk.speech_started(1, 1)
    talk.finished(1, 0)
    assert of(talk.paused(1, "OK.", 0.9, 1), AnnounceTurn) == []
    assert of(talk.final(1, "OK.", 2), BeginAnswer) == []
    talk.speech_started(2, 3)
    assert of(talk.final(2, "OK.", 4), BeginAnswer)  # said into silence, it is


def test_a_cough_while_thinking_loses_nothing() -> None:
    talk = Conversation()
    talk.submit_text("Hi.", 0)
    assert of(talk.speech_started(1, 1), PauseTurn) == [PauseTurn(1)]
    assert talk.state == "listening"
    assert of(talk.discarded(1, 1.3), ResumeTurn) == [ResumeTurn(1, 0.0)]
    assert talk.state == "thinking"


def test_noise_without_a_word_stops_it_for_a_while_only(stopped: Conversation) -> None:
    assert stopped.check(1 + WORDLESS_S) == []
    assert of(stopped.check(1.1 + WORDLESS_S), ResumeTurn) == [ResumeTurn(1, 1.0)]
    assert stopped.voice_persists() == []
    assert of(stopped.partial(1, "Hello there"), CloseTurn) == [CloseTurn(1, "interrupted")]


def test_a_stop_whose_end_nobody_tells_is_over_some_time(stopped: Conversation) -> None:
    stopped.partial(1, "I")
    assert stopped.check(20.9) == []
    assert of(stopped.check(21.1), ResumeTurn) == [ResumeTurn(1, 1.0)]


def test_somebody_who_coughs_twice_is_waited_for(stopped: Conversation) -> None:
    assert stopped.speech_started(2, 2) == []
    assert of(stopped.discarded(1, 2), ResumeTurn) == []
    assert of(stopped.discarded(2, 3), ResumeTurn) == [ResumeTurn(1, 1.0)]


@pytest.mark.parametrize("part", ["asr", "bus"])
def test_without_ears_the_answer_waits_a_moment_for_others_and_goes_on(
    stopped: Conversation, part: str
) -> None:
    """Or for the same ones, which hear it again."""
    stopped.partial(1, "I")
    lost = stopped.bus_lost("gone", 2) if part == "bus" else stopped.stage_lost("asr", "gone", 2)
    assert of(lost, ResumeTurn) == []
    assert of(stopped.check(1.9 + WORDLESS_S), ResumeTurn) == []
    assert of(stopped.check(2.1 + WORDLESS_S), ResumeTurn) == [ResumeTurn(1, 1.0)]
    assert stopped.state == "speaking"


def test_an_answer_that_has_stopped_goes_on_where_no_voice_is_to_interrupt_it_any_more(
    stopped: Conversation,
) -> None:
    stopped.taking = TurnTaking(interrupts=False)
    assert of(stopped.final(1, "And in Peru?", 2), ResumeTurn) == [ResumeTurn(1, 1.0)]
    assert stopped.state == "speaking"


def test_other_ears_tell_what_has_stopped_the_answer_anew(stopped: Conversation) -> None:
    lost = stopped.stage_lost("asr", "gone", 2)
    assert of(lost, ResumeTurn) == of(lost, StateEvent) == []
    assert stopped.speech_started(1001, 3, 1) == []
    assert of(stopped.partial(1001, "Hello there"), CloseTurn) == [CloseTurn(1, "interrupted")]


def test_without_marks_it_goes_on_where_it_stopped(talk: Conversation) -> None:
    assert talk.turn is not None
    talk.turn.marks.clear()
    talk.speech_started(1, 1)
    assert of(talk.discarded(1, 2), ResumeTurn) == [ResumeTurn(1, 1.25)]


def test_nobody_is_taken_back_for_seconds(talk: Conversation) -> None:
    assert talk.turn is not None
    talk.turn.marks[:] = [SpokenMark(18, 9.0)]
    talk.played(1, LONGEST_RETURN_S + 1, 3)
    talk.speech_started(1, 3)
    assert of(talk.discarded(1, 4), ResumeTurn) == [ResumeTurn(1, LONGEST_RETURN_S + 1)]


def told(
    event: Event, text: str, hum_odds: float | None, probability: float = 0.9
) -> TranscriptChunk:
    return TranscriptChunk(
        Place("", 0, 0, 0),
        event,
        1,
        text,
        "en",
        probability,
        voiced_ms=320,
        hum_odds=hum_odds,
    )


def test_a_hum_goes_by_whatever_words_were_understood(stopped: Conversation) -> None:
    assert of(heard(stopped, told(Event.PARTIAL, "You're her", 2.0), 1), AnnounceTurn) == []
    actions = heard(stopped, told(Event.PAUSED, "You're her.", 2.0), 1.5)
    assert of(actions, ResumeTurn) == [ResumeTurn(1, 1.0)]
    assert of(heard(stopped, told(Event.FINAL, "You're her.", 2.0), 2), BeginAnswer) == []


def test_a_broken_word_over_an_answer_goes_by_at_its_end_and_a_whole_one_does_not(
    stopped: Conversation,
) -> None:
    """At a pause nobody knows yet: "tell me," a question may follow."""
    paused = heard(stopped, told(Event.PAUSED, "If I,", -9.0, 0.1), 1.5)
    assert of(paused, AnnounceTurn) == [] == of(paused, ResumeTurn)
    actions = heard(stopped, told(Event.FINAL, "If I,", -9.0, 0.1), 2)
    assert of(actions, ResumeTurn) and of(actions, BeginAnswer) == []
    stopped.speech_started(1, 3)
    assert of(heard(stopped, told(Event.PAUSED, "Louder.", -9.0, 0.9), 3.5), AnnounceTurn)


def test_a_few_words_without_a_pause_behind_them_are_not_believed_yet(
    stopped: Conversation,
) -> None:
    assert of(heard(stopped, told(Event.PARTIAL, "And then hump", -1.0), 1), AnnounceTurn) == []
    assert of(heard(stopped, told(Event.PARTIAL, "And then hump the", -1.0), 1.2), AnnounceTurn)


BOOK = "Shall I book a table?"


def book(played_s: float) -> Conversation:
    """Our question is heard so far."""
    talk = Conversation()
    talk.submit_text("Hi.", 0)
    talk.token(1, BOOK, last=True, now=0)
    at_s = (0.3, 0.4, 0.7, 0.8, 1.4)
    ends = (5, 7, 12, 14, 21)
    marks = [SpokenMark(end, at) for end, at in zip(ends, at_s, strict=True)]
    talk.voice(1, 1.4, marks, last=True, now=0)
    talk.started(1)
    talk.played(1, played_s, 1)
    return talk


@pytest.mark.parametrize("hum_odds", [None, 2.0])
@pytest.mark.parametrize("over", [True, False])
def test_yes_to_our_question_is_an_answer_however_it_sounds(
    hum_odds: float | None, over: bool
) -> None:
    talk = book(1.38)
    talk.speech_started(1, 1.4)
    if over:
        talk.finished(1, 1.5)
    assert of(heard(talk, told(Event.FINAL, "Yes.", hum_odds), 2), BeginAnswer)


def test_yes_may_be_quicker_than_our_question_s_last_word() -> None:
    talk = book(1.1)
    talk.speech_started(1, 1.1)
    talk.voice_persists()
    assert talk.asked
    assert of(heard(talk, told(Event.PAUSED, "Yes.", 2.0), 2), AnnounceTurn)
    assert talk.asked, "he answers what he heard of it"
    assert of(heard(talk, told(Event.FINAL, "Yes.", 2.0), 2), ConfirmTurn)
    assert not talk.asked


def test_a_hum_over_our_question_is_none() -> None:
    talk = book(1.38)
    talk.speech_started(1, 1.4)
    assert of(heard(talk, told(Event.FINAL, "Mama", 2.0), 2), BeginAnswer) == []


def test_a_word_that_stops_people_stops_it_however_it_sounded(talk: Conversation) -> None:
    talk.speech_started(1, 1)
    assert of(heard(talk, told(Event.PARTIAL, "Stop", 4.0), 1), AnnounceTurn)


def test_said_into_silence_the_recogniser_s_words_stand() -> None:
    talk = Conversation()
    talk.speech_started(1, 1)
    actions = heard(talk, told(Event.FINAL, "You're her.", 2.0), 2)
    assert prompt(actions) == [("user", "You're her.")]
