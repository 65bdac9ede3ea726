"""The other gateways of one address: which of them has a session, which has room for another.

A session's id ends with the name of the gateway that has it, and that one answers on the bus under
this name: whoever gets a request knows where it belongs, and whether that one is still there.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import nats.errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from pydantic import TypeAdapter

from gateway.access.limits import Usage
from gateway.background import Background
from gateway.stages.registry import Registry
from visavis.serving.discovery import Registration
from visavis.serving.errors import (
    AtCapacityError,
    BusError,
    StageLostError,
    UnknownNameError,
    VisavisError,
)
from visavis.wire.bus import Bus
from visavis.wire.levels import LEVEL
from visavis.wire.subjects import gateway_subject, handover_subject

log = logging.getLogger(__name__)

ASK_S = 1.0
"""A gateway that says nothing for so long is frozen, or its machine is."""
GLANCE_S = 0.3
"""So long nobody who makes a session waits for a gateway that may have room."""
# So often, and so far apart, a gateway is looked for before it is taken for dead.
_LOOKS, _LOOK_S = 2, 0.2
TAKE_S = 8.0
"""Longest wait for a peer to take a session."""
_USED_BY = "used by "
"""Before an app's name: how much of us it has, is asked. No session's id has a blank."""
_OWNED = re.compile(r"[A-Za-z0-9_-]+-([0-9a-f]{8})")
_MOST_NAMES = 32
"""Of gateways that are gone and have no session here any more."""
_MOST_MOVED = 10_000
"""As many as a gateway that drains may have."""

Obey: TypeAlias = Callable[[dict[str, Any]], Awaitable[None]]
"""Does what a peer asks. Raises VisavisError, which the peer is told."""


@dataclass(frozen=True, slots=True)
class Peer:
    """One gateway. address: "host:port" of its own.

    free: new visitors that it has room for; where some wait in line there, fewer than `seats`.
    seats: sessions of another gateway that it could take; less than none where it drains.
    """

    instance: str
    address: str
    free: int
    seats: int


# What a newer gateway tells beside it is left out.
_PEER, _USAGE = TypeAdapter(Peer), TypeAdapter(Usage)


class Peers:
    """Tells the others of this gateway, and of them. `start` it, `stop` it.

    instance: our name on the bus. own: our version of the page's files, under "pages", and where
    the others reach us, "host:port" under "http", by which "scheme"; without these they do not.
    free, seats: as `Peer` has them. has: whether a session is ours. makers: names of the gateways
    that have made those that are.
    """

    def __init__(
        self,
        bus: Bus,
        registry: Registry,
        instance: str,
        own: Mapping[str, str],
        free: Callable[[], int],
        seats: Callable[[], int],
        has: Callable[[str], bool],
        makers: Callable[[], set[str]],
    ) -> None:
        self._bus = bus
        self._registry = registry
        self._instance = instance
        self.name = owner_of(instance)
        """How sessions name us."""
        self._own = dict(own)
        self._address = own.get("http", "")
        self._free = free
        self._seats = seats
        self._has = has
        self._makers = makers
        self._usage: Callable[[str], Usage] = lambda app: Usage()
        self.revive: Callable[[str], Awaitable[str]] = _nobody
        """Goes on with a session whose gateway has died. Raises UnknownNameError where nothing is
        known of it, StageLostError where it may be there in a moment, here or elsewhere."""
        self._registration: Registration | None = None
        self._asked: dict[str, Subscription] = {}
        """By subject: by our name, and by those of others that have made sessions which are here,
        or were."""
        self._moved: dict[str, Peer] = {}
        """Where sessions are that were ours."""
        self._elsewhere: dict[str, dict[str, str]] = {}
        """Of those others, by name, that are gone and for which we answer: sessions that another
        heir has, and its name. It answers while it is there."""
        self._background = Background()

    async def start(self, obey: Obey, usage: Callable[[str], Usage]) -> None:
        """The others find us from now on.

        obey: is called with what they hand over. usage: what an app has here.
        """
        self._usage = usage
        if not self._address:
            return

        async def answer(message: Msg, why: str = "") -> None:
            await message.respond(why.encode(errors="replace"))

        async def take(message: Msg, told: dict[str, Any]) -> None:
            try:
                await obey(told)
            except VisavisError as error:
                await answer(message, str(error))
            else:
                await answer(message)

        async def handed(message: Msg) -> None:
            if not message.data:
                await answer(message)  # an heir asks whether we are still there
                return
            try:
                told = json.loads(message.data)
            except (ValueError, RecursionError) as error:
                await answer(message, f"what is handed over cannot be read: {error!s:.200}")
                return
            # On the side: it takes a while, and the next one is read meanwhile.
            self._background.run(take(message, told))

        await self._answer(gateway_subject(self.name), self._tell)
        await self._answer(handover_subject(self.name), handed)
        self._registration = Registration(
            self._bus,
            "gateway",
            instance=self._instance,
            addresses={**self._own, "metrics": self._address},
            states=lambda: (),
            wanted_device="",
        )
        await self._registration.start()

    async def stop(self) -> None:
        """Who asks for us from now on is told that we are gone."""
        if self._registration is not None:
            await self._registration.stop()
        if self._asked and self._bus.connected:
            await self._pass_on_names()
        await self._background.cancel_all()

    async def _pass_on_names(self) -> None:
        """Be asked nothing more: our heirs answer from now on."""
        with contextlib.suppress(nats.errors.Error, OSError, BusError):
            for asked in self._asked.values():
                await asked.unsubscribe()
            await self._bus.flush(ASK_S)
        places = {self.name: {}, **self._elsewhere}
        for session, heir in self._moved.items():
            if (owner := owner_of(session)) in places:
                places[owner] = places[owner] | {session: owner_of(heir.instance)}
        for own, peer in {owner_of(heir.instance): heir for heir in self._moved.values()}.items():
            for owner, there in places.items():
                elsewhere = {session: heir for session, heir in there.items() if heir != own}
                with contextlib.suppress(VisavisError):
                    await self.tell(peer, {"gone": owner, "elsewhere": elsewhere})

    # ------------------------------------------------------------ sessions that change hands

    def drain(self) -> None:
        """The others are told that we take nothing new."""
        if self._registration is not None:
            self._registration.drain()

    @property
    def largest_bytes(self) -> int:
        """What one message to a peer may hold."""
        return self._bus.client.max_payload

    async def tell(self, peer: Peer, message: dict[str, Any]) -> None:
        """Hand something over to a peer. Raises StageLostError, BusError, AtCapacityError."""
        subject, payload = handover_subject(owner_of(peer.instance)), encoded(message)
        try:
            answer = await self._bus.client.request(subject, payload, timeout=TAKE_S)
        except (nats.errors.NoRespondersError, nats.errors.TimeoutError) as error:
            raise StageLostError(f"gateway {peer.instance} does not answer") from error
        except (nats.errors.Error, OSError) as error:
            raise BusError(f"gateway {peer.instance}: {error}") from error
        if answer.data:
            raise AtCapacityError(answer.data.decode())

    async def tell_others(self, message: dict[str, Any]) -> None:
        """Whoever does not answer is left out, with a line in the log."""
        others = await self.others() if self.can_ask else []
        told = await asyncio.gather(
            *(self.tell(peer, message) for peer in others), return_exceptions=True
        )
        for peer, error in zip(others, told, strict=True):
            if error is not None:
                log.warning("gateway %s is not told: %s", peer.instance, error)

    def note_moved(self, session: str, peer: Peer) -> None:
        """A session of ours is with a peer now."""
        self._moved[session] = peer
        if len(self._moved) > _MOST_MOVED:
            del self._moved[next(iter(self._moved))]

    def peer_with(self, session: str) -> Peer | None:
        """The gateway that has a session which was ours."""
        return self._moved.get(session)

    def moved_to(self, session: str) -> str:
        """Address of the gateway that has a session which was ours; "": it has not moved."""
        peer = self._moved.get(session)
        return peer.address if peer is not None and not self._has(session) else ""

    async def answer_for(self, session: str) -> None:
        """Be found by the name of a session that another gateway has made."""
        owned = _OWNED.fullmatch(session)
        if owned is not None and owned[1] != self.name:
            if await self._answer(gateway_subject(owned[1]), self._tell_of_taken):
                await self._bus.flush(ASK_S)
            await self._let_go_of_names()

    async def _let_go_of_names(self) -> None:
        """Of gateways whose sessions have all ended we answer for the newest alone: who asks for
        others is told by the bus that nobody does.
        """
        kept = {gateway_subject(name) for name in self._makers() | {self.name}}
        kept.add(handover_subject(self.name))
        for subject in [subject for subject in self._asked if subject not in kept][:-_MOST_NAMES]:
            asked = self._asked.pop(subject)
            self._elsewhere.pop(owner_on(subject), None)
            with contextlib.suppress(nats.errors.Error, OSError):  # the bus is away, and forgets it
                await asked.unsubscribe()

    def inherit(self, owner: str, elsewhere: dict[str, str]) -> None:
        """A gateway is gone: of its sessions, what is neither here nor there is nowhere. Nothing
        where none of them was here.

        elsewhere: its sessions that other heirs have, and the names of these.
        """
        if gateway_subject(owner) in self._asked:
            there = {s: heir for s, heir in elsewhere.items() if not self._has(s)}
            self._elsewhere[owner] = self._elsewhere.get(owner, {}) | there

    async def _answer(self, subject: str, told: Callable[[Msg], Awaitable[None]]) -> bool:
        """Whether that is new: the bus is told of it, and has yet to hear."""
        if subject in self._asked:
            return False
        self._asked[subject] = await self._bus.client.subscribe(subject, cb=told)
        return True

    # ------------------------------------------------------------ who has what

    async def address_of(self, session: str) -> str:
        """Where a session's gateway is; "": it is ours, or nobody's.

        Raises UnknownNameError where its gateway is gone, StageLostError where that one does not
        answer, BusError.
        """
        if address := self.moved_to(session):
            return address
        owned = _OWNED.fullmatch(session)
        if owned is None or owned[1] == self.name or self._has(session):
            return ""
        await self._bus.there()
        peer = await self._ask(owned[1], session=session)
        return peer.address if peer is not None else await self._revived(session)

    async def _revived(self, session: str) -> str:
        """Where a session goes on whose gateway has died; "": here.

        Raises UnknownNameError, and StageLostError where that is not to be told yet.
        """
        why: VisavisError
        try:
            return await self.revive(session)
        except StageLostError as error:
            why = error
        except UnknownNameError:
            why = UnknownNameError("session: the gateway that had it is gone; make a new one")
        others = await self.others(GLANCE_S)
        told = (self.tell(peer, {"wanted": session}) for peer in others)
        answers = await asyncio.gather(*told, return_exceptions=True)
        for peer, refusal in zip(others, answers, strict=True):
            if refusal is None:
                return peer.address
        raise why

    async def having(self, owner: str, session: str) -> Peer | None:
        """The gateway of this name, where it has the session and says so."""
        with contextlib.suppress(VisavisError):
            peer = await self._ask(owner, GLANCE_S)
            if peer is not None:
                await self.tell(peer, {"has": session})
            return peer
        return None

    async def is_gone(self, owner: str) -> bool:
        """Whether the gateway of this name has left the bus. One that is frozen has not."""
        with contextlib.suppress(BusError):
            for look in range(_LOOKS):
                if look:
                    await asyncio.sleep(_LOOK_S)
                if not await self._has_left(owner):
                    return False
            return True
        return False

    async def _has_left(self, owner: str) -> bool:
        """Whether a gateway is on the bus no more. Raises BusError where that is not told."""
        try:
            await self._bus.client.request(handover_subject(owner), b"", timeout=GLANCE_S)
        except nats.errors.NoRespondersError:
            return True
        except (nats.errors.Error, OSError) as error:
            raise BusError(
                f"gateway {owner} does not tell whether it is there: {error!r}"
            ) from error
        return False

    @property
    def can_ask(self) -> bool:
        """Whether `others` could be asked: else that nobody answers says nothing."""
        return self._bus.connected

    async def roomier(self) -> str:
        """Address of the gateway with most room for a session; "": nobody has more than we.

        Where we drain, anybody who does not has more, however long the line is there.
        """
        others = [peer for peer in await self.others(GLANCE_S) if peer.seats >= 0]
        best = max(others, key=lambda peer: peer.free, default=None)
        more = best is not None and (best.free > self._free() or self._seats() < 0)
        return best.address if best is not None and more else ""

    async def with_pages(self, version: str) -> str:
        """Address of a gateway that has the page's files of this version; "": we have them, or
        nobody.
        """
        if version == self._own.get("pages"):
            return ""
        if not (found := self._having_pages(version)):
            await self.look_again()  # it may have just begun
            found = self._having_pages(version)
        return found

    def _having_pages(self, version: str) -> str:
        there = (g.http_address for g in self._registry.gateways if g.pages == version)
        return next(there, "")

    async def look_again(self) -> None:
        """Ask the bus who is there."""
        await self._registry.refresh()

    @property
    def known(self) -> set[str]:
        """Names of the others that were there when the bus was last asked."""
        return {owner_of(gateway.instance) for gateway in self._registry.gateways} - {self.name}

    @property
    def as_new(self) -> set[str]:
        """Instances of those that understand all that we hand over."""
        return {gateway.instance for gateway in self._registry.gateways if gateway.level >= LEVEL}

    async def others(self, within_s: float = ASK_S) -> list[Peer]:
        """Those that answer."""
        asked = (self._ask(owner, within_s) for owner in self.known)
        answers = await asyncio.gather(*asked, return_exceptions=True)
        return [answer for answer in answers if isinstance(answer, Peer)]

    async def usage(self, app: str) -> list[Usage]:
        """What an app has, here and at each of the others that answers at once."""
        asked = (self._usage_at(other, app) for other in self.known)
        return [self._usage(app), *await asyncio.gather(*asked)]

    async def _usage_at(self, other: str, app: str) -> Usage:
        question = f"{_USED_BY}{app}".encode()
        try:
            told = await self._bus.client.request(
                gateway_subject(other), question, timeout=GLANCE_S
            )
            return _USAGE.validate_json(told.data)
        except (nats.errors.Error, OSError, ValueError) as error:
            log.warning("gateway %s does not tell what an app has there: %r", other, error)
            return Usage()

    async def _ask(self, owner: str, within_s: float = ASK_S, *, session: str = "") -> Peer | None:
        """The gateway of this name, or the one that has its `session` now.

        None where it is gone. Raises StageLostError, BusError.
        """
        if not self._bus.connected:
            raise BusError("the bus is not connected")
        try:
            told = await self._bus.client.request(
                gateway_subject(owner), session.encode(), timeout=within_s
            )
            return _PEER.validate_json(told.data)
        except nats.errors.NoRespondersError:
            return None
        except nats.errors.TimeoutError:
            raise StageLostError("session: the gateway that has it does not answer") from None
        except (nats.errors.Error, OSError, ValueError) as error:
            raise BusError(f"gateway {owner}: {error}") from error

    async def _tell_of_taken(self, message: Msg) -> None:
        owner, session = owner_on(message.subject), message.data.decode(errors="replace")
        if not session or session.startswith(_USED_BY):
            return  # we tell by our own name what it has here
        if self._has(session):
            await self._tell(message)
        elif session not in self._moved:
            # On the side: it takes a while, and sessions that are here are asked for as well.
            self._background.run(self._tell_of_gone(message, owner, session))

    async def _tell_of_gone(self, message: Msg, owner: str, session: str) -> None:
        """We answer for what nobody has, so that who asks is told so."""
        elsewhere = self._elsewhere.get(owner)
        gone = self._vanished(owner) if elsewhere is None else self._nowhere(elsewhere.get(session))
        if await gone:
            try:
                if await self._revived(session):
                    return  # who asks finds it there the next time
            except StageLostError:
                return
            except UnknownNameError:
                pass
            await self._tell(message)

    async def _vanished(self, owner: str) -> bool:
        """Whether a gateway that has handed us sessions has ended without a word of the others."""
        try:
            if await self._has_left(owner):
                await asyncio.sleep(GLANCE_S)  # another heir, if it has the session, answers first
                return True
        except BusError as error:
            log.warning("%s", error)
        return False

    async def _nowhere(self, heir: str | None) -> bool:
        """Whether a session that is not here is not with the other heir of its gateway either."""
        if heir is None:
            return True
        with contextlib.suppress(VisavisError):
            if await self._ask(heir, GLANCE_S) is None:
                await asyncio.sleep(GLANCE_S)  # the heir's own heir, if it has one, answers first
                return True
        return False

    async def _tell(self, message: Msg) -> None:
        asked = message.data.decode()
        if asked.startswith(_USED_BY):
            usage = self._usage(asked.removeprefix(_USED_BY))
            await message.respond(json.dumps(asdict(usage)).encode())
            return
        if self.moved_to(asked):
            return  # the one that has it tells
        own = Peer(self._instance, self._address, self._free(), self._seats())
        await message.respond(json.dumps(asdict(own)).encode())


async def _nobody(session: str) -> str:
    raise UnknownNameError(f"session: there is no {session[:64]!r} here")


def encoded(told: Any) -> bytes:
    """As a gateway tells another one, and the bus keeps it: JSON in UTF-8, in which Mandarin takes
    half of what it takes in ASCII.
    """
    # What an app sends may hold half a character, which JSON can say.
    return json.dumps(told, ensure_ascii=False).encode(errors="surrogatepass")


def owner_of(instance: str) -> str:
    """How sessions name a gateway: the end of its instance name."""
    return instance.rpartition("-")[2]


def owner_on(subject: str) -> str:
    """Which gateway is asked there."""
    return subject.rpartition(".")[2]


def session_id(instance: str) -> str:
    """A new session's id, by which any gateway finds the one that has it.

    One that begins with a hyphen would be an option to whatever command it is given to.
    """
    return f"{secrets.token_urlsafe(12).replace('-', '_')}-{owner_of(instance)}"
