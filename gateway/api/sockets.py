"""The WebSockets of a session: events, media for where WebRTC cannot connect, and the face as
blendshapes for who draws it himself.
"""

from __future__ import annotations

import secrets
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from fastapi import APIRouter, WebSocket, WebSocketDisconnect

from gateway.access.callers import Role
from gateway.api.access import SUBPROTOCOL
from gateway.api.choices import DrawnBy
from gateway.api.events import (
    ErrorEvent,
    InterruptCommand,
    PingCommand,
    PlaceEvent,
    PongEvent,
    SayCommand,
    ServerEvent,
    TextCommand,
    ToolResultCommand,
    TypingCommand,
    UpdateCommand,
    parse_command,
)
from gateway.api.problems import ForbiddenError, code_of
from gateway.api.routes.sessions import change_session, place_of
from gateway.api.state import Gateway, caller_of, gateway_of
from gateway.apps.routes import say_in
from gateway.openai.errors import shape_at
from gateway.session.session import Session
from gateway.talk.actions import Manner
from gateway.talk.microphone import pcm_of_message
from visavis.serving.errors import InvalidInputError, UnknownNameError, VisavisError
from visavis.serving.lifetime.supervision import first_of

router = APIRouter()

SESSION_ENDED = 4410
"""Close code: the session is over, connecting again will not help."""
SESSION_MOVED = 1012
"""Close code: the session goes on, connecting again at once reaches it (RFC 6455: a restart)."""


@router.websocket("/v1/sessions/{session_id}/events")
async def events(socket: WebSocket, session_id: str) -> None:
    """JSON both ways, see gateway/api/events.py. The first two events tell the present state."""
    gateway = gateway_of(socket)
    session = await session_at(socket, gateway, session_id)
    if session is None:
        return
    try:
        session.check_listeners()
    except VisavisError as error:
        await refuse(socket, error)
        return
    listener = session.listen()
    looks_on = caller_of(socket).role is Role.VIEWER
    late: list[str] = []

    async def send() -> None:
        async for event in listener:
            await send_event(socket, event)
        await close(socket, session)

    async def receive() -> None:
        while True:
            message = await socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            text = message.get("text")
            if looks_on:
                listener.tell(_to_viewer(session, text))
                continue
            if session.presence.departure is not None:
                late.append(text or "")
                await session.presence.departure.decided.wait()
                if session.moved:
                    continue
                late.clear()
            with gateway.sessions.in_use(session.id):
                answer = await obey(session, gateway, text)
            if answer is not None:
                listener.tell(answer)

    try:
        await accept(socket)
        await while_connected(send(), receive())
    finally:
        session.unlisten(listener)
        if late and session.moved:
            gateway.handover.forward(session.id, late)


@router.websocket("/v1/sessions/{session_id}/place")
async def place(socket: WebSocket, session_id: str) -> None:
    """How a place in line stands, as `place` events, until it waits no more."""
    gateway = gateway_of(socket)
    try:
        gateway.entrance.standing(session_id)
    except VisavisError as error:
        await refuse(socket, error)
        return
    await accept(socket)

    async def send() -> None:
        async for standing in gateway.entrance.follow(session_id):
            await send_event(socket, PlaceEvent(**place_of(standing).model_dump()))
        await socket.close()

    await while_connected(send(), until_gone(socket))


@router.websocket("/v1/sessions/{session_id}/media")
async def media(
    socket: WebSocket, session_id: str, role: str = "viewer", drawn_by: str = ""
) -> None:
    """Fragmented mp4 to the client; microphone from a speaker, s16le mono 16 kHz.

    Text messages from the server are error events. A client that does not keep up loses
    fragments up to the next key frame. drawn_by: client, the mp4 is of sound alone; server; else
    as the session says.
    """
    gateway = gateway_of(socket)
    session = await session_at(socket, gateway, session_id)
    if session is None:
        return
    holder = f"ws-{secrets.token_urlsafe(9)}"
    try:
        check_role(socket, role, "viewer")
        pictures = session.drawn_by(_drawn_by(drawn_by)) == "server"
        with gateway.sessions.in_use(session.id):
            await session.wake()
            if role == "speaker":
                session.check_ears()
                await session.take_microphone(holder)
            viewer = session.outlets.broadcast.join(pictures=pictures, speaks=role == "speaker")
    except VisavisError as error:
        session.release_microphone(holder)
        await refuse(socket, error)
        return

    async def send() -> None:
        async for payload in viewer:
            await socket.send_bytes(payload)
        await close(socket, session)

    try:
        await accept(socket)
        await while_connected(send(), hear_until_gone(socket, session, holder, role))
    finally:
        session.outlets.broadcast.leave(viewer)
        session.release_microphone(holder)
        session.touch()


