"""All open sessions: made, found, ended; those that nobody uses expire."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from gateway import metrics
from gateway.answers.answering import Sources
from gateway.playout.ticker import Ticker
from gateway.session.session import Session
from gateway.settings import GatewaySettings
from gateway.stages.idle_loops import LoopLibrary
from gateway.stages.registry import Registry
from gateway.stages.room import NoRoomError
from gateway.stages.stages import Options
from visavis.serving.errors import (
    BusError,
    DrainingError,
    StageLostError,
    UnknownNameError,
)
from visavis.serving.lifetime.supervision import Keeper
from visavis.wire.bus import Bus
from visavis.wire.clock import MonotonicClock, through_sleep_s

log = logging.getLogger(__name__)

ENDING = "sessions: this gateway is about to end; ask again"
"""What is told to whoever asks for a session while it drains."""

SWEEP_S = 1.0
SLEPT_S = 30.0
"""After so long nobody waits any more for what was being said."""
CLOSE_TIMEOUT_S = 30.0


class Sessions:
    """Owns every session: makes them, finds them, ends them."""

    def __init__(
        self,
        bus: Bus,
        registry: Registry,
        settings: GatewaySettings,
        answers: Sources,
        loops: LoopLibrary,
        new_id: Callable[[], str],
    ) -> None:
        self._new_id = new_id
        self._bus = bus
        self._registry = registry
        self._settings = settings
        self._answers = answers
        self._loops = loops
        self._open: dict[str, Session] = {}
        self._uses: Counter[str] = Counter()
        self.leaving = asyncio.Event()
        """Set: none is made any more, and those that there are go to other gateways."""
        self._opening = 0
        self._awaited: set[str] = set()
        """Those that other gateways had, for as long as a seat is kept for each."""
        self._ticker = Ticker(MonotonicClock())
        self.on_change: Callable[[str, bool], None] = lambda session, is_open: None
        """Told of each session that is there now, or is not any more."""
        self._sweeper = Keeper("sessions-sweep", self._sweep)

    def start(self) -> None:
        """Have sessions tick, and those that nobody uses expire, until `end_all`."""
        self._ticker.start()
        self._sweeper.start()

    async def end_all(self) -> None:
        """End all sessions; none expires any more."""
        await self._sweeper.stop()
        await asyncio.gather(*(self.end_for_shutdown(session) for session in self.all()))
        await self._ticker.stop()

    def all(self) -> list[Session]:
        return list(self._open.values())

    def get(self, session_id: str) -> Session:
        """Raises UnknownNameError."""
        session = self._open.get(session_id)
        if session is None:
            raise UnknownNameError(
                f"session: there is no {session_id[:64]!r}; it may have expired after "
                f"{self._settings.session_idle_s:g} s without a client"
            )
        return session

    def has(self, session_id: str) -> bool:
        """Whether it is open here."""
        return session_id in self._open

    @contextmanager
    def in_use(self, session_id: str) -> Iterator[None]:
        """A request of a session is being answered: it stays for as long. "": one of none."""
        self._uses[session_id] += 1
        try:
            yield
        finally:
            self._uses[session_id] -= 1
            if not self._uses[session_id]:
                del self._uses[session_id]

    def is_in_use(self, session_id: str) -> bool:
        """Whether a request of it is being answered, or it is a client's who cannot follow it."""
        return bool(self._uses[session_id])

    async def settled(self, session_id: str) -> None:
        """Returns once it is known whether a session stays here."""
        session = self._open.get(session_id)
        if session is not None and session.presence.departure is not None:
            await session.presence.departure.decided.wait()

    def may_leave(self, session: Session, *, at_last: bool = False) -> bool:
        """Whether a session may go to another gateway now. at_last: else it ends with this one."""
        here = self.has(session.id) and session.presence.departure is None
        return here and (at_last or session.between_turns) and not self.is_in_use(session.id)

    @property
    def draining(self) -> bool:
        """Whether this gateway is about to end."""
        return self.leaving.is_set()

    @property
    def free(self) -> int:
        """How many more may be opened; less than none in a gateway that drains."""
        if self.draining:
            return -1
        return self._settings.max_sessions - self.taken

    @property
    def taken(self) -> int:
        """How many are open, or being opened, or have a seat kept for them."""
        return len(self._open.keys() | self._awaited) + self._opening

    @property
    def limit_reached(self) -> str:
        """What is told where `free` is 0."""
        return f"sessions: {self._settings.max_sessions} are open, the most allowed"

    @property
    def requests(self) -> int:
        """How many requests are being answered."""
        return self._uses.total()

    @property
    def busy(self) -> int:
        """How many are talking."""
        return sum(session.state != "idle" for session in self._open.values())

    async def create(
        self, options: Options, persona: str, welcome: str = "", owner: str = "", *, name: str = ""
    ) -> Session:
        """A session with a slot of every stage.

        Raises BusError or StageLostError where no turn would work now, NoRoomError and others.
        welcome: said once somebody watches. owner: the app that wants it. name: its id; "": a new
        one.
        """
        self._check_room()
        session = self._make(name or self._new_id(), options, persona, welcome, owner)
        self._opening += 1
        try:
            await self._check_ready(options.services)
            await session.open()
        finally:
            self._opening -= 1
        self._add(session)
        return session

    @contextmanager
    def seat_for(self, session_id: str) -> Iterator[None]:
        """Nobody else takes the seat of a session that another gateway had, while it is fetched and
        `adopt`ed. Raises AtCapacityError.
        """
        if not self.has(session_id):
            self._check_room()
        self._awaited.add(session_id)
        try:
            yield
        finally:
            self._awaited.discard(session_id)

    async def adopt(
        self, session_id: str, options: Options, persona: str, welcome: str, owner: str
    ) -> Session:
        """A session that another gateway had, in the seat that is kept for it (`seat_for`); it has
        no stages yet.
        """
        if self.has(session_id):  # that gateway did not hear that we have taken it
            await self.hand_on(self.get(session_id))
        session = self._make(session_id, options, persona, welcome, owner)
        await session.open(attached=False)
        self._add(session)
        return session

    def _make(
        self, session_id: str, options: Options, persona: str, welcome: str, owner: str
    ) -> Session:
        return Session(
            session_id,
            options,
            persona,
            bus=self._bus,
            registry=self._registry,
            settings=self._settings,
            answers=self._answers,
            loops=self._loops,
            ticker=self._ticker,
            welcome=welcome,
            owner=owner,
        )

    def _add(self, session: Session) -> None:
        self._open[session.id] = session
        metrics.sessions.set(len(self._open))
        metrics.sessions_begun.inc()
        self.on_change(session.id, True)

    def _check_room(self) -> None:
        if self.draining:
            raise DrainingError(ENDING)
        if self.free <= 0:
            raise NoRoomError(self.limit_reached, "gateway")

    async def _check_ready(self, services: Sequence[str]) -> None:
        await self._bus.there()
        missing = await self._registry.missing(services)
        if missing:
            told = "; ".join(f"{part}: {why}" for part, why in missing.items())
            kind = BusError if "bus" in missing else StageLostError
            raise kind(f"no conversation is possible now: {told}; try again later")

    async def delete(self, session_id: str) -> None:
        """End a session and free all it held. Raises UnknownNameError."""
        await self._end(self.get(session_id), "deleted", "the session was ended")

    def avatar_deleted(self, name: str) -> None:
        """Nothing of it stays here: sessions that wear it are told, and wear the default one."""
        self._loops.forget(name)
        for session in self.all():
            if session.options.avatar == name:
                session.avatar_deleted()

    def avatar_renamed(self, name: str, new_name: str) -> None:
        """Sessions that wear it go on with it, and are told what it is called now."""
        self._loops.rename(name, new_name)
        for session in self.all():
            if session.options.avatar == name:
                session.avatar_renamed(new_name)

    async def hand_on(self, session: Session) -> None:
        """It has gone to another gateway: let go of it here."""
        await self._end(session, "moved", "the session has gone to another gateway")

    async def end_for_shutdown(self, session: Session) -> None:
        """End it because the gateway ends."""
        await self._end(session, "shutdown", "the gateway is stopping")

    async def _end(self, session: Session, reason: str, message: str) -> None:
        if self._open.pop(session.id, None) is None:
            return
        metrics.sessions.set(len(self._open))
        metrics.sessions_ended.labels(reason).inc()
        self.on_change(session.id, False)
        log.info("session %s ends: %s", session.id, reason)
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await session.close(message)
        except Exception:
            # It has let go of all it could; nobody else may suffer for the rest.
            log.exception("session %s did not close in order", session.id)

    def _wake_up(self, slept_s: float) -> None:
        busy = sum([session.wake_up() for session in self.all()])
        log.warning(
            "this machine slept, or this process stood still, for %.0f s: of %d sessions %d had "
            "something under way, which does not go on",
            *(slept_s, len(self._open), busy),
        )

    async def _sweep(self) -> None:
        looked_s = through_sleep_s()
        while True:
            await asyncio.sleep(SWEEP_S)
            before_s, looked_s = looked_s, through_sleep_s()
            if looked_s - before_s > SLEPT_S:
                self._wake_up(looked_s - before_s)
            endings = []
            for session in self.all():
                if session.failed:
                    message = "an internal error ended the session"
                    endings.append(self._end(session, "failed", message))
                elif session.unwanted:
                    endings.append(self._end(session, "deleted", "whoever it was for has gone"))
                elif session.idle_s() > self._settings.session_idle_s:
                    endings.append(self._end(session, "expired", "nobody used the session"))
            await asyncio.gather(*endings)
