"""The one ticker of the process: in one pass it serves every session whose tick is due."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gateway import metrics
from gateway.playout.pacing import TICK_SAMPLES, Schedule
from visavis.serving.lifetime.supervision import Keeper
from visavis.wire.clock import Clock


class Pulse:
    """One session's place in the ticker: its ticks come from here, until `end`.

    tick: called every 20 ms with whether it may be a long one, and must not wait for anything; how
    many samples have left: a tick, half a one or a long one, and then the next is as much later; 0:
    the session rests from now on.
    skip: called with how many samples it has slept through, before the first tick after.
    failed: called with what `tick` raised; it has no tick any more then.
    """

    def __init__(
        self,
        ticker: Ticker,
        tick: Callable[[bool], int],
        skip: Callable[[int], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._ticker = ticker
        self.tick = tick
        self.skip = skip
        self.failed = failed

    @property
    def rests(self) -> bool:
        """Whether it has no tick until `wake`."""
        return self._ticker.rests(self)

    def wake(self) -> None:
        """Something has happened: if the session rests, its ticks go on."""
        self._ticker.wake(self)

    def end(self) -> None:
        """No tick any more. May be called again."""
        self._ticker.leave(self)


class Ticker:
    """Wakes every 20 ms for all sessions together, half as often for those in which nothing goes
    on, and in between for those whose answer is awaited. `start` it, `stop` it.

    A process that woke for each session by itself would spend most of its time on waking: caches
    are cold, and the system is asked what is to be done. A session whose tick raises is served no
    more; the others do not notice.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._schedule: Schedule[Pulse] = Schedule()
        self._joined = asyncio.Event()
        self._keeper = Keeper("ticker", self._run)

    def start(self) -> None:
        self._keeper.start()

    async def stop(self) -> None:
        await self._keeper.stop()

    def join(
        self,
        tick: Callable[[bool], int],
        skip: Callable[[int], None],
        failed: Callable[[Exception], None],
    ) -> Pulse:
        """A session begins; `Pulse` says what is called when."""
        pulse = Pulse(self, tick, skip, failed)
        self._schedule.join(pulse, self._clock.now())
        self._joined.set()
        return pulse

    def leave(self, pulse: Pulse) -> None:
        """A session has ended."""
        self._schedule.leave(pulse)

    def rests(self, pulse: Pulse) -> bool:
        """Whether a session has no ticks now."""
        return self._schedule.rests(pulse)

    def wake(self, pulse: Pulse) -> None:
        """A session that rests goes on."""
        slept = self._schedule.wake(pulse, self._clock.now())
        if slept:
            pulse.skip(slept)
        self._joined.set()

    async def _run(self) -> None:
        while True:
            self._pass()
            wait_s = self._schedule.wait_s(self._clock.now())
            if wait_s is None:
                self._joined.clear()
                await self._joined.wait()
            else:
                # Also where a tick is due by now: what came in meanwhile has its turn first.
                await asyncio.sleep(wait_s)

    def _pass(self) -> None:
        """Serve everybody who is due. Nothing in here waits: not for a socket, not for a stage."""
        began_s = self._clock.now()
        due = self._schedule.due(began_s)
        if not due:
            return
        now_s = began_s
        for pulse, deadline_s in due:
            metrics.tick_late_seconds.observe(max(0.0, now_s - deadline_s))
            self._serve(pulse)
            now_s = self._clock.now()
        metrics.tick_sessions.observe(len(due))
        metrics.tick_pass_seconds.observe(now_s - began_s)

    def _serve(self, pulse: Pulse) -> None:
        try:
            samples = pulse.tick(self._schedule.may_be_long(pulse))
            if not samples:
                self._schedule.rest(pulse)
            elif samples != TICK_SAMPLES:
                self._schedule.lasts(pulse, samples)
        except Exception as error:
            # Whatever it is, it is this session's own.
            self._schedule.leave(pulse)
            pulse.failed(error)
