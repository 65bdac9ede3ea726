"""Who may talk to the gateway and how much: API key, no foreign page, no oversized body."""

from __future__ import annotations

import hmac
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.settings import GatewaySettings

# ------------------------------------------------------------ limits
# No request's body may be larger than its path allows, however it is sent.

JSON_LIMIT_BYTES = 1_000_000
# Field names and boundaries around a photo.
FORM_EXTRA_BYTES = 100_000


class BodyLimit:
    """ASGI middleware: answers 413 as soon as more has come than is allowed."""

    def __init__(self, app: ASGIApp, upload_path: str, upload_limit_bytes: int) -> None:
        self._app = app
        self._upload_path = upload_path
        self._upload_limit = upload_limit_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        upload = scope["path"] == self._upload_path
        limit = self._upload_limit + FORM_EXTRA_BYTES if upload else JSON_LIMIT_BYTES
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit:
                allowed = f"{(self._upload_limit if upload else limit) / 1e6:g} MB"
                raise HTTPException(413, f"the request is larger than {allowed}")
            return message

        await self._app(scope, counted, send)


# ------------------------------------------------------------ access
# Who may talk to the gateway: the API key, and no foreign web page.

# The page must load before it can ask for the key, and probes carry none.
_OPEN_PATHS = ("/", "/healthz", "/readyz", "/docs", "/openapi.json")
_OPEN_PREFIXES = ("/static/", "/docs/")
_LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")

SUBPROTOCOL_PREFIX = "bearer."


class AccessControl:
    """ASGI middleware.

    With a key set, `/v1` and `/metrics` want `Authorization: Bearer KEY`; where a client
    cannot set headers, `?api_key=KEY`, or for a WebSocket the subprotocol `bearer.KEY`.

    A web page of another origin could otherwise use its reader's browser to talk to a
    gateway on loopback: requests with a foreign Origin are refused, and on loopback
    also those for a Host that is not loopback (DNS rebinding).
    """

    def __init__(self, app: ASGIApp, settings: GatewaySettings) -> None:
        self._app = app
        self._key = settings.api_key.encode()
        self._hosts = {*settings.allowed_hosts}
        self._loopback = settings.loopback

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._foreign(headers) or self._unauthorised(scope, headers)
        if refusal is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            # Before it is accepted, closing answers the handshake with 403.
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": refusal[2]})
        else:
            status, code, message = refusal
            challenge = {"WWW-Authenticate": "Bearer"} if status == 401 else None
            response = JSONResponse(
                {"error": {"code": code, "message": message}}, status, headers=challenge
            )
            await response(scope, receive, send)

    def _foreign(self, headers: Headers) -> tuple[int, str, str] | None:
        host = headers.get("host", "")
        name = _name_of(f"//{host}")
        if self._loopback and name not in (*_LOOPBACK_NAMES, *self._hosts):
            return 403, "forbidden_host", f"host: {name[:80]!r} is not this machine's own name"
        origin = headers.get("origin")
        if origin:
            same = origin.partition("://")[2] == host
            if not same and _name_of(origin) not in self._hosts:
                return 403, "forbidden_origin", f"origin: {origin[:80]!r} may not use this gateway"
        return None

    def _unauthorised(self, scope: Scope, headers: Headers) -> tuple[int, str, str] | None:
        path = scope["path"]
        if not self._key or path in _OPEN_PATHS or path.startswith(_OPEN_PREFIXES):
            return None
        offered = _offered_key(scope, headers)
        if hmac.compare_digest(offered.encode(), self._key):
            return None
        message = "this gateway needs an API key: send it as `Authorization: Bearer KEY`"
        return 401, "unauthenticated", message


def _name_of(url: str) -> str:
    """Host name in `url`; "" where there is none that could be one."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _offered_key(scope: Scope, headers: Headers) -> str:
    scheme, _, key = str(headers.get("authorization", "")).partition(" ")
    if scheme.lower() == "bearer" and key:
        return str(key.strip())
    query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
    if "api_key" in query:
        return str(query["api_key"][0])
    for protocol in map(str, scope.get("subprotocols", ())):
        if protocol.startswith(SUBPROTOCOL_PREFIX):
            return str(protocol.removeprefix(SUBPROTOCOL_PREFIX))
    return ""
