"""The gateway's web server, which hands its sessions over before it ends."""

from __future__ import annotations

import asyncio
import logging
import signal
from types import FrameType

import uvicorn
from fastapi import FastAPI

from gateway.edge.server import server_config
from gateway.edge.tls import Tls
from gateway.settings import GatewaySettings
from visavis.serving.lifetime.draining import Drain
from visavis.wire.clock import MonotonicClock

log = logging.getLogger(__name__)


class DrainingServer(uvicorn.Server):
    """Told to stop by SIGTERM it drains; told again, or by SIGINT, it ends at once.

    shared: how many of its sockets, the first ones, other gateways listen on, too. tls: None: it
    speaks plain http.
    """

    def __init__(
        self, app: FastAPI, settings: GatewaySettings, shared: int, tls: Tls | None
    ) -> None:
        super().__init__(server_config(app, settings, tls))
        self._app = app
        self._shared = shared
        self._drain = Drain(settings.drain_limit_s)
        self._clock = MonotonicClock()
        self._told = False
        self._leaving: asyncio.Task[None] | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Called by uvicorn for each signal."""
        if sig == signal.SIGTERM and self.started and not self._told:
            self._told = True
        else:
            super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        """Called by uvicorn ten times a second; True: end."""
        if self._told and self._leaving is None:
            self._leaving = asyncio.create_task(self._leave())
        if self._leaving is not None and self._leaving.done():
            self.should_exit = True
        return await super().on_tick(counter)

    async def _leave(self) -> None:
        self._drain.told_to_stop(self._clock.now())
        for server in self.servers[: self._shared]:
            server.close()  # whoever connects from now on reaches another gateway
        try:
            await self._app.state.gateway.handover.leave(self._drain)
        except Exception:
            log.exception("draining failed")
