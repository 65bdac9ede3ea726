"""Realtime's clients where a visitor goes on with a question: one item, and no half answer."""

from __future__ import annotations

import pytest

from gateway.api.events import AnswerEvent, TranscriptEvent, TurnEvent
from gateway.api.hub import Overheard, Voiced
from gateway.talk.actions import Message
from tests.gateway.test_realtime import SECOND, Talk, kinds, last

FIRST, WHOLE = "How far is the moon?", "How far is the moon? And the sun?"


@pytest.fixture
def talk() -> Talk:
    """Turn 1 answers what was taken for all of the question; nothing of it was heard."""
    turn_detection = {"type": "semantic_vad"}
    talk = Talk({"type": "realtime", "audio": {"input": {"turn_detection": turn_detection}}})
    talk.speak(1, FIRST, 1)
    talk.hear(AnswerEvent(turn=1, text="The moon"), Voiced(1, SECOND, (), last=False))
    talk.hear(Overheard("began", 2, 2000), Overheard("over_answer", 2))
    return talk


def test_both_parts_are_one_item_and_the_half_answer_is_none(talk: Talk) -> None:
    events = talk.hear(TurnEvent(turn=1, event="replaced"))
    assert kinds(events)[0] == "input_audio_buffer.speech_started"
    assert last(talk)["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
    assert kinds(events)[-1] == "conversation.item.deleted"
    assert talk.remembered() == (Message("user", FIRST),)
    events = talk.hear(
        TranscriptEvent(utterance=1, text="How far is the moon? And", final=False),
        Overheard("ended", 2, 3000),
        TranscriptEvent(utterance=1, text=WHOLE, final=True, turn=3),
        TurnEvent(turn=3, event="opened"),
    )
    assert kinds(events)[:3] == [
        "conversation.item.deleted",
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
    ]
    assert kinds(events)[-1] == "response.created"
    assert talk.remembered() == (Message("user", WHOLE),)


def test_what_was_no_rest_after_all_is_answered_as_it_was(talk: Talk) -> None:
    talk.hear(TurnEvent(turn=1, event="replaced"))
    events = talk.hear(
        Overheard("ended", 2, 3000),
        TranscriptEvent(utterance=2, text="", final=True),
        TranscriptEvent(utterance=1, text=FIRST, final=True, turn=3),
        TurnEvent(turn=3, event="opened"),
    )
    assert "conversation.item.deleted" not in kinds(events)
    assert kinds(events)[-1] == "response.created"
    assert talk.remembered() == (Message("user", FIRST),)


def test_a_listener_s_word_that_grew_into_the_rest_is_a_part_of_it(talk: Talk) -> None:
    talk.hear(
        TurnEvent(turn=1, event="replaced"), TranscriptEvent(utterance=2, text="", final=True)
    )
    talk.hear(TranscriptEvent(utterance=1, text=WHOLE, final=True, turn=3))
    assert talk.remembered() == (Message("user", WHOLE),)
