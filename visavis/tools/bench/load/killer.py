"""Processes of the stack that are killed while a step is counted, one after the other.

The edge: it finds processes of this machine, and ends them.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeAlias
from urllib.parse import urlsplit

import psutil

from visavis.client import GatewayClient
from visavis.client.session import again
from visavis.serving.addresses import is_loopback, machine_addresses
from visavis.serving.errors import InvalidInputError
from visavis.serving.settings import SERVICES
from visavis.tools.bench.figures.processes import find_named_processes
from visavis.tools.bench.load.results import Kill
from visavis.tools.stack.supervisor import GATEWAY
from visavis.wire.clock import Clock

NATS = "nats"
KINDS = (*SERVICES, GATEWAY, NATS)

# A busy machine takes its time to tell who listens where.
_LOOK_S = 2.0

Found: TypeAlias = Mapping[str, Iterable[psutil.Process]]


class Killer:
    """Kills a process of each kind in turn: of several the one that has run longest, so that each
    has its turn. A kind of which none runs is passed over."""

    def __init__(self, kinds: Sequence[str], find: Callable[[], Awaitable[Found]]) -> None:
        self.kills: list[Kill] = []
        self._kinds = itertools.cycle(kinds)
        self._find = find

    async def run(self, clock: Clock, start_s: float, times_s: Iterable[float]) -> None:
        """times_s: when, by the clock; kills are timed from `start_s`."""
        for time_s in times_s:
            await asyncio.sleep(time_s - _LOOK_S - clock.now())
            kind = next(self._kinds)
            found = (await self._find()).get(kind, ())
            await asyncio.sleep(time_s - clock.now())
            with contextlib.suppress(psutil.NoSuchProcess):
                if oldest := sorted(found, key=lambda process: process.create_time())[:1]:
                    oldest[0].kill()
                    self.kills.append(Kill(kind, round(clock.now() - start_s, 3)))


def kinds_of(text: str) -> list[str]:
    """The kinds that "face,tts" names. Raises InvalidInputError."""
    kinds = [part.strip() for part in text.split(",") if part.strip()]
    for kind in kinds:
        if kind not in KINDS:
            raise InvalidInputError(f"--kill: {kind!r}; known are {', '.join(KINDS)}")
    return kinds


async def find_victims(client: GatewayClient) -> dict[str, list[psutil.Process]]:
    """The stack's own processes that run on this machine, by kind. Raises GatewayError."""
    told = (await again(lambda: client.call("GET", "/v1/services"), client.reconnect_s)).json()
    here = machine_addresses()

    def is_here(host: str | None) -> bool:
        return host is not None and (is_loopback(host) or host in here)

    if not is_here(urlsplit(client.url).hostname):
        return {}
    services = [
        (str(service["address"]), str(service["service"]))
        for service in told["services"]
        if is_here(urlsplit(f"//{service['address']}").hostname)
    ]
    named = await asyncio.to_thread(find_named_processes, client.url, services)
    found = {kind: list(named.get("nats-server" if kind == NATS else kind, ())) for kind in KINDS}
    return {kind: [p for p in group if _is_ours(p, kind)] for kind, group in found.items()}


def _is_ours(process: psutil.Process, kind: str) -> bool:
    """Another program may listen here at the port of a service that runs elsewhere."""
    try:
        line = process.cmdline()
    except psutil.Error:
        return False
    module = {GATEWAY: GATEWAY, NATS: "nats-server"}.get(kind, f"services.{kind}")
    return any(part.endswith(module) for part in line[:4])
