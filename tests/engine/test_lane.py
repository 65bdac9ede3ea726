"""Which request goes next and which go together, by the clock; and the lane that does the work."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

import pytest

from visavis.engine import EngineLane, SharedRuns, Urgency
from visavis.engine.queueing import DeadlineQueue, Sharing
from visavis.serving.errors import AtCapacityError, EngineError, SupersededError

# ------------------------------------------------------------ the queue


def queue(limit: int = 100) -> DeadlineQueue[str]:
    return DeadlineQueue(limit)


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


def test_a_newer_request_takes_the_place_of_one_with_the_same_key() -> None:
    requests = queue()
    requests.add("old", Urgency(key="a"), 0.0)
    requests.add("other", Urgency(key="b"), 0.0)
    assert [gone.item for gone in requests.supersede("a")] == ["old"]
    requests.add("new", Urgency(key="a"), 1.0)
    assert all_of(requests, 1.0) == ["other", "new"]
    assert requests.supersede("a") == [], "what has begun is not taken back"


def test_a_full_queue_refuses_until_somebody_leaves() -> None:
    requests = queue(limit=2)
    first = requests.add("a", Urgency(), 0.0)
    requests.add("b", Urgency(), 0.0)
    with pytest.raises(AtCapacityError, match="2 requests wait"):
        requests.add("c", Urgency(), 0.0)
    requests.add("give it back", Urgency(priority=-1), 0.0, always=True)
    assert requests.drop(first) and not requests.drop(first)
    assert all_of(requests, 0.0) == ["give it back", "b"]
    requests.add("c", Urgency(), 1.0)
    assert len(requests) == 1


def test_a_request_waits_for_company_but_not_for_long() -> None:
    requests, shared = queue(), Sharing(4, 0.01)
    requests.add("a", Urgency(), 5.0, sharing=shared)
    assert requests.due_in_s(5.004) == pytest.approx(0.006)
    assert run_of(requests, 5.004) == []
    requests.add("b", Urgency(), 5.004, sharing=shared)
    assert run_of(requests, 5.011) == ["a", "b"]
    for item in "abcde":
        requests.add(item, Urgency(), 6.0, sharing=shared)
    assert run_of(requests, 6.0) == list("abcd"), "a full run is due at once"
    assert run_of(requests, 6.0) == []
    assert run_of(requests, 6.01) == ["e"]


def test_one_that_asks_far_ahead_does_not_hold_up_the_others() -> None:
    requests, shared = queue(), Sharing(4, 0.01)
    for k in range(5):
        requests.add(f"a{k}", Urgency(deadline_s=1 + k / 25), 0.0, sharing=shared)
    requests.add("b0", Urgency(deadline_s=1.01), 0.0, sharing=shared)
    requests.add("c0", Urgency(deadline_s=1.02), 0.0, sharing=shared)
    assert run_of(requests, 0.0) == ["a0", "b0", "c0", "a1"]


def test_what_is_more_urgent_goes_before_a_run_and_what_is_less_waits_for_it() -> None:
    requests, shared = queue(), Sharing(4, 0.01)
    requests.add("shared", Urgency(1), 0.0, sharing=shared)
    requests.add("less", Urgency(2), 0.0)
    assert run_of(requests, 0.001) == []
    requests.add("more", Urgency(0), 0.001)
    assert run_of(requests, 0.001) == ["more"]
    assert all_of(requests, 0.02) == ["shared", "less"]


# ------------------------------------------------------------ the lane


@contextlib.asynccontextmanager
async def lane_of(**options: int) -> AsyncIterator[EngineLane]:
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
    """A network that doubles, up to three in a run; it fails for 13."""

    def __init__(self, lane: EngineLane) -> None:
        self.batches: list[list[int]] = []
        self.runs: SharedRuns[int, int] = lane.shared(self.run, largest=3)

    def run(self, asks: Sequence[int]) -> list[int]:
        self.batches.append(list(asks))
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


async def test_a_failed_run_is_told_and_the_next_one_works() -> None:
    async with lane_of() as lane:
        network = Doubling(lane)
        for answer in [network.runs.ask(13), network.runs.ask(1)]:
            with pytest.raises(EngineError, match="thirteen"):
                await answer
        assert await network.runs.ask(4) == 8


async def test_what_nobody_wants_is_not_run() -> None:
    async with lane_of() as lane:
        network = Doubling(lane)
        async with held(lane):
            unwanted, other = network.runs.ask(4), network.runs.ask(5)
            unwanted.cancel()
        assert await other == 10
    assert network.batches == [[5]]
