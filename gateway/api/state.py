"""What the routes work on, and how they get at it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends
from starlette.requests import HTTPConnection

from gateway.answers.cache import AnswerCache
from gateway.answers.prerender import Prerenderer
from gateway.peers.handover import Handover
from gateway.peers.passing import Carrier
from gateway.peers.peers import Peers
from gateway.settings import GatewaySettings
from gateway.stages.catalog import Catalog
from gateway.stages.registry import Registry
from gateway.talk.session import Session
from gateway.talk.sessions import Sessions
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


def gateway_of(connection: HTTPConnection) -> Gateway:
    return cast(Gateway, connection.app.state.gateway)


TheGateway = Annotated[Gateway, Depends(gateway_of)]


def session_of(session_id: str, gateway: TheGateway) -> Session:
    """Raises UnknownNameError, which becomes 404."""
    return gateway.sessions.get(session_id)


TheSession = Annotated[Session, Depends(session_of)]
