"""The virtual device is occupied, queues and batches; nobody's work is done in parallel."""

from __future__ import annotations

import pytest

from simulation.device import BatchCurve, Progress, VirtualDevice
from visavis.serving.errors import AtCapacityError

DESIGN = BatchCurve(((1, 0.280), (4, 0.320), (8, 0.350)))


def ends(progress: list[Progress]) -> dict[int, float]:
    """When each request was over."""
    return {one.ticket: round(one.at_s, 6) for one in progress if one.over}


def test_a_curve_is_interpolated_between_its_points() -> None:
    assert [DESIGN.factor(size) for size in (1, 4, 8)] == pytest.approx([1, 320 / 280, 350 / 280])
    assert DESIGN.factor(2) == pytest.approx(1 + 40 / 280 / 3)
    for points in ((), ((2, 1.0),), ((1, 0.0),), ((1, 1.0), (1, 2.0)), ((1, 2.0), (2, 1.0))):
        with pytest.raises(ValueError):
            BatchCurve(points)


def test_requests_that_cannot_share_a_run_are_done_one_after_the_other() -> None:
    device = VirtualDevice(BatchCurve())
    first, second, third = (device.ask("phrase", 0.1, at) for at in (0.0, 0.01, 0.5))
    assert ends([*device.advance(10.0)]) == {first: 0.1, second: 0.2, third: 0.6}
    assert device.busy_s == pytest.approx(0.3)


def test_what_waits_shares_the_next_run_with_its_kind_alone() -> None:
    device = VirtualDevice(DESIGN)
    alone = device.ask("frame", 0.028, 0.0)
    frames = [device.ask("frame", 0.028, 0.01) for _ in range(4)]
    other = device.ask("loop", 0.028, 0.01)
    over = ends([*device.advance(1.0)])
    assert over[alone] == 0.028
    assert {over[ticket] for ticket in frames} == {0.06}
    assert over[other] == 0.088
    assert (device.runs, device.steps) == (3, 6)


def test_no_run_is_larger_than_the_curve() -> None:
    device = VirtualDevice(DESIGN)
    tickets = [device.ask("frame", 0.28, 0.0) for _ in range(10)]
    over = ends([*device.advance(5.0)])
    assert [over[ticket] for ticket in tickets] == [0.28] + 8 * [0.63] + [0.91]


def test_sequences_join_and_leave_between_steps() -> None:
    device = VirtualDevice(DESIGN)
    first = device.ask("token", 0.28, 0.0, steps=3)
    second = device.ask("token", 0.28, 0.1, steps=1)
    told = list(device.advance(5.0))
    both = 0.28 * DESIGN.factor(2)
    assert ends(told) == {
        second: pytest.approx(0.28 + both, abs=1e-5),
        first: pytest.approx(0.28 + both + 0.28, abs=1e-5),
    }
    assert [one.steps for one in told if one.ticket == first] == [0, 1, 2, 3]


def test_times_do_not_depend_on_when_somebody_looks() -> None:
    def run(looks: list[float]) -> dict[int, float]:
        device = VirtualDevice(DESIGN)
        for at in (0.0, 0.2, 0.21, 0.9):
            device.ask("token", 0.1, at, steps=4)
            if at in looks:
                told.extend(device.advance(at))
        return ends([*told, *device.advance(60.0)])

    told: list[Progress] = []
    seldom = run([])
    told = []
    assert run([0.2, 0.9]) == seldom


def test_what_is_dropped_leaves_its_place_to_others() -> None:
    device = VirtualDevice(BatchCurve())
    running, waiting, last = (device.ask("token", 1.0, 0.0, steps=2) for _ in range(3))
    device.drop(running)
    device.drop(waiting)
    told = device.advance(10.0)
    assert ends([*told]) == {last: 3.0}
    assert {one.ticket for one in told if one.steps} == {last}


def test_a_full_queue_refuses() -> None:
    device = VirtualDevice(BatchCurve(), most_waiting=1)
    device.ask("frame", 1.0, 0.0)
    device.ask("frame", 1.0, 0.0)
    with pytest.raises(AtCapacityError):
        device.ask("frame", 1.0, 0.5)
    device.ask("frame", 1.0, 1.5)
