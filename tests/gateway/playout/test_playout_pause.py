"""A turn that is paused and goes on. Pure: time is the number of ticks."""

from __future__ import annotations

import numpy as np

from gateway.playout.pacing import TICK_SAMPLES
from gateway.playout.playout import (
    DUCKED_GAIN,
    FADE_SAMPLES,
    RECALL_SAMPLES,
    RESUME_GRID_SAMPLES,
    Playout,
)
from gateway.playout.sound import Recall
from tests.gateway.playout.test_playout import H264, events, idle, playout, run, shown, synced


def numbered(ticks: int) -> np.ndarray:
    """A voice whose every sample tells in which tick of it it stands: 100, 200, …"""
    return np.repeat(np.arange(1, ticks + 1, dtype=np.int16) * 100, TICK_SAMPLES)


def speaking(pictures: int = 25, ticks: int = 50) -> Playout:
    """Ten ticks of the turn have been heard."""
    target = playout(H264)
    target.open_turn(1)
    target.push_voice(1, numbered(ticks), last=True)
    for index in range(pictures):
        target.push_picture(synced(1, index, key=index == 0, last=index == pictures - 1))
    run(target, 10)
    return target


def test_a_duck_is_a_ramp_and_loses_nothing() -> None:
    target = speaking()
    target.duck(1)
    ramp, ducked = run(target, 2)
    assert ramp.pcm[0] == 1100 and ramp.pcm[-1] == round(1100 * DUCKED_GAIN)
    assert set(ducked.pcm.tolist()) == {round(1200 * DUCKED_GAIN)}
    target.resume(1, 0)
    assert run(target, 2)[1].pcm[0] == 1400
    assert target.played_samples == 14 * TICK_SAMPLES


def test_a_paused_turn_is_silent_within_a_tick_and_shows_idle_pictures() -> None:
    target = speaking()
    target.pause(2)
    assert not target.paused, "it is another one"
    target.pause(1)
    target.pause(1)
    target.resume(2, 0)
    fade, *silence = run(target, 5)
    assert fade.pcm[0] == 1100 and not fade.pcm[FADE_SAMPLES:].any()
    assert not any(t.pcm.any() for t in silence)
    assert target.playing and target.paused
    target.push_picture(synced(1, 9))  # under way when it was paused
    target.push_picture(idle(name=b"broken"))
    target.push_picture(synced(1, 10, key=True))  # was asked for, and under way
    target.push_picture(idle(key=True, name=b"rest"))
    assert shown(run(target, 2)) == [b"rest"]
    assert events(run(target, 100)) == []


def test_it_goes_on_from_an_earlier_sample_with_new_pictures() -> None:
    target = speaking()
    target.pause(1)
    run(target, 20)
    target.push_picture(idle(key=True, name=b"rest"))
    target.resume(1, 7 * TICK_SAMPLES)
    waiting = run(target, 2)
    assert not any(t.pcm.any() for t in waiting)
    assert target.played_samples == 6 * TICK_SAMPLES  # a picture begins there
    assert target.played_samples % RESUME_GRID_SAMPLES == 0
    target.push_picture(synced(1, 3, key=True))
    target.push_picture(synced(1, 4, last=True))
    ticks = run(target, 60)
    assert ticks[0].pcm[-1] == 700 and ticks[1].pcm[0] == 800
    assert shown(ticks) == [b"p3", b"p4"]
    assert [p.skew_s for t in ticks for p in t.pictures] == [0, 0]
    assert events(ticks) == ["finished"]
    assert sum(t.pcm.any() for t in ticks) == 44  # 50 ticks but the first 6


def test_it_does_not_wait_for_pictures_for_ever() -> None:
    target = speaking()
    target.pause(1)
    run(target, 3)
    target.resume(1, target.played_samples)
    ticks = run(target, 12)
    assert [bool(t.pcm.any()) for t in ticks].index(True) == 8


def test_a_turn_that_has_not_begun_waits() -> None:
    target = playout(H264)
    target.open_turn(1)
    target.pause(1)
    target.push_voice(1, numbered(5), last=True)
    target.push_picture(synced(1, 0, key=True))
    assert events(run(target, 30)) == []
    target.push_picture(idle(key=True, name=b"alive"))
    assert shown(run(target, 2)) == [b"alive"], "the face lives on meanwhile"
    target.resume(1, 0)
    target.push_picture(synced(1, 0, key=True))  # made anew
    ticks = run(target, 2)
    assert events(ticks) == ["started"] and shown(ticks) == [b"p0"]


def test_a_paused_turn_that_is_voided_makes_no_sound() -> None:
    target = speaking()
    target.pause(1)
    run(target, 3)
    target.void(2)
    assert not any(t.pcm.any() for t in run(target, 5))
    assert not target.paused


def test_the_past_is_bounded() -> None:
    recall = Recall(RECALL_SAMPLES)
    for _ in range(1000):
        recall.add(np.ones(TICK_SAMPLES, np.int16))
    again = recall.take(10**9)
    assert RECALL_SAMPLES <= len(again) < RECALL_SAMPLES + TICK_SAMPLES
    assert len(recall.take(5)) == 0
