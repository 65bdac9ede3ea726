"""Sessions whose gateway dies: another one knows what it takes to go on with them, and does.

Each gateway tells one peer, its stand-in, of its sessions as they change. Once it is gone without a
word, as after a SIGKILL or with its machine, the stand-in goes on with them: as soon as somebody
asks for one of them, or it notices by itself. What it knows lies in its memory alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from dataclasses import asdict
from typing import Any

from pydantic import TypeAdapter, ValidationError

from gateway import metrics
from gateway.background import Background
from gateway.peers.handover import Handover, SessionRecord
from gateway.peers.peers import GLANCE_S, Peer, Peers
from gateway.room.rooms import Rooms
from gateway.session.session import Session
from gateway.session.sessions import Sessions
from gateway.talk.turn import Begun
from visavis.serving.errors import (
    AlreadyExistsError,
    AtCapacityError,
    InvalidInputError,
    UnknownNameError,
    VisavisError,
)
from visavis.serving.lifetime.supervision import Keeper
from visavis.wire.bucket import Trouble
from visavis.wire.bus import Bus
from visavis.wire.clock import MonotonicClock

log = logging.getLogger(__name__)

LOOK_S = 0.5
MOST = 1000
"""Sessions of others that one gateway stands in for."""
STEADY_S = 5.0
"""So long after a loss of the bus nobody is taken for dead: he may not be back yet."""
# Where nobody stands in, so long nobody is asked again.
_PAUSE_S = 2.0
# Records of so many turns are told: it is done while others talk.
_TURNS = 4
# Turns and utterances that a gateway may have begun since it last told of a session: services take
# none for the newest that comes after a newer one.
_AHEAD = 100
# So long somebody is waited for to whom the question that had no answer yet is answered.
_RETURNS_S = 15.0
_TAKEN = "session: it goes on elsewhere"
_BEGUN: TypeAdapter[dict[str, Begun | None]] = TypeAdapter(dict[str, Begun | None])


class StandingIn:
    """Has a peer stand in for this gateway, and stands in for others. `start` it, `stop` it."""

    def __init__(
        self,
        instance: str,
        bus: Bus,
        sessions: Sessions,
        peers: Peers,
        handover: Handover,
        rooms: Rooms,
    ) -> None:
        self._instance = instance
        self._bus = bus
        self._sessions = sessions
        self._peers = peers
        self._handover = handover
        self._rooms = rooms
        self._clock = MonotonicClock()
        self._stand_in: Peer | None = None
        self._told: dict[str, Any] = {}
        """What our stand-in knows of each of our sessions, by its mark."""
        self._begun: dict[str, Begun | None] = {}
        """And of the answer that is under way in each."""
        self._known: dict[str, dict[str, SessionRecord]] = {}
        """Sessions of other gateways, by instance and id."""
        self._taking: dict[str, asyncio.Task[None]] = {}
        self._losses, self._lost_at_s = bus.losses, -math.inf
        self._trouble = Trouble("sessions would be lost with this gateway")
        self._background = Background()
        self._teller = Keeper("stand-in", self._keep_telling)
        self._watcher = Keeper("standing-in", self._keep_looking)
        peers.revive = self.wanted

    def start(self) -> None:
        self._teller.start()
        self._watcher.start()

    async def stop(self) -> None:
        """Our stand-in forgets us: our sessions have ended, or are with others."""
        await self._teller.stop()
        await self._watcher.stop()
        await self._background.cancel_all()
        if self._stand_in is not None and self._bus.connected:
            try:
                await self._peers.tell(self._stand_in, {"ends": self._instance})
            except VisavisError as error:
                log.warning("stand-in: %s", error)

    async def obey(self, message: dict[str, Any]) -> None:
        """Do what a peer asks, or have the handover do it. Raises VisavisError."""
        match message:
            case {"of": str(owner), "kept": record}:
                self._keep_known(owner, record)
            case {"of": str(owner), "begun": dict(begun)}:
                self._note_begun(owner, begun)
            case {"of": str(owner), "ended": list(names)}:
                for name in names:
                    self._known.get(owner, {}).pop(name, None)
            case {"ends": str(owner)}:
                self._known.pop(owner, None)
            case {"wanted": str(name)}:
                await self.wanted(name)
            case {"has": str(name)}:
                self._sessions.get(name)
            case _:
                await self._handover.obey(message)

    # ------------------------------------------------------------ our sessions

    async def _keep_telling(self) -> None:
        while True:
            await self._tell()
            await asyncio.sleep(LOOK_S)

    async def _tell(self) -> None:
        """Have the stand-in know what has changed; another one, where it is gone or has no room."""
        if self._sessions.draining or not self._peers.known:
            return
        if self._stand_in is not None and self._stand_in.instance not in self._peers.known:
            self._forget_stand_in()
        here = {session.id: session for session in self._sessions.all() if not session.moved}
        # A client that cannot come to another gateway takes its session with it.
        free = (session for session in here.values() if not self._sessions.is_in_use(session.id))
        marks = {session.id: self._mark(session) for session in free}
        changed = [name for name, mark in marks.items() if self._told.get(name) != mark]
        ended = list(self._told.keys() - here.keys())
        begun = {name: here[name].begun for name in marks}
        further = {name: of for name, of in begun.items() if of != self._begun.get(name)}
        if not changed and not ended and not further:
            return
        peer = self._stand_in = self._stand_in or await self._roomiest()
        if peer is None:
            await asyncio.sleep(_PAUSE_S)
            return
        try:
            if ended:
                await self._peers.tell(peer, {"of": self._instance, "ended": ended})
                for name in ended:
                    del self._told[name]
            for name in changed:
                record = self._handover.told_of(here[name], _TURNS)
                await self._peers.tell(peer, {"of": self._instance, "kept": record})
                self._told[name] = marks[name]
            if further:
                told = {name: of and asdict(of) for name, of in further.items()}
                with contextlib.suppress(AtCapacityError):  # one of an earlier version refuses it
                    await self._peers.tell(peer, {"of": self._instance, "begun": told})
                self._begun = begun
            self._trouble.over()
        except VisavisError as error:
            if str(error) == _TAKEN:
                await self._handover.yield_to(peer, here[name])
                return
            self._forget_stand_in()
            self._trouble.tell(error)
            await asyncio.sleep(_PAUSE_S)

    async def _roomiest(self) -> Peer | None:
        others = [peer for peer in await self._peers.others(GLANCE_S) if peer.seats > 0]
        return max(others, key=lambda peer: peer.seats, default=None)

    def _forget_stand_in(self) -> None:
        self._stand_in = None
        self._told.clear()
        self._begun.clear()

    # ------------------------------------------------------------ others' sessions

    def _keep_known(self, owner: str, told: Any) -> None:
        record = self._handover.read(told)
        if self._sessions.has(record.id):
            raise AlreadyExistsError(_TAKEN)
        known = self._known.setdefault(owner, {})
        most = sum(map(len, self._known.values())) >= MOST and record.id not in known
        if self._sessions.draining or most:
            raise AtCapacityError("stand-in: there is no room for more sessions of others")
        known[record.id] = record

    def _note_begun(self, owner: str, told: dict[str, Any]) -> None:
        known = self._known.get(owner, {})
        try:
            begun = _BEGUN.validate_python(told)
        except ValidationError as error:
            raise InvalidInputError(f"begun: it cannot be read: {error}") from error
        for name in begun.keys() & known.keys():
            known[name].begun = begun[name]

    async def wanted(self, name: str) -> None:
        """Somebody asks for a session whose gateway does not answer.

        Raises UnknownNameError where it is not here, now.
        """
        owner = next((owner for owner, of in self._known.items() if name in of), "")
        if owner and await self._gone(owner):
            await self._take_all(owner)
        elif self._taking:
            await asyncio.wait(list(self._taking.values()))
        if not self._sessions.has(name):
            raise UnknownNameError(f"session: there is no {name[:64]!r} here")

    async def _keep_looking(self) -> None:
        while True:
            for owner in list(self._known):
                if await self._gone(owner):
                    await self._take_all(owner)
            await asyncio.sleep(LOOK_S)

    async def _gone(self, owner: str) -> bool:
        if self._losses != self._bus.losses:
            self._losses, self._lost_at_s = self._bus.losses, self._clock.now()
        if not self._bus.connected or self._clock.now() - self._lost_at_s < STEADY_S:
            return False
        return await self._peers.is_gone(owner)

    async def _take_all(self, owner: str) -> None:
        """Go on with all sessions of a gateway that is gone; returns once they are here."""
        if known := self._known.pop(owner, {}):
            self._taking[owner] = self._background.run(self._take_each(owner, known))
        if (taking := self._taking.get(owner)) is not None:
            await asyncio.wait([taking])
            self._taking.pop(owner, None)

    async def _take_each(self, owner: str, known: dict[str, SessionRecord]) -> None:
        log.warning("gateway %s is gone: its %d sessions go on here", owner, len(known))
        await asyncio.gather(*(self._take(record) for record in known.values()))

    async def _take(self, record: SessionRecord) -> None:
        record.epoch += _AHEAD
        record.utterance += _AHEAD
        question, begun = "", record.begun
        if record.said and record.said[-1].role == "user":
            question = record.said.pop().content
        if begun is not None:
            record.turns = [turn for turn in record.turns if turn.turn != begun.turn]
        try:
            has = self._sessions.has(record.id)
            if has or await self._peers.who({"has": record.id}) is not None:
                return  # it was handed over, and its gateway gone before it could tell
            session = await self._handover.take(record)
        except VisavisError as error:
            metrics.sessions_stood_in.labels("lost").inc()
            log.warning("session %s is lost with its gateway: %s", record.id, error)
            return
        metrics.sessions_stood_in.labels("taken").inc()
        session.outlets.live.broadcasts.let_go()
        if question:
            self._background.run(self._answer(session, question, begun))

    async def _answer(self, session: Session, question: str, begun: Begun | None) -> None:
        """The question that had no answer yet, or the rest of one, once somebody is there to hear
        it.
        """
        await session.wake()
        until_s = self._clock.now() + _RETURNS_S
        while not session.audience.attending and self._clock.now() < until_s:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S / 5)
        if session.turn is not None:
            return
        if begun is not None:
            session.take_up(question, begun)
        else:
            session.submit_text(question)

    def _mark(self, session: Session) -> Any:
        """Of all that a stand-in is to know of a session; another one once that has changed."""
        outlets, said = session.outlets, session.said
        broadcasts = [target.name for target in outlets.live.broadcasts.all() if not target.over]
        return (
            *(len(said), said[-1:], session.options, session.persona, session.saying),
            *(session.answering.welcome.text, session.stages.attached),
            *(broadcasts, outlets.face_outputs.names, self._rooms.mark(session.id)),
        )
