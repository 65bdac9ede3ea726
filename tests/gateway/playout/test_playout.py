"""The pacing of voice and pictures. Pure: time is the number of ticks."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from gateway.playout.pacing import (
    HALF_TICK_SAMPLES,
    LONG_TICK_SAMPLES,
    ORIGIN_SAMPLES,
    TICK_SAMPLES,
    to_video_clock,
)
from gateway.playout.pictures import QUEUE_LIMIT, KeyframeThrottle, Picture
from gateway.playout.playout import Playout, PlayoutEvent, Tick
from visavis.wire.media import VideoCodec

H264, VP8 = VideoCodec.H264, VideoCodec.VP8
FRAME_SAMPLES = 1920


def voice(ticks: float, level: int = 1000) -> np.ndarray:
    return np.full(round(ticks * TICK_SAMPLES), level, np.int16)


def synced(
    turn: int, index: int, *, key: bool = False, last: bool = False, codec: VideoCodec = H264
) -> Picture:
    return Picture(turn, index, False, codec, key, 64, 64, 25, b"p%d" % index, last)


def idle(*, key: bool = False, name: bytes = b"idle", codec: VideoCodec = H264) -> Picture:
    return Picture(0, 0, True, codec, key, 64, 64, 25, name)


def playout(*codecs: VideoCodec) -> Playout:
    """A playout whose viewers have seen a key frame."""
    made = Playout()
    made.set_codecs(set(codecs))
    for codec in codecs:
        made.push_picture(idle(key=True, codec=codec))
    made.tick()
    return made


def run(target: Playout, ticks: float) -> list[Tick]:
    """What leaves in the time of so many ticks, some of which may be half ones."""
    ticks_made: list[Tick] = []
    until = target.now_samples + ticks * TICK_SAMPLES
    while target.now_samples < until:
        ticks_made.append(target.tick())
    assert not any(tick.silent and tick.pcm.any() for tick in ticks_made)
    return ticks_made


def events(ticks: list[Tick]) -> list[str]:
    return [event.value for tick in ticks for event, _ in tick.events]


def shown(ticks: list[Tick]) -> list[bytes]:
    return [p.picture.payload for tick in ticks for p in tick.pictures]


def speak(target: Playout, turn: int, frames: int) -> None:
    """A whole answer: `frames` pictures and as much voice."""
    target.push_voice(turn, voice(2 * frames), last=True)
    for index in range(frames):
        target.push_picture(synced(turn, index, key=index == 0, last=index == frames - 1))


def answering(ticks: int) -> Playout:
    """Turn 1 is open, and all of its voice is there."""
    target = playout(H264)
    target.open_turn(1)
    target.push_voice(1, voice(ticks), last=True)
    return target


# ------------------------------------------------------------ the clock


def test_sound_never_stops() -> None:
    ticks = run(Playout(), 3)
    assert [t.start_samples for t in ticks] == [ORIGIN_SAMPLES + i * TICK_SAMPLES for i in range(3)]
    assert all(len(t.pcm) == TICK_SAMPLES and not t.pcm.any() for t in ticks)


def test_encoders_have_forgotten_a_voice_before_silence_leaves_in_long_pieces() -> None:
    target = playout()
    target.open_turn(1)
    target.push_voice(1, voice(5), last=True)
    silent = [tick for tick in (target.tick(calm=True) for _ in range(30)) if tick.silent]
    long = next(tick for tick in silent if len(tick.pcm) == LONG_TICK_SAMPLES)
    assert long.start_samples - silent[0].start_samples >= 10 * TICK_SAMPLES


def test_silence_is_cut_while_an_answer_is_awaited_and_the_grid_is_returned_to() -> None:
    target = playout(H264)
    assert [len(t.pcm) for t in run(target, 2)] == [TICK_SAMPLES] * 2
    target.open_turn(1)
    assert [len(t.pcm) for t in run(target, 1.5)] == [HALF_TICK_SAMPLES] * 3
    speak(target, 1, 3)  # 3 ms behind the latest tick, or 9
    ticks = run(target, 8)
    assert started_at(ticks) == 0 and ticks[0].start_samples % TICK_SAMPLES == HALF_TICK_SAMPLES
    assert {len(t.pcm) for t in ticks} == {TICK_SAMPLES}
    times = [to_video_clock(ticks[0].start_samples + i * FRAME_SAMPLES) for i in range(3)]
    assert [p.time for t in ticks for p in t.pictures] == times
    assert events(ticks) == ["started", "finished"]
    back, *rest = run(target, 3)
    assert len(back.pcm) == HALF_TICK_SAMPLES and back.second_half and back.silent
    assert all(len(t.pcm) == TICK_SAMPLES and not t.start_samples % TICK_SAMPLES for t in rest)
    every = [*ticks, back, *rest]
    assert [b.start_samples - a.start_samples for a, b in pairwise(every)] == [
        len(t.pcm) for t in every[:-1]
    ]


def test_an_answer_that_takes_long_is_awaited_tick_by_tick() -> None:
    target = Playout()
    target.open_turn(1)
    lengths = [len(t.pcm) for t in run(target, 150)]
    assert lengths == [HALF_TICK_SAMPLES] * 200 + [TICK_SAMPLES] * 50


def test_only_silence_behind_silence_is_cut() -> None:
    target = answering(50)
    run(target, 5)
    target.open_turn(2)
    assert [len(t.pcm) for t in run(target, 3)] == [
        TICK_SAMPLES,  # fades out
        TICK_SAMPLES,  # its packet holds the end of that
        HALF_TICK_SAMPLES,
        HALF_TICK_SAMPLES,
    ]


def test_idle_pictures_leave_with_whole_ticks_while_an_answer_is_awaited() -> None:
    target = playout(H264)
    target.open_turn(1)
    for name in (b"a", b"b", b"c"):
        target.push_picture(idle(name=name))
    assert [len(t.pictures) for t in run(target, 4)] == [1, 0, 1, 0, 1, 0, 0, 0]


# ------------------------------------------------------------ starting


def test_the_voice_waits_40_ms_at_most() -> None:
    target = playout(H264)
    target.open_turn(1)
    target.push_voice(1, voice(50))
    ticks = run(target, 20)
    assert started_at(ticks) == 2  # not earlier than 40 ms


def answer_whose_picture_comes_after(target: Playout, turn: int, ticks: float) -> list[Tick]:
    """Turn `turn` is heard; its pictures come so many ticks after its voice."""
    target.open_turn(turn)
    target.push_voice(turn, voice(6), last=True)
    made = run(target, ticks)
    for index in range(3):
        target.push_picture(synced(turn, index, key=index == 0, last=index == 2))
    return made + run(target, 12)


def started_at(ticks: list[Tick]) -> float:
    """In ticks from the first of these."""
    started = next(t for t in ticks if any(e is PlayoutEvent.STARTED for e, _ in t.events))
    return (started.start_samples - ticks[0].start_samples) / TICK_SAMPLES


def test_a_face_that_was_quick_is_not_waited_for_until_it_is_slow() -> None:
    target = playout(H264)
    lags = [1, 1, 3, 1, 1]
    turns = [answer_whose_picture_comes_after(target, n + 1, lag) for n, lag in enumerate(lags)]
    # The first turn waits for its picture, the fourth because the third had waited in vain.
    assert [started_at(ticks) for ticks in turns] == [1, 0, 0, 1, 0]
    second = [p for t in turns[1] for p in t.pictures]
    assert [p.skew_s for p in second] == pytest.approx([0.02, 0.0, 0.0], abs=0.011)
    assert second[0].time >= to_video_clock(turns[1][0].start_samples)
    assert target.dropped_pictures == 0 and target.late_pictures == 1  # of the third turn


@pytest.mark.parametrize(("lag", "waited"), [(1.5, 0), (2, 1)])
def test_a_face_is_quick_whose_picture_comes_within_30_ms(lag: float, waited: int) -> None:
    target = playout(H264)
    answer_whose_picture_comes_after(target, 1, lag)
    assert started_at(answer_whose_picture_comes_after(target, 2, 1)) == waited


def test_another_face_has_to_prove_itself() -> None:
    target = playout(H264)
    answer_whose_picture_comes_after(target, 1, 0)
    target.restart_stream()
    assert started_at(answer_whose_picture_comes_after(target, 2, 1)) == 1


def test_every_codec_is_waited_for() -> None:
    target = playout(H264, VP8)
    target.open_turn(1)
    target.push_voice(1, voice(50))
    target.push_picture(synced(1, 0))
    assert events(run(target, 2)) == []
    target.push_picture(synced(1, 0, codec=VP8))
    tick = target.tick()
    assert events([tick]) == ["started"]
    assert {p.picture.codec for p in tick.pictures} == {H264, VP8}


def test_a_held_turn_is_not_heard_before_it_is_confirmed() -> None:
    target = playout(H264)
    target.open_turn(1, held=True)
    speak(target, 1, 3)
    assert shown(run(target, 20)) == []
    target.confirm(2)
    assert events(run(target, 1)) == []
    target.confirm(1)
    assert events(run(target, 1)) == ["started"]


def test_less_than_a_tick_of_voice_waits_for_more() -> None:
    target = Playout()
    target.open_turn(1)
    target.push_voice(1, voice(0.5))
    assert events(run(target, 3)) == []
    target.push_voice(1, voice(0.2), last=True)
    assert events(run(target, 1)) == ["started"]


def test_an_answer_without_voice_is_over_at_once() -> None:
    target = answering(0)
    assert events(run(target, 3)) == ["finished"]


# ------------------------------------------------------------ trouble on the way


def test_a_dry_voice_moves_the_pictures_with_it() -> None:
    target = playout(H264)
    target.open_turn(1)
    target.push_voice(1, voice(2))
    for index in range(4):
        target.push_picture(synced(1, index))
    before = run(target, 5)  # 2 ticks of voice, 3 dry ones
    target.push_voice(1, voice(2), last=True)
    after = run(target, 4)
    assert events(before) == ["started", "underrun"]
    assert shown(before) == [b"p0"]
    assert shown(after)[:1] == [b"p1"]
    assert all(abs(p.skew_s or 0) <= 0.011 for t in before + after for p in t.pictures)
    assert sum(t.pcm.any() for t in before + after) == 4


@pytest.mark.parametrize(("to_ticks", "first_ticks"), [(8, 8), (3, 5)])
def test_another_voice_follows_where_the_turn_is_shortened_or_is_heard_by_then(
    to_ticks: int, first_ticks: int
) -> None:
    target = playout()
    target.open_turn(1)
    target.push_voice(1, voice(10))
    ticks = run(target, 5)
    target.shorten(1, to_ticks * TICK_SAMPLES)
    target.push_voice(1, voice(4, level=2000), last=True)
    ticks += run(target, 10)
    heard = np.concatenate([tick.pcm for tick in ticks])
    assert np.count_nonzero(heard == 1000) == first_ticks * TICK_SAMPLES
    assert np.count_nonzero(heard == 2000) == 4 * TICK_SAMPLES
    assert events(ticks) == ["started", "finished"]


def test_two_gaps_are_two_underruns() -> None:
    target = Playout()
    target.open_turn(1)
    for _ in range(3):
        target.push_voice(1, voice(1))
        run(target, 3)
    assert target.underruns == 3


def test_a_late_picture_leaves_at_its_own_place_in_time() -> None:
    target = answering(20)
    target.push_picture(synced(1, 0))
    start = target.tick().start_samples
    run(target, 7)
    target.push_picture(synced(1, 1))
    target.push_picture(synced(1, 2))
    tick = target.tick()
    assert shown([tick]) == [b"p1", b"p2"]
    assert tick.pictures[0].time == to_video_clock(start + FRAME_SAMPLES)
    assert tick.pictures[0].skew_s == pytest.approx(0.12)
    assert target.late_pictures == 2
    assert tick.pcm.any()  # the sound went on


def test_late_pictures_before_a_key_frame_that_is_due_are_dropped() -> None:
    target = answering(100)
    target.push_picture(synced(1, 0))
    run(target, 50)
    target.push_picture(synced(1, 1))
    target.push_picture(synced(1, 24))
    target.push_picture(synced(1, 25, key=True))
    target.push_picture(synced(1, 26))
    assert shown(run(target, 5)) == [b"p25", b"p26"]
    assert target.dropped_pictures == 2 and target.needs_keyframe() == []


def test_what_an_interruption_makes_void_does_not_count_as_dropped() -> None:
    target = answering(100)
    for index in range(8):
        target.push_picture(synced(1, index))
    run(target, 2)
    target.open_turn(2)
    target.push_picture(synced(1, 8))
    assert target.dropped_pictures == 0


def test_pictures_in_time_are_not_dropped_for_a_key_frame() -> None:
    target = answering(10)
    for index in range(4):
        target.push_picture(synced(1, index, key=True))
    assert shown(run(target, 10)) == [b"p0", b"p1", b"p2", b"p3"]


def test_voice_beyond_all_measure_is_refused() -> None:
    target = Playout()
    target.open_turn(1)
    target.push_voice(1, voice(50 * 25))
    target.push_voice(1, voice(50 * 25), last=True)
    assert sum(tick.pcm.any() for tick in run(target, 50 * 40)) == 50 * 25


def test_the_end_does_not_wait_for_ever_for_pictures() -> None:
    target = answering(2)
    target.push_picture(synced(1, 0))
    ticks = run(target, 40)
    assert events(ticks) == ["started", "finished"]
    finished = next(i for i, t in enumerate(ticks) if (PlayoutEvent.FINISHED, 1) in t.events)
    assert finished == 2 + 24  # half a second after the voice


# ------------------------------------------------------------ interruption


@pytest.mark.parametrize("pictures", [50, 1])
def test_after_an_interruption_pictures_wait_for_a_key_frame(pictures: int) -> None:
    """Also where none waited any more when it came."""
    target = answering(100)
    for index in range(pictures):
        target.push_picture(synced(1, index, key=index == 0))
    run(target, 6)
    target.void(2)
    target.push_picture(synced(1, pictures))  # under way when the turn was voided
    target.push_picture(idle(name=b"broken"))
    assert shown(run(target, 2)) == []
    assert target.needs_keyframe() == [H264]
    target.push_picture(idle(key=True, name=b"new"))
    target.push_picture(idle(name=b"next"))
    assert shown(run(target, 3)) == [b"new", b"next"]


def test_a_new_turn_after_a_finished_one_needs_no_key_frame() -> None:
    target = playout(H264)
    target.open_turn(1)
    speak(target, 1, 2)
    run(target, 8)
    target.open_turn(2)
    target.push_picture(idle(name=b"thinking"))
    assert shown(run(target, 1)) == [b"thinking"]


def test_voice_and_pictures_of_a_void_turn_are_not_used() -> None:
    target = playout(H264)
    target.open_turn(1)
    target.open_turn(2)
    target.push_voice(1, voice(10), last=True)
    target.push_picture(synced(1, 0, key=True))
    ticks = run(target, 10)
    assert events(ticks) == [] and shown(ticks) == []


def test_a_late_chunk_of_a_complete_voice_is_ignored() -> None:
    target = Playout()
    target.open_turn(1)
    target.push_voice(1, voice(1), last=True)
    target.push_voice(1, voice(9))
    assert sum(t.pcm.any() for t in run(target, 10)) == 1


# ------------------------------------------------------------ idle pictures


def test_the_last_picture_of_a_turn_is_seen_before_the_idle_one() -> None:
    target = playout(H264)
    target.open_turn(1)
    speak(target, 1, 2)
    target.push_picture(idle())
    times = [p.time for t in run(target, 8) for p in t.pictures]
    assert np.diff(times).tolist() == [3600, 3600]


def test_times_only_grow() -> None:
    target = answering(50)
    for index in (0, 1, 1, 0, 2):
        target.push_picture(synced(1, index))
    times = [p.time for t in run(target, 10) for p in t.pictures]
    assert times == sorted(set(times)) and len(times) == 5


@pytest.mark.parametrize("face", ["first", "another"])
def test_nothing_is_shown_of_a_face_before_its_key_frame(face: str) -> None:
    target = Playout() if face == "first" else playout(H264)
    target.set_codecs({H264})
    if face == "another":
        target.restart_stream()
    target.push_picture(idle())
    assert shown(run(target, 1)) == []
    target.push_picture(idle(key=True))
    assert shown(run(target, 1)) == [b"idle"]


def test_the_queue_is_bounded() -> None:
    target = playout(H264)
    target.open_turn(1)  # no voice: nothing leaves
    for index in range(3 * QUEUE_LIMIT):
        target.push_picture(synced(1, index))
    assert target.dropped_pictures > QUEUE_LIMIT
    assert target.needs_keyframe() == [H264]


def test_a_codec_that_is_not_wanted_is_ignored() -> None:
    target = playout(H264)
    target.push_picture(idle(key=True, codec=VP8))
    assert shown(run(target, 1)) == []
    target.set_codecs({H264, VP8})
    target.push_picture(idle(key=True, codec=VP8, name=b"vp8"))
    assert shown(run(target, 1)) == [b"vp8"]


def test_key_frames_are_asked_for_now_and_then_and_one_that_was_refused_is_still_wanted() -> None:
    throttle = KeyframeThrottle()
    asked = [throttle.allows(H264, 0.1 * i) for i in range(9)]
    assert [i for i, yes in enumerate(asked) if yes] == [0, 4, 8] and not throttle.refused
    assert throttle.allows(VP8, 0.1)
    assert not throttle.allows(H264, 0.9) and throttle.refused == {H264}
    assert throttle.allows(H264, 1.3) and not throttle.refused
