"""Who waits, and what he is told of it: pure, the time an argument."""

from __future__ import annotations

import heapq
import random
from dataclasses import replace

import pytest

from gateway.stages.registry import ReplicaState
from gateway.stages.room import shortage
from gateway.waiting.line import Line, Phase
from visavis.serving.admission.admission import Capacity
from visavis.serving.admission.departures import Departures
from visavis.serving.discovery import Replica


def test_a_place_that_nobody_asks_for_is_given_up() -> None:
    line: Line[str] = Line(9, patience_s=10.0)
    gone, there = line.join("a", "", 0.0), line.join("b", "", 0.0)
    there.seen_s = 9.0
    assert line.expire(11.0) == [gone]
    assert (gone.phase, there.phase, len(line)) == (Phase.LEFT, Phase.WAITING, 1)


def departures_of_visits(seconds: float) -> Departures:
    """What twenty visits have taught that were about as long."""
    departures = Departures()
    for number in range(20):
        departures.opened(f"old-{number}", 0.0)
        departures.ended(f"old-{number}", seconds + number % 3)
    return departures


def test_visits_of_the_same_length_end_when_they_are_due() -> None:
    departures = departures_of_visits(100.0)
    departures.opened("a", 30.0)
    departures.opened("b", 80.0)
    first, second, third = departures.waits_s(3, 110.0)
    assert first == pytest.approx(20.0, abs=4.0)
    assert second == pytest.approx(70.0, abs=4.0)
    assert third == pytest.approx(120.0, abs=5.0), "the one who followed the first"


def test_a_place_that_somebody_has_just_left_is_the_next_ones() -> None:
    departures = departures_of_visits(100.0)
    for number in range(4):
        departures.opened(f"now-{number}", 200.0 + 25 * number)
    departures.ended("now-0", 300.0, awaited=True)
    first, second = departures.waits_s(2, 300.0)
    assert first == pytest.approx(0.0, abs=1.0)
    assert second == pytest.approx(25.0, abs=4.0)


def test_simulated_waits_at_twice_the_knee_are_told_within_half_for_four_of_five() -> None:
    """Six places and twelve visitors, who stay for three minutes on average (the logarithm's
    standard deviation is 0.4), and stand in line again half a minute after they have left."""
    places, departures, rng = 6, Departures(), random.Random(1)
    coming = [(60 * rng.random(), visitor, "comes") for visitor in range(2 * places)]
    heapq.heapify(coming)
    line = list[tuple[float, int, float | None]]()
    told, inside = list[tuple[float, float]](), 0
    while len(told) < 200:
        now_s, visitor, what = heapq.heappop(coming)
        if what == "comes":
            wait_s = departures.waits_s(len(line) + 1, now_s)[-1] if inside == places else None
            line.append((now_s, visitor, wait_s))
        else:
            departures.ended(str(visitor), now_s)
            inside -= 1
            heapq.heappush(coming, (now_s + 30.0, visitor, "comes"))
        while line and inside < places:
            joined_s, visitor, wait_s = line.pop(0)
            inside += 1
            if wait_s is not None:
                told.append((wait_s, now_s - joined_s))
            departures.opened(str(visitor), now_s)
            heapq.heappush(coming, (now_s + rng.lognormvariate(5.19, 0.4), visitor, "leaves"))
    right = sum(abs(told_s - waited_s) <= 0.5 * waited_s for told_s, waited_s in told)
    assert right / len(told) >= 0.8


def state(service: str, free: int, **capacity: object) -> ReplicaState:
    replica = Replica(service, f"{service}-1", "1", "", "", "cpu")
    told = Capacity(**capacity)  # type: ignore[arg-type]
    return ReplicaState(replica, True, 9, free, capacity=told)


def test_all_four_need_room_and_the_answer_as_a_whole() -> None:
    here = {
        "asr": [state("asr", 3, sessions=2, predicted_p95_s=0.1, alone_p95_s=0.1)],
        "llm": [state("llm", 3, sessions=2, predicted_p95_s=0.3, alone_p95_s=0.2)],
        "tts": [state("tts", 3, sessions=2, predicted_p95_s=0.1, alone_p95_s=0.1)],
        "face": [state("face", 1), state("face", 0, refusal="2.0 lanes are needed")],
    }
    assert shortage(here.__getitem__) is None
    here["llm"] = [state("llm", 3, sessions=2, predicted_p95_s=0.5, alone_p95_s=0.2)]
    short = shortage(here.__getitem__)
    assert short is not None and short.service == "answer"
    here["face"] = here["face"][1:]
    short = shortage(here.__getitem__)
    assert short is not None and (short.service, short.why) == ("face", "2.0 lanes are needed")
    leaves = state("face", 5)
    here["face"] += [replace(leaves, replica=replace(leaves.replica, draining=True))]
    assert shortage(here.__getitem__) == short, "one that is about to end is no room"
    here["face"] = []
    here["llm"] = [state("llm", 3)]
    assert shortage(here.__getitem__) is None, "a stage that is away is no want of room"
