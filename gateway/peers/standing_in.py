"""Sessions whose gateway dies: another one goes on with them, or the one that is started after it.

Each gateway writes what that takes into the bus's memory as it changes: of each of its sessions a
record that names who has it, and beside that the answer under way. Once a gateway is gone without
a word, as after a SIGKILL or with its machine, whoever is asked for one of its sessions, or looks
after it (`looked_after`), writes his own name into the record, unless another one was faster, and
goes on with it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Collection, Iterable
from contextlib import aclosing, suppress
from dataclasses import asdict, dataclass
from itertools import compress
from typing import Any, TypeAlias

from pydantic import TypeAdapter

from gateway import metrics
from gateway.background import Background
from gateway.peers.handover import Handover, SessionRecord
from gateway.peers.peers import Peers, encoded, owner_of
from gateway.room.rooms import Rooms
from gateway.session.session import Session
from gateway.session.sessions import Sessions
from gateway.talk.actions import Message
from gateway.talk.turn import Begun
from visavis.serving.errors import (
    AlreadyExistsError,
    BusError,
    InvalidInputError,
    StageLostError,
    UnknownNameError,
    VisavisError,
)
from visavis.serving.lifetime.supervision import Keeper
from visavis.wire.bucket import (
    RECORDS_AGE_S,
    NoRoomError,
    NoStoreError,
    NotLetError,
    Record,
    Records,
    TooLargeError,
    Trouble,
)
from visavis.wire.bus import Bus
from visavis.wire.clock import MonotonicClock
from visavis.wire.subjects import SESSIONS, begun_key, session_key

log = logging.getLogger(__name__)

LOOK_S = 0.5
STEADY_S = 5.0
"""So long after a loss of the bus nobody is taken for dead: he may not be back yet."""
# The bus is asked so often who has sessions by now: for that it goes through all their records.
NOTES_S = 2.0
# So many others each gateway looks after: where as many die at once, each is missed by somebody.
_LOOKED_AFTER = 3
# What does not change is written anew long before it is forgotten.
_RENEW_S = RECORDS_AGE_S / 3
# After the bus has refused something.
_PAUSE_S = 2.0
# So many sessions are written, or taken, side by side.
_AT_ONCE = 32
# So long the bus is waited for where something is handed over: a peer that waits too long for our
# answer keeps it, and it would be here as well.
_NOTED_S = 3.0
# How often a record is written that others are faster with.
_ATTEMPTS = 4
# Records of so many turns are told: it is done while others talk.
_TURNS = 4
# Turns and utterances that a gateway may have begun since it last told of a session: services take
# none for the newest that comes after a newer one.
_AHEAD = 100
# So long somebody is waited for to whom the question that had no answer yet is answered.
_RETURNS_S = 15.0
_BEGUN = TypeAdapter(Begun)
_MAKERS = TypeAdapter(list[str])
_MADE_BY = "makers"


# After so many losses of the bus, each of which may have cost its memory, and at which time.
_Since: TypeAlias = tuple[int, float]
_NEVER: _Since = (-1, -math.inf)


@dataclass(slots=True)
class _Written:
    """What the bus has of a session of ours."""

    seq: int | None = 0
    """Of its record; 0: there is none; None: whichever there is gives way to ours."""
    mark: Any = None
    begun: Begun | None = None
    left: Begun | None = None
    """The answer that its last gateway had begun, until it goes on here."""
    since: _Since = _NEVER
    """When all of it was written."""

    def begun_of(self, session: Session) -> Begun | None:
        """What is to be gone on with, should we die."""
        return self.left if session.turn is None else session.begun


def looked_after(own: str, owners: Collection[str], known: Collection[str]) -> list[str]:
    """Which of `owners`, the others that have sessions, the gateway called `own` looks after.

    The next ones in the ring of their names: it is no more for each, however many there are. And
    whoever is not `known` to be there (any more): those before him may be gone as well, or have no
    room.
    """
    ring = sorted(owners, key=lambda owner: (owner < own, owner))
    return [owner for at, owner in enumerate(ring) if at < _LOOKED_AFTER or owner not in known]


class StandingIn:
    """Writes down this gateway's sessions, and goes on with those of others that are gone.

    `start` it, `stop` it.
    """

    def __init__(
        self,
        bus: Bus,
        sessions: Sessions,
        peers: Peers,
        handover: Handover,
        rooms: Rooms,
    ) -> None:
        self._own = peers.name
        self._bus = bus
        self._sessions = sessions
        self._peers = peers
        self._handover = handover
        self._rooms = rooms
        self._records = Records(bus, SESSIONS, self._own)
        self._clock = MonotonicClock()
        self._written: dict[str, _Written] = {}
        self._makers: frozenset[str] = frozenset()
        """As our note has them."""
        self._noted = _NEVER
        self._noting = asyncio.Lock()
        self._notes: dict[str, Record] = {}
        """Of each gateway that has sessions, or had, by its name."""
        self._read_since, self._read_seq = _NEVER, 0
        """Since when these are read, and up to which writing."""
        self._read_at_s = -math.inf
        self._taking: dict[str, asyncio.Task[bool]] = {}
        """By session."""
        self._losses, self._lost_at_s = bus.losses, -math.inf
        self._doubts = 0
        """How often the bus could not tell, though it was there."""
        self._trouble = Trouble("sessions would be lost with this gateway")
        self._untaken = Trouble("sessions of a gateway that is gone cannot be taken yet")
        self._background = Background()
        self._teller = Keeper("sessions-told", self._keep_telling)
        self._watcher = Keeper("standing-in", self._keep_looking)
        peers.revive = self.wanted
        handover.number_of = self._number_of

    def start(self) -> None:
        self._teller.start()
        self._watcher.start()

    async def stop(self) -> None:
        """The bus forgets our sessions: they have ended, or are with others."""
        await self._teller.stop()
        await self._watcher.stop()
        await self._background.cancel_all()
        if not self._bus.connected or not self._makers:
            return
        try:
            await self._forget(list(self._written))
            await self._drop(self._own)
        except BusError as error:
            log.warning("sessions that have ended are not forgotten at once: %s", error)

    async def obey(self, message: dict[str, Any]) -> None:
        """Do what a peer asks, or have the handover do it. Raises VisavisError."""
        match message:
            case {"session": told}:
                follows = message.get("follows")  # which earlier versions do not tell
                await self._take_over(told, follows if isinstance(follows, int) else None)
            case {"wanted": str(name)}:
                if await self.wanted(name):
                    raise StageLostError("session: it goes on elsewhere")
            case {"has": str(name)}:
                await _ended(self._taking.get(name))
                await self._sessions.settled(name)
                self._sessions.get(name)
            case _:
                await self._handover.obey(message)

    # ------------------------------------------------------------ our sessions

    async def _keep_telling(self) -> None:
        while True:
            try:
                await self._tell()
            except BusError as error:
                self._doubt(error)
                if self._steady():  # else what is kept there may have to be made first
                    self._trouble.tell(error)
                await asyncio.sleep(_PAUSE_S)
            await asyncio.sleep(LOOK_S)

    async def _tell(self) -> None:
        """Have the bus know what has changed, and for how long it holds. Raises BusError."""
        here = {session.id for session in self._sessions.all()}
        await self._forget([name for name in self._written if name not in here])
        # A client that cannot come to another gateway takes its session with it.
        free = [s for s in self._sessions.all() if not self._sessions.is_in_use(s.id)]
        due = [session for session in free if self._is_due(session)]
        if not due:
            return
        await self._write_note(frozenset(owner_of(session.id) for session in due))
        untold: NoRoomError | TooLargeError | None = None
        for first in range(0, len(due), _AT_ONCE):
            writing = map(self._write, due[first : first + _AT_ONCE])
            for error in await asyncio.gather(*writing, return_exceptions=True):
                if isinstance(error, NoRoomError | TooLargeError):
                    untold = error  # others may be written yet
                elif error is not None:
                    raise error
        if untold is not None:
            raise untold
        self._trouble.over()

    def _is_due(self, session: Session) -> bool:
        if session.presence.departure is not None:
            return False
        there = self._written.get(session.id)
        if there is None or not self._holds(there.since):
            return True
        return there.mark != self._mark(session) or there.begun != there.begun_of(session)

    async def _write_note(self, makers: frozenset[str]) -> None:
        """Others find our sessions by it, those that others have made among them."""
        async with self._noting:
            now, makers = self._now(), self._makers | makers
            if makers != self._makers or not self._holds(self._noted):
                await self._put(self._own, {_MADE_BY: sorted(makers)})
                self._makers, self._noted = makers, now

    async def _write(self, session: Session) -> None:
        there = self._written.setdefault(session.id, _Written())
        now, mark, begun = self._now(), self._mark(session), there.begun_of(session)
        renewed = not self._holds(there.since)
        if there.begun is not None and (begun is None or begun.turn != there.begun.turn):
            # Before its question goes: nobody is to go on with the answer to another one.
            await self._drop(begun_key(session.id))
            there.begun = None
        if renewed or mark != there.mark:
            if not (seq := await self._claim(session, there.seq)):
                return
            there.seq, there.mark = seq, mark
        if begun is not None and (renewed or begun != there.begun):
            await self._put(begun_key(session.id), asdict(begun))
            there.begun = begun
        if renewed:
            there.since = now

    async def _claim(self, session: Session, follows: int | None) -> int:
        """Write its record; the number of that writing, 0: another gateway has it now, or it ended
        there.

        Whoever took us for dead has written another one; who handed it over to us, too, and what we
        have written went with the bus's memory.
        """
        told = self._handover.told_of(session, _TURNS)
        for _ in range(_ATTEMPTS):
            try:
                return await self._put(session_key(session.id), told, follows)
            except AlreadyExistsError:
                there = await self._records.get(session_key(session.id))
            if there is None:
                follows = 0
                continue
            other = there.writer != self._own
            if other and there.ended:
                with suppress(UnknownNameError):
                    await self._sessions.delete(session.id)
                return 0
            if other and (peer := await self._peers.having(there.writer, session.id)):
                await self._sessions.settled(session.id)
                if self._sessions.has(session.id):
                    await self._handover.yield_to(peer, session)
                return 0
            follows = there.seq
        raise BusError(f"others write of session {session.id} all the time")

    def _number_of(self, name: str) -> int | None:
        """Of the record of a session that a peer is offered: he writes his in its place, though he
        may not take it then.
        """
        there = self._written.get(name)
        if there is None or not self._holds(there.since):
            return None
        there.since = _NEVER
        return there.seq

    async def _forget(self, names: Iterable[str]) -> None:
        """They are not here any more.

        That they have ended stays known for a while: to a gateway that has them as well, for it was
        cut off as they went elsewhere.
        """
        for name in names:
            for _ in range(_ATTEMPTS):
                there = await self._records.get(session_key(name))
                if there is not None and there.writer != self._own:
                    break
                # Nothing: what was being written as we stopped may be on its way yet.
                with suppress(AlreadyExistsError, NoRoomError):
                    await self._records.put(session_key(name), b"", there.seq if there else 0)
                    break
            await self._drop(begun_key(name))
            del self._written[name]

    async def _put(self, key: str, told: dict[str, Any], follows: int | None = None) -> int:
        return await self._records.put(key, encoded(told), follows)

    async def _drop(self, key: str) -> None:
        if there := await self._ours(key):
            await self._records.drop(there.seq)

    async def _ours(self, key: str) -> Record | None:
        """What is there, unless another gateway has written it since."""
        there = await self._records.get(key)
        return there if there is not None and there.writer == self._own else None

    # ------------------------------------------------------------ others' sessions

    async def _take_over(self, told: Any, follows: int | None) -> None:
        """A peer hands a session over, whose record he has written under that number. Raises
        VisavisError.
        """
        record = self._handover.read(told)
        while taking := self._taking.get(record.id):
            await _ended(taking)
        await self._taken_by(asyncio.create_task(self._go_on(record, follows)), record.id)

    async def _go_on(self, record: SessionRecord, follows: int | None) -> bool:
        """The bus knows before the peer does: he may be gone at once, and who looks after him is to
        find nothing of it under his name. And before it is here: what is read late, as by one who
        was frozen, others may have by then. Raises AlreadyExistsError there.
        """
        name, written = record.id, _Written(seq=None)
        with self._sessions.seat_for(name):
            with suppress(BusError, TimeoutError):  # it is tried again, and told
                async with asyncio.timeout(_NOTED_S):
                    await self._write_note(frozenset([owner_of(name)]))
                    told = record.model_dump(mode="json")
                    written.seq = await self._put(session_key(name), told, follows)
            # Where that fails our record stays until the peer, who keeps it, has written his own
            # again: should he be gone before, it is taken from there.
            await self._handover.take(record)
        self._written[name] = written
        return True

    async def wanted(self, name: str) -> str:
        """Somebody asks for a session whose gateway does not answer: where that goes on now; "":
        here.

        Raises UnknownNameError where nothing is known of it, StageLostError where it may be there
        in a moment, here or elsewhere.
        """
        await _ended(self._taking.get(name))
        if self._sessions.has(name):
            return ""
        there = await self._kept(name)
        if self._sessions.free > 0 and (
            there.writer == self._own or await self._gone(there.writer)
        ):
            await _ended(self._take_up(name, there))
            if self._sessions.has(name):
                return ""
            there = await self._kept(name)  # another one was faster
        if there.writer != self._own and (peer := await self._peers.having(there.writer, name)):
            return peer.address
        raise StageLostError("session: its gateway does not answer; try again")

    async def _kept(self, name: str) -> Record:
        """What another gateway has written of a session, or we as we failed to take it."""
        there = None
        try:
            there = await self._records.get(session_key(name))
        except (NoStoreError, NotLetError) as error:
            log.debug("session %s: %s", name, error)
        except BusError as error:
            raise StageLostError(f"session: what is kept of it cannot be read: {error}") from error
        if there is not None and not there.ended and there.writer:
            if there.writer != self._own or self._failed_to_take(name, there):
                return there
        if there is None and not self._steady():
            raise StageLostError("session: the bus has been away; try again")
        raise UnknownNameError(f"session: there is no {name[:64]!r} here")

    def _failed_to_take(self, name: str, there: Record) -> bool:
        """Whether our name stands in the record of a session that is not here for all that: it is
        nobody's.
        """
        return there.writer == self._own and name not in self._written

    async def _keep_looking(self) -> None:
        while True:
            try:
                await self._look()
            except BusError as error:
                self._doubt(error)
                log.debug("sessions of others: %s", error)  # whoever writes ours tells it
            await asyncio.sleep(LOOK_S)

    async def _look(self) -> None:
        """Go on with what gateways have left that are gone. Raises BusError."""
        if self._sessions.free <= 0 or not self._steady():
            return
        await self._read_notes()
        owners = looked_after(self._own, self._notes, self._peers.known)
        gone = await asyncio.gather(*map(self._gone, owners))
        for owner in compress(owners, gone):
            note = self._notes[owner]
            if await self._take_all(note):
                await self._records.drop(note.seq)
                del self._notes[owner]

    async def _read_notes(self) -> None:
        """Those that are new; now and then all."""
        now = self._clock.now()
        if now - self._read_at_s < NOTES_S:
            return
        self._read_at_s = now
        if not self._holds(self._read_since):
            self._notes.clear()
            self._read_since, self._read_seq = self._now(), 0
        async for note in self._records.matching("*", self._read_seq):
            self._read_seq = note.seq
            if note.key != self._own:
                self._notes[note.key] = note

    async def _take_all(self, note: Record) -> bool:
        """Go on with all sessions of a gateway that is gone; False: not with all of them yet."""
        some: list[asyncio.Task[bool]] = []
        all_taken = True
        for maker in _makers_in(note):
            async with aclosing(self._records.matching(f"{maker}.*")) as records:
                async for there in records:
                    name = there.key.partition(".")[2]
                    if self._sessions.has(name) or there.ended:
                        continue
                    if there.writer != note.key and not self._failed_to_take(name, there):
                        continue
                    if len(some) >= min(_AT_ONCE, self._sessions.free):
                        all_taken &= await _ended(*some)
                        some.clear()
                    if self._sessions.free <= 0:
                        return False
                    some.append(self._take_up(name, there))
        return await _ended(*some) and all_taken

    def _take_up(self, name: str, there: Record) -> asyncio.Task[bool]:
        taking = self._taking.get(name)
        return taking or self._taken_by(self._background.run(self._take(name, there)), name)

    def _taken_by(self, taking: asyncio.Task[bool], name: str) -> asyncio.Task[bool]:
        """Who asks for the session meanwhile waits."""
        self._taking[name] = taking
        taking.add_done_callback(lambda _: self._taking.pop(name))
        return taking

    async def _take(self, name: str, there: Record) -> bool:
        """False: it is to be tried again."""
        try:
            # Kept before our name is in its record: while we are there nobody else takes it then.
            with self._sessions.seat_for(name):
                begun = _begun_in(await self._records.get(begun_key(name)), there.writer)
                record = self._handover.read(json.loads(there.content))
                # Who takes it from us, should we die as well, begins behind what we may have begun.
                record.epoch += _AHEAD
                record.utterance += _AHEAD
                if begun is not None:
                    record.turns = [turn for turn in record.turns if turn.turn != begun.turn]
                await self._write_note(frozenset([owner_of(name)]))
                seq = await self._put(session_key(name), record.model_dump(mode="json"), there.seq)
                if begun is not None:
                    await self._put(begun_key(name), asdict(begun))
                session = await self._handover.take(record)
        except AlreadyExistsError:
            return True  # another gateway was faster, or it was handed over to one
        except InvalidInputError as error:
            metrics.sessions_stood_in.labels("lost").inc()
            log.warning("session %s is lost with its gateway: %s", name, error)
            return True
        except VisavisError as error:
            self._untaken.tell(error)
            return False
        self._untaken.over()
        written = self._written[name] = _Written(seq, begun=begun)
        metrics.sessions_stood_in.labels("taken").inc()
        session.outlets.live.broadcasts.let_go()
        if record.said and record.said[-1].role == "user":
            written.left = begun
            self._background.run(self._answer(session, record.said[-1], written))
        return True

    async def _answer(self, session: Session, asked: Message, written: _Written) -> None:
        """The question that had no answer yet, or the rest of one, once somebody is there to hear
        it. Whoever has to go on with the session before that finds both as they were.
        """

        def waits() -> bool:
            here = self._sessions.has(session.id) and session.turn is None
            return here and session.said[-1:] == (asked,)

        there, until_s = session.audience, self._clock.now() + _RETURNS_S
        try:
            while waits() and not there.attending and self._clock.now() < until_s:  # noqa: ASYNC110
                await asyncio.sleep(LOOK_S / 5)
            await session.wake()
            if not waits():
                return
            session.rewrite(session.said[:-1])
            if written.left is None:
                session.submit_text(asked.content)
            else:
                session.take_up(asked.content, written.left)
        finally:
            written.left = None

    # ------------------------------------------------------------

    def _doubt(self, error: BusError) -> None:
        """Where the bus was cut in two, others may have taken what is here: all is written anew."""
        if not isinstance(error, NoRoomError | TooLargeError | NoStoreError | NotLetError):
            self._doubts += 1

    def _now(self) -> _Since:
        return self._bus.losses + self._doubts, self._clock.now()

    def _holds(self, since: _Since) -> bool:
        """Whether the bus still has what was written then, and for a good while."""
        losses, at_s = since
        return losses == self._now()[0] and self._clock.now() - at_s < _RENEW_S

    def _steady(self) -> bool:
        """Whether the bus has been there for long enough that others are back as well."""
        if self._losses != self._bus.losses:
            self._losses, self._lost_at_s = self._bus.losses, self._clock.now()
        return self._bus.connected and self._clock.now() - self._lost_at_s >= STEADY_S

    async def _gone(self, owner: str) -> bool:
        return self._steady() and await self._peers.is_gone(owner)

    def _mark(self, session: Session) -> Any:
        """Of all that its record tells of a session; another one once that has changed."""
        outlets, said = session.outlets, session.said
        broadcasts = [target.name for target in outlets.live.broadcasts.all() if not target.over]
        return (
            *(len(said), said[-1:], session.options, session.persona, session.saying),
            *(session.answering.welcome.text, session.stages.attached),
            *(broadcasts, outlets.face_outputs.names, self._rooms.mark(session.id)),
        )


def _makers_in(note: Record) -> list[str]:
    """The gateways that the ids of its sessions name."""
    try:
        return _MAKERS.validate_python(json.loads(note.content)[_MADE_BY])
    except (ValueError, LookupError, TypeError):
        return []


def _begun_in(there: Record | None, holder: str) -> Begun | None:
    """None where it is not of the gateway that had the session last."""
    if there is None or there.writer != holder:
        return None
    return _BEGUN.validate_json(there.content)


async def _ended(*tasks: asyncio.Task[bool] | None) -> bool:
    """False where one of them has said so."""
    if some := [task for task in tasks if task is not None]:
        await asyncio.wait(some)
    return all(task.cancelled() or task.exception() or task.result() for task in some)
