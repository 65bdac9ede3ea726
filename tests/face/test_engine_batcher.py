"""Which asks go together, by the clock; and the runner that feeds a network with them."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Sequence

import pytest

from services.face.engines.batching import Batcher, BatchRunner
from visavis.engine import EngineLane
from visavis.serving.errors import EngineError
from visavis.wire.clock import MonotonicClock


def batcher() -> Batcher[str]:
    return Batcher(largest=4, gather_s=0.01)


def test_an_ask_waits_for_company_but_not_for_long() -> None:
    asks = batcher()
    assert asks.due_in_s(0.0) is None and asks.take(0.0) == []
    asks.add(1, "a", 5.0)
    assert asks.due_in_s(5.004) == pytest.approx(0.006)
    assert asks.take(5.004) == []
    asks.add(2, "b", 5.004)
    assert asks.due_in_s(5.011) == 0.0
    assert asks.take(5.011) == ["a", "b"]
    assert len(asks) == 0 and asks.due_in_s(6.0) is None


def test_a_full_batch_is_due_at_once() -> None:
    asks = batcher()
    for ask in "abcde":
        asks.add(1, ask, 5.0)
    assert asks.take(5.0) == list("abcd")
    assert asks.take(5.0) == []
    assert asks.take(5.01) == ["e"]


def test_owners_take_turns() -> None:
    asks = batcher()
    for ask in ("a1", "a2", "a3", "a4", "a5"):
        asks.add(1, ask, 0.0)
    asks.add(2, "b1", 0.0)
    asks.add(3, "c1", 0.0)
    assert asks.take(0.0) == ["a1", "b1", "c1", "a2"]
    asks.add(2, "b2", 1.0)
    assert asks.take(1.0) == ["a3", "b2", "a4", "a5"]


def test_what_is_dropped_is_given_back() -> None:
    asks = batcher()
    asks.add(1, "a", 0.0)
    asks.add(2, "b", 0.0)
    asks.add(1, "c", 0.0)
    assert asks.drop(1) == ["a", "c"] and asks.drop(1) == []
    assert asks.take(1.0) == ["b"]


class Doubling:
    """A network that doubles. Waits for `go`; fails for 13."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.began, self.go = threading.Event(), threading.Event()

    def run(self, asks: Sequence[int]) -> list[int]:
        self.batches.append(list(asks))
        self.began.set()
        assert self.go.wait(10)
        if 13 in asks:
            raise ZeroDivisionError("thirteen")
        return [2 * ask for ask in asks]


@contextlib.asynccontextmanager
async def running(network: Doubling) -> AsyncIterator[BatchRunner[int, int]]:
    lane = EngineLane("test")
    runner = BatchRunner(network.run, lane, MonotonicClock(), largest=3)
    runner.start()
    try:
        yield runner
    finally:
        network.go.set()
        await runner.close()
        lane.close()


async def test_sessions_share_runs_and_get_their_own_answers() -> None:
    network = Doubling()
    async with running(network) as runner:
        answers = [runner.ask(owner, 10 * owner + k) for owner in (1, 2) for k in range(3)]
        network.go.set()
        async with asyncio.timeout(5):
            assert await asyncio.gather(*answers) == [20, 22, 24, 40, 42, 44]
    assert network.batches == [[10, 20, 11], [21, 12, 22]]


async def test_a_failed_run_is_told_and_the_next_one_works() -> None:
    network = Doubling()
    network.go.set()
    async with running(network) as runner:
        bad = [runner.ask(1, 13), runner.ask(2, 1)]
        for answer in bad:
            with pytest.raises(EngineError, match="thirteen"):
                async with asyncio.timeout(5):
                    await answer
        async with asyncio.timeout(5):
            assert await runner.ask(2, 4) == 8


async def test_what_nobody_wants_is_not_run() -> None:
    network = Doubling()
    async with running(network) as runner:
        waiting, other = runner.ask(1, 4), runner.ask(2, 5)
        runner.drop(1)
        assert waiting.cancelled()
        network.go.set()
        async with asyncio.timeout(5):
            assert await other == 10
    assert all(4 not in batch for batch in network.batches)


async def test_whoever_waits_when_it_stops_is_told() -> None:
    network = Doubling()
    async with running(network) as runner:
        answer = runner.ask(1, 1)
        assert await asyncio.to_thread(network.began.wait, 5)
    with pytest.raises(EngineError, match="stopped"):
        await answer
    with pytest.raises(EngineError, match="not running"):
        runner.ask(1, 2)
