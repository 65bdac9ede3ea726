"""One target of a broadcast: connected, sent to, and connected again, until it is stopped."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from enum import StrEnum
from typing import Literal, Protocol

from gateway import metrics
from gateway.live.media import LiveTick
from gateway.live.push.address import PushAddress
from gateway.live.push.failure import PushError
from gateway.live.push.flow import Figures, Retries
from visavis.serving.lifetime.supervision import first_of
from visavis.wire.clock import Clock

log = logging.getLogger(__name__)


class Phase(StrEnum):
    """Where a target stands."""

    CONNECTING = "connecting"
    LIVE = "live"
    WAITING = "waiting"
    """It is lost or does not answer, and is tried again in a moment."""
    STOPPED = "stopped"
    FAILED = "failed"
    """It is not tried any more."""


class Push(Protocol):
    """One connection to a target, by one protocol."""

    async def open(self) -> None:
        """Connect. Raises PushError."""

    def push(self, live: LiveTick) -> None:
        """Send what leaves in this tick; never waits."""

    async def ended(self) -> None:
        """Wait for the end of the connection. Raises PushError with why it has ended."""

    async def close(self) -> None:
        """End the stream and the connection. May be called again, and before `open`."""


class Target:
    """Keeps one target supplied: `run` it, `push` ticks into it, cancel `run` to stop.

    make: a new connection, which counts on these figures. told: called when the phase changes.
    figures: of a target that another gateway has supplied.
    """

    def __init__(
        self,
        name: str,
        address: PushAddress,
        make: Callable[[PushAddress, Figures], Push],
        clock: Clock,
        told: Callable[[Target], None],
        figures: Figures | None = None,
    ) -> None:
        self.name = name
        self.address = address
        self.figures = figures or Figures()
        self.phase = Phase.CONNECTING
        self.error = ""
        """Why it is not live, or was not the last time; no secret is in it."""
        self._make = make
        self._clock = clock
        self._told = told
        self._push: Push | None = None
        self._broken = asyncio.Event()
        self._live_since_s: float | None = None
        self._lost = False
        """It was live, and is to be again."""
        metrics.broadcasts.labels(address.kind, self.phase).inc()

    @property
    def over(self) -> bool:
        """It was stopped, or given up."""
        return self.phase in (Phase.STOPPED, Phase.FAILED)

    @property
    def live_s(self) -> float:
        """For how long the present connection has been live."""
        since_s = self._live_since_s
        return 0.0 if since_s is None else self._clock.now() - since_s

    def push(self, live: LiveTick) -> None:
        """What leaves in this tick. What goes wrong ends this connection alone."""
        if self._push is None or self.phase is not Phase.LIVE:
            return
        dropped, sent = self.figures.dropped_pictures, self.figures.sent_bytes
        try:
            self._push.push(live)
        except Exception:
            log.exception("a broadcast failed")
            self._push = None
            self._broken.set()
        if dropped := self.figures.dropped_pictures - dropped:
            metrics.broadcast_dropped_pictures.labels(self.address.kind).inc(dropped)
        metrics.broadcast_bytes.labels(self.address.kind).inc(self.figures.sent_bytes - sent)

    async def run(self) -> None:
        """Until it is cancelled, or given up."""
        retries = Retries(self._clock.now())
        try:
            while True:
                lived_s, hopeless = await self._once()
                wait_s = retries.wait_s(lived_s, self._clock.now())
                if hopeless or wait_s is None:
                    self._end(Phase.FAILED, "refused" if hopeless else "given_up")
                    return
                self._enter(Phase.WAITING)
                await asyncio.sleep(wait_s)
                self.figures.reconnects += 1
                metrics.broadcast_reconnects.labels(self.address.kind).inc()
                self._enter(Phase.CONNECTING)
        except asyncio.CancelledError:
            self.stopped()
            raise

    def stopped(self) -> None:
        """It was stopped. Harmless where it is over."""
        if not self.over:
            self._end(Phase.STOPPED, "stopped")

    async def _once(self) -> tuple[float, bool]:
        """One connection, to its end; for how many seconds it was live, whether it is hopeless."""
        hopeless = False
        self._broken.clear()
        push = self._push = self._make(self.address, self.figures)
        try:
            await push.open()
            self._live_since_s, self.error = self._clock.now(), ""
            self._enter(Phase.LIVE)
            await first_of(push.ended(), self._broken.wait())
            self.error = "an internal error"
        except PushError as error:
            self.error = str(error)
            hopeless = error.permanent
        except Exception:
            log.exception("a broadcast failed")
            self.error = "an internal error"
        finally:
            lived_s, self._live_since_s, self._push = self.live_s, None, None
            self.figures.lag_s = 0.0
            await _close(push)
        log.info("broadcast %s to %s: %s", self.name, self.address.shown, self.error)
        return lived_s, hopeless

    def _enter(self, phase: Phase) -> None:
        kind = self.address.kind
        metrics.broadcasts.labels(kind, self.phase).dec()
        was_lost = self._lost
        again = phase in (Phase.WAITING, Phase.CONNECTING)
        self._lost = again and (was_lost or self.phase is Phase.LIVE)
        metrics.broadcasts_lost.labels(kind).inc(self._lost - was_lost)
        self.phase = phase
        if not self.over:
            metrics.broadcasts.labels(kind, phase).inc()
        self._told(self)

    def _end(self, phase: Phase, how: Literal["stopped", "refused", "given_up"]) -> None:
        metrics.broadcasts_ended.labels(self.address.kind, how).inc()
        self._enter(phase)


async def _close(push: Push) -> None:
    """Where a connection was half made by what a server told, it may not even close in order."""
    try:
        await push.close()
    except Exception:
        log.exception("the connection of a broadcast did not close in order")
