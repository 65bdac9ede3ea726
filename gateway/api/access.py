"""Who may talk to the gateway and how much: keys and tokens, no foreign page, no oversized body."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, unquote, urlsplit

from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.access.callers import SOCKET, Role, session_in, why_not
from gateway.access.doorkeeper import Doorkeeper, UnauthenticatedError
from gateway.api.state import CALLER
from gateway.openai.errors import body_of, is_openai
from gateway.settings import GatewaySettings
from visavis.serving.addresses import is_loopback

JSON_LIMIT_BYTES = 1_000_000
# Field names and boundaries around a photo.
FORM_EXTRA_BYTES = 100_000

# The page must load before it can ask for the key, and probes carry none.
_OPEN_PATHS = ("/", "/healthz", "/readyz", "/docs", "/openapi.json")
_OPEN_PREFIXES = ("/static/", "/docs/")

SUBPROTOCOL = "visavis"
"""The one WebSocket subprotocol that is ever confirmed, to clients that offer it."""

HLS_COOKIE = "visavis-hls"
"""A viewer's token for players, which put no headers on what they ask for by themselves."""
_HLS = re.compile(r"/v1/sessions/[^/]+/hls/[^/]+")

_BEARER = "bearer."
_INSECURE = "openai-insecure-api-key."
"""Behind it, OpenAI's clients in browsers offer their key."""
# An address is kept in the logs of servers and proxies on the way: no secret may stand in it.
_SECRET_PARAMETERS = ("api_key", "token", "access_token")

_HOW_TO_SEND_IT = (
    "send it as `Authorization: Bearer KEY`, or for a WebSocket offer the subprotocols "
    f"`{SUBPROTOCOL}` and `{_BEARER}KEY`"
)

Refusal: TypeAlias = tuple[int, str, str]
"""HTTP status, code, message."""


class BodyLimit:
    """ASGI middleware: answers 413 as soon as more has come than a path allows, however sent."""

    def __init__(self, app: ASGIApp, uploads: Mapping[str, int]) -> None:
        """uploads: paths that take a file, of so many bytes."""
        self._app = app
        self._uploads = uploads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises HTTPException 413 from within `receive`, to whoever reads the body."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        file = self._uploads.get(scope["path"])
        limit = JSON_LIMIT_BYTES if file is None else file + FORM_EXTRA_BYTES
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit:
                allowed = f"{(limit if file is None else file) / 1e6:g} MB"
                raise HTTPException(413, f"the request is larger than {allowed}")
            return message

        await self._app(scope, counted, send)


class AccessControl:
    """ASGI middleware: tells who a caller is, lets him in where he may go, and no foreign web page.

    With a key set, `/v1` and `/metrics` want `Authorization: Bearer KEY`, or in the place of the
    key a session's token. A browser cannot set headers of a WebSocket: it offers the subprotocols
    `visavis` and `bearer.KEY`, the key percent-encoded where it has to be; the first is confirmed,
    the second is not said again.

    A web page of another origin could otherwise use its reader's browser to talk to a
    gateway on loopback: requests with a foreign Origin, but those of `allowed_origins`, are
    refused, and on loopback
    also those for a Host that is not loopback (DNS rebinding).
    """

    def __init__(self, app: ASGIApp, settings: GatewaySettings, doorkeeper: Doorkeeper) -> None:
        self._app = app
        self._doorkeeper = doorkeeper
        self._hosts = {*settings.allowed_hosts}
        self._origins = re.compile(origins_pattern(settings.allowed_origins))
        self._loopback = settings.loopback

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = (
            _secret_in_address(scope)
            or self._foreign(headers)
            or await self._unauthorised(scope, headers)
        )
        if refusal is None:
            await self._app(scope, receive, send)
            return
        status, code, message = refusal
        # Of a WebSocket, it is the answer to the handshake.
        await _refused(scope, status, code, message)(scope, receive, send)

    def _foreign(self, headers: Headers) -> Refusal | None:
        host = headers.get("host", "")
        name = _name_of(f"//{host}")
        if self._loopback and not (is_loopback(name) or name in self._hosts):
            return 403, "forbidden_host", f"host: {name[:80]!r} is not this machine's own name"
        origin = headers.get("origin")
        if origin:
            same = origin.partition("://")[2] == host
            known = _name_of(origin) in self._hosts or self._origins.fullmatch(origin.lower())
            if not same and not known:
                return 403, "forbidden_origin", f"origin: {origin[:80]!r} may not use this gateway"
        return None

    async def _unauthorised(self, scope: Scope, headers: Headers) -> Refusal | None:
        """Note in `scope` who the caller is; why he may not do what he asks for."""
        path, method = scope["path"], scope.get("method", SOCKET)
        if path in _OPEN_PATHS or path.startswith(_OPEN_PREFIXES):
            return None
        try:
            caller = scope[CALLER] = await self._doorkeeper.tell(_offered_keys(scope, headers))
        except UnauthenticatedError as error:
            return 401, "unauthenticated", f"{error}: {_HOW_TO_SEND_IT}"
        why = why_not(caller, method, path)
        return (403, "forbidden", f"{path}: {why}") if why else None


