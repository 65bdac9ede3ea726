"""How long a connection may keep us waiting, and how many there may be.

uvicorn waits for ever for a request's head and body, and for a client that does not read. Each of
these holds a file descriptor, a body a task as well: some hundreds of them, and no visitor gets in.
`Watch` judges and does no I/O; `ConnectionGuard` looks at all connections, once a second, and has
any one client leave half of their number to others.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from gateway import metrics
from gateway.settings import GatewaySettings
from visavis.wire.clock import Clock, MonotonicClock

_LOOK_S = 1.0


class Waits(Enum):
    """What a connection owes us."""

    HEAD = "slow_head"
    BODY = "slow_body"
    NOTHING = ""


class Verdict(Enum):
    """What becomes of a connection."""

    STAYS = ""
    LATE = "late"
    """It is told so, where it can be, and closed."""
    STALLED = "stalled"
    """It reads nothing, so nothing can be told: it is cut off."""


@dataclass(frozen=True)
class Patience:
    """How long is waited, in seconds, and for how many at once.

    body_s: for a body's first byte and, as head_s for a head, for all of a small one;
    body_bytes_s: each so many bytes of it give a second more. stalled_s: for a client that reads
    nothing of what waits for it.
    """

    connections: int
    head_s: float
    body_s: float
    body_bytes_s: float
    stalled_s: float

    @classmethod
    def of(cls, settings: GatewaySettings) -> Patience:
        return cls(
            settings.max_connections,
            settings.head_timeout_s,
            settings.body_timeout_s,
            settings.slowest_body_bytes_s,
            settings.stalled_timeout_s,
        )

    @property
    def look_s(self) -> float:
        """How often connections are looked at."""
        return min(_LOOK_S, self.head_s / 4, self.body_s / 4, self.stalled_s / 4)


@dataclass(frozen=True)
class Look:
    """A connection at one moment. of: the request before, or at work: another one begins anew."""

    waits: Waits
    of: object
    received_bytes: int
    unsent_bytes: int


class Watch:
    """One connection from look to look. now: seconds of any clock that only rises."""

    def __init__(self, now: float) -> None:
        self._last: Look | None = None
        self._waits_since = now
        self._received_then = 0
        self._reads_since = now

    def judge(self, look: Look, patience: Patience, now: float) -> Verdict:
        """What becomes of it, as it is at `now`."""
        last, self._last = self._last, look
        if last is None or look.unsent_bytes == 0 or look.unsent_bytes < last.unsent_bytes:
            self._reads_since = now
        elif now - self._reads_since > patience.stalled_s:
            return Verdict.STALLED
        if last is not None and (look.waits is not last.waits or look.of is not last.of):
            self._waits_since, self._received_then = now, last.received_bytes
        waited_s = now - self._waits_since
        received = look.received_bytes - self._received_then
        match look.waits:
            case Waits.HEAD:
                late = waited_s > patience.head_s
            case Waits.BODY:
                late = waited_s > patience.body_s + received / patience.body_bytes_s
            case Waits.NOTHING:
                late = False
        return Verdict.LATE if late else Verdict.STAYS


class Connection(Protocol):
    """What the guard asks of one connection, and does to it."""

    def look(self) -> Look:
        """As it is now."""

    def late(self) -> None:
        """Tell the client, and close."""

    def cut_off(self) -> None:
        """Close at once, whatever waits to be sent."""


class ConnectionGuard:
    """All connections of one web server."""

    def __init__(
        self, patience: Patience, proxies: Iterable[str] = (), clock: Clock | None = None
    ) -> None:
        """proxies: addresses or networks, each of whose connections may be anybody's."""
        self.patience = patience
        self._proxies = [ipaddress.ip_network(proxy) for proxy in proxies]
        self._clock = clock or MonotonicClock()
        self._watches: dict[Connection, Watch] = {}
        self._clients: dict[Connection, str] = {}
        """Of the connections that there is room for."""
        self._held: Counter[str] = Counter()
        """So many each client has of them."""
        self._next: asyncio.TimerHandle | None = None

    def add(self, connection: Connection, address: str) -> bool:
        """Whether there is room for it, and its client has less than half of it; it is looked after
        in any case. address: where it comes from; "": by no network.
        """
        most, client = self.patience.connections, self._client_at(address)
        room = len(self._clients) < most and (not client or self._held[client] < most // 2)
        if room:
            self._clients[connection] = client
            self._held[client] += 1
        self._watches[connection] = Watch(self._clock.now())
        if self._next is None:
            self._look_later()
        return room

    def drop(self, connection: Connection) -> None:
        """It is gone, or another one has taken its place."""
        self._watches.pop(connection, None)
        client = self._clients.pop(connection, None)
        if client is not None:
            self._held[client] -= 1
            if not self._held[client]:
                del self._held[client]

    def _client_at(self, address: str) -> str:
        """By which name his connections are counted together; "": they may be those of many.

        Of IPv6 a client has a network of 64 bits at the least.
        """
        if not address:
            return ""
        at = ipaddress.ip_address(address)
        if isinstance(at, ipaddress.IPv6Address):
            at = at.ipv4_mapped or at
        if at.is_loopback or any(at in proxy for proxy in self._proxies):
            return ""
        if isinstance(at, ipaddress.IPv6Address):
            return str(ipaddress.IPv6Network((int(at), 64), strict=False))
        return str(at)

    def _look_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._next = loop.call_later(self.patience.look_s, self._look)

    def _look(self) -> None:
        self._next = None
        if self._watches:
            self._look_later()
        now = self._clock.now()
        for connection, watch in list(self._watches.items()):
            look = connection.look()
            verdict = watch.judge(look, self.patience, now)
            if verdict is Verdict.LATE:
                metrics.connections_refused.labels(look.waits.value).inc()
                connection.late()
            elif verdict is Verdict.STALLED:
                metrics.connections_refused.labels(verdict.value).inc()
                connection.cut_off()
