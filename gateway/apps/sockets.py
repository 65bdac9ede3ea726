"""The WebSockets of programs: a session's sound alone, and speech that they bring."""

from __future__ import annotations

import secrets
from typing import Annotated, Literal

import numpy as np
from fastapi import APIRouter, WebSocket
from pydantic import Field, TypeAdapter, ValidationError

from gateway.access.callers import Role
from gateway.api.events import ErrorEvent, Event, TurnEvent, explain
from gateway.api.problems import ForbiddenError, code_of
from gateway.api.sockets import (
    accept,
    check_role,
    close,
    hear_until_gone,
    refuse,
    send_event,
    session_at,
    while_connected,
)
from gateway.api.state import caller_of, gateway_of
from gateway.playout.sinks.plain_sound import RATES_HZ
from gateway.session.session import Session
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
        check_role(socket, role, "listener")
        if rate_hz not in map(str, RATES_HZ):
            known = ", ".join(map(str, RATES_HZ))
            raise InvalidInputError(f"rate_hz: {rate_hz[:20]!r} is none of {known}")
        with gateway.sessions.in_use(session.id):
            await session.wake()
            if role == "speaker":
                session.check_ears()
                await session.take_microphone(holder)
            listener = session.outlets.plain_sound.join(int(rate_hz))
    except VisavisError as error:
        session.release_microphone(holder)
        await refuse(socket, error)
        return

    async def send() -> None:
        async for message in listener:
            await socket.send_bytes(message)
        await close(socket, session)

    try:
        await accept(socket)
        await while_connected(send(), hear_until_gone(socket, session, holder, role))
    finally:
        session.outlets.plain_sound.leave(listener)
        session.release_microphone(holder)
        session.touch()


# ------------------------------------------------------------ speech that is brought


class BeginMessage(Event):
    """An utterance begins; its sound follows in binary messages, 16-bit little-endian mono."""

    type: Literal["begin"]
    rate_hz: int = Field(24_000, description="8000 to 48000")
    text: str = Field("", max_length=8000, description="What it says, for captions; may be empty")


class EndMessage(Event):
    """The utterance is complete."""

    type: Literal["end"]


class CutMessage(Event):
    """Be silent: nothing of what was brought is to be heard any more."""

    type: Literal["cut"]


_MESSAGE: TypeAdapter[BeginMessage | EndMessage | CutMessage] = TypeAdapter(
    Annotated[BeginMessage | EndMessage | CutMessage, Field(discriminator="type")]
)


@router.websocket("/v1/sessions/{session_id}/speech")
async def speech(socket: WebSocket, session_id: str) -> None:
    """Speech for a session whose client brings it (`spoken_by`); the face says it.

    `begin` (rate_hz, text), then sound in binary messages as fast as it is made, then `end`; `cut`
    ends all. Utterances are said one after the other. The session's `turn` and `error` events come
    back: `speaking` with the first sample that is heard, `finished` or `interrupted` with how much
    was. What is more than five minutes ahead, or in more than 200 utterances, is not taken, and an
    `error` (`too_many_waiting`) says so, once for each utterance.
    """
    gateway = gateway_of(socket)
    session = await session_at(socket, gateway, session_id)
    if session is None:
        return
    holder = f"ws-{secrets.token_urlsafe(9)}"
    try:
        if session.options.spoken_by != "client":
            raise InvalidInputError("speech: the server speaks here; make a session with spoken_by")
        if caller_of(socket).role is Role.VIEWER:
            raise ForbiddenError("speech: a viewer brings none")
        session.check_listeners()
        with gateway.sessions.in_use(session.id):
            await session.wake()
            await session.take_microphone(holder)
    except VisavisError as error:
        session.release_microphone(holder)
        await refuse(socket, error)
        return
    listener = session.listen()

    async def send() -> None:
        async for event in listener:
            if isinstance(event, TurnEvent | ErrorEvent):
                await send_event(socket, event)
        await close(socket, session)

    async def receive() -> None:
        while True:
            message = await socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            try:
                await session.take_microphone(holder)  # it may be another's by now
                _bring(session, message.get("text"), message.get("bytes"))
            except VisavisError as error:
                listener.tell(ErrorEvent(code=code_of(error)[1], message=str(error)))

    try:
        await accept(socket)
        await while_connected(send(), receive())
    finally:
        session.unlisten(listener)
        session.release_microphone(holder)


def _bring(session: Session, text: str | None, sound: bytes | None) -> None:
    """Do what a message says. Raises InvalidInputError, OutOfOrderError."""
    if sound is not None:
        if len(sound) % 2:
            raise InvalidInputError(f"sound: {len(sound)} bytes are no whole number of samples")
        session.add_speech(np.frombuffer(sound, "<i2").astype(np.int16, copy=False))
        return
    try:
        told = _MESSAGE.validate_json(text or "")
    except ValidationError as error:
        raise InvalidInputError(explain(error)) from None
    match told:
        case BeginMessage():
            session.begin_speech(told.rate_hz, told.text)
        case EndMessage():
            session.end_speech()
        case CutMessage():
            session.interrupt()
            if session.unasked.brought.bringing:
                session.end_speech()
