"""What a service is busy with while it starts, told on the bus to whoever started it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable

import nats.errors
from nats.aio.msg import Msg

from visavis.wire.bus import Bus
from visavis.wire.subjects import STARTING

log = logging.getLogger(__name__)

_REPORT_S = 0.5
_doing = ""


def busy_with(doing: str) -> None:
    """Note what this process's start is busy with, from any thread; `report_starting` tells it."""
    global _doing
    _doing = doing


async def report_starting(bus: Bus | None, label: str) -> None:
    """Tell what `busy_with` notes, whenever that has changed, until cancelled."""
    told = _doing
    while True:
        await asyncio.sleep(_REPORT_S)
        if _doing != told:
            told = _doing
            await tell_starting(bus, label, told)


async def tell_starting(bus: Bus | None, label: str, doing: str) -> None:
    """Say that the process `label` is getting on with its start. Without a bus nobody listens."""
    if bus is None:
        return
    message = json.dumps({"process": label, "doing": doing}).encode()
    with contextlib.suppress(nats.errors.Error, OSError):  # a start goes on without being told of
        await bus.client.publish(STARTING, message)


async def on_starting(bus: Bus, told: Callable[[str, str], None]) -> None:
    """Call `told(label, doing)` for whatever any process tells, until the bus is closed."""

    async def receive(message: Msg) -> None:
        try:
            read = json.loads(message.data)
            label, doing = str(read["process"]), str(read["doing"])
        except (ValueError, KeyError, TypeError, RecursionError):
            log.debug("%s: cannot be read", message.subject)
            return
        told(label, doing)

    await bus.client.subscribe(STARTING, cb=receive)
