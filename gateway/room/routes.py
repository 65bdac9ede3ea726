"""The doors of a live room: for apps and operators, not for visitors of the session."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Body, Depends, Response, WebSocket

from gateway.access.limits import OverLimitError
from gateway.api.problems import code_of, responses
from gateway.api.sockets import SESSION_ENDED, SESSION_MOVED, accept, refuse, while_connected
from gateway.api.state import Gateway, TheGateway, TheSession, gateway_of
from gateway.room import schemas, views
from gateway.room.room import COMMENTS_PER_S, Room
from visavis.serving.errors import InvalidInputError, VisavisError

router = APIRouter(prefix="/v1/sessions/{session_id}/room", tags=["live room"])
sockets = APIRouter()


def room_of(session: TheSession, gateway: TheGateway) -> Room:
    """Raises UnknownNameError, which becomes 404."""
    return gateway.rooms.get(session.id)


TheRoom = Annotated[Room, Depends(room_of)]


@router.post("", status_code=201, responses=responses(404, 409, 413, 422))
async def open_room(
    session: TheSession, gateway: TheGateway, body: schemas.RoomRequest
) -> schemas.RoomInfo:
    """Have the session's avatar answer what viewers write, until the room or the session is closed.

    While it is open the session does not expire. Secrets of platforms are kept in memory alone and
    are never told.
    """
    room = await gateway.rooms.open(session, body)
    return views.info_of(room, room.now)


@router.get("", responses=responses(404))
async def get_room(room: TheRoom) -> schemas.RoomInfo:
    """The room as it is now: what waits, what is said, what became of all that came."""
    return views.info_of(room, room.now)


@router.delete("", status_code=204, responses=responses(404))
async def close_room(session: TheSession, gateway: TheGateway) -> Response:
    """Answer nobody any more; the session goes on."""
    await gateway.rooms.close(session.id)
    return Response(status_code=204)


@router.post("/comments", responses=responses(404, 413, 422, 429))
async def send_comments(room: TheRoom, body: Annotated[schemas.Sent, Body()]) -> schemas.TakenList:
    """What viewers have sent, one or up to 100; what became of each at once.

    More than a room takes: 429 `over_limit`, and none of them was taken.
    """
    sent = body.comments if isinstance(body, schemas.CommentsIn) else [body]
    _allow(room, len(sent))
    return room.take_all(sent)


@router.post("/commands", responses=responses(404, 413, 422, 503))
async def send_room_command(
    room: TheRoom, body: Annotated[schemas.Command, Body()]
) -> schemas.RoomInfo:
    """The operator's: pause, resume, skip, say, ban, unban, block."""
    await room.command(body)
    return views.info_of(room, room.now)


def _allow(room: Room, count: int) -> None:
    wait_s = room.allow(count)
    if wait_s:
        message = f"comments: a room takes {COMMENTS_PER_S:g} a second; try again in {wait_s:.1f} s"
        raise OverLimitError(message, wait_s)


@sockets.websocket("/v1/sessions/{session_id}/room/live")
async def live(socket: WebSocket, session_id: str) -> None:
    """JSON both ways: comments and commands in, what became of comments and answers out.

    To the room: what `…/comments` takes with `"type": "comments"`, each of `…/commands`, `ping`.
    From it: `taken`, `done` or `pong` for each of those, `answered` for each comment that was,
    `error`.
    """
    gateway = gateway_of(socket)
    try:
        gateway.sessions.get(session_id)
        room = gateway.rooms.get(session_id)
        outbox = room.join()
    except VisavisError as error:
        await refuse(socket, error)
        return

    async def send() -> None:
        async for event in outbox:
            await socket.send_text(event.model_dump_json(exclude_none=True))
        if room.session.moved:
            await socket.close(SESSION_MOVED, "the room goes on; connect again")
        else:
            await socket.close(SESSION_ENDED, "the room was closed")

    async def receive() -> None:
        while True:
            message = await socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            outbox.tell(await _obey(gateway, room, message.get("text")))
            await asyncio.sleep(0)  # others have their turn between two messages

    try:
        await accept(socket)
        await while_connected(send(), receive())
    finally:
        room.leave(outbox)


async def _obey(gateway: Gateway, room: Room, text: str | None) -> schemas.RoomEvent:
    try:
        if text is None:
            raise InvalidInputError("message: binary; a room takes JSON text")
        message = schemas.parse_message(text)
        await room.session.presence.stays()
        with gateway.sessions.in_use(room.session.id):
            match message:
                case schemas.CommentsMessage():
                    _allow(room, len(message.comments))
                    return schemas.TakenEvent(taken=room.take_all(message.comments).taken)
                case schemas.PingMessage():
                    return schemas.RoomPongEvent()
                case _:
                    await room.command(message)
                    return schemas.DoneEvent(done=message.type)
    except VisavisError as error:
        return schemas.RoomErrorEvent(code=code_of(error)[1], message=str(error))
