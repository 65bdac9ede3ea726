"""One step of a simulation: a stack of its own, so many visitors, and what stack and bus told.

The edge: processes, HTTP, clocks. What came of it is judged in `results`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from visavis.client import GatewayClient
from visavis.serving.errors import VisavisError
from visavis.serving.settings import SERVICES
from visavis.tools.bench.figures.counters import Scraper
from visavis.tools.bench.figures.processes import find_named_processes
from visavis.tools.bench.load.schedule import LoadPlan
from visavis.tools.bench.load.steps import LoadBench, stack_flags
from visavis.tools.bench.simulate.dilation import DilatedEventLoop
from visavis.tools.bench.simulate.plan import SimulationPlan
from visavis.tools.bench.simulate.results import Reading, SimulatedStep, summed_up
from visavis.tools.stack.supervisor import GATEWAY, Stack, StackOptions
from visavis.wire.clock import MonotonicClock, dilate

_CLIENT = "visavis.tools.bench.simulate.client"
_HTTP_TIMEOUT_S = 10.0
_FACE_LANES = 8
"""As many as the batches of the design: each waits with its own picture."""
_BUS_FIGURES = ("in_msgs", "out_msgs", "in_bytes", "out_bytes", "subscriptions", "connections")


@dataclass(frozen=True)
class StepPlan:
    """One step: how many come, to how many replicas of each service, how much slower than life."""

    visitors: int
    replicas: int
    simulation: SimulationPlan


class Simulation:
    """Makes steps, each on a stack of its own. on_tell: told what the present one is busy with."""

    def __init__(self, load: LoadPlan, log_dir: Path, on_tell: Callable[[str], None]) -> None:
        self._load, self._log_dir, self._on_tell = load, log_dir, on_tell

    def step(self, plan: StepPlan) -> SimulatedStep:
        """Raises VisavisError. This process lives in the step's time from then on."""
        dilate(plan.simulation.dilation)
        with asyncio.Runner(loop_factory=DilatedEventLoop) as runner:
            return runner.run(self._step(plan))

    async def _step(self, plan: StepPlan) -> SimulatedStep:
        self._on_tell("the stack starts")
        async with (
            Stack(self._options(plan)) as stack,
            GatewayClient(stack.url) as client,
        ):
            services = (await client.call("GET", "/v1/services")).json()["services"]
            addresses = [(service["address"], service["service"]) for service in services]
            processes = find_named_processes(client.url, addresses)
            observer = Observer(client, stack)
            await observer.take()
            program = (_CLIENT, repr(plan.simulation.dilation))
            bench = LoadBench(
                client,
                processes,
                self._load,
                self._log_dir,
                self._on_tell,
                program=program,
                on_reading=observer.take,
            )
            step = await bench.step(plan.visitors)
        readings = tuple(observer.readings)
        return summed_up(plan.simulation, plan.replicas, step, self._load.warmup_s, readings)

    def _options(self, plan: StepPlan) -> StackOptions:
        line = plan.simulation.to_line()
        people = plan.visitors + self._load.idle_watchers
        # Prediction would weigh this machine's processor, which the devices do not use.
        arguments = stack_flags(-(-people // plan.replicas) + 1, "slots")
        arguments["face"] += ["--lanes", str(_FACE_LANES)]
        arguments["llm"] += ["--max-tokens", "64"]
        arguments[GATEWAY] = ["--max-sessions", str(people + 1)]
        return StackOptions(
            log_dir=self._log_dir,
            arguments=arguments,
            replicas={stage: plan.replicas for stage in SERVICES},
            programs={name: ["simulation", name, line] for name in (*SERVICES, GATEWAY)},
            monitored=True,
        )


class Observer:
    """Reads what the stack tells of itself, whenever it is asked to."""

    def __init__(self, client: GatewayClient, stack: Stack) -> None:
        self._stack = stack
        self._scraper = Scraper(client)
        self._clock = MonotonicClock()
        self.readings: list[Reading] = []

    async def take(self) -> None:
        """One reading."""
        bus, files = await self._bus(), self._files()
        counters = await self._scraper.read()
        self.readings.append(Reading(self._clock.now(), counters, bus, files))

    async def _bus(self) -> dict[str, float]:
        url = self._stack.nats.process.monitoring_url
        async with httpx.AsyncClient(
            timeout=_HTTP_TIMEOUT_S, trust_env=False, verify=False
        ) as http:
            try:
                told = (await http.get(f"{url}/varz")).raise_for_status().json()
            except httpx.HTTPError as error:
                raise VisavisError(f"nats-server does not tell its figures: {error!r}") from None
        return {name: float(told[name]) for name in _BUS_FIGURES}

    def _files(self) -> dict[str, int]:
        """Open files of each process, by name."""
        found = {}
        for child in self._stack.processes:
            if child.runs():
                found[child.name] = child.started().num_fds()
        return found


def step_plans(
    visitors: Sequence[int],
    replicas: Sequence[int],
    dilations: Sequence[float],
    simulation: Callable[[float], SimulationPlan],
) -> list[StepPlan]:
    """The steps side by side; a list of one holds for all of them. Raises VisavisError."""
    count = max(len(visitors), len(replicas), len(dilations))
    columns: list[Sequence[float]] = []
    for name, column in (
        ("sessions", visitors),
        ("replicas", replicas),
        ("dilation", dilations),
    ):
        if len(column) not in (1, count):
            raise VisavisError(f"--{name}: {len(column)} values, where others have {count}")
        columns.append([*column] * (count if len(column) == 1 else 1))
    return [
        StepPlan(int(people), int(many), simulation(slower))
        for people, many, slower in zip(*columns, strict=True)
    ]
