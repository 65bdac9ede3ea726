"""Finds the replicas of every service by the NATS micro protocol."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from dataclasses import dataclass

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from visavis.errors import BusError

log = logging.getLogger(__name__)

# Name of a service in the micro protocol is this and its short name.
MICRO_PREFIX = "visavis-"
_INFO_SUBJECT = "$SRV.INFO"


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


async def discover(
    client: Client, *, wait_s: float = 0.3, patience_s: float = 2.0
) -> list[Replica]:
    """Every replica that answers, ordered by service and instance.

    The protocol does not say how many will answer: those count that do within `wait_s` of
    the first one. On a machine too busy for any to answer at once the first one has
    `patience_s`. Raises BusError if the bus is down.
    """
    found: dict[str, Replica] = {}
    first = asyncio.Event()

    async def collect(message: Msg) -> None:
        if not message.data:
            first.set()  # the server's note that nobody listens
            return
        replica = parse_info(message.data)
        if replica is not None:
            found[replica.instance] = replica
            first.set()

    inbox = client.new_inbox()
    try:
        subscription = await client.subscribe(inbox, cb=collect)
        try:
            await client.publish(_INFO_SUBJECT, reply=inbox)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience_s):
                    await first.wait()
            if found:
                await asyncio.sleep(wait_s)
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
            grpc_address=metadata["grpc"],
            metrics_address=metadata.get("metrics", ""),
            device=metadata.get("device", ""),
            wanted_device=metadata.get("wanted", ""),
        )
    except (ValueError, KeyError, TypeError) as error:
        log.warning("discovery: an answer is not readable: %r", error)
        return None
