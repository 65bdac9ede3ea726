"""Whether anybody is with a session. While nobody is, it holds no slot of any stage."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from gateway.stages.stages import Stages
from visavis.serving.errors import DrainingError, UnknownNameError, VisavisError
from visavis.wire.clock import Clock

CHECK_S = 0.2
RETRY_S = 2.0


class Departure:
    """While a session may be going to another gateway. moved: it has gone there."""

    def __init__(self) -> None:
        self.moved = False
        self.decided = asyncio.Event()
        """Set once it is known whether it stays."""


class Presence:
    """Gives a session's stages back once nobody was there for `release_s`; takes them on return.

    connected: whether somebody is there now. recorded: whether what happens is kept for later.
    answering: whether a turn is open. leave: called before the stages are given back. refused:
    called with why they cannot be had again, while somebody waits for them.
    """

    def __init__(
        self,
        stages: Stages,
        clock: Clock,
        release_s: float,
        *,
        connected: Callable[[], bool],
        recorded: Callable[[], bool],
        answering: Callable[[], bool],
        leave: Callable[[], None],
        refused: Callable[[VisavisError], None],
    ) -> None:
        self._stages = stages
        self._clock = clock
        self._release_s = release_s
        self._connected = connected
        self._recorded = recorded
        self._answering = answering
        self._leave = leave
        self._refused = refused
        self._changing = asyncio.Lock()
        self._over = False
        self.departure: Departure | None = None
        """Set from when the session may go to another gateway; it then begins nothing any more."""
        self._fetched_later = False
        """Whoever asked is not connected: the answer is looked up when it is complete."""
        self.touched_at_s = clock.now()

    def touch(self) -> None:
        """Somebody has used the session."""
        self.touched_at_s = self._clock.now()

    def asked(self) -> None:
        """Somebody wants an answer."""
        self.touch()
        self._fetched_later = not self._connected()

    def idle_s(self) -> float:
        """How long nobody has been connected to it or used it."""
        if self._connected():
            self.touch()
        return self._clock.now() - self.touched_at_s

    async def wake(self) -> None:
        """Have the stages attached. Raises AtCapacityError where no slot is free, and others.

        While it may be going to another gateway, that is waited for; DrainingError: it has gone.
        """
        self.touch()
        await self.stays()
        async with self._changing:
            if self._over:
                raise UnknownNameError("session: it has ended")
            if not self._stages.attached:
                try:
                    await self._stages.attach()
                except UnknownNameError:
                    await self._stages.attach()  # its avatar is gone, and it wears another one now

    async def stays(self) -> None:
        """Returns once it is known that it goes nowhere for now. DrainingError: it has gone."""
        while self.departure is not None:
            await self.departure.decided.wait()
            if self.departure is not None and self.departure.moved:
                raise DrainingError("session: it goes on in another gateway; ask again")

    async def watch(self) -> None:
        """Run for as long as the session lives."""
        told = False
        while True:
            await asyncio.sleep(CHECK_S)
            if self.departure is not None:
                continue
            if not self._connected():
                told = False
                await self._release()
                continue
            self.touch()
            self._fetched_later = False
            try:
                await self.wake()
                told = False
            except VisavisError as error:
                if self.departure is not None:
                    continue
                if not told:
                    self._refused(error)
                told = True
                await asyncio.sleep(RETRY_S)

    @asynccontextmanager
    async def departing(self) -> AsyncIterator[Departure]:
        """The stages are given back, and taken again at the end unless the session has moved."""
        self.departure = departure = Departure()
        attached = self._stages.attached
        try:
            async with self._changing:
                await self._stages.leave()
            yield departure
        finally:
            if not departure.moved:
                if attached:
                    self._stages.admit()  # it was let in, and has not gone anywhere
                self.departure = None
            departure.decided.set()

    async def release_for_good(self) -> None:
        """Give the stages back; nobody takes them again."""
        self._over = True
        async with self._changing:
            await self._stages.release()

    async def _release(self) -> None:
        async with self._changing:
            awaited = self._recorded() or (self._fetched_later and self._answering())
            if not self._stages.attached or awaited or self.idle_s() <= self._release_s:
                return
            self._leave()
            await self._stages.release()
