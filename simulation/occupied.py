"""The virtual device in time: threads and tasks ask it and wait until it has done their work.

One thread keeps the device's appointments. Device and clock are what everybody else sees; how late
the thread was for its appointments is told by a metric, since whoever waits gets that on top.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Self

from prometheus_client import Counter, Histogram

from simulation.device import Progress, VirtualDevice
from visavis.wire.clock import Clock, dilation

late_seconds = Histogram(
    "simulated_device_late_seconds",
    "How late a simulated device told that a step was done.",
    ["stage"],
    buckets=(0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.05, 0.1, 0.5),
)
busy_seconds = Counter(
    "simulated_device_busy_seconds_total", "Time in which a simulated device worked.", ["stage"]
)
runs = Counter("simulated_device_runs_total", "Runs of a simulated device.", ["stage"])
steps = Counter("simulated_device_steps_total", "Requests in those runs, together.", ["stage"])

_Told = Callable[[Progress], None]


class Device:
    """One replica's virtual device, shared by all that would use a GPU there."""

    def __init__(self, stage: str, virtual: VirtualDevice, clock: Clock) -> None:
        self._virtual, self._clock = virtual, clock
        self._waiting: dict[int, _Told] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._counted = (0.0, 0, 0)
        self._late = late_seconds.labels(stage)
        self._sums = (busy_seconds.labels(stage), runs.labels(stage), steps.labels(stage))
        self._thread = threading.Thread(target=self._keep, name=f"device-{stage}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def work(self, kind: str, seconds: float) -> None:
        """Occupy the device with one request; returns when it is done. For a lane's thread.

        Raises AtCapacityError.
        """
        done = threading.Event()
        self._ask(kind, seconds, 1, lambda progress: done.set() if progress.over else None)
        done.wait()

    async def steps(self, kind: str, step_s: float, count: int) -> AsyncIterator[int]:
        """0 once the first step begins, then the number of each step as it is done.

        Leaving the loop early gives the rest up. Raises AtCapacityError.
        """
        loop = asyncio.get_running_loop()
        told: asyncio.Queue[Progress] = asyncio.Queue(count + 1)

        def tell(progress: Progress) -> None:
            loop.call_soon_threadsafe(told.put_nowait, progress)

        ticket = self._ask(kind, step_s, count, tell)
        try:
            while True:
                progress = await told.get()
                yield progress.steps
                if progress.over:
                    return
        finally:
            with self._changed:
                self._virtual.drop(ticket)
                self._waiting.pop(ticket, None)

    def _ask(self, kind: str, step_s: float, count: int, tell: _Told) -> int:
        with self._changed:
            ticket = self._virtual.ask(kind, step_s, self._clock.now(), steps=count)
            self._waiting[ticket] = tell
            self._changed.notify()
            return ticket

    def _keep(self) -> None:
        with self._changed:
            while not self._closed:
                now_s = self._clock.now()
                for progress in self._virtual.advance(now_s):
                    self._tell(progress, now_s)
                self._count()
                next_s = self._virtual.next_s
                self._changed.wait(
                    None if next_s is None else max(0.0, next_s - now_s) * dilation()
                )

    def _tell(self, progress: Progress, now_s: float) -> None:
        if progress.steps:
            self._late.observe(now_s - progress.at_s)
        tell = self._waiting.get(progress.ticket)
        if progress.over:
            self._waiting.pop(progress.ticket, None)
        if tell is not None:
            tell(progress)

    def _count(self) -> None:
        virtual = self._virtual
        now = (virtual.busy_s, virtual.runs, virtual.steps)
        for counter, before, after in zip(self._sums, self._counted, now, strict=True):
            counter.inc(after - before)
        self._counted = now
