"""How uvicorn serves the application: over TLS, with patience, and with an answer to everybody."""

from __future__ import annotations

import asyncio
import contextlib
import http
import json
import logging
import socket
import ssl
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any, cast

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.lifespan.on import LifespanOn, LifespanSendMessage
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from gateway import metrics
from gateway.api.events import MAX_SOCKET_MESSAGE_BYTES
from gateway.edge.headers import LIVE_PATH, SecurityHeaders, security_headers
from gateway.edge.patience import ConnectionGuard, Look, Patience, Waits
from gateway.edge.tls import Tls
from gateway.settings import GatewaySettings
from visavis.serving.errors import VisavisError
from visavis.serving.lifetime.supervision import end_tasks

_DRAIN_S = 3
# A client that vanished without a word holds its session's slots until that is noticed.
_PING_EVERY_S, _PING_TIMEOUT_S = 5, 15
# OpenAI's clients may send 15 MiB of sound at once, in base64.
_OF_LARGE_MESSAGES, LARGE_MESSAGE_BYTES = "/v1/realtime", 22 * 1024 * 1024
_LARGEST_HEAD_BYTES = 65_536
# Of what a WebSocket is to send, so much waits behind what is on its way, a tenth of a second of
# pictures and sound. The rest waits where it is seen how much that is, and may be left out.
_UNSENT_BYTES, _UNWRITTEN_BYTES = 16_384, 4_096
# A packet of a microphone, which is taken before the next one comes.
_SMALL_BYTES, _MOST_WAITING = 4096, 2
# Taken apart at once. Of the 256 kB that come in at most, frames of a letter would stand in the way
# of all sessions for half a second.
_AT_ONCE_BYTES = 8192
# Whoever decides whether this process lives is heard however many others there are.
_ALWAYS_HEARD = f"GET {LIVE_PATH} ".encode()


class _Parser(h11.Connection):
    """Takes no request whose end is told twice: a proxy before us may have believed the other one,
    and then what follows is somebody else's (RFC 9112, 11.2).
    """

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            named = {name for name, _ in event.headers}
            if {b"content-length", b"transfer-encoding"} <= named:
                raise h11.RemoteProtocolError("a request of two lengths")
        return event


