"""Bodies and headers of WHIP (RFC 9725) and WHEP, which are alike: offer and answer over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aiortc import RTCIceCandidate
from aiortc.sdp import candidate_from_sdp
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from gateway.api.problems import text_of
from gateway.playout.sinks.ice import ICE_USER, IceServer
from visavis.serving.errors import InvalidInputError

SDP: Final = "application/sdp"
FRAGMENT: Final = "application/trickle-ice-sdpfrag"
_MOST_CANDIDATES = 50
# A player on a page of another origin may read what it has to know of the answer.
_EXPOSED: Final = {"Access-Control-Expose-Headers": "Location, Link, ETag"}


async def offer_of(request: Request) -> str:
    """The offer in a request. Raises HTTPException 415, InvalidInputError."""
    return await _text(request, SDP)


def answer(sdp: str, location: str, ice_servers: Sequence[IceServer]) -> Response:
    """201: where the connection is found, and by which servers."""
    made = Response(sdp, 201, {"Location": location, "ETag": '"1"', **_EXPOSED}, SDP)
    for server in ice_servers:
        for url in server.urls:
            made.headers.append("Link", _link(url, server))
    return made


def options() -> Response:
    """What may be posted here."""
    return Response(status_code=204, headers={"Accept-Post": SDP, "Allow": "OPTIONS, POST"})


async def candidates_of(request: Request) -> tuple[list[RTCIceCandidate], str]:
    """Candidates that a client has found since its offer, and its ICE user name fragment, if told.

    Raises HTTPException 415 and others.
    """
    fragment = await _text(request, FRAGMENT)
    told = ICE_USER.search(fragment)
    return candidates_in(fragment), told[1] if told else ""


def candidates_in(fragment: str) -> list[RTCIceCandidate]:
    """Those in the body of a PATCH (RFC 8840). Raises InvalidInputError."""
    found: list[RTCIceCandidate] = []
    for line in fragment.splitlines():
        name, _, value = line.strip().partition(":")
        if name == "a=candidate":
            try:
                candidate = candidate_from_sdp(value)
            except (AssertionError, ValueError, IndexError) as error:
                raise InvalidInputError("sdpfrag: a candidate cannot be read") from error
            candidate.sdpMLineIndex = 0  # all sections go by the first one's way
            found.append(candidate)
    if len(found) > _MOST_CANDIDATES:
        raise InvalidInputError(f"sdpfrag: more than {_MOST_CANDIDATES} candidates")
    return found


def _link(url: str, server: IceServer) -> str:
    link = f'<{url}>; rel="ice-server"'
    if server.username:
        link += f'; username="{server.username}"; credential="{server.credential}"'
        link += '; credential-type="password"'
    return link


async def _text(request: Request, kind: str) -> str:
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != kind:
        raise HTTPException(415, f"content-type: {given[:40]!r} is not {kind}")
    return text_of(await request.body(), "sdp" if kind == SDP else "sdpfrag")
