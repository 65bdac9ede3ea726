"""What the face is told of the talk. Pure: time is an argument."""

from __future__ import annotations

from gateway.playout.attention import LATE_S, Attending, Attention, AttentionOrder
from tests.gateway.test_idle import Face, looping
from visavis.wire.media import TranscriptEvent

LISTEN = AttentionOrder(Attention.LISTENING)
NOD = AttentionOrder(Attention.LISTENING, cue=True)
THINK = AttentionOrder(Attention.THINKING)
NOBODY = AttentionOrder(Attention.NOBODY)


def spoken_to(now: float = 10.0) -> Attending:
    attending = Attending()
    attending.heard(TranscriptEvent.SPEECH_STARTED, "", now)
    assert attending.review("listening", now, watched=True) == LISTEN
    return attending


def test_it_listens_thinks_and_is_told_each_once() -> None:
    attending = spoken_to()
    assert attending.review("listening", 10.1, watched=True) is None
    assert attending.review("thinking", 12.0, watched=True) == THINK
    assert attending.review("thinking", 12.1, watched=True) is None
    assert attending.review("speaking", 13.0, watched=True) == NOBODY
    assert attending.review("idle", 15.0, watched=True) is None


def test_a_quick_answer_to_typed_words_needs_no_look() -> None:
    attending = Attending()
    assert attending.review("thinking", 5.0, watched=True) is None
    assert attending.review("thinking", 5.0 + LATE_S / 2, watched=True) is None
    assert attending.review("speaking", 5.0 + LATE_S / 2, watched=True) is None
    assert attending.review("thinking", 9.0, watched=True) is None
    assert attending.review("thinking", 9.01 + LATE_S, watched=True) == THINK


def test_pauses_and_phrases_are_cues() -> None:
    attending = spoken_to()
    attending.heard(TranscriptEvent.PARTIAL, "well I think", 11.0)
    assert attending.review("listening", 11.0, watched=True) is None
    attending.heard(TranscriptEvent.PAUSED, "well I think", 11.6)
    assert attending.review("listening", 11.6, watched=True) == NOD
    assert attending.review("listening", 11.7, watched=True) is None
    attending.heard(TranscriptEvent.PARTIAL, "well I think that it was the other", 12.0)
    assert attending.review("listening", 12.0, watched=True) is None, "too soon"
    text = "well I think that it was the other one that I have seen"
    attending.heard(TranscriptEvent.PARTIAL, text, 13.5)
    assert attending.review("listening", 13.5, watched=True) == NOD


def test_who_is_not_seen_need_not_listen() -> None:
    attending = spoken_to()
    assert attending.review("listening", 10.1, watched=False) == NOBODY
    assert attending.review("listening", 10.2, watched=True) == LISTEN


def test_a_visitor_of_whom_nothing_comes_is_not_listened_to_for_ever() -> None:
    attending = spoken_to(now=10.0)
    assert attending.review("listening", 24.0, watched=True) is None
    assert attending.review("listening", 26.0, watched=True) == NOBODY


def test_while_it_attends_the_loop_gives_way_and_takes_over_again_after() -> None:
    face: Face = looping()
    face.orders = []
    shown = face.run(5)[-1].picture.motion_frame
    idle = face.playout.idle
    idle.keep_live(True, face.playout.now_samples)
    assert all(p.looped for p in face.run(2)), "until the face's own pictures come"
    assert [order.live for order in face.orders] == [True]
    face.live, face.keyframe, face.frame = True, True, shown + 3
    assert not any(p.looped for p in face.run(60)), "at rest or not"
    idle.keep_live(False, face.playout.now_samples)
    seen = face.run(60)
    assert any(p.looped for p in seen)
    assert [order.live for order in face.orders][:2] == [True, False]
