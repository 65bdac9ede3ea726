"""The doors: the WebSocket, and ephemeral keys for browsers."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress

from fastapi import APIRouter, Request, Response, WebSocket, WebSocketDisconnect
from fastapi.responses import JSONResponse

from gateway.access.callers import Caller, Role
from gateway.access.ephemeral import LONGEST_LIFE_S, SHORTEST_LIFE_S, USUAL_LIFE_S
from gateway.access.limits import OverLimitError
from gateway.api.problems import refusals_counted
from gateway.api.sockets import while_connected
from gateway.api.state import Gateway, TheCaller, TheGateway, caller_of, gateway_of
from gateway.openai.errors import OpenAiRoute, RefusedError, event_of, responses
from gateway.realtime.link import Link, count, object_in
from gateway.realtime.opening import (
    available,
    config_of,
    dialogue_with,
    model_of,
    new_id,
    open_session,
    wanted_model,
)
from gateway.realtime.protocol.reply import Event
from gateway.session.session import Session
from visavis.serving.errors import AtCapacityError, BusError, StageLostError, VisavisError

router = APIRouter(prefix="/v1/realtime", tags=["OpenAI"], route_class=OpenAiRoute)
sockets = APIRouter()

SUBPROTOCOL = "realtime"
"""Confirmed to browsers that offer it; what carries their key is not said again."""
NORMAL, REFUSED, ENDING, LATER = 1000, 1008, 1012, 1013
"""Close codes: OpenAI's clients connect again after the last two."""
_FULL = (AtCapacityError, OverLimitError, BusError, StageLostError)


@sockets.websocket("/v1/realtime")
async def realtime(socket: WebSocket, model: str = "", intent: str = "", call_id: str = "") -> None:
    """OpenAI's Realtime protocol; a session that lives as long as the connection.

    call_id: of a session that there is here already, to be seen and steered beside its client.
    """
    gateway, caller = gateway_of(socket), caller_of(socket)
    offered = socket.scope.get("subprotocols") or []
    await socket.accept(subprotocol=SUBPROTOCOL if SUBPROTOCOL in offered else None)
    if call_id:
        await _beside(socket, gateway, caller, call_id)
        return
    wanted = {"type": "transcription"} if intent == "transcription" else None
    try:
        with refusals_counted():
            named = model_of(wanted_model(model, caller), gateway)
            config, known = config_of(caller, gateway, wanted), await available(gateway)
            session = await open_session(gateway, caller, config, known, pictures=False)
    except VisavisError as error:
        await _turn_away(socket, error)
        return
    dialogue = dialogue_with(session, config, named, known, by_channel=False)

    async def send(event: Event) -> None:
        await socket.send_text(json.dumps(event, ensure_ascii=False))

    link = Link(gateway, caller, session, dialogue, send)

    try:
        with gateway.sessions.in_use(session.id):
            await while_connected(link.run(), _receive(socket, link))
        await _say_goodbye(socket, gateway, link)
    finally:
        await _end(gateway, session)


@router.post("/client_secrets", responses=responses(404, 413))
async def create_client_secret(
    request: Request, gateway: TheGateway, caller: TheCaller
) -> Response:
    """An ephemeral key for a browser: it begins sessions with these settings, for a while.

    `expires_after` is `{"anchor": "created_at", "seconds": …}`, 10 s to two hours; `session` as in
    `session.update`. The key carries them, so that any gateway takes it.
    """
    body = object_in(await request.body() or b"{}", "body")  # without one nothing is asked for
    life_s = _life_s(body.get("expires_after"))
    wanted = body.get("session")
    model = model_of(wanted_model("", caller, wanted), gateway)
    config = config_of(caller, gateway, wanted)
    (await available(gateway)).voice(config.wanted_voice)
    content = {**(wanted if isinstance(wanted, Mapping) else {}), "model": model}
    key = gateway.doorkeeper.lend(caller, json.dumps({"type": config.type, **content}), life_s)
    expires_at = int(time.time() + life_s)
    told = {**config.told(), "id": new_id("sess"), "object": "realtime.session", "model": model}
    return JSONResponse({"value": key, "expires_at": expires_at, "session": told})


@router.post("/sessions", include_in_schema=False)
@router.post("/transcription_sessions", include_in_schema=False)
async def beta(request: Request) -> Response:
    """Where the beta had its keys for browsers."""
    message = f"{request.url.path}: this is of the beta; ask for /v1/realtime/client_secrets"
    raise RefusedError(message, code="not_found", status=404)


async def _beside(socket: WebSocket, gateway: Gateway, caller: Caller, call_id: str) -> None:
    """Join a session of the caller's that a client has."""
    session = gateway.sessions.get(call_id) if gateway.sessions.has(call_id) else None
    may = caller.role is Role.OPERATOR or (session is not None and session.owner == caller.owner)
    followers = session.followers if session is not None else ()
    link = next((follower for follower in followers if isinstance(follower, Link)), None)
    if link is None or not may or caller.role is Role.GUEST:
        message = f"call_id: there is no call {call_id[:80]!r} here"
        await _turn_away(socket, RefusedError(message, "call_id", "not_found", 404))
        return
    side_band = link.join()

    async def send() -> None:
        async for event in side_band:
            await socket.send_text(json.dumps(event, ensure_ascii=False))
        await socket.close(NORMAL, "the call is over")

    try:
        await while_connected(send(), _receive(socket, link))
    finally:
        link.leave(side_band)


async def _receive(socket: WebSocket, link: Link) -> None:
    """Hand on what a client says, until he has gone."""
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            return
        await link.said(message.get("text") or message.get("bytes") or "")


def _life_s(wanted: object) -> float:
    seconds = wanted.get("seconds", USUAL_LIFE_S) if isinstance(wanted, Mapping) else USUAL_LIFE_S
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not number or not SHORTEST_LIFE_S <= seconds <= LONGEST_LIFE_S:
        param = "expires_after.seconds"
        message = f"{param}: {SHORTEST_LIFE_S:.0f} to {LONGEST_LIFE_S:.0f} is wanted"
        raise RefusedError(message, param, "invalid_value")
    return float(seconds)


async def _turn_away(socket: WebSocket, error: VisavisError) -> None:
    """Say why, and whether it is of use to come again."""
    told = {"type": "error", "event_id": new_id("event"), **event_of(error)}
    told["error"] |= {"event_id": None}
    count(told)
    with suppress(WebSocketDisconnect, RuntimeError):
        await socket.send_text(json.dumps(told))
        await socket.close(LATER if isinstance(error, _FULL) else REFUSED, _reason(str(error)))


async def _say_goodbye(socket: WebSocket, gateway: Gateway, link: Link) -> None:
    if not link.why:
        return  # the client has gone
    code = LATER if link.too_slow else ENDING if gateway.sessions.draining else NORMAL
    with suppress(WebSocketDisconnect, RuntimeError):
        await socket.close(code, _reason(link.why))


def _reason(told: str) -> str:
    """Of a close, which has room for 123 bytes."""
    return told.encode()[:123].decode(errors="ignore")


async def _end(gateway: Gateway, session: Session) -> None:
    if gateway.sessions.has(session.id):
        await gateway.sessions.delete(session.id)
