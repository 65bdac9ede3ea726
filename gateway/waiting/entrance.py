"""Sessions are made here: at once where there is room, or when a place's turn has come."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from gateway import metrics
from gateway.session.session import Session
from gateway.session.sessions import ENDING, Sessions
from gateway.stages.registry import Registry
from gateway.stages.room import NoRoomError, Shortage, answer_load, shortage
from gateway.stages.stages import Options
from gateway.talk.actions import Message
from gateway.waiting.line import Line, Phase, Place, Standing
from visavis.serving.admission.departures import Departures
from visavis.serving.admission.reporting import REPORT_S
from visavis.serving.errors import (
    DrainingError,
    InvalidInputError,
    UnknownNameError,
    VisavisError,
)
from visavis.serving.lifetime.supervision import Keeper
from visavis.wire.clock import Clock, MonotonicClock

log = logging.getLogger(__name__)

LOOK_S = 0.5
"""How often it is looked whether there is room for who waits."""
AFTER_REFUSAL_S = 2.0
"""A replica that has just refused a session measures before it is asked again."""
SEEN_S = REPORT_S + 0.2
"""So long after a session was let in, all replicas have told how they stand with it."""
TOLD_S = 1.0
"""How often those who listen are told how their place stands."""
_TIGHT = 0.7
"""Of what answers may take: from here on visitors are weighed one after the other."""
_HINT = 'ask for a place in the queue with "queue": true'


@dataclass(frozen=True, slots=True)
class Wish:
    """What a session is to be."""

    options: Options
    persona: str
    welcome: str = ""
    owner: str = ""
    """Name of the app that wants it; "": an operator does."""
    said: tuple[Message, ...] = ()
    """What was said before, in a session that is no more."""


class Entrance:
    """Lets visitors of this gateway in, and keeps the line of those who wait.

    `start` it, `stop` it.
    """

    def __init__(
        self,
        sessions: Sessions,
        registry: Registry,
        new_id: Callable[[], str],
        *,
        places: int,
        patience_s: float,
        clock: Clock | None = None,
    ) -> None:
        """places: how many may wait. patience_s: how long a place is kept that nobody asks for."""
        self._sessions = sessions
        self._registry = registry
        self._new_id = new_id
        self._clock = clock or MonotonicClock()
        self._line: Line[Wish] = Line(places, patience_s)
        self._settled: dict[str, Place[Wish]] = {}
        """Places that wait no more and whose visitors have not been told yet."""
        self._patience_s = patience_s
        self._departures = Departures()
        self._waits_s: list[float | None] = []
        self._waits_at_s = float("-inf")
        self._not_before_s = self._let_in_at_s = float("-inf")
        self._outdated = 0
        """Of the registry's looks, the last that may not know of all whom we have let in."""
        self._in_turn = asyncio.Lock()
        self._changed = asyncio.Event()
        self._keeper = Keeper("entrance", self._let_in)
        sessions.on_change = self._session_changed

    def start(self) -> None:
        """Those who wait are let in from now on."""
        self._keeper.start()

    async def stop(self) -> None:
        """Nobody is let in any more."""
        await self._keeper.stop()

    @property
    def waiting(self) -> int:
        """How many stand in line."""
        return len(self._line)

    def owner_of(self, name: str) -> str | None:
        """Whose the place is, or was until a moment ago; None: there is none."""
        place = self._line.find(name) or self._settled.get(name)
        return None if place is None else place.wish.owner

    def places_of(self, owner: str) -> int:
        """How many of an app's visitors stand in line."""
        return sum(place.wish.owner == owner for place in self._line.places())

    async def enter(self, wish: Wish) -> Session:
        """A session now. Raises NoRoomError, also where others wait, and what `create` does."""
        try:
            return await self._enter(wish)
        except NoRoomError as error:
            metrics.refused.labels(error.service).inc()
            raise

    async def enter_or_wait(self, wish: Wish) -> Session | Standing:
        """A session, or a place in line. Raises NoRoomError where no place is free either."""
        try:
            return await self._enter(wish)
        except NoRoomError as error:
            if self._line.full:
                metrics.refused.labels(error.service).inc()
                raise
        now_s = self._clock.now()
        place = self._line.join(self._new_id(), wish, now_s)
        standing = self._standing(place)
        place.told_wait_s = standing.expected_wait_s
        self._note_length()
        return standing

    def standing(self, name: str) -> Standing:
        """How a place stands; it is kept for as long as somebody asks. Raises UnknownNameError."""
        place = self._line.find(name) or self._settled.get(name)
        if place is None:
            raise UnknownNameError(
                f"place: nobody waits as {name[:64]!r}; a place that nobody asks for is given up "
                f"after {self._patience_s:g} s"
            )
        place.seen_s = self._clock.now()
        place.told = place.phase is not Phase.WAITING
        return self._standing(place)

    async def follow(self, name: str) -> AsyncIterator[Standing]:
        """How the place stands, now and then and whenever that changes, until it waits no more.

        Raises UnknownNameError.
        """
        while True:
            standing = self.standing(name)
            yield standing
            if standing.phase is not Phase.WAITING:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TOLD_S):
                    await self._changed.wait()

    def leave(self, name: str) -> bool:
        """The visitor does not want to wait any more. False where he does not."""
        place = self._line.find(name)
        if place is not None:
            self._end(place, Phase.LEFT, "left")
        return place is not None

    # ------------------------------------------------------------ letting in

    async def _let_in(self) -> None:
        while True:
            now_s = self._clock.now()
            for place in self._line.expire(now_s):
                self._ended(place, "vanished")
            if self._sessions.draining:
                for place in self._line.places():
                    self._refuse(place, ENDING, again=True)
            self._forget(now_s)
            self._keep_awake()
            head = self._line.head
            if head is not None and now_s >= self._not_before_s and self._short(head.wish) is None:
                await self._see_others(self._registry.looks)
                if self._short(head.wish) is None:
                    await self._admit(head)
            await asyncio.sleep(LOOK_S)

    async def _admit(self, place: Place[Wish]) -> None:
        """Make the session of who is next; he goes on waiting where it has no room after all."""
        wish = place.wish
        try:
            session = await self._sessions.create(
                wish.options, wish.persona, wish.welcome, wish.owner, name=place.id
            )
            session.remember(wish.said)
        except (InvalidInputError, UnknownNameError) as error:
            self._refuse(place, str(error))  # no waiting would help
            return
        except VisavisError as error:
            log.info("the next in line has to wait on: %s", error)
            self._not_before_s = self._clock.now() + AFTER_REFUSAL_S
            return
        except Exception:
            log.exception("the session of the next in line could not be made")
            self._refuse(place, "an internal error: the session could not be made")
            return
        finally:
            self._outdated = self._registry.looks
        self._let_in_at_s = self._clock.now()
        self._not_before_s = self._let_in_at_s + SEEN_S
        if self._line.position(place):
            waited_s = self._clock.now() - place.joined_s
            metrics.queue_wait_seconds.observe(waited_s)
            if place.told_wait_s is not None:
                ratio = place.told_wait_s / max(waited_s, 0.1)
                metrics.queue_told_ratio.observe(ratio)
            self._end(place, Phase.ADMITTED, "admitted")
        else:
            await self._sessions.delete(place.id)  # he left while it was being made

    async def _enter(self, wish: Wish) -> Session:
        self._refuse_at_the_end()
        came = self._registry.looks
        if answer_load(self._registry.replicas) < _TIGHT:
            return await self._create(wish, came)
        async with self._in_turn:
            self._refuse_behind_others()
            # What the last one asks has to be in what replicas tell before another is weighed.
            unseen_s = self._let_in_at_s + SEEN_S - self._clock.now()
            if unseen_s > 0:
                await asyncio.sleep(unseen_s)
                self._outdated = self._registry.looks
            await self._see_others(came)
            return await self._create(wish, came)

    async def _see_others(self, came: int) -> None:
        """Whom other gateways have let in since replicas last told; nothing where there are none.

        A replica sees to its own room; what answers may take together no replica knows.
        """
        if len(self._registry.gateways) > 1:
            await self._look(came)

    async def _look(self, came: int) -> None:
        """Ask replicas anew, for a visitor who came when there had been so many looks.

        One that began since, and knows of all whom we have let in, is as good: of a crowd that
        stands in turn the first one's look serves all.
        """
        await self._registry.refresh(after=max(came, self._outdated))

    async def _create(self, wish: Wish, came: int) -> Session:
        await self._refuse_where_full(wish, came)
        try:
            session = await self._sessions.create(
                wish.options, wish.persona, wish.welcome, wish.owner
            )
        except NoRoomError as error:
            raise self._explained(error.service, str(error)) from None
        finally:
            self._outdated = self._registry.looks
        session.remember(wish.said)
        self._let_in_at_s = self._clock.now()
        return session

    async def _refuse_where_full(self, wish: Wish, came: int) -> None:
        """Raises NoRoomError: others wait, or a stage is known to be full. Or DrainingError."""
        self._refuse_behind_others()
        short = self._short(wish)
        if short is not None and short.service != "gateway":
            # Since it was told, somebody may have left.
            await self._look(came)
            short = self._short(wish)
        if short is not None:
            self._refuse_at_the_end()  # it may have been told to end since he came
            raise self._explained(short.service, f"{short.service}: {short.why}")

    def _refuse_at_the_end(self) -> None:
        """Raises DrainingError where this gateway is about to end."""
        if self._sessions.draining:
            raise DrainingError(ENDING)

    def _refuse_behind_others(self) -> None:
        """Raises NoRoomError where somebody stands in line."""
        if waiting := len(self._line):
            wait = "visitor waits" if waiting == 1 else "visitors wait"
            raise self._explained("queue", f"{waiting} {wait} already")

    def _short(self, wish: Wish) -> Shortage | None:
        if self._sessions.free <= 0:
            return Shortage("gateway", self._sessions.limit_reached)
        options = wish.options
        replicas, services = self._registry.replicas, options.services
        return shortage(replicas, drawn_by=options.drawn_by, services=services)

    def _explained(self, service: str, why: str) -> NoRoomError:
        """What a visitor is told who is not let in."""
        waiting = len(self._line)
        wait_s = self._waits(waiting + 1)[-1]
        later = "later" if wait_s is None else f"in about {max(1, round(wait_s))} s"
        hint = "" if self._line.full else f", or {_HINT}"
        message = f"no room for another session now: {why}; try again {later}{hint}"
        return NoRoomError(message, service, expected_wait_s=wait_s, waiting=waiting)

    # ------------------------------------------------------------ what is told

    def _standing(self, place: Place[Wish]) -> Standing:
        position = self._line.position(place)
        wait_s = self._waits(position)[-1] if position else None
        return Standing(place.id, place.phase, position, wait_s, place.why, place.again)

    def _waits(self, most: int) -> list[float | None]:
        now_s = self._clock.now()
        if now_s - self._waits_at_s > TOLD_S or len(self._waits_s) < most:
            self._waits_s = self._departures.waits_s(max(most, len(self._line) + 1), now_s)
            self._waits_at_s = now_s
        return self._waits_s[:most]

    def _session_changed(self, session: str, is_open: bool) -> None:
        now_s = self._clock.now()
        if is_open:
            self._departures.opened(session, now_s)
        else:
            self._departures.ended(session, now_s, awaited=self._line.head is not None)
        self._waits_at_s = float("-inf")

    def _refuse(self, place: Place[Wish], why: str, *, again: bool = False) -> None:
        """He is not let in. Nothing if he has left meanwhile."""
        if self._line.position(place):
            place.why, place.again = why, again
            self._end(place, Phase.REFUSED, "refused")

    def _end(self, place: Place[Wish], phase: Phase, how: str) -> None:
        self._line.end(place, phase)
        self._settled[place.id] = place
        self._ended(place, how)

    def _ended(self, place: Place[Wish], how: str) -> None:
        metrics.queue_ended.labels(how).inc()
        place.seen_s = self._clock.now()
        self._note_length()

    def _note_length(self) -> None:
        metrics.queue_length.set(len(self._line))
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _forget(self, now_s: float) -> None:
        """Those who have been told, or will not ask any more."""
        kept = self._patience_s
        self._settled = {n: p for n, p in self._settled.items() if now_s - p.seen_s < kept}

    def _keep_awake(self) -> None:
        """Who does not know yet that he was let in finds his stages when he asks.

        That is for as long as his place is kept, which may be longer than stages are.
        """
        for name, place in self._settled.items():
            waits = place.phase is Phase.ADMITTED and not place.told
            if waits and self._sessions.has(name):
                self._sessions.get(name).touch()
