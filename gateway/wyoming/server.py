"""The Wyoming port: who may come, and how many at once.

The protocol knows no keys. So nobody but this machine reaches the port unless the operator says
otherwise, and names the networks whose clients are answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
from collections import Counter

from gateway.access.callers import Caller, Limits, Role
from gateway.api.state import Gateway
from gateway.wyoming.connection import Connection
from gateway.wyoming.events import LONGEST_LINE_BYTES
from gateway.wyoming.remembering import Conversations
from visavis.serving.errors import VisavisError
from visavis.serving.lifetime.supervision import end_tasks
from visavis.wire.clock import Clock, MonotonicClock

log = logging.getLogger(__name__)

CONNECTIONS_AT_ONCE = 64
CONNECTIONS_OF_ONE = 16
"""From one address."""
NAME = "wyoming"
"""Under which its requests are counted, as if an app made them."""


class WyomingServer:
    """Listens for Home Assistant, and for whoever else speaks Wyoming. `start` it, `stop` it."""

    def __init__(self, gateway: Gateway, clock: Clock | None = None) -> None:
        settings = gateway.settings
        self._gateway = gateway
        self._clock = clock or MonotonicClock()
        self._networks = [ipaddress.ip_network(n) for n in settings.wyoming_clients]
        limits = Limits(max_sessions=settings.wyoming_requests)
        self._caller = Caller(Role.APP, NAME, limits=limits)
        self._conversations = Conversations()
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._from: Counter[str] = Counter()

    @property
    def port(self) -> int:
        """Where it listens; 0: it does not."""
        sockets = self._server.sockets if self._server is not None else ()
        return int(sockets[0].getsockname()[1]) if sockets else 0

    async def start(self) -> None:
        """Raises VisavisError where the port is taken. Does nothing where it is not wanted."""
        settings = self._gateway.settings
        if settings.wyoming_port < 0:
            return
        try:
            self._server = await asyncio.start_server(
                self._met,
                settings.wyoming_host,
                settings.wyoming_port,
                limit=LONGEST_LINE_BYTES,
                reuse_port=settings.share_port or None,
            )
        except OSError as error:
            at = f"{settings.wyoming_host}:{settings.wyoming_port}"
            why = f"wyoming_port: cannot listen on {at}: {error.strerror}"
            raise VisavisError(why) from error
        log.info("Wyoming is spoken on %s:%d", settings.wyoming_host, self.port)

    async def stop(self) -> None:
        """Hang up on everybody."""
        if self._server is not None:
            self._server.close()
        await end_tasks(self._serving)

    def _met(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = str((writer.get_extra_info("peername") or ("",))[0])
        if not self._welcome(address):
            writer.transport.abort()
            return
        task = asyncio.create_task(self._serve(reader, writer, address), name=NAME)
        self._serving.add(task)
        self._from[address] += 1
        task.add_done_callback(lambda done: self._left(done, address))

    def _welcome(self, address: str) -> bool:
        if not may_come(address, self._networks):
            log.warning("Wyoming: %s is in none of wyoming_clients", address)
            return False
        if len(self._serving) >= CONNECTIONS_AT_ONCE or self._from[address] >= CONNECTIONS_OF_ONE:
            log.warning("Wyoming: %s has to wait, too many connections", address)
            return False
        return True

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str
    ) -> None:
        connection = Connection(
            reader,
            writer,
            self._gateway,
            self._conversations,
            self._clock,
            self._caller,
            address,
        )
        try:
            await connection.serve()
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    def _left(self, task: asyncio.Task[None], address: str) -> None:
        self._serving.discard(task)
        self._from[address] -= 1
        self._from += Counter()  # those that are 0 go
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a Wyoming client was lost", exc_info=error)


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def may_come(address: str, networks: list[Network]) -> bool:
    """Whether an address is this machine's or in one of the networks."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return found.is_loopback or any(found in network for network in networks)
