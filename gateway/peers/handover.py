"""Sessions that go on in another gateway: what of them goes there, when, and how.

A gateway that drains gives each of its sessions to a peer between two turns. The session keeps its
id: the peer answers for it from then on, and its visitors connect again at the same address.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, TypeAlias

from pydantic import BaseModel, ConfigDict, ValidationError

from gateway.background import Background
from gateway.ledger.records import Timeline, TurnRecord
from gateway.peers.peers import Peer, Peers, encoded
from gateway.playout.outlets import OutletsRecord
from gateway.playout.sinks.recording import FETCH_S
from gateway.room.moving import shorten
from gateway.room.rooms import Rooms
from gateway.session.session import Session
from gateway.session.sessions import Sessions
from gateway.stages.stages import Options
from gateway.talk.actions import Message
from visavis.serving import metrics
from visavis.serving.errors import InvalidInputError, VisavisError
from visavis.serving.lifetime.draining import Drain, Phase
from visavis.wire.clock import Clock

log = logging.getLogger(__name__)

_LOOK_S = 0.05
# Of the last ones only: what is handed over has to fit into one message of the bus.
_TURNS_TOLD = 20
_AROUND_BYTES = 1000
# So many times in vain peers are looked for before sessions end with this gateway.
_LOOKS_ALONE = 5
# After a peer has refused.
_PAUSE_S = 1.0
# Servers are told at once that a broadcast ends, and may take their time to close it.
_TOLD_S = 0.2
# Before the limit: what is being said ends there, so that the session goes and does not end.
_LAST_S = 3.0

Say: TypeAlias = Callable[[Session, str], Awaitable[Any]]


class SessionRecord(BaseModel):
    """What a gateway needs to go on with a session that another one had.

    What a newer gateway tells beside it is left out.
    """

    model_config = ConfigDict(hide_input_in_errors=True)  # keys of broadcasts are among it

    id: str
    created_at: datetime | None = None
    """Earlier versions do not tell."""
    options: Options
    persona: str
    welcome: str
    owner: str = ""
    """Name of the app that made it; "": an operator did."""
    epoch: int
    utterance: int = 0
    saying: int = 0
    """The newest numbers that listeners were told."""
    said: list[Message]
    """The conversation as the language model reads it."""
    turns: list[TurnRecord]
    timelines: list[Timeline]
    attached: bool
    """Whether it has its stages."""
    room: dict[str, Any] | None = None
    """Its live room, as `gateway/room/moving.py` reads it."""
    outlets: OutletsRecord = OutletsRecord()


class Handover:
    """Gives the sessions of a gateway that drains to its peers, and takes theirs."""

    def __init__(
        self, sessions: Sessions, peers: Peers, clock: Clock, say: Say, rooms: Rooms
    ) -> None:
        """say: does what a message of a session's events socket says."""
        self._sessions = sessions
        self._peers = peers
        self._clock = clock
        self._say = say
        self._rooms = rooms
        self.number_of: Callable[[str], int | None] = lambda session: None
        """Of a session's record that stands in the bus's memory; None: not known. One that stays
        here for all that is written anew."""
        self._looks_alone = 0
        self._heir = ""
        """Instance of the peer that has taken sessions of ours."""
        self._background = Background()

    async def close(self) -> None:
        await self._background.cancel_all()

    # ------------------------------------------------------------ giving

    async def leave(self, drain: Drain) -> None:
        """Have all sessions go on elsewhere, and what is asked for without one be answered; returns
        once the process may end.

        Where there is nobody else, each ends between two turns. What would hold one here beyond the
        limit ends before it.
        """
        here = self._sessions
        here.leaving.set()
        metrics.draining.set(1)
        self._peers.drain()
        self._rooms.leave()
        last_s = min(_LAST_S, drain.left_s(self._clock.now()) / 2)
        while drain.look(now := self._clock.now(), here.taken + here.requests) is Phase.DRAINING:
            left_s = drain.left_s(now) - last_s
            at_last = left_s < 0
            self._hurry(left_s)
            ready = [session for session in here.all() if self._may_leave(session, at_last)]
            if ready:
                await self._give_all(ready, at_last=at_last)
            await asyncio.sleep(_LOOK_S)

    def _hurry(self, left_s: float) -> None:
        """End what holds sessions here: recordings while they can be fetched, turns with no time
        left.
        """
        for session in self._sessions.all():
            if left_s < FETCH_S:
                session.outlets.recordings.end("the gateway is about to end")
            if left_s < 0 and session.presence.departure is None:
                session.interrupt()

    def _may_leave(self, session: Session, at_last: bool) -> bool:
        may_leave = self._sessions.may_leave(session, at_last=at_last)
        return may_leave and self._rooms.may_leave(session.id)

    async def _give_all(self, ready: list[Session], *, at_last: bool) -> None:
        others = [peer for peer in await self._peers.others() if peer.seats >= 0]
        if not others and not self._peers.can_ask:
            return  # who is there cannot be told before the bus is back
        if not others and self._looks_alone < _LOOKS_ALONE:
            # One that has just begun, to take our place, may not be known here yet.
            self._looks_alone += 1
            await self._peers.look_again()
            return
        if not others:
            ends = (self._sessions.end_for_shutdown(session) for session in ready)
            await asyncio.gather(*ends)
            return
        self._looks_alone = 0
        # All to one for as long as it takes them: it answers for our name once we are gone.
        peer = max(others, key=self._fitness)
        self._heir = peer.instance
        giving = (self._give(session, peer, at_last=at_last) for session in ready[: peer.seats])
        await asyncio.gather(*giving)

    def _fitness(self, peer: Peer) -> tuple[bool, bool, bool, int]:
        """The higher, the rather it is to have our sessions."""
        as_new = peer.instance in self._peers.as_new
        return peer.seats > 0, as_new, peer.instance == self._heir, peer.seats

    async def _give(self, session: Session, peer: Peer, *, at_last: bool) -> None:
        """Whatever goes wrong with one session, it stays for now, and the others go."""
        try:
            if not self._may_leave(session, at_last) or await self._moves(session, peer):
                return
        except Exception:
            log.exception("session %s stays for now", session.id)
        self._heir = ""
        await asyncio.sleep(_PAUSE_S)

    async def _moves(self, session: Session, peer: Peer) -> bool:
        """Whether the peer has taken it; then it is gone from here."""
        told = self.told_of(session)
        async with session.presence.departing() as departure:
            try:
                follows = self.number_of(session.id)
                await self._peers.tell(peer, {"session": told, "follows": follows})
            except VisavisError as error:
                log.warning("session %s stays for now: %s", session.id, error)
            else:
                self._peers.note_moved(session.id, peer)
                departure.moved = True
        if departure.moved:
            late = self._rooms.late(session.id)
            if told["outlets"]["broadcasts"]:
                self._background.run(self._free_targets(session.id, peer))
            await self._sessions.hand_on(session)
            await self._send_on(session, peer, late)
        return departure.moved

    def told_of(self, session: Session, turns: int = _TURNS_TOLD) -> dict[str, Any]:
        """What another gateway needs to go on with it, in one message. turns: how many records."""
        record = _record_of(session, self._rooms.record(session.id), turns)
        return _newest_of(record, self._peers.largest_bytes - _AROUND_BYTES)

    async def yield_to(self, peer: Peer, session: Session) -> None:
        """A peer that took us for dead has taken it."""
        async with session.presence.departing() as departure:
            self._peers.note_moved(session.id, peer)
            departure.moved = True
        await self._sessions.hand_on(session)

    async def _send_on(
        self, session: Session, peer: Peer, late: list[list[dict[str, Any]]]
    ) -> None:
        """What platforms have brought to a session's room since its record was made."""
        try:
            for comments in late:
                await self._peers.tell(peer, {"room": session.id, "comments": comments})
        except VisavisError as error:
            log.warning("session %s: comments are lost: %s", session.id, error)

    async def _free_targets(self, session: str, peer: Peer) -> None:
        """Nothing is broadcast here any more: the peer may connect to the targets."""
        await asyncio.sleep(_TOLD_S)
        await self._peers.tell(peer, {"let_go": session})

    def forward(self, session: str, messages: list[str]) -> None:
        """What was said to a session here when it had gone is said to it where it is."""
        self._background.run(self._forward(session, messages))

    async def _forward(self, session: str, messages: list[str]) -> None:
        peer = self._peers.peer_with(session)
        if peer is not None:
            await self._peers.tell(peer, {"late": session, "messages": messages})

    # ------------------------------------------------------------ taking

    async def obey(self, message: dict[str, Any]) -> None:
        """Do what a peer asks. Raises VisavisError."""
        match message:
            case {"late": str(session), "messages": list(messages)}:
                for text in messages:
                    await self._say(self._sessions.get(session), text)
            case {"let_go": str(session)}:
                self._sessions.get(session).outlets.live.broadcasts.let_go()
            case {"room": str(session), "comments": list(comments)}:
                self._rooms.hear_late(session, comments)
            case {"gone": str(owner), "elsewhere": dict(elsewhere)}:
                self._peers.inherit(owner, elsewhere)
            case {"avatar_deleted": str(name)}:
                self._sessions.avatar_deleted(name)
            case {"avatar_renamed": str(name), "to": str(new_name)}:
                self._sessions.avatar_renamed(name, new_name)
            case _:
                raise InvalidInputError("peer: it asks for what is not known here")

    def read(self, told: Any) -> SessionRecord:
        """Raises InvalidInputError."""
        try:
            return SessionRecord.model_validate(told)
        except ValidationError as error:
            raise InvalidInputError(f"session: it cannot be read: {error}") from error

    async def take(self, record: SessionRecord) -> Session:
        """Go on with a session that another gateway had, in the seat that `Sessions` keeps for it.
        Raises VisavisError.
        """
        await self._peers.answer_for(record.id)
        session = await self._sessions.adopt(
            record.id, record.options, record.persona, record.welcome, record.owner
        )
        session.carry_on(
            record.epoch,
            record.said,
            record.turns,
            record.timelines,
            utterance=record.utterance,
            saying=record.saying,
            created_at=record.created_at,
        )
        if record.room is not None:
            await self._rooms.adopt(session, record.room)
        log.info("session %s goes on here", record.id)
        if record.attached:
            session.stages.admit()
            # On the side: who waits too long for our answer keeps the session, too. Where it fails,
            # it is tried again by itself.
            self._background.run(session.wake())
        session.outlets.carry_on(record.outlets)
        return session


