"""Requests for another gateway's session, handed on to that one: HTTP and WebSockets, as they come.

Hardly anything is kept on the way: who reads slowly is waited for, and the session's own gateway
leaves out for him what it does for its own clients. The key goes along, and the other one
asks for it again. Media over WebRTC go to the session's gateway by themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import websockets
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from websockets.asyncio.client import ClientConnection

from gateway import metrics
from gateway.access.callers import session_in
from gateway.api.pages import version_in
from gateway.openai.errors import shape_at
from gateway.peers.peers import Peer, Peers
from visavis.serving.errors import VisavisError
from visavis.serving.lifetime.supervision import first_of

log = logging.getLogger(__name__)
_socket_log = logging.getLogger(f"{__name__}.sockets")
_socket_log.setLevel(logging.INFO)  # at DEBUG it writes down the headers, and so the key

PASSED_ON = "x-visavis-passed-on"
"""Header of what another gateway hands on: it goes no further."""
_SESSIONS = "/v1/sessions"

_TIMEOUT = httpx.Timeout(connect=2.0, read=30.0, write=10.0, pool=5.0)
# Below the other's own patience, so that no request meets a connection that is just being closed.
_LIMITS = httpx.Limits(max_connections=1000, max_keepalive_connections=50, keepalive_expiry=2.0)
_ASK_S = 3.0
_SOCKET_OPEN_S = 5.0
# A gateway whose machine has vanished says nothing, and others go on with its sessions in seconds.
_SOCKET_PING_S, _SOCKET_SILENT_S = 2, 3
_LARGEST_SOCKET_MESSAGE = 8 * 1024 * 1024
# What lies on the way to a client that reads slowly comes late to it, and stands before the answer
# to our pings: as much as waits in the other gateway for a client of its own.
_SOCKET_QUEUE, _SOCKET_BUFFER_BYTES = 2, 16_384
_SERVICE_RESTART = 1012
"""Close code: connecting again will help, or tell that the session is gone."""

# Of one connection (RFC 9110, section 7.6.1); and what tells the next one of the visitor's page,
# which has been looked at here.
_OF_ONE_HOP = {
    b"connection",
    b"keep-alive",
    b"proxy-authenticate",
    b"proxy-authorization",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
}
_LOOKED_AT = {b"host", b"origin"}


class UnreachedError(VisavisError):
    """The other gateway could not be reached: nothing of the request was sent."""


class SilentError(VisavisError):
    """The other gateway has the request and says nothing."""


class PassOn:
    """ASGI middleware: has each request answered by the gateway that has its session.

    A new session is made where most room is, and a page's file comes from a gateway that has those
    of the page's version.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        gateway, session = scope["app"].state.gateway, session_in(scope["path"])
        new = scope["path"] == _SESSIONS and scope.get("method") == "POST"
        pages = version_in(scope["path"])
        shape = shape_at(scope["path"])
        if gateway.sessions.draining and scope["type"] == "http":
            send = _hanging_up(send)
        try:
            await gateway.sessions.settled(session)
            passed_on = PASSED_ON in Headers(scope=scope)
            address = await _where(gateway.peers, session, pages, new=new, passed_on=passed_on)
            if address:
                await gateway.carrier.carry(scope, receive, send, address)
                return
        except ClientDisconnect:
            return  # in the midst of what was asked: nobody is there to be answered
        except UnreachedError as error:
            if not (new or pages):
                await shape(HTTPException(502, str(error)))(scope, receive, send)
                return
        except SilentError as error:
            await shape(HTTPException(504, str(error)))(scope, receive, send)
            return
        except (VisavisError, HTTPException) as error:
            await shape(error)(scope, receive, send)
            return
        if scope["type"] == "http":
            with gateway.sessions.in_use(session):
                await self._app(scope, receive, send)
        else:
            await self._app(scope, receive, send)


async def _where(peers: Peers, session: str, pages: str, *, new: bool, passed_on: bool) -> str:
    """Address of the gateway that is to answer; "": we are. Raises VisavisError.

    What was passed on goes further only where the session has just changed hands.
    """
    if passed_on:
        return peers.moved_to(session)
    if new:
        return await peers.roomier()
    if pages:
        return await peers.with_pages(pages)
    return await peers.address_of(session) if session else ""


def _hanging_up(send: Send) -> Send:
    """Have the client connect anew for his next request: we are about to end."""

    async def hanging_up(message: Any) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
        await send(message)

    return hanging_up


