"""Ranges on Nsight's timeline: recorded by a double of the nvtx package."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.engine.tensorrt.conftest import Bench, x_of
from visavis.engine import EngineLane
from visavis.engine.tensorrt import profiling


class RecordedNvtx:
    """Notes when which range begins and ends."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    @contextmanager
    def annotate(self, message: str, *, domain: str) -> Iterator[None]:
        self.calls.append(f"+{message}")
        yield
        self.calls.append(f"-{message}")

    def start_range(self, message: str, *, domain: str) -> tuple[str, str]:
        self.calls.append(f"+{message}")
        return message, domain

    def end_range(self, range_id: tuple[str, str]) -> None:
        self.calls.append(f"-{range_id[0]}")


@pytest.fixture
def ranges(monkeypatch: pytest.MonkeyPatch) -> RecordedNvtx:
    recorded = RecordedNvtx()
    monkeypatch.setattr(profiling, "_nvtx", recorded)
    return recorded


@pytest.mark.parametrize(("graphs", "run"), [(False, "infer"), (True, "infer (graph)")])
def test_each_stage_of_a_run_is_a_range(
    bench: Bench, ranges: RecordedNvtx, graphs: bool, run: str
) -> None:
    with bench.open(cuda_graphs=graphs) as engine:
        ranges.calls.clear()
        engine.infer(x_of(2))
    stages = ("copy in", run, "copy out")
    assert ranges.calls == [f"{sign}scaling.plan: {name}" for name in stages for sign in "+-"]


async def test_waiting_for_the_lane_is_a_range_that_always_ends(ranges: RecordedNvtx) -> None:
    lane = EngineLane("asr")
    busy, go_on = threading.Event(), threading.Event()

    def work() -> Any:
        ranges.calls.append("working")
        busy.set()
        go_on.wait()

    first = asyncio.create_task(lane.run(work))
    await asyncio.to_thread(busy.wait)
    given_up = asyncio.create_task(lane.run(work))
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.gather(given_up, return_exceptions=True)
    go_on.set()
    await first
    await asyncio.to_thread(lane.close)
    queue = ["+asr: queue", "-asr: queue"]
    assert ranges.calls == [*queue, "working", *queue]
