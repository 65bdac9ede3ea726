"""The broadcasts of one session: started, looked at, stopped; each goes to one target."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

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

Run: TypeAlias = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


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
        self._targets[target.name] = target
        self._tasks[target.name] = self._run(target.run())
        self._told(target)
        self._changed()
        return target

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

    def _make(self, address: PushAddress, figures: Figures) -> Push:
        if address.kind == "rtmp":
            return RtmpPush(address, figures, self._on_keyframe)
        return WhipPush(address, figures, self._on_keyframe, self._ice_servers())

    def _changed_in(self, target: Target) -> None:
        self._told(target)
        if target.over:
            self._changed()
