"""Services and replicas by the NATS micro protocol: one tells that it is there, others find it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.micro.service import Service as MicroService
from nats.micro.service import ServiceConfig

from visavis.engine.base import EngineState
from visavis.serving.errors import BusError
from visavis.serving.lifetime.draining import Phase
from visavis.serving.lifetime.supervision import Keeper
from visavis.wire.bus import Bus
from visavis.wire.levels import BEFORE, LEVEL
from visavis.wire.permissions import PROCESSES
from visavis.wire.subjects import MICRO_PREFIX, info_subject, micro_name

log = logging.getLogger(__name__)

REFRESH_S = 2.0
"""How old the told device may be: an engine can step down at any time."""
_START_TIMEOUT_S, _STOP_TIMEOUT_S = 10.0, 2.0


@dataclass(frozen=True, slots=True)
class Replica:
    """One running instance of a service; addresses are "host:port"."""

    service: str
    instance: str
    version: str
    grpc_address: str
    metrics_address: str
    device: str
    """Where its networks run, as in "cuda:0, cpu"."""
    wanted_device: str = ""
    """Where they were to run; empty: they all do."""
    http_address: str = ""
    """Of a gateway, which has this one instead of gRPC."""
    scheme: str = "http"
    """What is spoken there: http or https."""
    draining: bool = False
    """It is about to end and takes nothing new."""
    level: int = BEFORE
    """What it understands, as `visavis/wire/levels.py` has it."""
    pages: str = ""
    """Of a gateway: its version of the page's files; earlier ones tell none."""

    @property
    def label(self) -> str:
        """What its process is called: "face-2" of "face-2-3fa9c2d1"."""
        return self.instance.rpartition("-")[0]


def instance_of(label: str) -> str:
    """A name for one start of the process that is called `label`; no other start has it."""
    return f"{label}-{secrets.token_hex(4)}"


async def discover(
    client: Client, *, wait_s: float = 0.3, patience_s: float = 2.0, all_are: int | None = None
) -> list[Replica]:
    """Every replica that answers, ordered by service and instance.

    Each service is asked by its name, which only its own user hears (`permissions`), and is to
    answer where nobody else was told to: none can pass for one of another service.

    The protocol does not say how many will answer: those count that do within `wait_s` of
    the first one. On a machine too busy for any to answer at once the first one has
    `patience_s`. all_are: how many will, where that is known: no more are waited for, and all of
    them have `patience_s`. Raises BusError if the bus is down.
    """
    found: dict[str, Replica] = {}
    silent: set[str] = set()
    first, everybody = asyncio.Event(), asyncio.Event()

    async def collect(message: Msg) -> None:
        service = message.subject.rpartition(".")[2]
        if not message.data:  # the server's note that nobody listens
            silent.add(service)
            if silent.issuperset(PROCESSES):
                first.set()
            return
        replica = parse_info(message.data)
        if replica is not None and replica.service == service:
            found[replica.instance] = replica
            first.set()
            if len(found) == all_are:
                everybody.set()

    inbox = client.new_inbox()
    try:
        subscription = await client.subscribe(f"{inbox}.*", cb=collect)
        try:
            for service in PROCESSES:
                await client.publish(info_subject(service), reply=f"{inbox}.{service}")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience_s):
                    await first.wait()
            if found:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait_s if all_are is None else patience_s):
                        await everybody.wait()
        finally:
            await subscription.unsubscribe()
    except (nats.errors.Error, OSError) as error:
        raise BusError(f"discovery: {error}") from error
    return sorted(found.values(), key=lambda r: (r.service, r.instance))


def parse_info(payload: bytes) -> Replica | None:
    """Replica from a $SRV.INFO answer; None if it is not one of ours."""
    try:
        info = json.loads(payload)
        name, metadata = str(info["name"]), dict(info.get("metadata") or {})
        if not name.startswith(MICRO_PREFIX):
            return None
        return Replica(
            service=name.removeprefix(MICRO_PREFIX),
            instance=metadata["instance"],
            version=str(info["version"]),
            grpc_address=metadata["grpc"] if "http" not in metadata else "",
            http_address=metadata.get("http", ""),
            scheme=metadata.get("scheme", "http"),
            metrics_address=metadata.get("metrics", ""),
            device=metadata.get("device", ""),
            wanted_device=metadata.get("wanted", ""),
            draining=metadata.get("phase") == Phase.DRAINING,
            level=int(metadata.get("level", BEFORE)),
            pages=metadata.get("pages", ""),
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        log.warning("discovery: an answer is not readable: %.200r", error)
        return None


class Registration:
    """A service's entry: where it is, and where its networks run now.

    Answers $SRV.PING and $SRV.INFO; the gateway finds replicas by them.
    """

    def __init__(
        self,
        bus: Bus,
        name: str,
        *,
        instance: str,
        addresses: Mapping[str, str],
        states: Callable[[], Sequence[EngineState]],
        wanted_device: str,
        refresh_s: float = REFRESH_S,
    ) -> None:
        """addresses: "host:port" by kind. states: of every engine, asked again and again."""
        self._bus = bus
        self._name = name
        self._states = states
        self._wanted_device = wanted_device
        self._refresh_s = refresh_s
        # The micro service keeps this very object and reads it for every answer.
        self._metadata = {"instance": instance, "level": str(LEVEL), **addresses}
        self._micro: MicroService | None = None
        self._telling = Keeper("registration", self._keep_telling)

    async def start(self) -> None:
        """Answer from now on, and keep what is told of the networks fresh."""
        self._metadata.update(placement(self._states(), self._wanted_device))
        config = ServiceConfig(
            name=micro_name(self._name),
            version=version("visavis"),
            description=f"visavis {self._name} service",
            metadata=self._metadata,
        )
        self._micro = MicroService(self._bus.client, config)
        # A server that is too busy to say so hears it all the same, and anew where it was away.
        with contextlib.suppress(TimeoutError):
            await self._bus.see_through(self._micro.start(), _START_TIMEOUT_S)
        self._telling.start()

    def drain(self) -> None:
        """Whoever asks from now on is told that the service takes nothing new."""
        self._metadata["phase"] = Phase.DRAINING

    async def stop(self) -> None:
        """Nobody finds the service any more. Nothing if it was not started."""
        await self._telling.stop()
        # A bus that is away has forgotten us: waiting for its answer would only delay the end.
        if self._micro is not None and self._bus.connected:
            with contextlib.suppress(TimeoutError, nats.errors.Error, OSError):
                await self._bus.see_through(self._micro.stop(), _STOP_TIMEOUT_S)

    async def _keep_telling(self) -> None:
        while True:
            await asyncio.sleep(self._refresh_s)
            self._metadata.update(placement(self._states(), self._wanted_device))


def placement(states: Sequence[EngineState], wanted_device: str) -> dict[str, str]:
    """`device`: where the networks run, a GPU first. `wanted`: where not all of them could be."""
    devices = sorted(dict.fromkeys(state.device for state in states), key=lambda d: d == "cpu")
    stepped_down = any(state.detail for state in states)
    return {"device": ", ".join(devices), "wanted": wanted_device if stepped_down else ""}
