"""Who is let in: what is measured, what is predicted, and how near that comes to brute force."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import psutil
import pytest

from tests.fakes import ManualClock
from tests.serving.admission.simulated_machine import (
    Costs,
    Meters,
    Unit,
    Visitor,
    World,
    knee,
    outcome,
)
from visavis.serving.admission import probes
from visavis.serving.admission.admission import Admission, Neighbour
from visavis.serving.admission.meter import Assumed, Meter
from visavis.serving.admission.prediction import (
    Machine,
    Promise,
    predict,
    room,
    share_of_allowed,
    stretch_of,
)
from visavis.serving.admission.probes import (
    Usage,
    free_memory_bytes,
    memory_bytes,
    memory_limit_bytes,
    usage,
)

LLM = Assumed(units_per_s=0.08, unit_cost_s=0.3, cores=0.04)
FACE = Assumed(units_per_s=7.5, unit_cost_s=0.005, cores=0.03)
PICTURES = Promise(lanes=2, pace_hz=25.0)


def machine(cores: float = 2.0, sessions: float = 0.0, foreign: float = 0.0) -> Machine:
    return Machine(cores, sessions, 0.16, foreign)


def admission(clock: ManualClock, assumed: Assumed = LLM, **options: Any) -> Admission:
    return Admission("llm", clock, assumed, Promise(), cores=4.0, **{"slots": 99, **options})


def fill(weighed: Admission, most: int = 99) -> int:
    """Attach sessions until one is refused; how many there are."""
    sessions = weighed.meter.sessions
    while sessions < most and not weighed.refusal():
        sessions += 1
        weighed.meter.attached(sessions)
    return sessions


# ------------------------------------------------------------ measuring


def test_a_units_cost_is_found_whatever_the_order_in_which_they_are_served() -> None:
    """Two at once on one lane take twice as long: the cost of each is what the lane worked."""
    clock = ManualClock()
    meter = Meter(clock, LLM)
    meter.attached(2)
    for _ in range(200):
        meter.begin()
        meter.begin()
        clock.advance(1.0)
        meter.end()
        meter.end()
        clock.advance(9.0)
    now = meter.measured()
    assert now.unit_cost_s == pytest.approx(0.5, rel=0.1)
    assert now.units_per_s == pytest.approx(0.1, rel=0.1)


def test_what_a_busy_machine_adds_is_no_cost() -> None:
    clock = ManualClock()
    meter = Meter(clock, LLM)
    meter.attached(1)
    meter.stretch = 2.0
    for _ in range(200):
        with meter.unit() as unit:
            clock.advance(0.4)
            unit.first()
        clock.advance(9.6)
    now = meter.measured()
    assert now.unit_cost_s == pytest.approx(0.2, rel=0.2)
    assert now.first_s == pytest.approx(0.2, rel=0.05)
    assert now.late_p95_s == pytest.approx(0.4)


def test_what_is_done_once_is_not_what_a_session_asks_for() -> None:
    """The loop of an avatar is drawn while the first who sees it is there."""
    told = []
    for once_cores in (0.0, 0.5):
        clock = ManualClock()
        weighed = admission(clock)
        weighed.meter.attached(1)
        cpu_s = 0.0
        for _ in range(200):
            clock.advance(0.5)
            cpu_s += 0.5 * (0.1 + once_cores)
            weighed.look(Usage(cpu_s, 0.0), 0, 0)
            weighed.meter.aside(0.5 * once_cores)
        told.append(weighed.capacity().session_cores)
    assert told[1] == pytest.approx(told[0], rel=0.05)


def test_a_stage_at_rest_keeps_what_it_has_learnt_and_forgets_it_under_new_load() -> None:
    clock = ManualClock()
    meter = Meter(clock, LLM)
    meter.attached(4)
    for _ in range(100):
        with meter.unit():
            clock.advance(1.0)
    busy = meter.measured().units_per_s
    meter.attached(0)
    clock.advance(3600.0)
    assert meter.measured().units_per_s == pytest.approx(busy)
    meter.attached(4)
    clock.advance(600.0)
    assert meter.measured().units_per_s < busy / 3


def test_what_was_late_in_a_crowd_is_not_held_against_a_stage_for_ever() -> None:
    clock = ManualClock()
    meter = Meter(clock, LLM)
    meter.attached(1)
    meter.expect(0.5, 0.5)
    for _ in range(100):
        with meter.unit() as unit:
            clock.advance(1.0)
            unit.first()
    crowded = meter.measured()
    assert (crowded.firsts, crowded.late_p95_s) == (100, 1.0)
    assert crowded.correction == pytest.approx((20 + 100 * 2) / 120)
    clock.advance(901.0)
    rested = meter.measured()
    assert (rested.firsts, rested.late_p95_s, rested.correction) == (0, 0.0, 1.0)


def test_one_slow_first_unit_turns_nobody_away() -> None:
    clock = ManualClock()
    weighed = admission(clock)
    weighed.meter.attached(1)
    before = weighed.capacity().free_slots
    weighed.meter.expect(0.5, 0.5)
    for took_s in (5.0, 0.3, 0.3):
        weighed.meter.note_first(clock.now() - took_s, alone=True)
    assert weighed.meter.measured().correction == 1.0
    assert weighed.capacity().free_slots >= before > 1


def test_what_is_made_before_anybody_wants_it_tells_what_a_unit_costs() -> None:
    clock = ManualClock()
    meter = Meter(clock, LLM)
    meter.attached(1)
    rate_hz = meter.measured().units_per_s
    for _ in range(50):
        with meter.unit(wanted=False) as unit:
            clock.advance(0.1)
            unit.end()
        with meter.unit(wanted=False):
            clock.advance(0.9)  # given up: how long it would have been is not known
        with meter.unit(wanted=False) as delayed:
            clock.advance(0.1)
            meter.begin()
            clock.advance(0.9)
            meter.end(made=0)
            delayed.end()  # it made way
    now = meter.measured()
    assert now.unit_cost_s < 1.3
    assert now.units_per_s < rate_hz, "it was in nobody's way"


def test_an_answer_is_work_only_until_it_lets_others_begin() -> None:
    """A voice waits for the first phrase; while the rest is written, others get theirs."""
    clock = ManualClock()
    meter = Meter(clock, LLM)
    meter.attached(2)
    for _ in range(200):
        with meter.unit() as unit:
            clock.advance(0.3)
            unit.end()
            clock.advance(3.0)
    assert meter.measured().unit_cost_s == pytest.approx(0.3)


def test_where_answers_do_not_hold_each_other_up_long_ones_turn_nobody_away() -> None:
    def free_slots(lanes: int) -> int:
        clock = ManualClock()
        weighed = Admission("llm", clock, LLM, Promise(lanes), slots=8, cores=8.0)
        weighed.meter.attached(2)
        for _ in range(40):
            with weighed.meter.unit() as unit:
                clock.advance(0.3)
                unit.first()
                clock.advance(3.7)
            clock.advance(3.5)
        return weighed.capacity().free_slots

    assert free_slots(1) == 0 and free_slots(8) >= 2


def test_files_that_were_read_leave_a_container_its_memory(tmp_path: Path) -> None:
    limit, files = 64 << 20, 40 << 20
    for name, value in {"max": limit, "current": limit - (1 << 20)}.items():
        (tmp_path / f"memory.{name}").write_text(f"{value}\n")
    (tmp_path / "memory.stat").write_text(f"anon 1\ninactive_file {files}\nactive_file 7\n")
    assert free_memory_bytes(tmp_path) == (1 << 20) + files


@pytest.mark.parametrize(
    ("line", "folder", "names"),
    [
        ("0::/user/visavis.scope", "user", ("max", "current", "inactive_file")),
        (
            "4:cpu,memory:/docker/1/visavis",
            "memory/docker/1",
            ("limit_in_bytes", "usage_in_bytes", "total_inactive_file"),
        ),
    ],
)
def test_memory_is_what_the_strictest_group_that_we_are_in_leaves(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    line: str,
    folder: str,
    names: tuple[str, str, str],
) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text(f"2:cpu:/other\n{line}\n")
    monkeypatch.setattr(probes, "_PROC", str(tmp_path))
    (group := tmp_path / folder).mkdir(parents=True)
    (group / f"memory.{names[0]}").write_text("67108864\n")
    (group / f"memory.{names[1]}").write_text("60000000\n")
    (group / "memory.stat").write_text(f"inactive_file 1\n{names[2]} 10000000\n")
    assert memory_limit_bytes(tmp_path) == 67108864
    assert free_memory_bytes(tmp_path) == 67108864 - 50000000


def test_without_proc_memory_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told = memory_bytes()
    for file in ("_STATM", "_MEMORY"):
        monkeypatch.setattr(probes, file, tmp_path / "none")
    assert 0.5 < memory_bytes() / told < 2.0
    assert 0 < free_memory_bytes(tmp_path) < psutil.virtual_memory().total


def test_the_kernel_tells_what_this_process_used() -> None:
    before = usage()
    while (now := usage()).cpu_s < before.cpu_s + 0.05:
        sum(range(100_000))
    if not now.machine_s:
        pytest.skip("this kernel does not tell of the machine")
    assert now.machine_s - before.machine_s >= 0.03  # it counts in hundredths


def test_what_each_thread_waited_for_a_core_is_counted() -> None:
    told = Path("/proc/thread-self/schedstat")
    if not told.exists():
        pytest.skip("this kernel does not tell")
    ended, mine = threading.Event(), []

    def wait() -> None:
        mine.append(int(told.read_text().split()[1]) / 1e9)
        ended.wait()

    threads = [threading.Thread(target=wait) for _ in range(8)]
    for thread in threads:
        thread.start()
    while len(mine) < len(threads):
        time.sleep(0.001)
    waited_s = usage().waited_s
    ended.set()
    assert waited_s >= sum(mine) > 0


# ------------------------------------------------------------ predicting


def test_work_is_stretched_by_what_a_machine_is_asked_for() -> None:
    assert stretch_of(0.0, 2) == 1.0
    assert 1.2 < stretch_of(0.5, 2) < 1.5
    assert stretch_of(0.5, 8) < stretch_of(0.5, 2)


def test_each_session_more_costs_slack_until_there_is_none() -> None:
    now = Meter(ManualClock(), LLM).measured()
    slacks = [predict(now, Promise(), machine(8.0), more).slack for more in range(1, 30)]
    assert slacks == sorted(slacks, reverse=True)
    assert slacks[0] > 0 > slacks[-1]
    found = room(now, Promise(), machine(8.0), 99)
    assert slacks[found - 1] >= 0 > slacks[found]


def test_pictures_have_two_sigmas_of_reserve_on_their_lanes() -> None:
    """100 sessions at 30 %, an eighth of a lane each while they speak: 3.75 lanes and 2 x 0.57."""
    clock = ManualClock()
    meter = Meter(clock, FACE)
    meter.attached(99)
    prediction = predict(meter.measured(), Promise(lanes=6, pace_hz=25.0), machine(1000.0))
    assert prediction.load * 0.85 * 6 == pytest.approx(3.75 + 2 * 0.573, rel=0.01)


def test_a_slow_machine_still_takes_its_first_visitors() -> None:
    now = Meter(ManualClock(), LLM).measured()
    assert predict(now, Promise(budget_s=0.01), machine(8.0)).slack > 0


@pytest.mark.parametrize("assumed", [LLM, FACE])
def test_a_fresh_stack_lets_its_first_visitors_in_at_once(assumed: Assumed) -> None:
    promise = PICTURES if assumed is FACE else Promise()
    weighed = Admission("any", ManualClock(), assumed, promise, slots=32, cores=2.0)
    assert weighed.capacity().free_slots >= 2
    assert fill(weighed) >= 3


# ------------------------------------------------------------ admission


def test_an_idle_stage_takes_one_session_whatever_is_predicted() -> None:
    hopeless = admission(ManualClock(), Assumed(10.0, 1.0, 4.0))
    assert fill(hopeless) == 1
    assert "lanes at work" in hopeless.refusal()


def test_slots_are_the_last_word_and_alone_decide_where_that_is_set() -> None:
    assert fill(admission(ManualClock(), slots=2)) == 2
    hopeless = admission(ManualClock(), Assumed(10.0, 1.0, 4.0), slots=5, predicts=False)
    assert fill(hopeless) == 5
    assert hopeless.refusal() == "all 5 slots are taken"


def test_neighbours_and_work_of_others_leave_less_room() -> None:
    alone = fill(admission(ManualClock()))
    neighboured = admission(ManualClock())
    neighboured.hear("face-1", Neighbour("face", 6, 0.3, 1.8, 0.0))
    assert fill(neighboured) < alone
    crowded = watched(machine_cores=2.5)
    assert fill(crowded) < alone
    # What loads for some seconds is over before anybody who is let in has asked.
    assert fill(watched(machine_cores=2.5, seconds=5.0)) == alone
    assert crowded.capacity().run_queue_share == pytest.approx(0.75, abs=0.01)


def watched(machine_cores: float, seconds: float = 50.0, **options: Any) -> Admission:
    """Looked at for so long, in which it used a tenth of a core, waited for three tenths, and all
    work on the machine took `machine_cores`."""
    clock = ManualClock()
    weighed = admission(clock, **options)
    for _ in range(round(2 * seconds)):
        now_s = clock.now()
        weighed.look(Usage(0.1 * now_s, 0.3 * now_s, machine_cores * now_s), 0, 0)
        clock.advance(0.5)
    return weighed


def test_what_takes_nothing_of_our_cores_leaves_no_less_room() -> None:
    alone = fill(admission(ManualClock()))
    assert fill(watched(machine_cores=0.1)) == alone, "a visitor's stages wait for each other"
    assert fill(watched(machine_cores=30.0, foreign_cores=60.0)) == alone, "cores of others"
    clock = ManualClock()
    deserted = admission(clock)
    deserted.hear("face-1", Neighbour("face", 12, 0.3, 3.6, 0.0))
    clock.advance(5.0)
    assert fill(deserted) == alone, "a neighbour that has gone"


def test_memory_is_counted_by_what_a_session_was_seen_to_take() -> None:
    weighed = admission(ManualClock())
    weighed.look(Usage(0, 0), 100 << 20, 2000 << 20)
    weighed.meter.attached(1)
    weighed.look(Usage(0, 0), 600 << 20, 900 << 20)
    assert weighed.capacity().free_slots == 1
    weighed.meter.attached(2)
    weighed.look(Usage(0, 0), 1100 << 20, 400 << 20)
    assert weighed.refusal() == "400 MB of memory are left"


# ------------------------------------------------------------ twice the knee


class Weighed(Meters):
    """Four stages and a gateway on one machine, each weighing its sessions as a replica does."""

    assumed: ClassVar[dict[str, Assumed]] = {
        "asr": Assumed(0.04, 0.06, 0.02),
        "llm": LLM,
        "tts": Assumed(0.12, 0.15, 0.03),
        "face": Assumed(1.5, 0.025, 0.03),  # bunches of five pictures
        "gateway": Assumed(0.0, 0.0, 0.04),
    }
    promises: ClassVar[dict[str, Promise | None]] = {
        "face": Promise(lanes=2, pace_hz=5.0),
        "gateway": None,
    }

    def __init__(self, world: World) -> None:
        self._world = world
        self.stages = {
            name: Admission(
                name,
                world,
                assumed,
                self.promises.get(name, Promise()),
                slots=16,
                cores=world.cores,
            )
            for name, assumed in self.assumed.items()
        }

    def begin(self, stage: str) -> Unit:
        unit: Unit = self.stages[stage].meter.begin()  # type: ignore[assignment]
        return unit

    def end(self, stage: str) -> None:
        self.stages[stage].meter.end()

    def look(self, visitors: Sequence[Visitor]) -> None:
        """Now and then: the machine's figures, and everybody's to everybody."""
        world = self._world
        self.stages["gateway"].meter.working(sum(visitor.at_work for visitor in visitors))
        for name, stage in self.stages.items():
            lanes = [lane for lane in world.used_s if lane.startswith(name)]
            used_s = sum(world.used_s[lane] for lane in lanes)
            stage.look(Usage(used_s, sum(world.waited_s[lane] for lane in lanes)), 0, 0)
        for name, stage in self.stages.items():
            told = stage.capacity()
            figures = (told.sessions, told.session_cores, told.used_cores, world.now_s, told.duty)
            for other in self.stages.values():
                if other is not stage:
                    other.hear(name, Neighbour(name, *figures))

    def takes_another(self) -> bool:
        told = {n: stage.capacity() for n, stage in self.stages.items() if n != "gateway"}
        answer = [told[name] for name in ("asr", "llm", "tts")]
        predicted_s = sum(capacity.predicted_p95_s for capacity in answer)
        load = share_of_allowed(sum(capacity.alone_p95_s for capacity in answer), predicted_s)
        idle = not any(capacity.sessions for capacity in told.values())
        return idle or (load <= 1.0 and not any(capacity.refusal for capacity in told.values()))


KNOCKING_S = 300.0


CORES, COSTS = 2.0, Costs()


@pytest.fixture(scope="module")
def the_knee() -> tuple[int, float]:
    return knee(CORES, COSTS, length_s=450.0)


def crowd(callers: int, seed: int) -> list[Visitor]:
    """So many knock again and again for some minutes; those who were let in, and what they had for
    seven minutes after it."""
    world = World(CORES)
    weighed, inside = Weighed(world), list[Visitor]()

    def look() -> None:
        weighed.look(inside)
        if world.now_s < KNOCKING_S:
            world.after(1.0, look)

    def knock() -> None:
        if len(inside) == callers or world.now_s >= KNOCKING_S:
            return
        if weighed.takes_another():
            inside.append(Visitor(world, COSTS, seed + len(inside), weighed))
            for stage in weighed.stages.values():
                stage.meter.attached(len(inside))
        world.after(2.0, knock)

    look()
    knock()
    world.run(KNOCKING_S + 450.0)
    return inside


def test_simulated_at_twice_the_knee_as_many_are_let_in_and_served_as_at_the_knee(
    the_knee: tuple[int, float],
) -> None:
    most, at_the_knee_s = the_knee
    crowds = [crowd(2 * most, 100 * run) for run in (1, 2)]
    let_in = sum(len(inside) for inside in crowds) / len(crowds)
    assert 0.9 * most <= let_in <= 1.3 * most
    theirs = outcome([visitor for inside in crowds for visitor in inside], KNOCKING_S)
    assert theirs.p95_s <= 1.15 * at_the_knee_s
    assert theirs.late_share <= 0.01


def let_in_at_once(callers: int, seed: int) -> int:
    """How many of those who come within seconds, after one visitor alone has been there for 100."""
    world = World(CORES)
    weighed = Weighed(world)
    inside = list[Visitor]()
    while world.now_s < 100.0 + callers:
        if not inside or (world.now_s >= 100.0 and weighed.takes_another()):
            inside.append(Visitor(world, COSTS, seed + len(inside), weighed))
            for stage in weighed.stages.values():
                stage.meter.attached(len(inside))
        weighed.look(inside)
        world.run(world.now_s + 1.0)
    return len(inside)


def test_what_one_visitor_taught_lets_most_in_who_come_at_once(
    the_knee: tuple[int, float],
) -> None:
    most, _ = the_knee
    let_in = sum(let_in_at_once(2 * most, 100 * run) for run in range(6)) / 6
    assert 0.75 * most <= let_in <= 1.1 * most
