"""Who may talk to the gateway and how much: API key, no foreign page, no oversized body."""

from __future__ import annotations

import hmac
from typing import TypeAlias
from urllib.parse import parse_qsl, unquote, urlsplit

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.settings import GatewaySettings

JSON_LIMIT_BYTES = 1_000_000
# Field names and boundaries around a photo.
FORM_EXTRA_BYTES = 100_000

# The page must load before it can ask for the key, and probes carry none.
_OPEN_PATHS = ("/", "/healthz", "/readyz", "/docs", "/openapi.json")
_OPEN_PREFIXES = ("/static/", "/docs/")
_LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")

SUBPROTOCOL = "visavis"
"""The one WebSocket subprotocol that is ever confirmed, to clients that offer it."""

_BEARER = "bearer."
# An address is kept in the logs of servers and proxies on the way: no key may stand in it.
_KEY_PARAMETER = "api_key"

_HOW_TO_SEND_IT = (
    "send it as `Authorization: Bearer KEY`, or for a WebSocket offer the subprotocols "
    f"`{SUBPROTOCOL}` and `{_BEARER}KEY`"
)

Refusal: TypeAlias = tuple[int, str, str]
"""HTTP status, code, message."""


class BodyLimit:
    """ASGI middleware: answers 413 as soon as more has come than a path allows, however sent."""

    def __init__(self, app: ASGIApp, upload_path: str, upload_limit_bytes: int) -> None:
        self._app = app
        self._upload_path = upload_path
        self._upload_limit = upload_limit_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises HTTPException 413 from within `receive`, to whoever reads the body."""
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


class AccessControl:
    """ASGI middleware: lets in whoever has the API key, and no foreign web page.

    With a key set, `/v1` and `/metrics` want `Authorization: Bearer KEY`. A browser cannot set
    headers of a WebSocket: it offers the subprotocols `visavis` and `bearer.KEY`, the key
    percent-encoded where it has to be; the first is confirmed, the second is not said again.

    A web page of another origin could otherwise use its reader's browser to talk to a
    gateway on loopback: requests with a foreign Origin are refused, and on loopback
    also those for a Host that is not loopback (DNS rebinding).
    """

    def __init__(self, app: ASGIApp, settings: GatewaySettings) -> None:
        self._app = app
        self._key = settings.key().encode()
        self._hosts = {*settings.allowed_hosts}
        self._loopback = settings.loopback

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = (
            _key_in_address(scope) or self._foreign(headers) or self._unauthorised(scope, headers)
        )
        if refusal is None:
            await self._app(scope, receive, send)
            return
        status, code, message = refusal
        challenge = {"WWW-Authenticate": "Bearer"} if status == 401 else None
        body = {"error": {"code": code, "message": message}}
        # Of a WebSocket, it is the answer to the handshake.
        await JSONResponse(body, status, headers=challenge)(scope, receive, send)

    def _foreign(self, headers: Headers) -> Refusal | None:
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

    def _unauthorised(self, scope: Scope, headers: Headers) -> Refusal | None:
        path = scope["path"]
        if not self._key or path in _OPEN_PATHS or path.startswith(_OPEN_PREFIXES):
            return None
        if any(hmac.compare_digest(k.encode(), self._key) for k in _offered_keys(scope, headers)):
            return None
        return 401, "unauthenticated", f"this gateway needs an API key: {_HOW_TO_SEND_IT}"


def _name_of(url: str) -> str:
    """Host name in `url`; "" where there is none that could be one."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _key_in_address(scope: Scope) -> Refusal | None:
    """Refuse it, and take the query out of `scope`: the server logs it from there."""
    query = scope.get("query_string", b"").decode("latin-1")
    if all(name != _KEY_PARAMETER for name, _ in parse_qsl(query, keep_blank_values=True)):
        return None
    scope["query_string"] = b""
    message = f"{_KEY_PARAMETER}: no key in an address, where logs keep it; {_HOW_TO_SEND_IT}"
    return 400, "bad_request", message


def _offered_keys(scope: Scope, headers: Headers) -> list[str]:
    scheme, _, key = str(headers.get("authorization", "")).partition(" ")
    if scheme.lower() == "bearer" and key:
        return [key.strip()]
    for protocol in map(str, scope.get("subprotocols", ())):
        if protocol.startswith(_BEARER):
            offered = protocol.removeprefix(_BEARER)
            return [offered, unquote(offered)]
    return []
