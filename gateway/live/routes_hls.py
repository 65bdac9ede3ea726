"""HLS for phones, and for players that know nothing else."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from gateway.access.callers import Role
from gateway.api.access import HLS_COOKIE
from gateway.api.problems import responses
from gateway.api.state import TheGateway, TheSession
from gateway.live.hls.viewers import TOKEN
from visavis.serving.errors import UnknownNameError

router = APIRouter(prefix="/v1/sessions/{session_id}/hls", tags=["live"])

_PLAYLIST = "application/vnd.apple.mpegurl"
_PIECE = re.compile(r"(segment|init)-(\d{1,10})\.(?:m4s|mp4)")
# A piece never changes; what is between us and a thousand viewers may keep it for a while.
_KEEP_PIECE = "max-age=60, immutable"


@router.get(
    "/index.m3u8",
    response_class=Response,
    responses={
        200: {"content": {_PLAYLIST: {}}, "description": "What there is to play: one playlist"},
        **responses(404, 429, 503),
    },
)
async def get_hls_index(session: TheSession, request: Request, gateway: TheGateway) -> Response:
    """HLS (fMP4): the first who asks waits two seconds for the first segments.

    It names a playlist with a token of the player's own, by which he counts among the viewers; 503
    where the session has as many as it may. A player that sends no headers of its own gets a cookie
    for this folder, good for watching this session, whenever somebody who may look on has asked.
    """
    await session.wake()
    answer = _answer(await session.outlets.live.hls.index())
    if gateway.doorkeeper.wants_a_key:
        issued = gateway.doorkeeper.issue(session.id, Role.VIEWER)
        answer.set_cookie(
            HLS_COOKIE,
            issued.token,
            max_age=round(issued.expires_in_s),
            path=None,  # this folder, under whatever prefix a proxy shows it
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )
    return answer


@router.get(
    "/stream.m3u8",
    response_class=Response,
    responses={
        200: {"content": {_PLAYLIST: {}}, "description": "Segments of about a second"},
        **responses(404, 422, 429, 503),
    },
)
async def get_hls_playlist(
    session: TheSession, viewer: Annotated[str, Query(pattern=f"^{TOKEN}$")]
) -> Response:
    """The newest segments. Who asks has a seat, until he has not asked for three seconds."""
    await session.wake()
    return _answer(await session.outlets.live.hls.playlist(viewer))


@router.get(
    "/{name}",
    response_class=Response,
    responses={200: {"content": {"video/mp4": {}}}, **responses(404)},
)
async def get_hls_piece(session: TheSession, name: str) -> Response:
    """A segment, or an init segment, that the playlist names."""
    found = _PIECE.fullmatch(name)
    if found is None:
        raise UnknownNameError(f"hls: there is no {name[:64]!r}")
    hls, number = session.outlets.live.hls, int(found[2])
    payload = hls.segment(number) if found[1] == "segment" else hls.init(number)
    return Response(payload, media_type="video/mp4", headers={"Cache-Control": _KEEP_PIECE})


def _answer(playlist: str) -> Response:
    return Response(playlist, media_type=_PLAYLIST, headers={"Cache-Control": "no-cache"})
