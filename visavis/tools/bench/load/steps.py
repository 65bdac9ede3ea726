"""A load's steps, one after the other: so many visitors at once, the stack watched meanwhile.

The edge between the processes of visitors and the stack's own counters.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from visavis.client import GatewayClient
from visavis.client.session import again
from visavis.serving.admission.probes import MachineTime
from visavis.serving.settings import SERVICES
from visavis.tools.bench.figures.counters import Scraper, rise
from visavis.tools.bench.figures.processes import Processes, share_of_others
from visavis.tools.bench.load.client import Orders
from visavis.tools.bench.load.fleet import PROGRAM, ClientProcess, clients
from visavis.tools.bench.load.killer import Killer, find_victims
from visavis.tools.bench.load.results import (
    ClientReport,
    Kill,
    ProcessLoad,
    StackReport,
    StepResult,
    sum_up,
)
from visavis.tools.bench.load.schedule import LoadPlan
from visavis.wire.clock import MonotonicClock

# From the word to begin to the run's start: every process has read it by then.
_LEAD_S = 0.5
_TOLD_EVERY_S = 1.0


@dataclass(frozen=True)
class _Reading:
    """The stack at one moment."""

    counters: dict[str, float]
    cpu_s: dict[str, float]
    memory_bytes: dict[str, int]
    machine: MachineTime
    own_s: float
    """CPU seconds of this process, which is neither the stack's nor a visitor's."""


class LoadBench:
    """Makes steps of a load on one gateway. on_tell: told what the present one is busy with.

    processes: the stack's, by name; empty where it runs on another machine. program: what a
    process of visitors is; on_reading: awaited when counting begins, and when it ends."""

    def __init__(
        self,
        client: GatewayClient,
        processes: dict[str, Processes],
        plan: LoadPlan,
        log_dir: Path,
        on_tell: Callable[[str], None],
        program: Sequence[str] = PROGRAM,
        on_reading: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._client = client
        self._processes = processes
        self._plan = plan
        self._log_dir = log_dir
        self._on_tell = on_tell
        self._program = program
        self._on_reading = on_reading
        self._clock = MonotonicClock()
        self._scraper = Scraper(client)

    @property
    def unreachable(self) -> set[str]:
        """Services whose metrics cannot be read."""
        return self._scraper.unreachable

    async def step(self, visitors: int) -> StepResult:
        """So many visitors at once, for as long as the plan says. Raises VisavisError."""
        plan = self._plan
        length_s = plan.length_s(visitors)
        orders = orders_of(plan, self._client.url, self._client.api_key, visitors, length_s)
        self._on_tell(f"{_people(visitors)}: connecting")
        async with clients(orders, self._log_dir, self._program) as fleet:
            start_s = self._clock.now() + _LEAD_S
            from_s = start_s + plan.warmup_s
            for client in fleet:
                await client.tell(f'{{"start_s": {start_s!r}}}')
            outcomes: Counter[str] = Counter()
            watching = asyncio.create_task(self._watch(from_s, from_s + length_s))
            telling = asyncio.create_task(self._tell(visitors, start_s, outcomes))
            killer = Killer(plan.kill, partial(find_victims, self._client))
            times_s = plan.kill_times_s(from_s, from_s + length_s)
            killing = asyncio.create_task(killer.run(self._clock, start_s, times_s))
            try:
                reports = await asyncio.gather(*(self._hear(c, outcomes) for c in fleet))
                before, after = await watching
                await killing
            finally:
                for task in (watching, telling, killing):
                    task.cancel()
                await asyncio.gather(watching, telling, killing, return_exceptions=True)
        counted = (plan.warmup_s, plan.warmup_s + length_s)
        clients_s = sum(report.cpu_s for report in reports)
        stack = self._stack_report(before, after, length_s, clients_s, killer.kills)
        return sum_up(visitors, plan.idle_watchers, counted, reports, stack)

    async def _hear(self, client: ClientProcess, outcomes: Counter[str]) -> ClientReport:
        return await client.report(lambda outcome: outcomes.update([outcome]))

    async def _watch(self, from_s: float, until_s: float) -> tuple[_Reading, _Reading]:
        """The stack as counting begins and as it ends."""
        await asyncio.sleep(from_s - self._clock.now())
        before = await self._read()
        await asyncio.sleep(until_s - self._clock.now())
        return before, await self._read()

    async def _read(self) -> _Reading:
        if self._on_reading is not None:
            await self._on_reading()
        machine = MachineTime.now()
        usages = {name: group.usage() for name, group in self._processes.items()}
        return _Reading(
            await again(self._scraper.read, self._client.reconnect_s),
            {name: usage.cpu_s for name, usage in usages.items()},
            {name: usage.memory_bytes for name, usage in usages.items()},
            machine,
            time.process_time(),
        )

    def _stack_report(
        self,
        before: _Reading,
        after: _Reading,
        length_s: float,
        clients_s: float,
        kills: Sequence[Kill],
    ) -> StackReport:
        used = {name: after.cpu_s[name] - before.cpu_s[name] for name in after.cpu_s}
        processes = {
            name: ProcessLoad(round(used[name] / length_s, 4), after.memory_bytes[name])
            for name in used
        }
        ours_s = sum(used.values()) + clients_s + after.own_s - before.own_s
        others = share_of_others(before.machine, after.machine, ours_s)
        return StackReport(
            rise(before.counters, after.counters),
            processes,
            round(others, 4) if processes else None,
            kills,
        )

    async def _tell(self, visitors: int, start_s: float, outcomes: Counter[str]) -> None:
        plan = self._plan
        end_s = plan.warmup_s + plan.length_s(visitors)
        while True:
            at_s = self._clock.now() - start_s
            phase = (
                "warm-up, " if at_s < plan.warmup_s else "last answers, " if at_s > end_s else ""
            )
            told = ", ".join(f"{count} {name}" for name, count in sorted(outcomes.items()))
            when = f"{phase}{at_s:.0f} of {end_s:.0f} s"
            self._on_tell(f"{_people(visitors)}: {when}; {told or 'no answer yet'}")
            await asyncio.sleep(_TOLD_EVERY_S)


def orders_of(
    plan: LoadPlan, url: str, api_key: str, visitors: int, length_s: float
) -> list[Orders]:
    """One for each process of a step: visitors, and apart from them those who only watch, each
    dealt out evenly."""

    def dealt(numbers: range) -> list[list[int]]:
        count = -(-len(numbers) // plan.visitors_per_client)
        return [list(numbers[index::count]) for index in range(count)]

    asking = dealt(range(visitors))
    watching = dealt(range(visitors, visitors + plan.idle_watchers))
    return [
        *(Orders(url, api_key, plan, numbers, [], length_s) for numbers in asking),
        *(Orders(url, api_key, plan, [], numbers, length_s) for numbers in watching),
    ]


def _people(visitors: int) -> str:
    return f"{visitors} visitor{'s' * (visitors != 1)}"


def stack_flags(slots: int, admission: str = "slots") -> dict[str, list[str]]:
    """Flags of a stack that takes so many sessions at once; 0: what its settings say."""
    if not slots:
        return {}
    flags = {name: ["--slots", str(slots), "--admission", admission] for name in SERVICES}
    return flags | {"gateway": ["--max-sessions", str(slots)]}