class Carrier:
    """Hands requests on to other gateways, over connections that it keeps. `close` it.

    tls: they are reached by https, and known by this; None: by plain http.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._secure = "" if tls is None else "s"
        self._http = httpx.AsyncClient(
            timeout=_TIMEOUT, limits=_LIMITS, trust_env=False, verify=tls or False
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def ask_others(self, peers: Peers, request: Request, body: Any = None) -> list[Any]:
        """What all others answer to the same request, as JSON; to one that was passed on, nothing.

        Those that do not answer are told in the log.
        """
        if PASSED_ON in request.headers:
            return []
        others = await peers.others()
        answers = await asyncio.gather(*(self._ask(peer, request, body) for peer in others))
        return [answer for answer in answers if answer is not None]

    async def _ask(self, peer: Peer, request: Request, body: Any) -> Any:
        query = f"?{request.url.query}" if request.url.query else ""
        try:
            answer = await self._http.request(
                request.method,
                f"http{self._secure}://{peer.address}{request.url.path}{query}",
                headers=_introduction(request.headers),
                json=body,
                timeout=_ASK_S,
            )
            return answer.raise_for_status().json()
        except (httpx.HTTPError, ValueError) as error:
            log.warning("%s did not answer %s: %r", peer.instance, request.url.path, error)
            return None

    async def carry(self, scope: Scope, receive: Receive, send: Send, address: str) -> None:
        """Have `address` answer.

        Raises UnreachedError, SilentError, ClientDisconnect where the request is broken off, and
        what `receive` raises.
        """
        metrics.passed_on.labels(scope["type"]).inc()
        if scope["type"] == "websocket":
            url = _url(f"ws{self._secure}", address, scope)
            await _carry_socket(scope, receive, send, url, self._tls)
            return
        body = _Body(receive, scope)
        request = httpx.Request(
            scope["method"],
            _url(f"http{self._secure}", address, scope),
            headers=_headers(scope),
            content=body.parts() if body.comes else None,
        )
        await first_of(self._answer(request, send), body.left())

    async def _answer(self, request: httpx.Request, send: Send) -> None:
        try:
            response = await self._http.send(request, stream=True)
        except httpx.ConnectError as error:
            raise UnreachedError("session: its gateway cannot be reached") from error
        except httpx.TimeoutException as error:
            raise SilentError("session: its gateway does not answer") from error
        except httpx.HTTPError as error:
            raise SilentError(f"session: its gateway hung up: {error!r}") from error
        try:
            headers = [(k.lower(), v) for k, v in response.headers.raw]
            headers = [(k, v) for k, v in headers if k not in _OF_ONE_HOP]
            status = response.status_code
            await send({"type": "http.response.start", "status": status, "headers": headers})
            async for part in response.aiter_raw():
                await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        except httpx.HTTPError as error:
            # The client sees that the answer is not complete: its end is missing.
            log.warning("a gateway hung up in the middle of an answer: %r", error)
        finally:
            await response.aclose()


class _Body:
    """A request's body as it comes, and after it the moment when the client leaves."""

    def __init__(self, receive: Receive, scope: Scope) -> None:
        headers = Headers(scope=scope)
        self.comes = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
        self._receive = receive
        self._read = asyncio.Event()
        if not self.comes:
            self._read.set()

    async def parts(self) -> AsyncIterator[bytes]:
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect  # what came is not passed on as if it were whole
            yield message.get("body", b"")
            more = message.get("more_body", False)
        self._read.set()

    async def left(self) -> None:
        await self._read.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass


async def _carry_socket(
    scope: Scope, receive: Receive, send: Send, url: str, tls: ssl.SSLContext | None
) -> None:
    await receive()  # that the client wants to connect
    try:
        async with asyncio.timeout(_SOCKET_OPEN_S):
            other = await websockets.connect(
                url,
                sock=await _link_to(url),
                ssl=tls,
                additional_headers=_introduction(Headers(scope=scope)),
                subprotocols=scope.get("subprotocols") or None,
                compression=None,
                open_timeout=None,
                ping_interval=None,  # see _silence
                max_size=_LARGEST_SOCKET_MESSAGE,
                max_queue=_SOCKET_QUEUE,
                logger=_socket_log,
                proxy=None,
            )
    except websockets.InvalidStatus as refused:
        answer, kind = refused.response, refused.response.headers.get("content-type")
        await Response(bytes(answer.body or b""), answer.status_code, media_type=kind)(
            scope, receive, send
        )
        return
    except (OSError, TimeoutError, websockets.InvalidHandshake) as error:
        raise UnreachedError("session: its gateway cannot be reached") from error
    client = _Client(send)
    try:
        await send({"type": "websocket.accept", "subprotocol": other.subprotocol})
        await first_of(
            _inwards(receive, other), _outwards(other, client.send), _silence(other, client)
        )
    finally:
        # Its answer to the close stands behind all that it has sent before.
        await asyncio.gather(other.close(), _read_away(other))