class Ownership:
    """ASGI middleware where the session is: an app has the sessions that it made, and no others.

    Of another's it is told what it is told of one that never was.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller, session = scope.get(CALLER), session_in(scope.get("path", ""))
        owning = caller is not None and caller.role in (Role.APP, Role.GUEST)
        if caller is not None and owning and session:
            if scope["app"].state.gateway.owner_of(session) != caller.owner:
                message = f"session: your key has made no {session[:64]!r} that is still there"
                await _refused(scope, 404, "not_found", message)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _refused(scope: Scope, status: int, code: str, message: str) -> JSONResponse:
    """In the shape that whoever asks for this path reads."""
    challenge = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    body: dict[str, Any] = {"error": {"code": code, "message": message}}
    if is_openai(scope["path"]):
        body = body_of(status, message, code="invalid_api_key" if status == 401 else code)
    return JSONResponse(body, status, headers=challenge)


def origins_pattern(origins: Sequence[str]) -> str:
    """A regular expression that matches each of these origins whole, and nothing else.

    origins: as a Content-Security-Policy has them: `https://*.shop.example` is every name below.
    """
    known = (re.escape(o.lower()).replace(r"\*\.", r"([a-z0-9-]+\.)+") for o in origins)
    return "|".join(known) or r"(?!)"


def cross_origin(app: FastAPI, settings: GatewaySettings) -> None:
    """Have browsers let the pages of `allowed_origins` use the API.

    To be added last: a browser asks whether it may, without a key, before it asks for anything.
    """
    if settings.allowed_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origin_regex=origins_pattern(settings.allowed_origins),
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            # OpenAI's SDKs say a lot of themselves, and more with each version.
            allow_headers=["*"],
            expose_headers=["Location", "Retry-After"],
            max_age=600,
        )


def _name_of(url: str) -> str:
    """Host name in `url`; "" where there is none that could be one."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _secret_in_address(scope: Scope) -> Refusal | None:
    """Refuse it, and take the query out of `scope`: the server logs it from there."""
    query = scope.get("query_string", b"").decode("latin-1")
    names = {name for name, _ in parse_qsl(query, keep_blank_values=True)}
    found = next((name for name in _SECRET_PARAMETERS if name in names), None)
    if found is None:
        return None
    scope["query_string"] = b""
    message = f"{found}: no secret in an address, where logs keep it; {_HOW_TO_SEND_IT}"
    return 400, "bad_request", message


def _offered_keys(scope: Scope, headers: Headers) -> list[str]:
    scheme, _, key = str(headers.get("authorization", "")).partition(" ")
    if scheme.lower() == "bearer" and key:
        return [key.strip()]
    for protocol in map(str, scope.get("subprotocols", ())):
        if protocol.startswith(_BEARER):
            offered = protocol.removeprefix(_BEARER)
            return [offered, unquote(offered)]
        if protocol.startswith(_INSECURE):
            return [protocol.removeprefix(_INSECURE)]
    if scope.get("method") == "GET" and _HLS.fullmatch(scope["path"]):
        kept = cookie_parser(headers.get("cookie", "")).get(HLS_COOKIE)
        return [kept] if kept else []
    return []
