"""What a simulated step comes to: believed only where time was kept, and carried on in a line."""

from __future__ import annotations

import pytest

from visavis.tools.bench.load.exchange import Exchange
from visavis.tools.bench.load.ledger import Line
from visavis.tools.bench.load.results import ClientReport, ProcessLoad, StackReport, sum_up
from visavis.tools.bench.simulate.plan import SimulationPlan
from visavis.tools.bench.simulate.results import (
    Reading,
    SimulatedStep,
    carried_on,
    efficiencies,
    likenesses,
    summed_up,
)
from visavis.tools.bench.simulate.run import step_plans

_LATE = "simulated_device_late_seconds"


def step(
    replicas: int = 1, dilation: float = 1, latency_s: float = 0.5, tokens: float = 100.0,
    late_s: float = 0.001,
) -> SimulatedStep:  # fmt: skip
    """Ten counted seconds of ten visitors, of whom the first is answered once."""
    answered = Exchange(0, 0, True, False, 6.0, "answered", figures={"voice_to_voice": latency_s})
    records = [Line(0, at_s, "record", 1, "") for at_s in (4.9, 5.0, 14.9, 15.0)]
    client = ClientReport([answered], lines=records, lags_s=[0.0005] * 20)
    stack = StackReport({}, {"gateway": ProcessLoad(0.5, 0), "nats-server": ProcessLoad(0.1, 0)})
    load = sum_up(10, 0, (5.0, 15.0), [client], stack)
    bus = dict.fromkeys(("in_msgs", "out_msgs", "in_bytes", "out_bytes"), 0.0)
    bus |= {"subscriptions": 130.0, "connections": 6.0}
    grown = {
        f"{_LATE}_count": 10.0,
        f"{_LATE}_bucket{{le={late_s}}}": 10.0,
        "simulated_device_steps_total{stage=llm}": tokens,
        "simulated_device_runs_total{stage=llm}": tokens / 2,
        "simulated_device_busy_seconds_total{stage=llm}": 4.0 * replicas,
    }
    empty = Reading(0.0, {}, bus, {"gateway": 20})
    before = Reading(5.0, {}, bus, {"gateway": 41})
    carried = {**bus, "in_msgs": 5000.0, "out_msgs": 6000.0, "out_bytes": 1e7}
    after = Reading(15.0, grown, carried, {"gateway": 40})
    plan = SimulationPlan(dilation)
    return summed_up(plan, replicas, load, 5.0, (empty, before, after))


def test_a_step_is_valid_only_where_everybody_kept_time() -> None:
    assert step().doubts() == []
    assert step().devices["llm"].mean_batch == 2
    assert step().answers_per_s == 0.2
    assert step().devices["llm"].share == pytest.approx(0.4)
    [doubt] = step(late_s=0.02).doubts()
    assert "devices late by 20.0 ms" in doubt
    unknown = step()
    unknown.late_s = {}
    assert len(unknown.doubts()) == 2


def test_what_the_design_promises_is_held_against_the_step() -> None:
    # Nothing is known of what was heard of its only answer.
    assert step().shortfalls() == ["1 faults in what was heard"]
    assert "voice to voice P95 0.900 s" in step(latency_s=0.9).shortfalls()


def test_throughput_is_told_over_that_of_one_replica() -> None:
    found = efficiencies([step(), step(replicas=4, tokens=380.0)])
    assert [(one.replicas, one.tokens) for one in found] == [(1, 1.0), (4, pytest.approx(0.95))]
    assert efficiencies([step(), step()]) == []


def test_a_dilated_step_is_held_against_the_same_in_real_time() -> None:
    steps = [step(), step(dilation=4, latency_s=0.54), step(dilation=8, latency_s=0.56)]
    found = likenesses([*steps, step(dilation=4, replicas=2)])
    told = [(one.dilation, round(one.ratio, 2), one.alike) for one in found]
    assert told == [(4, 1.08, True), (8, 1.12, False)]


def test_carried_on_is_a_straight_line() -> None:
    carried = carried_on(step())
    assert carried is not None
    assert (carried.measured_sessions, carried.gateway_cores, carried.bus_cores) == (10, 500, 100)
    assert (carried.sessions_per_gateway, carried.gateways) == (14, 715)
    assert carried.msgs_per_s == pytest.approx(1.1e6)
    assert carried.files_per_gateway == 20 + 2 * 14


def test_steps_stand_side_by_side() -> None:
    plans = step_plans([4, 8], [1], [2.0], lambda slower: SimulationPlan(slower))
    found = [(one.visitors, one.replicas, one.simulation.dilation) for one in plans]
    assert found == [(4, 1, 2.0), (8, 1, 2.0)]
