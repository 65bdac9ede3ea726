"""WHEP for viewers with players of their own, WHIP for a microphone that is elsewhere."""

from __future__ import annotations

import secrets
from typing import Any

from fastapi import APIRouter, Request, Response

from gateway.api.problems import responses
from gateway.api.state import TheSession
from gateway.live import sdp

router = APIRouter(prefix="/v1/sessions/{session_id}", tags=["live"])

_ANSWER: dict[int | str, dict[str, object]] = {201: {"content": {sdp.SDP: {}}}}


def _body(media_type: str) -> dict[str, Any]:
    """Of a route that reads its text itself, for the OpenAPI page."""
    content = {media_type: {"schema": {"type": "string"}}}
    return {"requestBody": {"required": True, "content": content}}


@router.post(
    "/whep",
    status_code=201,
    response_class=Response,
    openapi_extra=_body(sdp.SDP),
    responses={**_ANSWER, **responses(404, 413, 415, 422, 503)},
)
async def watch_by_whep(session: TheSession, request: Request) -> Response:
    """Answer a WHEP player's offer (`application/sdp`): the face, as over `…/webrtc`.

    `Location` is the connection: DELETE ends it, PATCH adds candidates
    (`application/trickle-ice-sdpfrag`). ICE is not restarted: offer anew.
    """
    offer = await sdp.offer_of(request)
    await session.wake()
    peer_id = secrets.token_urlsafe(9)
    made, _ = await session.outlets.peers.connect(
        offer,
        "offer",
        "viewer",
        on_mic=session.push_mic,
        on_gone=session.release_microphone,
        peer_id=peer_id,
    )
    # Relative to the endpoint, which a proxy may show under a prefix.
    return sdp.answer(made, f"whep/{peer_id}", session.outlets.peers.ice_servers())


@router.post(
    "/whip",
    status_code=201,
    response_class=Response,
    openapi_extra=_body(sdp.SDP),
    responses={**_ANSWER, **responses(404, 409, 413, 415, 422, 503)},
)
async def publish_by_whip(session: TheSession, request: Request) -> Response:
    """Answer a WHIP publisher's offer (`application/sdp`): his sound is the session's microphone.

    Pictures that he offers are not taken. Nothing is sent back: how the face answers is seen and
    heard elsewhere. `Location` as with WHEP; 409 where another client has the microphone.
    """
    offer = await sdp.offer_of(request)
    await session.wake()
    peer_id = secrets.token_urlsafe(9)
    await session.take_microphone(peer_id)
    try:
        made, _ = await session.outlets.peers.connect(
            offer,
            "offer",
            "publisher",
            on_mic=session.push_mic,
            on_gone=session.release_microphone,
            peer_id=peer_id,
            pictures=False,
        )
    except BaseException:
        session.release_microphone(peer_id)
        raise
    return sdp.answer(made, f"whip/{peer_id}", session.outlets.peers.ice_servers())


@router.options("/whep", include_in_schema=False)
@router.options("/whip", include_in_schema=False)
async def options(session: TheSession) -> Response:
    """What is taken here."""
    return sdp.options()


@router.patch(
    "/whep/{peer_id}",
    name="add_whep_candidates",
    status_code=204,
    openapi_extra=_body(sdp.FRAGMENT),
    responses=responses(404, 413, 415, 422),
)
@router.patch(
    "/whip/{peer_id}",
    name="add_whip_candidates",
    status_code=204,
    openapi_extra=_body(sdp.FRAGMENT),
    responses=responses(404, 413, 415, 422),
)
async def add_candidates(session: TheSession, peer_id: str, request: Request) -> Response:
    """Candidates that a client has found since its offer. 422 where it wants ICE restarted."""
    candidates, ufrag = await sdp.candidates_of(request)
    await session.outlets.peers.add_candidates(peer_id, candidates, ufrag)
    return Response(status_code=204)


@router.delete(
    "/whep/{peer_id}", name="end_whep", response_class=Response, responses=responses(404)
)
@router.delete(
    "/whip/{peer_id}", name="end_whip", response_class=Response, responses=responses(404)
)
async def end(session: TheSession, peer_id: str) -> Response:
    """End a client's connection."""
    await session.outlets.peers.disconnect(peer_id)
    return Response(status_code=200)
