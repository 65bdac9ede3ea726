"""What the face is told of the talk. Pure: time is an argument."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gateway.playout.attention import LATE_S, Attending, Attention, AttentionOrder
from gateway.playout.idle import NODS_APART, IdleOrder
from gateway.playout.pictures import ReleasedPicture
from tests.gateway.playout.test_idle import (
    H264,
    PARTS,
    RESTS,
    SECOND,
    Face,
    loop_of,
    looping,
    motion,
)
from visavis.wire.idle_order import Listening
from visavis.wire.media import TranscriptEvent, VideoCodec

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


@pytest.mark.parametrize(
    ("so_far", "phrase"),
    [
        ("Ich möchte für", "Ich möchte für morgen einen Tisch"),
        ("C’est que j’ai", "C’est que j’ai déjà pris le train"),
        ("我想订明天", "我想订明天晚上的一张桌子"),
    ],
)
def test_six_words_are_a_phrase_in_any_script(so_far: str, phrase: str) -> None:
    attending = spoken_to()
    attending.heard(TranscriptEvent.PARTIAL, so_far, 13.0)
    assert attending.review("listening", 13.0, watched=True) is None
    attending.heard(TranscriptEvent.PARTIAL, phrase, 15.0)
    assert attending.review("listening", 15.0, watched=True) == NOD


def test_who_is_not_seen_need_not_listen() -> None:
    attending = spoken_to()
    assert attending.review("listening", 10.1, watched=False) == NOBODY
    assert attending.review("listening", 10.2, watched=True) == LISTEN


def test_a_visitor_of_whom_nothing_comes_is_not_listened_to_for_ever() -> None:
    attending = spoken_to(now=10.0)
    assert attending.review("listening", 24.0, watched=True) is None
    assert attending.review("listening", 26.0, watched=True) == NOBODY


# ------------------------------------------------------------ from memory


def shown(pictures: list[ReleasedPicture]) -> str:
    """What is seen, a letter a picture: live ones are F."""
    return b"".join(one.picture.payload[:1] for one in pictures).decode()


BEGINS, GOES_ON, NODS = (PARTS[part].decode() * SECOND for part in Listening)
REST = RESTS.decode()


def told(face: Face, order: AttentionOrder) -> AttentionOrder:
    """What its face is told of an order."""
    return face.playout.idle.attend(order, face.playout.now_samples)


def attend(face: Face, order: AttentionOrder) -> int | None:
    return told(face, order).shown_from


def spoken_to_from_memory() -> tuple[Face, int]:
    """A face whose loop that listens is here, up to the frame before it begins to."""
    face = looping()
    attend(face, LISTEN)  # nobody has spoken to it yet: the loop is drawn only now
    assert face.playout.missing_loops == [(H264, True)]
    face.offer()
    attend(face, NOBODY)
    face.live, face.keyframe, face.frame = True, True, face.run(1)[-1].picture.motion_frame + 2
    face.run(2 * SECOND)
    face.live = False
    face.run(3)
    face.orders = []
    begins = attend(face, LISTEN)
    assert begins is not None
    at_rest = face.run(begins - (face.playout.motion_frame or 0) - 1)
    assert shown(at_rest) == REST * len(at_rest)
    return face, begins


def listening_live() -> Face:
    """A face that was just told to listen, and of which both loops are here."""
    face = Face(H264)
    face.run(1)
    attend(face, LISTEN)
    face.offer()
    face.offer()
    return face


def test_it_listens_and_nods_from_memory_in_the_motion_in_which_it_rested() -> None:
    face, begins = spoken_to_from_memory()
    seen = face.run(2 * SECOND)
    nods = attend(face, NOD)
    assert nods == begins + 2 * SECOND
    assert attend(face, NOD) == begins, "it nods already"
    seen += face.run(2 * SECOND)
    assert shown(seen) == BEGINS + GOES_ON + NODS + GOES_ON
    assert seen[0].picture.keyframe and seen[2 * SECOND].picture.keyframe
    assert motion(seen) == [(begins + k) % (3 * SECOND) for k in range(4 * SECOND)]
    assert face.orders == [], "the face draws nothing"
    face.run((NODS_APART - 2) * SECOND)
    assert attend(face, NOD) == nods + NODS_APART * SECOND


def test_it_begins_to_listen_and_nods_where_those_are_drawn_from_whatever_is_a_key_frame() -> None:
    """As of a face that its viewers draw themselves: each picture stands on its own."""
    face = Face(VideoCodec.BLENDSHAPES)
    face.run(1)
    for listening in (False, True):
        loop = loop_of(codec=VideoCodec.BLENDSHAPES, listening=listening)
        alone = tuple(replace(picture, keyframe=True) for picture in loop.pictures)
        face.playout.idle.offer(replace(loop, pictures=alone))
    face.run(SECOND + 7)
    face.live = False
    face.run(SECOND // 2)
    begins = attend(face, LISTEN)
    assert begins is not None and begins % SECOND == 0
    seen = face.run(2 * SECOND + 3)
    nods = attend(face, NOD)
    assert nods is not None and nods % SECOND == 0
    seen += face.run(2 * SECOND)
    listened = shown(seen).lstrip(REST)
    gone_on = nods - begins - SECOND
    assert listened.startswith(BEGINS + "O" * gone_on + NODS + "O")


def test_a_face_is_told_of_a_cue_only_where_it_is_shown_to_nod() -> None:
    face = listening_live()
    attend(face, NOBODY)
    face.run(2)
    begins = told(face, NOD)
    assert begins == replace(LISTEN, shown_from=begins.shown_from), "it only begins to listen"
    face.run(3 * SECOND)
    nods = told(face, NOD)
    assert nods == replace(NOD, shown_from=nods.shown_from) and nods.shown_from is not None
    face.run(SECOND)
    assert told(face, NOD) == begins, "it nods already"


def test_an_answer_goes_on_from_a_face_that_listens() -> None:
    face, begins = spoken_to_from_memory()
    face.run(5)
    attend(face, NOBODY)
    face.playout.open_turn(1)
    seen = face.run(30)
    assert shown(seen) == BEGINS[5:] + GOES_ON[:10]
    assert face.playout.motion_frame == begins + 34
    assert face.orders == []
    face.frame = begins + 36
    face.send(1, 0, key=True)
    face.playout.push_voice(1, np.ones(48_000, np.int16))
    assert shown(face.run(1)) == "F" and face.playout.motion_frame is None


def test_one_who_is_about_to_be_shown_from_memory_begins_to_listen_there() -> None:
    face = listening_live()
    attend(face, NOBODY)
    face.run(2)
    face.orders.clear()
    begins = attend(face, LISTEN)
    assert begins is not None and begins % SECOND == 0 and face.orders == []
    seen = face.run(begins - face.frame + SECOND)
    assert shown(seen) == "F" * (len(seen) - SECOND) + BEGINS


def test_a_face_that_was_not_yet_shown_from_memory_is_not_told_that_it_was() -> None:
    face = listening_live()
    attend(face, NOBODY)
    face.run(2)
    assert face.orders[-1].live is False and face.playout.motion_frame is None
    attend(face, THINK)
    face.run(1)
    assert face.orders[-1] == IdleOrder(live=True, frame=0)


def test_an_answer_is_told_where_the_loop_is_only_until_live_pictures_are_asked_for() -> None:
    face, _ = spoken_to_from_memory()
    face.run(SECOND)
    assert face.playout.motion_frame is not None
    attend(face, THINK)
    assert face.playout.motion_frame is None
    seen = face.run(2)
    assert all(p.looped for p in seen) and face.orders[-1].frame > 0


def test_who_says_nothing_after_all_is_listened_to_no_more() -> None:
    face, _ = spoken_to_from_memory()
    face.run(SECOND)
    attend(face, NOBODY)
    face.run(1)
    assert [order.live for order in face.orders] == [True]
    face.live, face.keyframe, face.at_rest, face.listening = True, True, False, True
    face.run(10)
    face.at_rest, face.listening = True, False
    assert shown(face.run(60))[-10:] == REST * 10


def test_one_who_listens_live_is_shown_from_memory_once_that_looks_the_same() -> None:
    face = listening_live()
    assert face.playout.missing_loops == []
    assert set(shown(face.run(30))) == {"F"}, "it still rests"
    face.listening, face.at_rest = True, False
    assert set(shown(face.run(30))) == {"F"}, "it begins to listen"
    face.at_rest = True
    seen = shown(face.run(40))
    assert seen.endswith(GOES_ON[:10]) and set(seen) == {"F", "O"}
    assert attend(face, THINK) is None
    assert face.run(1) and face.orders[-1].live, "nothing from memory shows it think"


def test_a_face_that_is_lost_while_it_listens_is_shown_listening() -> None:
    face = listening_live()
    face.listening, face.at_rest = True, False
    face.run(3)
    face.live = False
    seen = shown(face.run(4 * SECOND))
    assert seen.endswith("O" * 2 * SECOND) and REST not in seen


def test_a_face_that_nods_before_it_is_shown_from_memory_does_so_to_the_end() -> None:
    face = listening_live()
    face.listening = True
    face.run(2)
    assert [order.live for order in face.orders] == [False]
    face.at_rest = False
    assert set(shown(face.run(30))) == {"F"}
    assert face.orders[-1].live
    face.at_rest = True
    assert shown(face.run(30)).endswith("O")
