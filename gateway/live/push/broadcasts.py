"""The broadcasts of one session: started, looked at, stopped; each goes to one target."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from pydantic import BaseModel

from gateway.live.media import LiveTick
from gateway.live.push.address import PushAddress
from gateway.live.push.flow import Figures
from gateway.live.push.target import Push, Target
from gateway.live.push.to_rtmp import RtmpPush
from gateway.live.push.to_whip import WhipPush
from gateway.playout.sinks.ice import IceServer
from visavis.serving.errors import AtCapacityError, UnknownNameError
from visavis.wire.clock import Clock

MOST = 8
"""Targets of one session at once; all get the same pictures and the same sound."""
# Those that are over and can still be looked at.
_REMEMBERED = 8
# So long a gateway that gives a session away may take to let go of its targets, before each is
# connected to anyhow: a server takes one stream by a key.
_LET_GO_S = 2.0

Run: TypeAlias = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


class TargetRecord(BaseModel):
    """A target that another gateway goes on with, its key among it: it travels on the bus alone."""

    name: str
    address: PushAddress
    figures: Figures


class Broadcasts:
    """Pushes one session to several targets at once.

    run: looks after a task. on_keyframe: a target waits for one. changed: one has begun or ended.
    told: called with a target whose phase has changed. ice_servers: what WHIP connects by.
    """

    def __init__(
        self,
        clock: Clock,
        run: Run,
        on_keyframe: Callable[[], None],
        changed: Callable[[], None],
        told: Callable[[Target], None],
        ice_servers: Callable[[], list[IceServer]],
    ) -> None:
        self._clock = clock
        self._run = run
        self._on_keyframe = on_keyframe
        self._changed = changed
        self._told = told
        self._ice_servers = ice_servers
        self._targets: dict[str, Target] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._free = asyncio.Event()
        """The gateway that had the session has let go of its targets."""

    @property
    def running(self) -> bool:
        """Whether there is a target to be supplied, now or once it answers."""
        return any(not target.over for target in self._targets.values())

    @property
    def wants_opus(self) -> bool:
        return any(t.address.kind == "whip" and not t.over for t in self._targets.values())

    def all(self) -> list[Target]:
        """Those that run, and the last that are over; the oldest first."""
        return list(self._targets.values())

    def get(self, name: str) -> Target:
        """Raises UnknownNameError."""
        target = self._targets.get(name)
        if target is None:
            raise UnknownNameError(f"broadcast: the session has no {name[:64]!r}")
        return target

    def start(self, address: PushAddress) -> Target:
        """Begin to push to a target. Raises AtCapacityError."""
        if sum(not target.over for target in self._targets.values()) >= MOST:
            raise AtCapacityError(f"broadcasts: the session has {MOST} already, the most allowed")
        over = [name for name, target in self._targets.items() if target.over]
        for name in over[: max(0, len(over) - _REMEMBERED + 1)]:
            del self._targets[name]
            self._tasks.pop(name, None)
        target = Target(secrets.token_hex(4), address, self._make, self._clock, self._changed_in)
        self._add(target, target.run())
        return target

    def record(self) -> list[TargetRecord]:
        """Those that run, for a gateway that goes on with them."""
        running = (target for target in self._targets.values() if not target.over)
        return [TargetRecord(name=t.name, address=t.address, figures=t.figures) for t in running]

    def carry_on(self, records: Sequence[TargetRecord]) -> None:
        """Go on with what another gateway pushed to, once it has `let_go`."""
        for told in records:
            target = Target(
                told.name, told.address, self._make, self._clock, self._changed_in, told.figures
            )
            self._add(target, self._run_freed(target))

    def let_go(self) -> None:
        """The gateway that had the session pushes nowhere any more."""
        self._free.set()

    async def stop(self, name: str) -> Target:
        """End a broadcast; harmless where it is over. Raises UnknownNameError."""
        target = self.get(name)
        task = self._tasks.pop(name, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        target.stopped()  # where its task had not begun
        return target

    def push(self, live: LiveTick) -> None:
        """What leaves in this tick, to all of them."""
        for target in self._targets.values():
            target.push(live)

    async def close(self) -> None:
        """End all of them."""
        await asyncio.gather(*(self.stop(name) for name in list(self._tasks)))

    def _add(self, target: Target, running: Coroutine[Any, Any, None]) -> None:
        self._targets[target.name] = target
        self._tasks[target.name] = self._run(running)
        self._told(target)
        self._changed()

    async def _run_freed(self, target: Target) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_LET_GO_S):
                await self._free.wait()
        target.figures.reconnects += 1
        await target.run()

    def _make(self, address: PushAddress, figures: Figures) -> Push:
        if address.kind == "rtmp":
            return RtmpPush(address, figures, self._on_keyframe)
        return WhipPush(address, figures, self._on_keyframe, self._ice_servers())

    def _changed_in(self, target: Target) -> None:
        self._told(target)
        if target.over:
            self._changed()