class _Http(H11Protocol):
    """A connection that speaks HTTP, and does not keep us waiting for ever."""

    def __init__(self, guard: ConnectionGuard, said: Mapping[str, str], **server: Any) -> None:
        super().__init__(**server)
        self.conn = _Parser(h11.SERVER, _LARGEST_HEAD_BYTES)
        self._guard = guard
        self._said = said
        self._received_bytes = 0
        self._room = True
        self._told = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._room = self._guard.add(self, _address_of(self.client))

    def connection_lost(self, exc: Exception | None) -> None:
        self._guard.drop(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._told:
            return
        self._received_bytes += len(data)
        if not self._room and not data.startswith(_ALWAYS_HEARD):
            metrics.connections_refused.labels("too_many").inc()
            message = "too many connections, of your address or in all; try again later"
            self._tell(503, "at_capacity", message)
            return
        super().data_received(data)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._guard.drop(self)
        super().handle_websocket_upgrade(event)

    def send_400_response(self, msg: str) -> None:
        self._tell(400, "bad_request", msg)

    # ------------------------------------------------------------ what the guard asks and does

    def look(self) -> Look:
        waits, state = Waits.NOTHING, self.conn.their_state
        if state is h11.IDLE and self.timeout_keep_alive_task is None:
            waits = Waits.HEAD  # else uvicorn closes a connection on which nothing has begun
        elif state is h11.SEND_BODY and not self.flow.read_paused:
            waits = Waits.BODY
        unsent_bytes = self.transport.get_write_buffer_size()
        return Look(waits, self.cycle, self._received_bytes, unsent_bytes)

    def late(self) -> None:
        if self._received_bytes:
            self._tell(408, "timeout", "the request does not come to its end")
        else:
            self.transport.close()

    def cut_off(self) -> None:
        self.transport.abort()

    def _tell(self, status: int, code: str, message: str) -> None:
        """Answer in the place of the application, where that has not begun to; close."""
        self._told = True
        cycle = self.cycle
        at_work = cycle is not None and not cycle.response_complete
        if at_work:
            cycle.disconnected = True
            cycle.message_event.set()
        if not (at_work and cycle.response_started) and self.conn.our_state is not h11.DONE:
            self.transport.write(_answer(status, code, message, self._said))
        self.transport.close()


def _address_of(client: tuple[str, int] | None) -> str:
    return client[0] if client is not None else ""


def _answer(status: int, code: str, message: str, said: Mapping[str, str]) -> bytes:
    body = json.dumps({"error": {"code": code, "message": message}}).encode()
    headers = {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Connection": "close",
        **({"Retry-After": "5"} if status == 503 else {}),
        **said,
    }
    lines = [f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


class _Sockets(WebSocketsSansIOProtocol):
    """A WebSocket, which ends with a client that reads nothing.

    uvicorn stops reading at each message until it has been taken: two system calls for each packet
    of a microphone. Here small ones may wait while the next is read. And it takes all that has come
    apart, and gives it to an application that wants it, before anybody else is let in.

    A handshake that was answered with an HTTP error is complete: uvicorn takes it for one that the
    application forgot, and logs each as an error of it.
    """

    def __init__(self, guard: ConnectionGuard, **server: Any) -> None:
        super().__init__(**server)
        self._guard = guard
        self._came = bytearray()
        """That is not taken apart yet; no more is read meanwhile. It may outlast the connection."""
        self._going_on: asyncio.Handle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.set_write_buffer_limits(high=_UNWRITTEN_BYTES)
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):
            link = self.transport.get_extra_info("socket")
            with contextlib.suppress(OSError):  # not over TCP
                link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
        self._guard.add(self, _address_of(self.client))

    def connection_lost(self, exc: Exception | None) -> None:
        self._guard.drop(self)
        self.read_paused = True  # nothing is to be paused any more
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if len(data) <= _AT_ONCE_BYTES and not self._came:
            super().data_received(data)
            return
        self._came += data
        self.transport.pause_reading()
        self._go_on()

    def _go_on(self) -> None:
        """Take apart what has come, then read more, once the application has what was there."""
        if self.disconnected or self.read_paused or self._going_on is not None:
            return
        if self._came:
            self._going_on = self.loop.call_soon(self._take_apart)
        else:
            self.transport.resume_reading()

    def _take_apart(self) -> None:
        self._going_on = None
        if not self.transport.is_closing():  # else the rest is taken apart as it is taken
            self._take_piece_apart()
            self._go_on()

    def _take_piece_apart(self) -> None:
        piece = bytes(self._came[:_AT_ONCE_BYTES])
        del self._came[:_AT_ONCE_BYTES]
        super().data_received(piece)

    async def receive(self) -> Any:
        if not self.queue.empty():
            await asyncio.sleep(0)  # others are let in; cancelled here, nothing is lost
        message = await self.queue.get()
        while self.disconnected and self._came and message["type"] == "websocket.disconnect":
            self._take_piece_apart()
            self.queue.put_nowait(message)  # behind what came before it
            await asyncio.sleep(0)
            message = await self.queue.get()
        if self.read_paused and self.queue.empty():
            self.read_paused = False
            self._go_on()
        return message

    async def send(self, message: Any) -> None:
        await super().send(message)
        if self._came:
            self._go_on()  # what comes behind the end is taken apart, too: the client's own end
        if message["type"] == "websocket.http.response.body" and self.close_sent:
            self.handshake_complete = True

    def send_receive_event_to_app(self) -> None:
        small = sum(map(len, self.frames)) <= _SMALL_BYTES
        if not small or self.read_paused or self.queue.qsize() + 1 >= _MOST_WAITING:
            super().send_receive_event_to_app()
            return
        self.read_paused = True  # as uvicorn would have it now
        super().send_receive_event_to_app()
        self.read_paused = False

    def handle_ping(self) -> None:
        if not self.disconnected:
            super().handle_ping()

    def handle_parser_exception(self) -> None:
        self._came.clear()  # no frames, whatever it is
        super().handle_parser_exception()

    def handle_connect(self, event: Any) -> None:
        super().handle_connect(event)
        if event.path.partition("?")[0] == _OF_LARGE_MESSAGES:
            self.conn.max_message_size = LARGE_MESSAGE_BYTES

    def look(self) -> Look:
        # That it is there is told by its pongs.
        return Look(Waits.NOTHING, None, 0, self.transport.get_write_buffer_size())

    def late(self) -> None:
        self.cut_off()

    def cut_off(self) -> None:
        self.transport.abort()


class _Lifespan(LifespanOn):
    """The application's start and end. What of ours keeps it from starting is raised.

    Whoever runs the server tells it in a line; uvicorn would log a trace, and exit by itself.
    """

    _failure: VisavisError | None = None
    _main: asyncio.Task[None] | None = None

    async def main(self) -> None:
        self._main = asyncio.current_task()
        await super().main()

    async def give_up(self) -> None:
        """End the application in the midst of its start."""
        if self._main is not None:
            await end_tasks([self._main])

    async def send(self, message: LifespanSendMessage) -> None:
        error = sys.exc_info()[1]  # Starlette hands its trace over while it handles it
        if message["type"] == "lifespan.startup.failed":
            if isinstance(error, VisavisError):
                self._failure, message["message"] = error, ""
            elif isinstance(error, asyncio.CancelledError):
                message["message"] = ""
        await super().send(message)

    async def startup(self) -> None:
        await super().startup()
        if self._failure is not None:
            raise self._failure


class _Config(uvicorn.Config):
    context: ssl.SSLContext | None = None
    """Of TLS, whose certificate is exchanged while it serves."""

    def load(self) -> None:
        super().load()
        self.ssl = self.context
        if self.lifespan != "off":
            self.lifespan_class = _Lifespan


def server_config(
    app: ASGIApp, settings: GatewaySettings, tls: Tls | None = None, *, drain_s: int = _DRAIN_S
) -> uvicorn.Config:
    """Of the gateway's web server. drain_s: for requests that run when it is told to stop.

    To be made once logging is set up.
    """
    guard = ConnectionGuard(Patience.of(settings), settings.trusted_proxies)
    said = security_headers(settings.embed_origins, settings.allowed_origins)
    config = _Config(
        SecurityHeaders(app, said, loopback=settings.loopback),
        # Called for each connection, as the class itself would be.
        http=cast(Any, partial(_Http, guard, said)),
        ws=cast(Any, partial(_Sockets, guard)),
        timeout_keep_alive=round(settings.keep_alive_s),
        log_config=None,
        # At DEBUG it writes down the headers of every handshake, and so the key.
        log_level=max(logging.INFO, logging.getLogger().getEffectiveLevel()),
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=settings.trusted_proxies,
        ws_max_size=MAX_SOCKET_MESSAGE_BYTES,
        ws_per_message_deflate=False,
        ws_ping_interval=_PING_EVERY_S,
        ws_ping_timeout=_PING_TIMEOUT_S,
        timeout_graceful_shutdown=drain_s,
    )
    config.context = tls.server if tls is not None else None
    return config