def _record_of(session: Session, room: dict[str, Any] | None, most: int) -> SessionRecord:
    turns = session.records.all()[-most:]
    timelines = (session.records.timeline(session.id, turn.turn) for turn in turns)
    return SessionRecord(
        id=session.id,
        created_at=session.created_at,
        options=session.options,
        persona=session.persona,
        welcome=session.answering.welcome.text,
        owner=session.owner,
        epoch=session.epoch,
        utterance=session.utterance,
        saying=session.saying,
        said=list(session.said),
        turns=turns,
        timelines=[timeline for timeline in timelines if timeline is not None],
        attached=session.stages.attached,
        room=room,
        outlets=session.outlets.record(),
    )


def _newest_of(record: SessionRecord, most_bytes: int) -> dict[str, Any]:
    """As it is told: where all of it is too much, of the conversation, or of the room, whichever is
    larger, only the newest.
    """
    told = record.model_dump(mode="json")
    while (in_all := len(encoded(told))) > most_bytes:
        of_room = len(encoded(told["room"]))
        if of_room > in_all - of_room and shorten(told["room"]):
            continue
        if not (told["said"] or told["turns"]):
            break
        for part in ("said", "turns", "timelines"):
            told[part] = told[part][len(told[part]) // 4 + 1 :]
    return told
