"""`visavis bench drawing`: what a visitor costs whose face the server draws, or his own device."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from visavis.client import GatewayClient, GatewaySession
from visavis.tools.bench.benchmark import (
    DEFAULT_URL,
    Benchmark,
    Config,
    Json,
    Profile,
    Url,
)
from visavis.tools.bench.figures.processes import Processes, find_named_processes
from visavis.tools.bench.figures.tables import Steps
from visavis.tools.cli.running_gateway import ApiKey
from visavis.wire.clock import MonotonicClock

_MEASURED = ("gateway", "face")
_SETTLE_S = 6.0
"""Until the first pictures have come."""
_TEXT = "Tell me how a rainbow comes to be, in five sentences."


@dataclass
class Costs:
    """What was used meanwhile, for each visitor: CPU seconds a second by process; bytes a second
    that reached him."""

    cores: dict[str, float] = field(default_factory=dict)
    bytes_per_s: float = 0.0

    def rows(self, name: str) -> dict[str, float]:
        """By name, for a table."""
        told = {f"{name}_cores_{process}": round(v, 4) for process, v in self.cores.items()}
        return {**told, f"{name}_kilobytes_per_s": round(self.bytes_per_s / 1000, 2)}


class _Visitor:
    """Takes all that comes, and counts it."""

    def __init__(self) -> None:
        self.received_bytes = 0

    async def take(self, socket: Any) -> None:
        async for message in socket:
            self.received_bytes += len(message)


class DrawingBench:
    """Has the same number of visitors look and listen, drawn by the server and by themselves."""

    def __init__(self, client: GatewayClient, processes: dict[str, Processes]) -> None:
        """processes: the stack's, by name."""
        self._client = client
        self._processes = {name: processes[name] for name in _MEASURED if name in processes}
        self._clock = MonotonicClock()

    async def run(self, drawn_by: str, visitors: int, seconds: float) -> dict[str, Costs]:
        """Costs while nothing is said and while answers are, by the name of that."""
        async with contextlib.AsyncExitStack() as stack:
            nobody = await self._during(seconds, [])
            opened = [
                await stack.enter_async_context(self._visitor(drawn_by)) for _ in range(visitors)
            ]
            await asyncio.sleep(_SETTLE_S)
            counting = [visitor for visitor, _ in opened]
            idle = await self._during(seconds, counting)
            for _, session in opened:
                await session.ask(_TEXT)
            await asyncio.gather(*(self._speaking(session) for _, session in opened))
            spoken = await self._during(seconds, counting)
        return {
            "idle": _each(idle, nobody, visitors),
            "speaking": _each(spoken, nobody, visitors),
        }

    @contextlib.asynccontextmanager
    async def _visitor(self, drawn_by: str) -> AsyncIterator[tuple[_Visitor, GatewaySession]]:
        visitor = _Visitor()
        async with contextlib.AsyncExitStack() as stack:
            session = await stack.enter_async_context(self._client.session(drawn_by=drawn_by))
            paths = ["media?role=viewer", *(["face"] if drawn_by == "client" else [])]
            taking = []
            for path in paths:
                connection = self._client.connect(f"/v1/sessions/{session.id}/{path}")
                socket = await stack.enter_async_context(connection)
                taking.append(asyncio.create_task(visitor.take(socket)))
            try:
                yield visitor, session
            finally:
                for task in taking:
                    task.cancel()
                await asyncio.gather(*taking, return_exceptions=True)

    async def _speaking(self, session: GatewaySession) -> None:
        async for event in session.events():
            if event["type"] == "state" and event["state"] == "speaking":
                return

    async def _during(self, seconds: float, visitors: Sequence[_Visitor]) -> Costs:
        """Of all visitors together."""
        before = {name: found.usage().cpu_s for name, found in self._processes.items()}
        received, began_s = sum(v.received_bytes for v in visitors), self._clock.now()
        await asyncio.sleep(seconds)
        passed_s = self._clock.now() - began_s
        cores = {
            name: (found.usage().cpu_s - before[name]) / passed_s
            for name, found in self._processes.items()
        }
        taken = sum(v.received_bytes for v in visitors) - received
        return Costs(cores, taken / passed_s)


def _each(all_together: Costs, nobody: Costs, visitors: int) -> Costs:
    cores = {
        name: (used - nobody.cores[name]) / visitors for name, used in all_together.cores.items()
    }
    return Costs(cores, all_together.bytes_per_s / visitors)


def drawing(
    visitors: Annotated[int, typer.Option(min=1, help="So many at once.")] = 2,
    seconds: Annotated[float, typer.Option(min=2, help="So long each state is watched.")] = 8.0,
    url: Url = DEFAULT_URL,
    api_key: ApiKey = "",
    profile: Profile = "default",
    config: Config = None,
    json_path: Json = None,
) -> None:
    """CPU time and bytes of a visitor whose face the server draws, beside one who draws it."""
    bench = Benchmark("drawing", json_path, None, url, api_key, profile, config)

    async def watch(client: GatewayClient, steps: Steps) -> dict[str, float]:
        services = [(s["address"], s["service"]) for s in bench.services]
        run = DrawingBench(client, find_named_processes(client.url, services))
        counts: dict[str, float] = {}
        for drawn_by in ("server", "client"):
            for state, costs in (await run.run(drawn_by, visitors, seconds)).items():
                counts |= costs.rows(f"{drawn_by}_{state}")
            steps.done("watched")
        return counts

    counts = bench.measure(2, "visitors come", watch)
    bench.hand_out(
        f"Of each of {visitors} visitors, over the WebSocket",
        [],
        counts=counts,
        turns=[],
        settings={"visitors": visitors, "seconds": seconds},
        notes=["cores: CPU seconds a second, less what the processes use with nobody there"],
    )