async def _link_to(url: str) -> socket.socket:
    """A connection in which little waits. Raises OSError."""
    loop, at = asyncio.get_running_loop(), urlsplit(url)
    found = await loop.getaddrinfo(at.hostname, at.port, type=socket.SOCK_STREAM)
    why = OSError(f"{at.hostname} has no address")
    for family, kind, protocol, _, address in found:
        link = socket.socket(family, kind, protocol)
        try:
            link.setblocking(False)
            # Before it is connected: later, the other side sends as if there were room for more,
            # and waits a fifth of a second for each large picture.
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SOCKET_BUFFER_BYTES)
            await loop.sock_connect(link, address)
        except BaseException as error:
            link.close()
            if not isinstance(error, OSError):
                raise
            why = error
        else:
            return link
    raise why


class _Client:
    """Who gets what the other gateway sends."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.busy = False
        """It is being written to, as long as it takes to read what came before."""
        self.got = 0
        """How many messages."""

    async def send(self, message: Message) -> None:
        self.busy = True
        try:
            await self._send(message)
        finally:
            self.busy = False
            self.got += 1


async def _inwards(receive: Receive, other: ClientConnection) -> None:
    """From the client, until that one has gone."""
    try:
        while (message := await receive())["type"] == "websocket.receive":
            content = message.get("bytes")
            await other.send(message["text"] if content is None else content)
    except websockets.ConnectionClosed:
        await asyncio.Event().wait()  # the other way tells the client


async def _outwards(other: ClientConnection, send: Send) -> None:
    """To the client, and at the end how the other gateway closed."""
    with contextlib.suppress(OSError):  # the client has gone
        with contextlib.suppress(websockets.ConnectionClosed):
            async for content in other:
                kind = "text" if isinstance(content, str) else "bytes"
                await send({"type": "websocket.send", kind: content})
        frame = other.protocol.close_rcvd
        code = frame.code if frame is not None else _SERVICE_RESTART
        reason = frame.reason if frame is not None else "its gateway is gone"
        await send({"type": "websocket.close", "code": code, "reason": reason})


async def _silence(other: ClientConnection, client: _Client) -> None:
    """Hang up where the other gateway is gone without a word.

    Whatever comes from it is a sign of life, not its answers to pings alone: those lie behind what
    the client has yet to read, and while that one is waited for nothing is read.
    """
    with contextlib.suppress(websockets.ConnectionClosed):
        while True:
            await asyncio.sleep(_SOCKET_PING_S)
            answer = asyncio.ensure_future(await other.ping())
            while not answer.done():
                got = client.got
                await asyncio.wait([answer], timeout=_SOCKET_SILENT_S)
                if not (answer.done() or client.busy or client.got > got):
                    other.transport.abort()
    await asyncio.Event().wait()  # the other way tells the client


async def _read_away(other: ClientConnection) -> None:
    with contextlib.suppress(websockets.ConnectionClosed):
        async for _ in other:
            pass


def _url(scheme: str, address: str, scope: Scope) -> str:
    path, query = scope["raw_path"].decode("ascii"), scope["query_string"].decode("ascii")
    return f"{scheme}://{address}{path}" + (f"?{query}" if query else "")


def _introduction(headers: Headers) -> dict[str, str]:
    """What a gateway that asks another one says of itself, with the key of whom it asks for."""
    key = headers.get("authorization")
    return {PASSED_ON: "1"} | ({} if key is None else {"Authorization": key})


def _headers(scope: Scope) -> list[tuple[bytes, bytes]]:
    dropped = _OF_ONE_HOP | _LOOKED_AT
    passed = [(key, value) for key, value in scope["headers"] if key not in dropped]
    return [*passed, (PASSED_ON.encode(), b"1")]
