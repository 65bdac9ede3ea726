"""The WebSocket of programs that take a session's sound alone, and may be its microphone."""

from __future__ import annotations

import secrets

from fastapi import APIRouter, WebSocket

from gateway.access.callers import Role
from gateway.api.problems import ForbiddenError
from gateway.api.sockets import accept, close, first_of, hear, refuse, send_event, session_at
from gateway.api.state import caller_of, gateway_of
from gateway.playout.sinks.plain_sound import RATES_HZ
from visavis.serving.errors import InvalidInputError, VisavisError

router = APIRouter()


@router.websocket("/v1/sessions/{session_id}/audio")
async def audio(
    socket: WebSocket, session_id: str, role: str = "listener", rate_hz: str = "24000"
) -> None:
    """Sound alone: binary messages of 16-bit little-endian mono samples, about 20 ms each.

    They come at the pace of the clock, silence included. rate_hz: 16000, 24000 or 48000. With
    role=speaker the client is the microphone, too: it sends what `…/media` takes, 16-bit mono at
    16 kHz whatever the rate of what comes. Text messages from the server are error events.
    """
    gateway = gateway_of(socket)
    session = await session_at(socket, gateway, session_id)
    if session is None:
        return
    holder = f"ws-{secrets.token_urlsafe(9)}"
    try:
        if role not in ("speaker", "listener"):
            raise InvalidInputError(f"role: {role[:20]!r} is neither 'speaker' nor 'listener'")
        if role == "speaker" and caller_of(socket).role is Role.VIEWER:
            raise ForbiddenError("role: a viewer has no microphone")
        if rate_hz not in map(str, RATES_HZ):
            known = ", ".join(map(str, RATES_HZ))
            raise InvalidInputError(f"rate_hz: {rate_hz[:20]!r} is none of {known}")
        with gateway.sessions.in_use(session.id):
            await session.wake()
            if role == "speaker":
                await session.take_microphone(holder)
            listener = session.plain_sound.join(int(rate_hz))
    except VisavisError as error:
        session.release_microphone(holder)
        await refuse(socket, error)
        return

    async def send() -> None:
        async for message in listener:
            await socket.send_bytes(message)
        await close(socket, session)

    async def receive() -> None:
        while True:
            message = await socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            problem = hear(session, holder, role, message.get("bytes"))
            if problem is not None:
                await send_event(socket, problem)

    try:
        await accept(socket)
        await first_of(send(), receive())
    finally:
        session.plain_sound.leave(listener)
        session.release_microphone(holder)
        session.touch()
