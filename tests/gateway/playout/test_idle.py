"""Idle life from memory. Pure: time is the number of ticks."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import replace
from itertools import pairwise
from typing import Any, cast

import pytest

from gateway.playout.idle import IdleOrder
from gateway.playout.loops import IdleLoop, LoopShelf
from gateway.playout.pacing import LONG_TICK_SAMPLES, TICK_SAMPLES, to_video_clock
from gateway.playout.pictures import Picture, ReleasedPicture
from gateway.playout.playout import Playout, Tick
from gateway.stages.idle_loops import SessionLoops, Wanted
from tests.gateway.playout.test_playout import FRAME_SAMPLES, H264, VP8, run, voice
from visavis.wire.idle_order import Listening
from visavis.wire.media import VideoCodec

SECOND = 25
PICTURES = 3 * SECOND


RESTS = b"R"
PARTS = {Listening.BEGINS: b"B", Listening.GOES_ON: b"O", Listening.NODS: b"N"}


def loop_of(
    digest: str = "d", codec: VideoCodec = H264, size: int = 4, *, listening: bool = False
) -> IdleLoop:
    """Three seconds, a key frame in each; what is shown is told by the payload."""
    lives = list(PARTS.values()) if listening else [RESTS]
    pictures = (
        Picture(0, k, True, codec, k % SECOND == 0, 64, 64, 25, life * size, motion_frame=k)
        for life in lives
        for k in range(PICTURES)
    )
    return IdleLoop(digest, codec, tuple(pictures), listening=listening)


class Face:
    """A face that sends a picture each 40 ms, and what its viewers see."""

    def __init__(self, *codecs: VideoCodec, frame: int = 7, digest: str = "d") -> None:
        self.playout = Playout()
        self.playout.set_codecs(set(codecs))
        self.frame, self.digest = frame, digest
        self.at_rest, self.live, self.keyframe = True, True, True
        self.listening = False
        self.orders: list[IdleOrder] = []
        self.ticks: list[Tick] = []

    def run(self, frames: int) -> list[ReleasedPicture]:
        """What left in so many pictures' time."""
        ticks: list[Tick] = []
        for _ in range(frames):
            if self.live:
                self.send()
            ticks += run(self.playout, 2)
            self.orders += self.playout.idle.take_orders()
        self.ticks += ticks
        return [picture for tick in ticks for picture in tick.pictures]

    def send(self, turn: int = 0, index: int = 0, *, key: bool = False) -> None:
        """One picture, or what a lost one leaves."""
        for codec in self.playout._lanes:
            picture = Picture(turn, index, not turn, codec, key or self.keyframe, 64, 64, 25, b"F")
            picture = replace(picture, motion_frame=self.frame, loop=self.digest)
            at_rest = self.at_rest and not turn
            picture = replace(picture, at_rest=at_rest, listening=self.listening)
            self.playout.push_picture(picture)
        self.frame, self.keyframe = self.frame + 1, False

    def offer(self) -> None:
        for codec, listening in self.playout.missing_loops:
            loop = loop_of(self.playout.idle.digest, codec, listening=listening)
            self.playout.idle.offer(loop)


def looping(*codecs: VideoCodec) -> Face:
    """Its loop is shown; the face draws nothing."""
    face = Face(*(codecs or (H264,)))
    face.run(1)
    face.offer()
    face.run(30)
    face.live = False
    assert face.playout.motion_frame is not None
    return face


def motion(pictures: list[ReleasedPicture]) -> list[int]:
    """Frames of the motion, as far as the loop tells them."""
    return [p.picture.motion_frame % PICTURES for p in pictures]


def test_the_loop_takes_over_at_a_key_frame_and_no_frame_is_left_out() -> None:
    face = Face(H264)
    face.run(1)
    assert face.playout.missing_loops == [(H264, False)]
    face.offer()
    seen = face.run(60)
    looped = [p for p in seen if p.looped]
    assert looped[0].picture.motion_frame == SECOND and looped[0].picture.keyframe
    assert motion(seen) == [(8 + k) % PICTURES for k in range(60)]
    assert {b.time - a.time for a, b in pairwise(seen)} == {to_video_clock(FRAME_SAMPLES)}
    assert face.orders[0] == IdleOrder(live=False, frame=SECOND)


