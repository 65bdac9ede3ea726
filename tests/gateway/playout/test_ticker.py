"""Whose tick is due. Pure: time is told."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from gateway.playout.pacing import (
    HALF_TICK_SAMPLES,
    LONG_TICK_SAMPLES,
    MAX_LAG_S,
    RATE_HZ,
    TICK_S,
    TICK_SAMPLES,
    Schedule,
)
from gateway.playout.playout import Playout
from gateway.playout.ticker import Ticker
from tests.fakes import ManualClock


def due(schedule: Schedule[str], now: float) -> list[str]:
    return [member for member, _ in schedule.due(now)]


@pytest.fixture
def schedule() -> Schedule[str]:
    """One that has begun at 100 s, when `a` came."""
    made: Schedule[str] = Schedule()
    made.join("a", 100.0)
    return made


def test_one_waking_serves_everybody(schedule: Schedule[str]) -> None:
    assert due(schedule, 100.0) == ["a"]
    schedule.join("b", 100.007)
    schedule.join("c", 100.0199)
    assert due(schedule, 100.0199) == []
    assert schedule.wait_s(100.0199) == pytest.approx(0.0001)
    served = schedule.due(100.021)
    assert [member for member, _ in served] == ["a", "b", "c"]
    assert [time for _, time in served] == pytest.approx([100.02] * 3)


def test_a_tick_keeps_its_own_time_however_late_it_runs(schedule: Schedule[str]) -> None:
    served = [schedule.due(now) for now in (100.0, 100.055, 100.055, 100.06, 100.06)]
    times = [time for due_now in served for _, time in due_now]
    assert times == pytest.approx([100.0, 100.02, 100.04, 100.06])
    assert schedule.wait_s(100.06) == pytest.approx(0.02)


def test_who_has_waited_longest_comes_first_and_each_once(schedule: Schedule[str]) -> None:
    due(schedule, 100.0)
    schedule.join("b", 100.041)
    assert due(schedule, 100.061) == ["a", "b"]
    schedule.join("c", 100.061)
    assert due(schedule, 100.08) == ["a", "b", "c"]
    assert due(schedule, 100.08) == ["a"], "it catches up while the others wait for their time"


def test_after_a_long_stop_the_past_is_left_alone(schedule: Schedule[str]) -> None:
    due(schedule, 100.0)
    stopped = 100.0 + MAX_LAG_S + 2 * TICK_S
    assert due(schedule, stopped) == ["a"]
    assert due(schedule, stopped) == []
    assert 0 < (schedule.wait_s(stopped) or 0) <= TICK_S


@pytest.mark.parametrize("hours", [0, 1, 500])
def test_no_tick_is_lost_to_rounding(schedule: Schedule[str], hours: int) -> None:
    first = hours * 3600 * 50
    due(schedule, 100.0 + first * TICK_S)
    for tick in range(first + 1, first + 500):
        now = 100.0 + tick * TICK_S
        assert due(schedule, now - 1e-4) == []
        assert due(schedule, now) == ["a"]


def test_who_rests_is_not_served_and_its_time_goes_on(schedule: Schedule[str]) -> None:
    assert due(schedule, 100.0) == ["a"]
    schedule.rest("a")
    assert schedule.wait_s(100.0) is None and due(schedule, 130.0) == []
    assert schedule.wake("a", 130.001) == 1500 * TICK_SAMPLES, "ticks 1 to 1500 have passed"
    assert schedule.wait_s(130.001) == pytest.approx(0.019)
    assert due(schedule, 130.02) == ["a"]
    assert schedule.wake("a", 130.03) == 0, "it does not rest"


def test_who_wakes_before_its_next_tick_has_missed_none(schedule: Schedule[str]) -> None:
    due(schedule, 100.0)
    schedule.rest("a")
    assert schedule.wake("a", 100.003) == 0
    assert due(schedule, 100.02) == ["a"]


def test_half_a_tick_puts_its_member_beside_the_others_and_another_one_back(
    schedule: Schedule[str],
) -> None:
    schedule.join("b", 100.0)
    assert due(schedule, 100.0) == ["a", "b"]
    schedule.lasts("a", HALF_TICK_SAMPLES)
    assert due(schedule, 100.01) == ["a"], "b's tick is not over"
    assert due(schedule, 100.02) == ["b"], "a whole tick: it stays beside the grid"
    assert due(schedule, 100.03) == ["a"]
    schedule.lasts("a", HALF_TICK_SAMPLES)
    assert due(schedule, 100.04) == ["a", "b"]


def test_a_long_tick_lasts_as_long_as_two(schedule: Schedule[str]) -> None:
    schedule.join("b", 100.0)
    assert due(schedule, 100.0) == ["a", "b"] and schedule.may_be_long("a")
    schedule.lasts("a", LONG_TICK_SAMPLES)
    assert due(schedule, 100.02) == ["b"] and not schedule.may_be_long("b"), "they are together"
    assert due(schedule, 100.04) == ["a", "b"] and schedule.may_be_long("b")


def test_who_is_beside_the_grid_stays_there_after_a_long_stop(schedule: Schedule[str]) -> None:
    schedule.join("b", 100.0)
    due(schedule, 100.0)
    schedule.lasts("a", HALF_TICK_SAMPLES)
    stopped = 100.0 + 2 * MAX_LAG_S + 0.001
    assert due(schedule, stopped) == ["a", "b"] and due(schedule, stopped) == []
    assert due(schedule, stopped + 0.01) == ["a"] and due(schedule, stopped + 0.02) == ["b"]


def test_sessions_wake_together_but_for_the_one_whose_answer_is_awaited() -> None:
    clock = ManualClock(100.0)
    ticker, awaited = Ticker(clock), Playout()
    woken: list[tuple[str, int]] = []

    def tick(name: str, playout: Playout, may_be_long: bool) -> int:
        length = len(playout.tick().pcm)
        woken.append((name, round((clock.now() - 100.0) * 1000)))
        return length

    for name, playout in {"a": awaited, "b": Playout()}.items():
        ticker.join(partial(tick, name, playout), playout.skip, lambda error: None)

    def run_until(ms: int) -> list[tuple[str, int]]:
        woken.clear()
        while clock.now() < 100.0 + ms / 1000 - 1e-6:
            ticker._pass()
            clock.advance(0.001)
        return list(woken)

    assert run_until(21) == [("a", 0), ("b", 0), ("a", 20), ("b", 20)]
    awaited.open_turn(1)
    assert run_until(43) == [("a", 40), ("b", 40)]
    awaited.push_voice(1, np.ones(2 * TICK_SAMPLES, np.int16), last=True)  # 3 ms behind a tick
    assert run_until(51) == [("a", 50)] and awaited.playing
    assert run_until(111) == [("b", 60), ("a", 70), ("b", 80), ("a", 90), ("b", 100), ("a", 110)]
    assert not awaited.playing
    back = [("b", 120), ("a", 130), ("a", 140), ("b", 140), ("a", 160), ("b", 160)]
    assert run_until(161) == back


def test_who_sleeps_beside_the_grid_is_told_of_the_half_tick_that_it_wakes_later(
    schedule: Schedule[str],
) -> None:
    due(schedule, 100.0)
    schedule.lasts("a", HALF_TICK_SAMPLES)
    schedule.rest("a")
    assert schedule.wake("a", 101.001) == pytest.approx(1.01 * RATE_HZ)
    assert due(schedule, 101.02) == ["a"]


def test_who_has_left_is_not_served(schedule: Schedule[str]) -> None:
    schedule.join("b", 100.0)
    schedule.rest("b")
    schedule.leave("a")
    schedule.leave("b")
    schedule.leave("b")
    assert due(schedule, 101.0) == [] and schedule.wait_s(101.0) is None
    assert schedule.wake("b", 102.0) == 0 and not len(schedule)
