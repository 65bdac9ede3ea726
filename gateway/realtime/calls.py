"""Calls: the protocol by WebRTC. Sound both ways by media tracks, events by a data channel.

Where the offer has a video section too, the face answers in it.
"""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from aiortc import RTCDataChannel
from aiortc.exceptions import InvalidStateError
from fastapi import APIRouter, Request, Response
from starlette.datastructures import FormData

from gateway.access.callers import Role
from gateway.api.problems import refusals_counted, text_of
from gateway.api.state import Gateway, TheCaller, TheGateway
from gateway.api.uploads import read_form
from gateway.openai.errors import OpenAiRoute, RefusedError, responses
from gateway.realtime.link import Link, object_in
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
from visavis.serving.errors import UnknownNameError

router = APIRouter(prefix="/v1/realtime/calls", tags=["OpenAI"], route_class=OpenAiRoute)

_MOST_BUFFERED_BYTES = 1_000_000
"""Of events that wait for a connection: minutes of them."""
_OPENS_WITHIN_S = 30.0
_MOST_FIELDS = 8
_PICTURES = re.compile(r"^m=video [1-9]", re.M)
_SDP = {"type": "string", "pattern": "^v="}
_OFFER: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/sdp": {"schema": _SDP},
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["sdp"],
                    "properties": {
                        "sdp": _SDP,
                        "session": {
                            "type": "string",
                            "description": "JSON, as in `session.update`",
                        },
                    },
                }
            },
        },
    }
}


@dataclass(frozen=True, slots=True)
class _Offer:
    """What a caller brings. session: None: nothing is said of it."""

    sdp: str
    session: object = None


class EventChannel:
    """The data channel by which events go, once it is open."""

    def __init__(self) -> None:
        self._channel: RTCDataChannel | None = None
        self._opened = asyncio.Event()

    def use(self, channel: RTCDataChannel, link: Link) -> None:
        """The first one that the caller opens."""
        if self._channel is not None:
            return
        self._channel = channel

        def heard(message: str | bytes) -> None:
            link.said_at_once(message)

        channel.on("message", heard)
        channel.on("close", lambda: link.end("the channel was closed"))
        self._opened.set()

    async def send(self, event: Event) -> None:
        """Raises TimeoutError where no channel is opened, InvalidStateError once it is shut."""
        async with asyncio.timeout(_OPENS_WITHIN_S):
            await self._opened.wait()
        assert self._channel is not None
        if self._channel.bufferedAmount > _MOST_BUFFERED_BYTES:
            raise InvalidStateError("the caller takes no events")
        self._channel.send(json.dumps(event, ensure_ascii=False))


@router.post(
    "",
    status_code=201,
    response_class=Response,
    openapi_extra=_OFFER,
    responses={201: {"content": {"application/sdp": {}}}, **responses(404, 413, 429)},
)
async def create_call(
    request: Request, gateway: TheGateway, caller: TheCaller, model: str = ""
) -> Response:
    """Answer an offer: `application/sdp`, or a form of `sdp` and `session`.

    `Location` names the call, which is a session: its id opens `/v1/sessions/{id}`, too. The answer
    has all candidates of ours; the offer need not have the caller's, who finds us by them.
    """
    offer = await _offer_in(request)
    with refusals_counted():
        named = model_of(wanted_model(model, caller, offer.session), gateway)
        config, known = config_of(caller, gateway, offer.session), await available(gateway)
        pictures = bool(_PICTURES.search(offer.sdp))
        session = await open_session(gateway, caller, config, known, pictures=pictures)
    try:
        holder, channel = new_id("peer"), EventChannel()
        dialogue = dialogue_with(session, config, named, known, by_channel=True)
        link = Link(gateway, caller, session, dialogue, channel.send, holder)
        await session.take_microphone(holder)
        sdp, _ = await session.outlets.peers.connect(
            offer.sdp,
            "offer",
            "speaker",
            on_mic=session.push_mic,
            on_gone=lambda peer_id: link.end("the caller has gone"),
            peer_id=holder,
            pictures=pictures,
        )
        session.outlets.peers.on_channel(holder, lambda opened: channel.use(opened, link))
        session.run_beside(_talk(link, session, gateway))
    except BaseException:
        await gateway.sessions.delete(session.id)
        raise
    where = {"Location": f"/v1/realtime/calls/{session.id}"}
    return Response(sdp, 201, headers=where, media_type="application/sdp")


@router.post(
    "/{session_id}/hangup",
    response_class=Response,
    responses={200: {"description": "It is over; there is no body"}, **responses(404)},
)
async def hang_up_call(session_id: str, gateway: TheGateway, caller: TheCaller) -> Response:
    """End a call; with an ephemeral key one that was begun by it."""
    followers = gateway.sessions.get(session_id).followers
    own = any(isinstance(link, Link) and link.caller == caller for link in followers)
    if caller.role is Role.GUEST and not own:
        raise UnknownNameError(f"session: your key has begun no call {session_id[:64]!r}")
    await gateway.sessions.delete(session_id)
    return Response(status_code=200)


async def _talk(link: Link, session: Session, gateway: Gateway) -> None:
    """For as long as the caller is there. The session goes to no other gateway meanwhile."""
    try:
        with suppress(InvalidStateError, TimeoutError), gateway.sessions.in_use(session.id):
            await link.run()
    finally:
        session.unwanted = True


async def _offer_in(request: Request) -> _Offer:
    """Raises InvalidInputError, RefusedError, HTTPException."""
    kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        form = await read_form(request, "sdp", "sdp and session", max_fields=_MOST_FIELDS)
        try:
            sdp, session = [await _text(form, name) for name in ("sdp", "session")]
        finally:
            await form.close()
        return _Offer(_sdp(sdp), object_in(session, "session") if session else None)
    return _Offer(_sdp(text_of(await request.body(), "sdp")))


async def _text(form: FormData, name: str) -> str:
    """A form's field, which some clients send as a file."""
    field = form.get(name) or ""
    return field if isinstance(field, str) else text_of(await field.read(), name)


def _sdp(text: str) -> str:
    if not text.startswith("v="):
        message = "sdp: an offer is wanted, as application/sdp or in a form"
        raise RefusedError(message, "sdp", "invalid_value")
    return text
