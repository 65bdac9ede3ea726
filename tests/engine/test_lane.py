"""Which request goes next and which go together, by the clock; and the lane that does the work."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from typing import Any

import pytest

from tests.fakes import ManualClock, MetricGrowth
from tests.rows import KnownCurve
from visavis.engine import EngineLane, RunCurve, SharedRuns, Urgency
from visavis.engine.batching import Sharing
from visavis.engine.queueing import DeadlineQueue
from visavis.engine.rows import RowAsk, RowNetwork
from visavis.serving.errors import AtCapacityError, EngineError, SupersededError

# ------------------------------------------------------------ the queue


def queue(limit: int = 100) -> DeadlineQueue[str]:
    return DeadlineQueue(limit)


class Owner:
    """Somebody who asks."""


def run_of(requests: DeadlineQueue[str], now_s: float) -> list[str]:
    return [waiting.item for waiting in requests.take(now_s)]


def all_of(requests: DeadlineQueue[str], now_s: float) -> list[str]:
    order = []
    while run := run_of(requests, now_s):
        order += run
    return order


def test_the_class_goes_before_the_deadline_and_the_deadline_before_the_arrival() -> None:
    requests = queue()
    requests.add("partial, overdue", Urgency(2, deadline_s=1.0), 5.0)
    requests.add("pause, late", Urgency(1, deadline_s=9.0), 5.0)
    requests.add("pause, soon", Urgency(1, deadline_s=6.0), 5.0)
    requests.add("pause, at once", Urgency(1), 5.1)
    requests.add("pause, at once too", Urgency(1), 5.1)
    requests.add("final", Urgency(0, deadline_s=20.0), 5.2)
    assert all_of(requests, 5.2) == [
        "final",
        "pause, at once",
        "pause, at once too",
        "pause, soon",
        "pause, late",
        "partial, overdue",
    ]
    assert requests.due_in_s(6.0) is None


def curve_of(*seconds: float, now_s: float = 0.0) -> RunCurve:
    """Of runs of 1, 2, 3 … requests, as if they had been measured."""
    curve = RunCurve()
    for size, each in enumerate(seconds, start=1):
        for _ in range(3):
            curve.observe(size, 1.0, each, now_s)
    return curve


GAINING = (0.010, 0.012, 0.014, 0.016)
"""Seconds of runs of one to four on a device that gains by batches."""
EVEN = (0.010, 0.020, 0.030, 0.040)
"""The same where two take as long as one after the other."""


def test_a_run_is_as_large_as_the_deadline_of_its_first_leaves_time_for() -> None:
    for slack_s, wanted in {0.0161: "abcd", 0.0141: "abc", 0.0121: "ab", 0.0101: "a"}.items():
        requests, shared = queue(), Sharing(4, curve=curve_of(*GAINING))
        for item in "abcd":
            requests.add(item, Urgency(deadline_s=5 + slack_s), 5.0, sharing=shared)
        assert "".join(run_of(requests, 5.0)) == wanted


def test_those_who_are_late_go_together_where_that_serves_them_sooner_on_average() -> None:
    # Together two have it after 16 ms; one by one after 10 and 20, which is 15 on average.
    for two_s, wanted in {0.0149: ["a", "b"], 0.016: ["a"]}.items():
        requests, shared = queue(), Sharing(2, curve=curve_of(0.010, two_s))
        requests.add("a", Urgency(), 5.0, sharing=shared)
        requests.add("b", Urgency(), 5.0, sharing=shared)
        assert run_of(requests, 5.0) == wanted


def test_one_that_is_late_is_made_no_later_by_those_of_a_lower_class() -> None:
    for deadline_s, wanted in {5.0: ["first"], 9.0: ["first", "ahead"]}.items():
        requests, shared = queue(), Sharing(2, curve=curve_of(*GAINING))
        requests.add("ahead", Urgency(1, deadline_s=deadline_s), 5.0, sharing=shared)
        requests.add("first", Urgency(0, deadline_s=deadline_s), 5.0, sharing=shared)
        assert run_of(requests, 5.0) == wanted


def test_a_size_is_tried_once_half_of_it_was_worth_it_and_anew_after_minutes() -> None:
    requests, shared = queue(), Sharing(8)
    sizes = []
    now_s = 0.0
    for _ in range(16):
        for item in "abcdefgh":
            requests.add(item, Urgency(deadline_s=now_s + 9), now_s, sharing=shared)
        run = requests.take(now_s)
        sizes.append(len(run))
        shared.curve.observe(len(run), 1.0, 0.010 if len(run) < 4 else 0.090, now_s)
        requests.clear()
        now_s += 1
    # Two do twice as much as one, four do less than two, and so eight are never tried.
    assert sizes[0] == 1 and set(sizes[1:4]) == {2} and max(sizes) == 4
    assert sizes.count(4) == 3 and sizes[-1] in (2, 3)
    for item in "ab":
        requests.add(item, Urgency(deadline_s=999), now_s + 600, sharing=shared)
    assert run_of(requests, now_s + 600) == ["a"], "all is forgotten: a machine changes"


def test_a_run_costs_by_its_longest_so_that_a_short_one_does_not_go_with_a_long_one() -> None:
    for lengths, wanted in {(1.0, 1.1): 2, (1.0, 9.0): 1}.items():
        sharing = Sharing(2, lambda length: length, curve=curve_of(0.010, 0.012))
        requests = DeadlineQueue[float](10)
        for length in lengths:
            requests.add(length, Urgency(deadline_s=9), 5.0, sharing=sharing, ask=length)
        assert len(requests.take(5.0)) == wanted


def test_a_run_waits_for_company_on_an_idle_engine_as_long_as_its_deadline_allows() -> None:
    def shared() -> Sharing:
        return Sharing(2, curve=curve_of(0.010, 0.012))

    requests = queue()
    requests.add("soon", Urgency(deadline_s=5.030), 5.0, sharing=shared())
    assert requests.due_in_s(5.0) == pytest.approx(0.018), "the run of two takes 12 of 30 ms"
    assert run_of(requests, 5.0) == [] and run_of(requests, 5.0181) == ["soon"]
    requests.add("later", Urgency(deadline_s=9.0), 5.0, sharing=shared())
    assert requests.due_in_s(5.0) == pytest.approx(0.05), "never longer"
    requests.add("other work", Urgency(priority=2), 5.01)
    assert run_of(requests, 5.01) == ["later"], "nobody waits while there is other work"
    requests.clear()
    requests.add("at once", Urgency(), 5.0, sharing=shared())
    assert run_of(requests, 5.0) == ["at once"]
    requests.add("no gain", Urgency(deadline_s=9.0), 5.0, sharing=Sharing(2, curve=curve_of(*EVEN)))
    assert run_of(requests, 5.0) == ["no gain"]


def test_one_that_asks_far_ahead_does_not_hold_up_the_others() -> None:
    requests, shared = queue(), Sharing(4, curve=curve_of(*GAINING))
    for k in range(5):
        requests.add(f"a{k}", Urgency(deadline_s=1 + k / 25), 0.0, sharing=shared)
    requests.add("b0", Urgency(deadline_s=1.01), 0.0, sharing=shared)
    requests.add("c0", Urgency(deadline_s=1.02), 0.0, sharing=shared)
    assert run_of(requests, 0.0) == ["a0", "b0", "c0", "a1"]


def test_of_those_who_are_late_whoever_has_had_least_goes_first() -> None:
    requests = queue()
    for k in range(3):
        requests.add(f"greedy {k}", Urgency(deadline_s=1.0, owner="greedy"), 5.0)
    requests.add("modest", Urgency(deadline_s=4.0, owner="modest"), 5.0)
    requests.add("in time", Urgency(deadline_s=9.0, owner="third"), 5.0)
    order = []
    while run := requests.take(5.0):
        requests.finished(run, 0.1)
        order += [waiting.item for waiting in run]
    assert order == ["greedy 0", "modest", "greedy 1", "greedy 2", "in time"]
    # Whoever comes after a rest does not make up for it: the others would stand still.
    requests.add("greedy 3", Urgency(owner="greedy"), 6.0)
    requests.add("new", Urgency(owner="new"), 6.1)
    assert run_of(requests, 6.2) == ["new"] and run_of(requests, 6.2) == ["greedy 3"]


def test_owners_who_come_once_are_not_kept_account_of_for_ever() -> None:
    requests, owners = queue(), [Owner() for _ in range(300)]
    first = weakref.ref(owners[0])
    while owners:
        requests.add("", Urgency(owner=owners.pop(0)), 5.0)
        requests.finished(requests.take(5.0), 0.1)
    assert first() is None


# ------------------------------------------------------------ the lane


@contextlib.asynccontextmanager
async def lane_of(**options: Any) -> AsyncIterator[EngineLane]:
    lane = EngineLane("t", **options)
    try:
        async with asyncio.timeout(10):
            yield lane
    finally:
        lane.close()


@contextlib.asynccontextmanager
async def held(lane: EngineLane) -> AsyncIterator[Callable[[], None]]:
    """The thread is busy until it is let go, or the block ends."""
    began, go = threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        assert go.wait(10)

    busy = asyncio.create_task(lane.run(work))
    assert await asyncio.to_thread(began.wait, 10)
    try:
        yield go.set
    finally:
        go.set()
        await busy


async def test_lane_runs_on_one_other_thread() -> None:
    async with lane_of() as lane:
        threads = await asyncio.gather(*(lane.run(threading.get_ident) for _ in range(5)))
    assert len(set(threads)) == 1
    assert threads[0] != threading.get_ident()


async def test_the_most_urgent_goes_first_and_what_nobody_awaits_is_not_done() -> None:
    done: list[str] = []
    async with lane_of() as lane, held(lane) as let_go:
        urgencies = {
            "partial": Urgency(2, key="s", supersedes="s"),
            "pause": Urgency(1),
            "final": Urgency(0),
        }
        asked = {
            name: asyncio.create_task(lane.run(done.append, name, urgency=urgency))
            for name, urgency in urgencies.items()
        }
        given_up = asyncio.create_task(lane.run(done.append, "given up"))
        await asyncio.sleep(0)
        newer = asyncio.create_task(lane.run(done.append, "newer", urgency=urgencies["partial"]))
        given_up.cancel()
        with pytest.raises(SupersededError):
            await asked.pop("partial")
        let_go()
        await asyncio.gather(newer, *asked.values())
    assert done == ["final", "pause", "newer"]


async def test_what_is_given_back_is_given_back_though_nobody_awaits_it() -> None:
    done: list[str] = []
    async with lane_of(most_waiting=1) as lane, held(lane) as let_go:
        last = asyncio.create_task(lane.run(done.append, "last"))
        await asyncio.sleep(0)
        with pytest.raises(AtCapacityError):
            await lane.run(done.append, "too many")
        lane.release(lambda: done.append("given back")).cancel()
        let_go()
        await last
    assert done == ["given back", "last"]


async def test_errors_go_to_the_asker_and_the_next_one_is_served() -> None:
    async with lane_of() as lane:
        with pytest.raises(ZeroDivisionError):
            await lane.run(lambda: 1 / 0)
        with pytest.raises(RuntimeError, match="StopIteration"):
            await lane.run(next, iter(()))
        assert await lane.run(int, "7") == 7


async def test_whoever_waits_when_it_closes_is_told() -> None:
    async with lane_of() as lane:
        async with held(lane) as let_go:
            waiting = asyncio.create_task(lane.run(int))
            await asyncio.sleep(0)
            closing = asyncio.create_task(asyncio.to_thread(lane.close))
            with pytest.raises(EngineError, match="closed"):
                await waiting
            let_go()
            await closing
        with pytest.raises(EngineError, match="closed"):
            await lane.run(int)


async def test_lane_lets_others_in_between_two_items() -> None:
    order: list[str] = []

    def count(name: str, items: int) -> Iterator[int]:
        for i in range(items):
            order.append(f"{name}{i}")
            yield i

    async with lane_of() as lane:

        async def consume(name: str) -> list[int]:
            return [i async for i in lane.stream(count, name, 3)]

        assert await asyncio.gather(consume("a"), consume("b")) == [[0, 1, 2], [0, 1, 2]]
    assert order.index("b0") < order.index("a2")


async def test_leaving_a_stream_early_closes_the_generator() -> None:
    closed = threading.Event()

    def endless() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            closed.set()

    async with lane_of() as lane:
        stream = lane.stream(endless)
        async for _ in stream:
            break
        await stream.aclose()
        await lane.run(int)
        assert closed.is_set()


# ------------------------------------------------------------ shared runs


class Doubling:
    """A network that doubles, up to three in a run, and keeps on which threads; fails for 13."""

    def __init__(
        self, lane: EngineLane, curve: RunCurve | None = None, *, short: bool = False
    ) -> None:
        self.batches: list[list[int]] = []
        self.threads: set[int] = set()
        known = KnownCurve(0.0010, 0.0012, 0.0013) if short else KnownCurve(0.010, 0.012, 0.013)
        self.runs: SharedRuns[int, int] = lane.shared(
            self.run, largest=3, curve=curve or known, short=short
        )

    def run(self, asks: Sequence[int]) -> list[int]:
        self.batches.append(list(asks))
        self.threads.add(threading.get_ident())
        if 13 in asks:
            raise ZeroDivisionError("thirteen")
        return [2 * ask for ask in asks]


async def test_sessions_share_runs_and_get_their_own_answers() -> None:
    async with lane_of() as lane:
        network = Doubling(lane)
        async with held(lane):
            answers = [
                network.runs.ask(10 * session + k, Urgency(deadline_s=float(k)))
                for session in (1, 2)
                for k in range(3)
            ]
        assert await asyncio.gather(*answers) == [20, 22, 24, 40, 42, 44]
    assert network.batches == [[10, 20, 11], [21, 12, 22]]


@pytest.mark.parametrize("short", [False, True])
async def test_a_failed_run_is_told_what_nobody_wants_is_not_run_and_the_end_is_that_of_the_lane(
    short: bool,
) -> None:
    async with lane_of() as lane:
        network = Doubling(lane, short=short)
        async with contextlib.nullcontext() if short else held(lane):
            failing = [network.runs.ask(13), network.runs.ask(1)]
        for answer in failing:
            with pytest.raises(EngineError, match="thirteen"):
                await answer
        async with contextlib.nullcontext() if short else held(lane):
            unwanted, other = network.runs.ask(4), network.runs.ask(5)
            unwanted.cancel()
        assert await other == 10
        assert network.batches == [[13, 1], [5]]
        await asyncio.to_thread(lane.close)
        with pytest.raises(EngineError, match="closed"):
            await network.runs.ask(6)


async def test_short_runs_are_done_on_the_event_loop_with_all_who_ask_in_one_round() -> None:
    async with lane_of() as lane:
        network = Doubling(lane, short=True)
        answers = await asyncio.gather(*(network.runs.ask(n) for n in range(5)))
        assert answers == [0, 2, 4, 6, 8]
        assert network.batches == [[0, 1, 2], [3, 4]]
        assert network.threads == {threading.get_ident()}


async def test_runs_that_are_long_or_not_known_to_be_short_go_to_the_thread() -> None:
    async with lane_of() as lane:
        for curve in (KnownCurve(0.0021), RunCurve()):
            network = Doubling(lane, curve, short=True)
            assert await network.runs.ask(1) == 2
            assert network.threads and threading.get_ident() not in network.threads


async def test_short_runs_wait_their_turn_while_the_thread_is_at_work() -> None:
    async with lane_of() as lane:
        network = Doubling(lane, short=True)
        async with held(lane):
            answer = network.runs.ask(1)
            await asyncio.sleep(0.01)
            assert not network.batches
        assert await answer == 2
        assert threading.get_ident() not in network.threads


class TimedNetwork:
    """Takes as long as it is told for so many rows, on a clock that only it moves."""

    def __init__(self, clock: ManualClock, seconds: Sequence[float]) -> None:
        self.sizes: list[int] = []
        self._clock = clock
        self._seconds = seconds

    def run(self, asks: Sequence[int]) -> Sequence[int]:
        self.sizes.append(len(asks))
        self._clock.advance(self._seconds[len(asks) - 1])
        return asks


async def largest_runs(seconds: Sequence[float]) -> int:
    """Of eight rounds in which four sessions ask at once, the largest of the last two."""
    clock = ManualClock(100.0)
    async with lane_of(clock=clock) as lane:
        network = TimedNetwork(clock, seconds)
        runs = lane.shared(network.run, largest=4)
        for _ in range(8):
            async with held(lane):
                soon = Urgency(1, deadline_s=clock.now() + 1)
                answers = [runs.ask(session, soon) for session in range(4)]
            assert await asyncio.gather(*answers) == [0, 1, 2, 3]
            last, network.sizes = network.sizes, []
        await lane.run(int)
        return max(last)


@pytest.mark.parametrize(("seconds", "wanted"), [(GAINING, 4), (EVEN, 1)])
async def test_a_lane_measures_its_network_and_shares_runs_only_where_that_gains(
    seconds: tuple[float, ...], wanted: int
) -> None:
    rows = MetricGrowth("engine_batch_rows_count", lane="t")
    assert await largest_runs(seconds) == wanted and rows.value > 8


@pytest.mark.parametrize("curve", [GAINING, EVEN])
async def test_works_take_turns_at_a_network_only_where_sharing_it_gains(
    curve: tuple[float, ...],
) -> None:
    sizes: list[int] = []
    ended: list[str] = []

    def run(rows: Sequence[int]) -> Sequence[int]:
        sizes.append(len(rows))
        return [10 * row for row in rows]

    network = RowNetwork(run, 3, lambda row: 1.0, KnownCurve(*curve))

    def work(name: str) -> Generator[str | RowAsk, Any, None]:
        first = yield RowAsk(network, 1)
        second = yield RowAsk(network, 2)
        ended.append(name)
        yield f"{name} {first} {second}"

    async with lane_of() as lane:

        async def items(name: str) -> list[str]:
            return [item async for item in lane.stream(work, name)]

        async with held(lane):
            works = [asyncio.create_task(items(name)) for name in "abc"]
            await asyncio.sleep(0)
        assert await asyncio.gather(*works) == [[f"{name} 10 20"] for name in "abc"]
    assert sum(sizes) == 6
    if curve is EVEN:
        assert max(sizes) == 1 and ended == ["a", "b", "c"]


async def test_work_keeps_the_thread_where_only_lower_classes_wait() -> None:
    seen: list[str] = []
    network = RowNetwork(lambda rows: rows, 3, lambda row: 1.0, KnownCurve(*GAINING))

    def work(priority: int) -> Generator[int | RowAsk, Any, None]:
        seen.append(f"begins {priority}")
        for row in range(3):
            yield RowAsk(network, row)
        seen.append(f"ends {priority}")
        yield priority

    async with lane_of() as lane:

        async def items(priority: int) -> list[int]:
            urgency = Urgency(priority)
            return [item async for item in lane.stream(work, priority, urgency=lambda: urgency)]

        async with held(lane):
            works = [asyncio.create_task(items(priority)) for priority in (1, 0)]
            await asyncio.sleep(0)
        await asyncio.gather(*works)
    assert seen == ["begins 0", "ends 0", "begins 1", "ends 1"]