@router.websocket("/v1/sessions/{session_id}/face")
async def face(socket: WebSocket, session_id: str, form: str = "") -> None:
    """What a client draws the face from: binary messages of one or more records of 68 bytes.

    A record is the media time in milliseconds (32 bits, little-endian) and the pose, as
    VideoCodec.BLENDSHAPES of media.proto says. Media time is that of the mp4 of `…/media`; over
    WebRTC what leaves together belongs together. A record takes the place of all of its time or
    later. form=talkinghead: JSON instead, see gateway/faces/talking_head.py.
    """
    gateway = gateway_of(socket)
    session = await session_at(socket, gateway, session_id)
    if session is None:
        return
    try:
        sink = session.outlets.drawers.get(form)
        if sink is None:
            raise InvalidInputError(f"form: {form[:20]!r} is none; known is 'talkinghead'")
        with gateway.sessions.in_use(session.id):
            await session.wake()
            viewer = sink.join()
    except VisavisError as error:
        await refuse(socket, error)
        return

    async def send() -> None:
        async for message in viewer:
            if isinstance(message, str):
                await socket.send_text(message)
            else:
                await socket.send_bytes(message)
        await close(socket, session)

    try:
        await accept(socket)
        await while_connected(send(), until_gone(socket))
    finally:
        sink.leave(viewer)
        session.touch()


def _drawn_by(given: str) -> DrawnBy | None:
    match given:
        case "":
            return None
        case "server" | "client":
            return given
    raise InvalidInputError(f"drawn_by: {given[:20]!r} is neither 'server' nor 'client'")


async def obey(session: Session, gateway: Gateway, text: str | None) -> ServerEvent | None:
    """Do what a client's message says; what only this client is to be told."""
    session.touch()
    try:
        if text is None:
            raise InvalidInputError("message: binary; events are JSON text")
        command = parse_command(text)
        match command:
            case TextCommand():
                await session.wake()
                session.submit_text(command.text, command.style)
            case TypingCommand():
                session.typing(command.text)
            case SayCommand():
                manner = Manner(command.style, command.language)
                await say_in(session, gateway, command.text, manner, interrupt=command.interrupt)
            case InterruptCommand():
                session.interrupt()
            case ToolResultCommand():
                session.tool_result(command.call_id, command.output)
            case UpdateCommand():
                change = command.model_dump(exclude={"type"}, exclude_none=True)
                await change_session(session, gateway, change)
            case PingCommand():
                return PongEvent()
    except VisavisError as error:
        return ErrorEvent(code=code_of(error)[1], message=str(error))
    return None


def _to_viewer(session: Session, text: str | None) -> ServerEvent:
    """What somebody is told who may look on alone."""
    session.touch()
    try:
        if isinstance(parse_command(text or ""), PingCommand):
            return PongEvent()
        raise ForbiddenError("message: a viewer looks on; this is for the visitor")
    except VisavisError as error:
        return ErrorEvent(code=code_of(error)[1], message=str(error))


def check_role(socket: WebSocket, role: str, looker: str) -> None:
    """looker: what one who only takes calls himself. Raises InvalidInputError, ForbiddenError."""
    if role not in ("speaker", looker):
        raise InvalidInputError(f"role: {role[:20]!r} is neither 'speaker' nor {looker!r}")
    if role == "speaker" and caller_of(socket).role is Role.VIEWER:
        raise ForbiddenError("role: a viewer has no microphone")


async def until_gone(socket: WebSocket) -> None:
    """Read a client away that has nothing to say."""
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass


async def hear_until_gone(socket: WebSocket, session: Session, holder: str, role: str) -> None:
    """Take what a client sends as sound, and tell it what is wrong with that."""
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            return
        problem = _hear(session, holder, role, message.get("bytes"))
        if problem is not None:
            await send_event(socket, problem)


def _hear(session: Session, holder: str, role: str, payload: bytes | None) -> ErrorEvent | None:
    """Use a message of the media socket as sound; what is wrong with it."""
    try:
        if payload is None:
            raise InvalidInputError("message: text; the media socket takes binary sound only")
        if role != "speaker":
            raise InvalidInputError("sound: a viewer has no microphone; connect with role=speaker")
        session.push_mic(holder, pcm_of_message(payload))
    except InvalidInputError as error:
        return ErrorEvent(code="invalid_input", message=str(error))
    return None


async def session_at(socket: WebSocket, gateway: Gateway, session_id: str) -> Session | None:
    """The session that a socket asks for; None where there is none, and the client was told."""
    try:
        return gateway.sessions.get(session_id)
    except VisavisError as error:
        await refuse(socket, error)
        return None


async def accept(socket: WebSocket) -> None:
    """Confirm our subprotocol where it is offered; what carries the key is not said again."""
    offered = socket.scope.get("subprotocols") or []
    await socket.accept(subprotocol=SUBPROTOCOL if SUBPROTOCOL in offered else None)


async def close(socket: WebSocket, session: Session) -> None:
    """Tell whether the session goes on elsewhere or has ended."""
    if session.moved:
        await socket.close(SESSION_MOVED, "the session goes on; connect again")
    else:
        await socket.close(SESSION_ENDED, "the session has ended")


async def nowhere(socket: WebSocket) -> None:
    """At a path without a WebSocket. Left to itself the framework says 403, as if a key lacked."""
    await refuse(socket, UnknownNameError("path: there is no WebSocket here"))


async def refuse(socket: WebSocket, error: Exception) -> None:
    """Answer the handshake with an HTTP error instead."""
    await socket.send_denial_response(shape_at(socket.scope["path"])(error))


async def send_event(socket: WebSocket, event: ServerEvent) -> None:
    """As JSON, without what has no value."""
    await socket.send_text(event.model_dump_json(exclude_none=True))


async def while_connected(*work: Coroutine[Any, Any, None]) -> None:
    """Run until one ends; the others are cancelled. A client that has gone is no error."""
    with suppress(WebSocketDisconnect, RuntimeError):
        await first_of(*work)
