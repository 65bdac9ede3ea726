"""One gateway's web server: where it listens, and how it ends.

It listens at the address that visitors use, and at one that is its alone; before it ends it hands
its sessions over.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import signal
import socket
from dataclasses import dataclass
from types import FrameType

import uvicorn
from fastapi import FastAPI

from gateway.edge.server import server_config
from gateway.edge.tls import Tls
from gateway.settings import GatewaySettings
from visavis.serving.addresses import SHARES_PORTS, bound, in_address
from visavis.serving.errors import SettingsError, VisavisError
from visavis.serving.lifetime.collecting import Collecting
from visavis.serving.lifetime.draining import Drain
from visavis.serving.lifetime.supervision import ends_unless
from visavis.wire.clock import MonotonicClock

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Listening:
    """Sockets that are bound. address: "host:port" where the other gateways reach this one.

    shared: how many of the sockets, the first ones, other gateways listen on, too.
    """

    sockets: list[socket.socket]
    address: str
    shared: int = 0

    def close(self) -> None:
        """Also where the server has closed them."""
        for one in self.sockets:
            one.close()


def listen(settings: GatewaySettings) -> Listening:
    """Bind the port; where gateways share it, one of our own as well.

    Raises SettingsError where this system cannot share a port, VisavisError where it is taken.
    """
    if settings.share_port and not SHARES_PORTS:
        raise SettingsError("share_port: this system cannot share a port between processes")
    sockets = _bound(settings.host, settings.port, shared=settings.share_port)
    own, shared = sockets, 0
    if settings.share_port:
        own, shared = _bound(settings.host, 0, shared=False), len(sockets)
        sockets = [*sockets, *own]
    host = in_address(settings.advertise) or _reachable(settings.host)
    return Listening(sockets, f"{host}:{own[0].getsockname()[1]}", shared)


def _bound(host: str, port: int, *, shared: bool) -> list[socket.socket]:
    try:
        return bound(host, port, [socket.SO_REUSEADDR, *([socket.SO_REUSEPORT] if shared else [])])
    except OSError as error:
        at = f"{in_address(host)}:{port}"
        raise VisavisError(f"port: cannot listen on {at}: {error.strerror}") from error


def _reachable(host: str) -> str:
    """The host under which others on this machine find us; IPv6 in brackets."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.is_unspecified:
        return "127.0.0.1" if address.version == 4 else "[::1]"
    return in_address(host)


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
        self._loop: asyncio.AbstractEventLoop | None = None
        self._told_early = asyncio.Event()
        """Before it was started."""
        self._leaving: asyncio.Task[None] | None = None
        self._collecting = Collecting()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Called by uvicorn, to begin with. Told to stop it does not wait for what is not there."""
        self._loop = asyncio.get_running_loop()
        if self.should_exit:
            return
        if await ends_unless(super().startup(sockets), self._told_early.wait()):
            self._collecting.settled()
        if not self.started:
            await self.lifespan.give_up()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Called by uvicorn at the end."""
        self._collecting.stop()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Called by uvicorn for each signal."""
        if sig == signal.SIGTERM and self.started and not self._told:
            self._told = True
            return
        super().handle_exit(sig, frame)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._told_early.set)

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
