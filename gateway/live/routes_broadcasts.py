"""The API of broadcasts of a session: to platforms and servers, by RTMP(S) and WHIP."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from gateway.access.callers import Role
from gateway.api.problems import ForbiddenError, responses
from gateway.api.state import TheCaller, TheGateway, TheSession
from gateway.live.push.address import allowed, parse
from gateway.live.push.target import Target

router = APIRouter(prefix="/v1/sessions/{session_id}/broadcasts", tags=["live"])


class BroadcastRequest(BaseModel):
    """A target to push a session to: what a platform shows as its server and its stream key."""

    model_config = ConfigDict(extra="forbid")

    url: SecretStr = Field(
        min_length=1,
        max_length=2000,
        description="rtmp://, rtmps://, or an http(s):// address of a WHIP endpoint. Where there "
        "is no key beside it, the last part of an RTMP path is the key",
        examples=["rtmps://live.example/app/key"],
    )
    key: SecretStr = Field(
        default=SecretStr(""),
        max_length=2000,
        description="RTMP: the stream key; WHIP: the bearer token",
    )


class BroadcastInfo(BaseModel):
    """One broadcast as it is now. The key is told to nobody."""

    id: str
    protocol: Literal["rtmp", "whip"]
    target: str = Field(description="Host of the target; what lies behind it may be secret")
    state: Literal["connecting", "live", "waiting", "stopped", "failed"] = Field(
        description="waiting: it is lost, or does not answer, and is tried again; failed: not "
        "any more"
    )
    error: str = Field(description="Why it is not live, or was not the last time")
    live_s: float = Field(description="For how long this connection has been live")
    sent_bytes: int
    sent_pictures: int
    dropped_pictures: int = Field(description="Left out, because the network was too slow")
    reconnects: int
    lag_s: float = Field(description="Media that waits for the network; RTMP alone")


class BroadcastList(BaseModel):
    """All broadcasts of a session, those that ended last included."""

    broadcasts: list[BroadcastInfo]


@router.post("", status_code=201, responses=responses(400, 404, 413, 422, 429, 503))
async def start_broadcast(
    session: TheSession, body: BroadcastRequest, caller: TheCaller, gateway: TheGateway
) -> BroadcastInfo:
    """Push the session to a target, beside those that there are, until it is stopped.

    It answers at once: how the target takes it tells `state`, here and as `broadcast` events. One
    that is lost is connected again, later each time, and given up after ten minutes without any
    connection. While one runs, the session does not expire. Operators may name any host, apps
    those of `broadcast_hosts`.
    """
    address = parse(body.url.get_secret_value(), body.key.get_secret_value())
    hosts = gateway.settings.broadcast_hosts
    if caller.role is not Role.OPERATOR and not allowed(address.host, hosts):
        raise ForbiddenError("url: this host is not among the gateway's broadcast_hosts")
    await session.wake()
    return _info_of(session.outlets.live.broadcasts.start(address))


@router.get("", responses=responses(404))
async def list_broadcasts(session: TheSession) -> BroadcastList:
    """All of them, the oldest first; the last that are over as well."""
    return BroadcastList(
        broadcasts=[_info_of(target) for target in session.outlets.live.broadcasts.all()]
    )


@router.get("/{broadcast_id}", responses=responses(404))
async def get_broadcast(session: TheSession, broadcast_id: str) -> BroadcastInfo:
    """One broadcast as it is now."""
    return _info_of(session.outlets.live.broadcasts.get(broadcast_id))


@router.delete("/{broadcast_id}", responses=responses(404))
async def stop_broadcast(session: TheSession, broadcast_id: str) -> BroadcastInfo:
    """End a broadcast; how it was. Harmless where it is over."""
    session.touch()
    return _info_of(await session.outlets.live.broadcasts.stop(broadcast_id))


def _info_of(target: Target) -> BroadcastInfo:
    figures = target.figures
    return BroadcastInfo(
        id=target.name,
        protocol=target.address.kind,
        target=target.address.shown,
        state=target.phase.value,
        error=target.error,
        live_s=round(target.live_s, 1),
        sent_bytes=figures.sent_bytes,
        sent_pictures=figures.sent_pictures,
        dropped_pictures=figures.dropped_pictures,
        reconnects=figures.reconnects,
        lag_s=round(figures.lag_s, 3),
    )
