"""Broadcasts of a session: to platforms and servers, by RTMP(S) and WHIP."""

from __future__ import annotations

from fastapi import APIRouter

from gateway.access.callers import Role
from gateway.api.problems import ForbiddenError, responses
from gateway.api.state import TheCaller, TheGateway, TheSession
from gateway.live.push.address import allowed, parse
from gateway.live.schemas import BroadcastInfo, BroadcastList, BroadcastRequest, info_of

router = APIRouter(prefix="/v1/sessions/{session_id}/broadcasts", tags=["live"])


@router.post("", status_code=201, responses=responses(400, 404, 413, 422, 429, 503))
async def start(
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
    return info_of(session.outlets.live.broadcasts.start(address))


@router.get("", responses=responses(404))
async def list_broadcasts(session: TheSession) -> BroadcastList:
    """All of them, the oldest first; the last that are over as well."""
    return BroadcastList(
        broadcasts=[info_of(target) for target in session.outlets.live.broadcasts.all()]
    )


@router.get("/{broadcast_id}", responses=responses(404))
async def get(session: TheSession, broadcast_id: str) -> BroadcastInfo:
    """One broadcast as it is now."""
    return info_of(session.outlets.live.broadcasts.get(broadcast_id))


@router.delete("/{broadcast_id}", responses=responses(404))
async def stop(session: TheSession, broadcast_id: str) -> BroadcastInfo:
    """End a broadcast; how it was. Harmless where it is over."""
    session.touch()
    return info_of(await session.outlets.live.broadcasts.stop(broadcast_id))
