"""How the application is served: uvicorn, its limits, and what it may write into the log."""

from __future__ import annotations

import logging
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from gateway.api.events import MAX_SOCKET_MESSAGE_BYTES

_DRAIN_S = 3
# A client that vanished without a word holds its session's slots until that is noticed.
_PING_EVERY_S, _PING_TIMEOUT_S = 5, 15


class _Sockets(WebSocketsSansIOProtocol):
    """A handshake that was answered with an HTTP error is complete.

    uvicorn takes it for one that the application forgot, and logs each as an error of it.
    """

    async def send(self, message: Any) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and self.close_sent:
            self.handshake_complete = True


def server_config(
    app: FastAPI, *, host: str = "127.0.0.1", port: int = 0, drain_s: int = _DRAIN_S
) -> uvicorn.Config:
    """Of the gateway's web server. drain_s: for requests that run when it is told to stop.

    To be made once logging is set up.
    """
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        log_config=None,
        # At DEBUG it writes down the headers of every handshake, and so the key.
        log_level=max(logging.INFO, logging.getLogger().getEffectiveLevel()),
        access_log=False,
        ws=_Sockets,
        ws_max_size=MAX_SOCKET_MESSAGE_BYTES,
        ws_per_message_deflate=False,
        ws_ping_interval=_PING_EVERY_S,
        ws_ping_timeout=_PING_TIMEOUT_S,
        timeout_graceful_shutdown=drain_s,
    )