@pytest.mark.parametrize("late", [0, 1])
@pytest.mark.parametrize("codecs", [(), (H264,), (H264, VP8)])
def test_where_nobody_says_anything_silence_leaves_with_the_pictures(
    codecs: tuple[VideoCodec, ...], late: int
) -> None:
    face = looping(*codecs)
    if not codecs:
        face.playout.set_codecs(set())  # sound alone
    before = [picture for tick in run(face.playout, 2 + late) for picture in tick.pictures]
    ticks = [face.playout.tick(calm=True) for _ in range(PICTURES)]
    ticks += run(face.playout, 4)
    seen = [picture for tick in ticks for picture in tick.pictures]
    assert {len(tick.pcm) for tick in ticks[:PICTURES]} == {LONG_TICK_SAMPLES}
    for codec in codecs:
        frames = [one for one in before + seen if one.picture.codec is codec]
        assert {(b - a) % PICTURES for a, b in pairwise(motion(frames))} == {1}
        gaps = [b.time - a.time for a, b in pairwise(frames)]
        steady = to_video_clock(FRAME_SAMPLES)
        assert sum(gap != steady for gap in gaps) == 2 * late, "as it begins and as it ends"
        assert max(gaps) <= steady + to_video_clock(TICK_SAMPLES)
    face.playout.open_turn(1)
    assert len(face.playout.tick(calm=True).pcm) < TICK_SAMPLES, "an answer is awaited"


def test_a_face_that_goes_on_is_not_shown_and_told_again() -> None:
    face = looping()
    face.orders, face.live = [], True
    seen = face.run(SECOND)
    assert all(p.looped for p in seen) and len(seen) == SECOND
    assert 1 <= len(face.orders) <= 3 and not any(order.live for order in face.orders)
    assert face.playout.needs_keyframe() == []


def test_a_picture_that_is_not_the_loops_own_is_followed_by_live_ones() -> None:
    face = Face(H264)
    face.at_rest = False
    face.run(1)
    face.offer()
    assert not any(p.looped for p in face.run(60)) and face.orders == []


def test_a_turn_ends_the_loop_and_says_where_it_stands() -> None:
    face = looping()
    shown = face.run(5)[-1].picture.motion_frame
    assert face.playout.motion_frame == shown
    face.playout.open_turn(1)
    while_thinking = face.run(10)
    assert motion(while_thinking) == [shown + 1 + k for k in range(10)]
    face.frame, face.keyframe = shown + 12, True
    face.playout.push_voice(1, voice(50))
    face.send(1, 0)
    face.send(1, 1)
    after = face.run(2)
    assert [p.looped for p in after] == [False, False]
    assert face.playout.idle.skips == [1]
    assert face.playout.motion_frame is None


def test_a_turn_that_is_paused_before_its_start_has_its_pictures_made_anew() -> None:
    face = looping()
    face.playout.open_turn(1)
    face.send(1, 0, key=True)
    face.playout.pause(1)
    face.playout.push_voice(1, voice(50))
    face.send(1, 1)
    assert all(p.looped for p in face.run(10))
    face.playout.resume(1, 0)
    assert all(p.looped for p in face.run(1))
    face.send(1, 0, key=True)
    assert [p.looped for p in face.run(1)] == [False]


def test_where_the_loop_does_not_get_through_the_face_draws_smaller_pictures() -> None:
    face = looping()
    idle, per_second = face.playout.idle, 8 * SECOND * 4
    idle.limit(per_second + 1, face.playout.now_samples)
    face.run(5)
    assert face.playout.motion_frame is not None
    idle.limit(per_second - 1, face.playout.now_samples)
    face.run(1)
    assert face.orders[-1].live
    face.live, face.keyframe, face.frame = True, True, face.orders[-1].frame
    assert not any(p.looped for p in face.run(60)[2:])
    idle.limit(None, face.playout.now_samples)
    face.run(60)
    assert face.playout.motion_frame is not None


def test_it_does_not_come_back_while_a_turn_is_open() -> None:
    face = looping()
    face.playout.open_turn(1)
    face.playout.push_voice(1, voice(4), last=True)
    face.keyframe = True
    face.send(1, 0)
    face.run(1)
    face.live = face.keyframe = True
    assert not any(p.looped for p in face.run(10))
    face.playout.void(2)
    assert any(p.looped for p in face.run(60))


def test_a_turn_whose_first_picture_is_lost_has_a_key_frame_asked_for() -> None:
    face = looping()
    face.playout.open_turn(1)
    face.playout.push_voice(1, voice(50))
    face.send(1, 1)
    assert face.playout.needs_keyframe() == [H264]
    assert all(p.looped for p in face.run(3))
    face.send(1, 4, key=True)
    assert face.run(4)[-1].looped is False


def test_a_codec_whose_loop_is_not_here_has_all_of_them_drawn_live() -> None:
    face = looping()
    shown = face.playout.motion_frame
    assert shown is not None
    face.playout.set_codecs({H264, VP8})
    face.run(1)
    assert face.orders[-1] == IdleOrder(live=True, frame=shown + 1)
    assert all(p.looped for p in face.run(3))  # until the face is there
    face.live = face.keyframe = True
    assert not any(p.looped for p in face.run(1))
    face.offer()
    seen = [p for p in face.run(60) if p.looped]
    assert {p.picture.codec for p in seen} == {H264, VP8}


