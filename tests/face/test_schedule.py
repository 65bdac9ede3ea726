"""Who draws next: by what is to be shown first, a few of each face in a row, and never too late."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from services.face.draw.animator import Animator
from services.face.draw.pose import FacePose, Frame
from services.face.drawing import Drawing
from services.face.schedule import AT_ONCE_S, LARGEST_PASS, TICK_S, Job, Schedule
from tests.face.draw.test_animator import SENTENCE, lips_of, mel_chunks
from visavis.engine import EngineLane
from visavis.serving.admission.meter import Assumed, Meter
from visavis.serving.errors import EngineError
from visavis.wire.clock import MonotonicClock

TICK = 10 * TICK_S


class Due:
    """A face whose next frames are to be shown at these times; later ones may be made later."""

    def __init__(self, *due_s: float, again_s: float | None = None) -> None:
        self.due = list(due_s)
        self.again_s = again_s
        self.made = 0
        self.left = 0
        """How often what was spoken has been interrupted."""

    def due_s(self, now_s: float) -> float | None:
        return self.due[0] if self.due else None

    def next_frame(self, now_s: float) -> Frame | None:
        due_s = self.due.pop(0)
        self.made += 1
        return Frame(1, self.made, False, False, False, FacePose(), due_s=due_s, left=self.left)

    def delay_s(self, now_s: float) -> float | None:
        return None if self.again_s is None else self.again_s - now_s

    def wants(self, frame: Frame) -> bool:
        return frame.left == self.left


def seated(
    *faces: Due, now_s: float = TICK + 0.01, in_a_row: bool = True
) -> tuple[Schedule[Due], float]:
    schedule: Schedule[Due] = Schedule()
    for face in faces:
        schedule.add(face, now_s, in_a_row=in_a_row)
    return schedule, now_s


def finish(schedule: Schedule[Due], jobs: Sequence[Job[Due]], now_s: float) -> None:
    for job in jobs:
        schedule.done(job.seat, 1, now_s)


def times(jobs: Sequence[Job[Due]]) -> list[float]:
    return [job.due_s for job in jobs]


def test_what_is_shown_now_goes_at_once_and_alone() -> None:
    now_s = TICK + 0.01
    soon = now_s + AT_ONCE_S / 2
    schedule, _ = seated(Due(now_s + 0.5), Due(soon, soon + 0.04), Due(now_s - 0.1))
    assert schedule.urgent(now_s) and schedule.next_s(now_s) == now_s
    first = schedule.take(now_s)
    assert times(first) == [now_s - 0.1, soon]
    # What follows of them is wanted soon, and waits for no tick; what is of others does.
    finish(schedule, first, now_s)
    assert times(schedule.take(now_s + 0.005)) == [soon + 0.04]
    assert schedule.take(now_s + 0.005) == []


def test_a_pass_is_no_longer_than_its_first_picture_has_time() -> None:
    schedule, now_s = seated(Due(*(TICK + 0.01 + 0.04 * k for k in range(9))))
    passes = []
    while jobs := schedule.take(now_s):
        passes.append(len(jobs))
        now_s += 0.005 * len(jobs)
        finish(schedule, jobs, now_s)
    assert passes == [1, 3, 5]


def test_what_has_time_goes_together_at_the_tick_earliest_first() -> None:
    schedule, now_s = seated(Due(3.0, 3.04, 3.08), Due(3.03, 3.07), Due())
    assert schedule.take(now_s) == [] and not schedule.urgent(now_s)
    assert schedule.next_s(now_s) == pytest.approx(TICK + TICK_S)
    tick = schedule.take(TICK + TICK_S)
    assert times(tick) == [3.0, 3.03, 3.04, 3.07, 3.08]
    assert schedule.next_s(TICK + TICK_S) is None


def test_frames_that_come_near_their_time_wait_for_no_tick() -> None:
    now_s = TICK + 0.01
    schedule, _ = seated(Due(now_s + 0.05))
    assert schedule.next_s(now_s) == pytest.approx(now_s + 0.05 - AT_ONCE_S)
    assert len(schedule.take(now_s + 0.05 - AT_ONCE_S)) == 1


def test_a_pass_is_bounded_and_the_rest_follows() -> None:
    faces = [Due(*(5 + 0.04 * k + 0.001 * face for k in range(4))) for face in range(4)]
    schedule, _ = seated(*faces)
    first = schedule.take(TICK + TICK_S)
    assert len(first) == LARGEST_PASS and schedule.take(TICK + TICK_S) == []
    finish(schedule, first, TICK + TICK_S + 0.03)
    second = schedule.take(TICK + TICK_S + 0.03)
    assert len(second) == 16 - LARGEST_PASS
    assert times([*first, *second]) == sorted(times([*first, *second]))


def test_a_face_is_never_in_two_passes() -> None:
    schedule, now_s = seated(face := Due(0.0))
    jobs = schedule.take(now_s)
    face.due.append(0.04)
    schedule.look(jobs[0].seat, now_s)
    assert schedule.take(now_s) == [] and schedule.next_s(now_s) is None
    finish(schedule, jobs, now_s)
    assert times(schedule.take(now_s)) == [0.04]


def test_what_is_given_back_goes_before_all_else_of_its_face() -> None:
    schedule, _ = seated(Due(5.0, 5.04, 5.08, 5.12))
    tick = TICK + TICK_S
    jobs = schedule.take(tick)
    schedule.give_back(jobs[1:3])
    schedule.done(jobs[0].seat, 2, tick)
    again = schedule.take(tick)
    assert again == jobs[1:3]


def test_what_an_interruption_left_behind_does_not_keep_back_its_first_picture() -> None:
    schedule, now_s = seated(face := Due(5.0, 5.04))
    schedule.give_back(jobs := schedule.take(now_s + TICK_S))
    now_s += TICK_S + 0.01
    assert not schedule.urgent(now_s), "what is still wanted has time"
    face.left, face.due = 1, [now_s]
    schedule.look(jobs[0].seat, now_s)
    assert schedule.urgent(now_s) and schedule.next_s(now_s) == now_s
    assert times(schedule.take(now_s)) == [5.0, 5.04, now_s]


def test_a_face_that_waits_for_a_network_draws_one_by_one_and_waits_for_no_tick() -> None:
    schedule, now_s = seated(Due(3.0, 3.04, 3.08), in_a_row=False)
    for due_s in (3.0, 3.04, 3.08):
        (job,) = jobs = schedule.take(now_s)
        assert job.due_s == due_s and schedule.take(now_s) == []
        schedule.give_back(jobs)  # its network ran
        assert schedule.take(now_s) == jobs
        finish(schedule, jobs, now_s)


def test_a_face_is_looked_at_again_when_it_said() -> None:
    schedule, now_s = seated(face := Due(again_s=TICK + 0.05))
    face.due.append(TICK + 0.05)
    assert schedule.take(now_s) == [] and schedule.next_s(now_s) == pytest.approx(TICK + 0.05)
    assert len(schedule.take(TICK + 0.05)) == 1


def test_nothing_of_a_face_that_has_gone_is_taken() -> None:
    schedule, now_s = seated(Due(0.0), Due(1.0))
    (gone, stays) = schedule.take(now_s)
    gone.seat.face.due.append(0.1)
    schedule.remove(gone.seat)
    finish(schedule, [gone, stays], now_s)
    assert schedule.take(now_s) == []


@pytest.mark.parametrize("draw_s", [0.002, 0.012])
def test_with_too_many_faces_pictures_get_fewer_and_never_late(draw_s: float) -> None:
    """Six faces that speak for five seconds, on one lane: 12 ms a picture is nearly twice of what
    there is time for.
    """
    lips = [lips_of(mel_chunks(SENTENCE * 2)) for _ in range(6)]
    faces = [Animator(seed=k, lead_s=0.8) for k in range(6)]
    schedule: Schedule[Animator] = Schedule()
    began_s = now_s = 100.0
    for face, track in zip(faces, lips, strict=True):
        face.speak_turn(1, track, now_s)
        face.played(1, 0.0, now_s)
    seats = [schedule.add(face, now_s, in_a_row=True) for face in faces]
    shown: list[list[float]] = [[] for _ in faces]
    late: list[float] = []
    clock_s = now_s
    while now_s < began_s + 4.0:
        if now_s >= clock_s + 0.1:
            clock_s = now_s
            for face, seat in zip(faces, seats, strict=True):
                face.played(1, now_s - began_s, now_s)
                schedule.look(seat, now_s)
        jobs = schedule.take(now_s)
        if not jobs:
            now_s += 0.001
        for job in jobs:
            now_s += draw_s
            late.append(now_s - job.due_s)
            shown[faces.index(job.seat.face)].append(job.frame.index / 25)
        for job in jobs:
            job.seat.face.took(draw_s)
            schedule.done(job.seat, 1, now_s)
    pictures = [len(seen) for seen in shown]
    if draw_s < 1 / (6 * 25):
        assert min(pictures) > 100 and max(late) <= 0.05
    else:
        assert sum(pictures) > 0.9 * 4.0 / draw_s, "the lane is never idle"
        assert max(pictures) - min(pictures) < 0.15 * max(pictures), "nobody is left behind"
        half = len(late) // 2
        assert max(late[half:]) <= max(late[:half]) + 0.02 < 0.25, "no growing lateness"


async def test_a_face_in_a_pass_that_is_cut_off_is_told_and_does_not_stand_still() -> None:
    clock, lane, go = MonotonicClock(), EngineLane("t"), threading.Event()
    drawing = Drawing([lane], clock, Meter(clock, Assumed(1.0, 0.01, 0.01)))
    begun = asyncio.Event()

    def begin(frame: object) -> Any:
        begun.set()
        return SimpleNamespace(prepared=True, drawn=True)

    pictures: Any = SimpleNamespace(waits=False, begin=begin, make=lambda picture: None)
    animator: Any = Due(clock.now())
    busy = asyncio.create_task(lane.run(go.wait, 10))
    async with asyncio.timeout(10), drawing.face(animator, pictures) as face:
        drawing.start()
        await begun.wait()
        await drawing.stop()
        with pytest.raises(EngineError, match="cut off"):
            await anext(face)
        go.set()
        await busy
    lane.close()
