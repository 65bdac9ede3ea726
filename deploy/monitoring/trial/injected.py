"""What goes wrong on purpose: processes killed, frozen, slowed down; a crowd at the door.

Each is an asynchronous function that goes on until it is cancelled.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from pathlib import Path

import psutil

from deploy.monitoring.trial.crowd import Crowd, visiting
from visavis.client import GatewayClient, GatewayError
from visavis.tools.stack.process import Child, State
from visavis.tools.stack.supervisor import Stack

_LOOK_S = 0.1
_PERIOD_S = 0.1
"""In which a process that is slowed down has its share: as long as a cgroup's quota has."""
_ASK_EVERY_S = 0.5


async def killed(stack: Stack, name: str) -> None:
    """SIGKILL, to it and to each that is started in its place."""
    while True:
        if (child := _child(stack, name)).runs():
            child.kill()
        await asyncio.sleep(_LOOK_S)


async def killed_now_and_then(stack: Stack, name: str, works_s: float) -> None:
    """SIGKILL; what takes its place works for so long before it is killed as well."""
    child = _child(stack, name)
    while True:
        killed = child.pid
        child.kill()
        # Whoever keeps it at work tells nobody.
        while child.pid == killed or child.state is not State.READY:  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_S)
        await asyncio.sleep(works_s)


async def frozen(stack: Stack, name: str) -> None:
    """SIGSTOP, to it and to each that takes its place once that one works."""
    while True:
        child = _child(stack, name)
        if child.runs() and child.working:
            _send(child, signal.SIGSTOP)
        await asyncio.sleep(_LOOK_S)


async def slowed_down(stack: Stack, name: str, share: float) -> None:
    """Stopped for all but a share of each tenth of a second, as by others on its core."""
    while True:
        child = _child(stack, name)
        try:
            _send(child, signal.SIGSTOP)
            await asyncio.sleep(_PERIOD_S * (1 - share))
        finally:
            _send(child, signal.SIGCONT)
        await asyncio.sleep(_PERIOD_S * share)


async def crowded(stack: Stack, more: Crowd, clips: Path, folder: Path) -> None:
    """More visitors, who take what room is left, and others who ask for a session in vain."""
    async with visiting(stack.url, more, clips, folder), GatewayClient(stack.url) as client:
        while True:
            with contextlib.suppress(GatewayError):
                created = (await client.call("POST", "/v1/sessions", json={})).json()
                await client.call("DELETE", f"/v1/sessions/{created['id']}")
            await asyncio.sleep(_ASK_EVERY_S)


def _child(stack: Stack, name: str) -> Child:
    return stack.nats.process if name == "nats" else stack.children[name]


def _send(child: Child, number: signal.Signals) -> None:
    with contextlib.suppress(psutil.Error, ProcessLookupError):
        if child.pid is not None and child.runs():
            psutil.Process(child.pid).send_signal(number)
