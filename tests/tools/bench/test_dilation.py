"""A dilated process: its clock and its timers go slower together, and it says so."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from visavis.tools.bench.simulate.dilation import DilatedEventLoop
from visavis.wire.clock import MonotonicClock, clock_id, dilate, dilation, monotonic_ns
from visavis.wire.media import Stamp


@pytest.fixture
def ten_times() -> Iterator[None]:
    dilate(10)
    yield
    dilate(1)


def test_clock_stamps_and_loop_tell_the_same_slower_time(ten_times: None) -> None:
    loop = DilatedEventLoop()
    try:
        before_s = time.monotonic() / 10
        told = [loop.time(), MonotonicClock().now(), Stamp.now("here").monotonic_ns / 1e9]
        told += [monotonic_ns() / 1e9, time.monotonic() / 10]
        assert [before_s, *told] == pytest.approx(sorted([before_s, *told]), abs=1e-6)
    finally:
        loop.close()


def test_a_timer_rings_after_its_time_on_the_slower_clock(ten_times: None) -> None:
    async def wait() -> tuple[float, float]:
        loop = asyncio.get_running_loop()
        began_s, world_s = loop.time(), time.monotonic()
        await asyncio.sleep(0.003)
        return loop.time() - began_s, time.monotonic() - world_s

    with asyncio.Runner(loop_factory=DilatedEventLoop) as runner:
        took_s, world_s = runner.run(wait())
    assert took_s >= 0.003
    assert world_s > 0.029


def test_a_slower_clock_has_another_name(ten_times: None) -> None:
    slower = clock_id()
    dilate(1)
    assert clock_id() != slower and dilation() == 1
    with pytest.raises(ValueError):
        dilate(0.5)
