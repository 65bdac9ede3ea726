"""What the routes work on, and how they get at it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated, cast

from fastapi import Depends
from starlette.requests import HTTPConnection

from gateway.access.callers import Caller, Limits
from gateway.access.doorkeeper import Doorkeeper
from gateway.access.limits import Making, Standing, Usage, check, standing
from gateway.answers.cache import AnswerCache
from gateway.answers.prerender import Prerenderer
from gateway.peers.handover import Handover
from gateway.peers.passing import Carrier
from gateway.peers.peers import Peers
from gateway.room.rooms import Rooms
from gateway.session.session import Session
from gateway.session.sessions import Sessions
from gateway.settings import GatewaySettings
from gateway.stages.catalog import Catalog
from gateway.stages.plain_calls import PlainCalls
from gateway.stages.registry import Registry
from gateway.tools.doing import ServerTools
from gateway.waiting.entrance import Entrance
from visavis.wire.bus import Bus


@dataclass(frozen=True, slots=True)
class Gateway:
    """Everything that lives as long as the process."""

    settings: GatewaySettings
    bus: Bus
    registry: Registry
    catalog: Catalog
    sessions: Sessions
    entrance: Entrance
    answers: AnswerCache
    prerenderer: Prerenderer
    peers: Peers
    carrier: Carrier
    handover: Handover
    doorkeeper: Doorkeeper
    plain: PlainCalls
    rooms: Rooms
    tools: ServerTools
    making: Making = field(default_factory=Making)

    def owner_of(self, session_id: str) -> str | None:
        """The app whose a session or a place in line is; "": an operator's; None: not here."""
        if self.sessions.has(session_id):
            return self.sessions.get(session_id).owner
        return self.entrance.owner_of(session_id)

    def usage_of(self, app: str) -> Usage:
        """What an app has here."""
        sessions = sum(session.owner == app for session in self.sessions.all())
        there_is = sessions + self.entrance.places_of(app)
        return self.making.usage(app, there_is, time.monotonic())

    @asynccontextmanager
    async def within_limits(self, caller: Caller) -> AsyncIterator[None]:
        """A session of the caller's is made meanwhile. Raises OverLimitError."""
        if not caller.owner or caller.limits == Limits():
            yield
            return
        with self.making.one(caller.owner, time.monotonic()):
            check(caller.limits, await self.peers.usage(caller.owner))
            yield

    async def standing_of(self, caller: Caller) -> Standing:
        """How far a caller's limits are used up; of one who has none: this gateway's."""
        if caller.owner and caller.limits != Limits():
            told = standing(caller.limits, await self.peers.usage(caller.owner))
            if told is not None:
                return told
        most = self.settings.max_sessions
        return Standing(most, max(0, most - self.sessions.taken))


def gateway_of(connection: HTTPConnection) -> Gateway:
    return cast(Gateway, connection.app.state.gateway)


TheGateway = Annotated[Gateway, Depends(gateway_of)]

CALLER = "visavis.caller"
"""Where a request's scope has who makes it."""


def caller_of(connection: HTTPConnection) -> Caller:
    return cast(Caller, connection.scope[CALLER])


TheCaller = Annotated[Caller, Depends(caller_of)]


def session_of(session_id: str, gateway: TheGateway) -> Session:
    """Raises UnknownNameError, which becomes 404."""
    return gateway.sessions.get(session_id)


TheSession = Annotated[Session, Depends(session_of)]