def test_a_codec_whose_loop_is_here_joins_it_at_a_key_frame() -> None:
    face = looping(H264, VP8)
    face.playout.set_codecs({H264})
    face.run(3)
    face.playout.set_codecs({H264, VP8})
    seen = face.run(SECOND)
    first = next(p for p in seen if p.picture.codec is VP8)
    assert first.picture.keyframe
    assert [p.looped for p in seen] == [True] * len(seen)


def test_the_first_viewer_sees_it_at_once() -> None:
    face = looping()
    face.playout.set_codecs(set())
    face.run(30)
    face.playout.set_codecs({H264})
    face.playout.begin_to_be_seen()
    first, *rest = face.run(3)
    assert first.picture.keyframe and first.looped
    assert motion([first, *rest]) == [(first.picture.motion_frame + k) % PICTURES for k in range(3)]


def test_another_face_is_seen_as_it_comes() -> None:
    face = looping()
    face.digest, face.live, face.keyframe = "other", True, True
    assert not any(p.looped for p in face.run(3))
    assert face.playout.missing_loops == [(H264, False)]


def test_a_face_that_is_replaced_before_it_rests_is_asked_anew() -> None:
    face = Face(H264, frame=10_001)
    face.run(1)
    face.offer()
    face.run(5)
    face.playout.restart_stream()
    face.frame, face.keyframe, face.orders = 3, True, []
    seen = face.run(40)
    assert face.orders[0] == IdleOrder(live=False, frame=SECOND)
    assert motion(seen) == [(3 + k) % PICTURES for k in range(40)] and seen[-1].looped


def test_a_face_that_is_lost_leaves_a_living_picture() -> None:
    face = Face(H264)
    face.run(10)
    face.offer()
    face.playout.idle.take_orders()
    face.live, face.at_rest = False, False
    face.playout.idle._settled = False
    seen = face.run(100)
    assert len(seen) >= 45 and all(p.looped for p in seen)


# ------------------------------------------------------------ whose loops a session has


class Shelves:
    """Lends what is asked for, and knows what is out; tells no face anything."""

    def __init__(self) -> None:
        self.lent: list[IdleLoop] = []

    def take(self, wanted: Wanted) -> IdleLoop:
        self.lent.append(loop_of(wanted.digest, wanted.codec, listening=wanted.listening))
        return self.lent[-1]

    def give_back(self, loop: IdleLoop) -> None:
        self.lent.remove(loop)

    async def tell_idle(self, order: IdleOrder) -> None: ...

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        work.close()


def test_loops_of_an_avatar_that_is_worn_no_more_are_given_back_at_once() -> None:
    face, shelves = Face(H264), cast(Any, Shelves())
    loops = SessionLoops(face.playout, shelves, shelves, shelves, lambda: "ann")
    face.run(1)
    loops.tick()
    assert [loop.digest for loop in shelves.lent] == ["d"]
    face.digest, face.keyframe = "", True  # one whose idle life never repeats
    face.run(1)
    loops.tick()
    assert shelves.lent == []


# ------------------------------------------------------------ the shelf


def test_what_is_in_use_stays_and_the_rest_makes_room() -> None:
    size = loop_of().size_bytes
    shelf = LoopShelf(2 * size)
    for name in ("a", "b"):
        assert shelf.put(loop_of(name))
    held = shelf.take("a", H264)
    assert held is not None
    assert shelf.put(loop_of("c"))
    assert shelf.take("b", H264) is None and shelf.bytes == 2 * size
    other = shelf.take("c", H264)
    assert other is not None and not shelf.put(loop_of("d"))
    shelf.give_back(held)
    assert shelf.put(loop_of("d")) and len(shelf) == 2
    assert shelf.take("a", H264) is None


def test_of_a_face_that_is_deleted_no_loop_stays() -> None:
    shelf = LoopShelf(1_000_000)
    for name, avatar in (("a", "annie"), ("b", "annie"), ("c", "bob")):
        assert shelf.put(loop_of(name), avatar)
    shelf.rename("annie", "ann")
    held = shelf.take("a", H264)
    assert held is not None
    shelf.forget("ann")
    assert [shelf.take(name, H264) is None for name in "abc"] == [True, True, False]
    assert shelf.put(loop_of("a"), "ann"), "another face of that name"
    shelf.give_back(held)
    shelf.forget("ann")
    assert len(shelf) == 1 and shelf.bytes == loop_of().size_bytes
