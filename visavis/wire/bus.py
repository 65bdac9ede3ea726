"""The data plane: typed, sequenced, bounded chunks over core NATS.

At most once: a chunk that no consumer has room for is dropped and counted, never
queued without bound. Chunks of a turn that is over are dropped before they are
decoded, wherever they wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import re
import ssl
from collections import deque
from collections.abc import Coroutine
from functools import cache
from typing import Any, Self
from urllib.parse import urlsplit

import nats
import nats.errors
from nats.aio.client import Client, Server
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription as NatsSubscription

from visavis.serving import metrics
from visavis.serving.errors import BusError, InvalidInputError
from visavis.serving.lifetime.supervision import end_tasks, told_to_end
from visavis.serving.telemetry.traces import HEADER
from visavis.wire.media import Chunk, chunk_type, decode, encode
from visavis.wire.permissions import Login
from visavis.wire.subjects import Kind, all_turns, chunk_subject, turn_of

log = logging.getLogger(__name__)

_SCHEMES = ("nats", "tls", "ws", "wss")
# Reconnects for as long as the process lives: the supervisor or the cluster
# decides when to give up, not a stage in the middle of a conversation.
_RECONNECT_WAIT_S = 0.1  # before a server is tried again
_CONNECT_TIMEOUT_S = 2  # of one attempt
# A server that is frozen keeps its connections open and says nothing: it is noticed within 3 s, as
# a frozen replica is.
_PING_S, _PINGS_UNANSWERED = 1, 2
# Whoever asks for it is told, asks again and again, and says once what that means (`bucket.py`).
_OF_WHAT_IS_KEPT = re.compile(r'permissions violation .*"\$(?:js|kv|o)\.', re.I)
_CLOSE_TIMEOUT_S = 2.0  # a server that does not read keeps what is unsent
_FLUSH_TIMEOUT_S = 10.0
# After the client's own limit a late pong ends its reading; long after ours, none will come.
_ABANDONED_FLUSH_S = 3600

MOMENT_S = 2.0
"""By then another server of the bus has taken whoever was at one that ended in good order."""

# By kind; to look them up takes longer than to count.
_published = cache(metrics.bus_published_chunks.labels)
_received = cache(metrics.bus_received_chunks.labels)


class _Client(Client):
    """The NATS client, which waits for a server that is busy wherever it flushes by itself."""

    async def flush(self, timeout: int = _ABANDONED_FLUSH_S) -> None:  # noqa: ASYNC109 - its own
        await super().flush(timeout)


class Bus:
    """One connection to NATS. Make it with `connect`, end it with `close`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._given = self._at = ""
        """The address that we were given, and the server that we are at or have lost, as
        "host:port"."""
        self._heard: dict[str, int] = {}
        """By address, in which piece of news since we came there it was first; 0: known before."""
        self._attempts = 0
        """To connect again."""
        self.login: Login | None = None
        """With what it has come, where the server lets in only those whom it knows."""
        self.refused = ""
        """What the server has not let it say or hear, last; whoever asks may empty it before."""
        self.losses = 0
        """How many times the connection has gone, and how many times it was back: what was on its
        way then, or came between, may be lost."""
        self._lost = asyncio.Event()
        self._away = False
        self._settled = False
        """Whether the first connection is there, or was given up."""
        self._closing = False
        self._finishing: set[asyncio.Task[None]] = set()

    @classmethod
    async def connect(
        cls,
        url: str,
        *,
        name: str,
        wait_s: float = 1.0,
        login: Login | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> Self:
        """Connect, or raise BusError if no server answers at `url` within `wait_s`, or none can.

        login: where the server lets in only those whom it knows; one that it refuses is told at
        once. tls: for an `url` that begins with tls://; None: who the system believes.
        """
        _check_address(url)
        over_websocket = url.startswith("ws")
        client = _Client()
        bus = cls(client)
        bus.login = login
        known: dict[str, Any] = {}
        if login is not None:
            known = {"user": login.user, "password": login.password, "inbox_prefix": login.inbox}
        try:
            async with asyncio.timeout(wait_s):
                await client.connect(
                    [url],
                    name=name,
                    connect_timeout=_CONNECT_TIMEOUT_S,
                    allow_reconnect=True,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=_RECONNECT_WAIT_S,  # type: ignore[arg-type]  # a float works
                    ping_interval=_PING_S,
                    max_outstanding_pings=_PINGS_UNANSWERED,
                    error_cb=bus._on_error,
                    disconnected_cb=bus._on_disconnected,
                    reconnected_cb=bus._on_reconnected,
                    discovered_server_cb=bus._on_discovered,
                    # Over WebSockets attempts fail in ways that the client expects of its own
                    # choice alone.
                    reconnect_to_server_handler=None if over_websocket else bus._next_server,
                    tls=tls,
                    **known,
                )
            if told_to_end():
                raise asyncio.CancelledError
        except BaseException as error:
            bus._settled = bus._closing = True
            await client.close()
            if isinstance(error, nats.errors.Error | OSError | TimeoutError):
                raise BusError(f"no NATS server answers at {url}") from error
            raise
        bus._settled = True
        bus._arrived()
        bus._given = bus._at
        return bus

    @property
    def connected(self) -> bool:
        """Whether the server is there now; a lost connection comes back by itself."""
        return bool(self._client.is_connected) and not self._away

    async def next_loss(self, known: int) -> int:
        """Returns `losses` as soon as there are more than `known`."""
        while self.losses <= known:
            await self._lost.wait()
        return self.losses

    async def there(self) -> bool:
        """Whether the server is there, or comes back soon: it is away for moments while the servers
        of a bus are exchanged.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(MOMENT_S):
                while not self.connected:
                    await self.next_loss(self.losses)
        return self.connected

    @property
    def client(self) -> Client:
        """The NATS client, for registration by the micro protocol."""
        return self._client

    async def publish(self, kind: Kind, chunk: Chunk, traceparent: str = "") -> None:
        """Send a chunk on its session's subject. Raises BusError if it cannot be sent.

        traceparent: of the span that it belongs to, see `visavis.serving.telemetry.traces`.
        """
        assert isinstance(chunk, chunk_type(kind)), f"{kind} does not carry {type(chunk)}"
        subject = chunk_subject(chunk.place.session, chunk.place.turn, kind)
        try:
            headers = {HEADER: traceparent} if traceparent else None
            await self._client.publish(subject, encode(chunk), headers=headers)
        except (nats.errors.Error, OSError) as error:
            raise BusError(f"{subject}: {error}") from error
        _published(kind).inc()

    def subscribe(self, session: str, kind: Kind, *, limit: int = 64) -> Subscription:
        """Chunks of one kind of a session, all turns; `limit` chunks may wait."""
        return Subscription(self, session, kind, limit)

    async def flush(self, timeout_s: float = _FLUSH_TIMEOUT_S) -> None:
        """Return once the server has seen everything sent so far.

        Raises BusError if it says nothing for so long, or if the connection is closed.
        """
        try:
            await self.see_through(self._client.flush(), timeout_s)
        except (nats.errors.Error, OSError, TimeoutError) as error:
            raise BusError(f"flush: {error or 'the server does not answer'}") from error

    async def see_through(
        self, work: Coroutine[Any, Any, None], timeout_s: float | None = None
    ) -> None:
        """Await `work`; it goes on to its end even if the caller is cancelled meanwhile.

        The NATS client must never be cancelled between a ping and its pong: the pong then finds
        a cancelled future, and the connection stops reading, for good and without a word.
        Raises what `work` raises, or TimeoutError after `timeout_s`.
        """
        task = asyncio.create_task(work)
        self._finishing.add(task)
        task.add_done_callback(self._finished)
        done, _ = await asyncio.wait({task}, timeout=timeout_s)
        if not done:
            raise TimeoutError
        task.result()

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._finishing.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.debug("bus: %r", task.exception())

    async def close(self) -> None:
        """Send what waits, as far as the server takes it in time, and disconnect."""
        self._closing = True
        # What waits for one that has gone is lost. TypeError: asyncio up to Python 3.13.5, where a
        # connection is written to that is lost; AttributeError: one by TLS.
        with contextlib.suppress(OSError, TimeoutError, TypeError, AttributeError):
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await self._client.close()
        await end_tasks(self._finishing)

    async def _on_error(self, error: Exception) -> None:
        if (self._closing or not self._settled) and told_to_end():
            # Python 3.11 forgets a cancellation that comes in the moment of a refusal (see
            # `end_tasks`), and the client would try on.
            raise asyncio.CancelledError
        if not self._settled and "authorization" in str(error).lower():
            self._settled = True
            # Out of `connect`, which would try again until its time is over.
            raise BusError(_refused(self.login))
        if "permissions violation" in str(error).lower():
            self.refused = str(error)
        quiet = not self.connected or _OF_WHAT_IS_KEPT.search(str(error))
        level = logging.DEBUG if quiet else logging.WARNING
        log.log(level, "bus error: %s", error or type(error).__name__)

    async def _on_disconnected(self) -> None:
        if not self._closing:
            self._away = True
            self._count_loss()
            log.warning("bus connection lost; reconnecting")

    def _arrived(self) -> None:
        at = self._client.connected_url
        self._at = at.netloc if at is not None else ""
        self._heard = {uri.netloc: 0 for uri in self._client.servers}
        self._attempts = 0

    async def _on_discovered(self) -> None:
        news = max(self._heard.values(), default=0) + 1
        for uri in self._client.servers:
            self._heard.setdefault(uri.netloc, news)

    def _next_server(self, servers: list[Server], told: dict[str, Any]) -> tuple[Server, float]:
        """Which one is tried next, and after how many seconds.

        told: by the server that we have lost, as we came there. The client hears of new servers and
        never of those that are there no more: where they come back under other addresses, as in
        Kubernetes, most are dead after a while, and each costs an attempt of seconds. Every second
        attempt is at the address that we were given: there it has whoever is ready behind it.
        """
        self._attempts += 1
        named = told.get("connect_urls") or ()

        def order(server: Server) -> tuple[float, ...]:
            address = server.uri.netloc
            newest_first, stale = -self._heard.get(address, 0), address not in named
            # Who was at one server is spread over the others.
            return server.reconnects, address == self._at, newest_first, stale, random.random()

        given = [server for server in servers if server.uri.netloc == self._given]
        best = min(servers if self._attempts % 2 else given or servers, key=order)
        return best, _RECONNECT_WAIT_S if best.reconnects else 0.0

    async def _on_reconnected(self) -> None:
        self._away = False
        self._arrived()
        self._count_loss()
        metrics.bus_reconnects.inc()
        log.info("bus connection is back")

    def _count_loss(self) -> None:
        self.losses += 1
        lost, self._lost = self._lost, asyncio.Event()
        lost.set()


async def enter_all(held: contextlib.AsyncExitStack, subscriptions: list[Subscription]) -> None:
    """Subscribe to all of them at once: one way to the server and back, however far it is.

    Those that were entered leave with `held`. Raises BusError.
    """
    entering = (held.enter_async_context(one) for one in subscriptions)
    for entered in await asyncio.gather(*entering, return_exceptions=True):
        if isinstance(entered, BaseException):
            raise entered


def _check_address(url: str) -> None:
    """Raises BusError unless it is one that a server can have."""
    try:
        parts = urlsplit(url if "://" in url else f"nats://{url}")
        if parts.scheme in _SCHEMES and parts.hostname and parts.port != 0:
            return
    except ValueError:
        pass
    raise BusError(f"{url!r}: not an address of a NATS server as nats://HOST:PORT is one")


def _refused(login: Login | None) -> str:
    if login is None:
        return (
            "the NATS server lets in only those whom it knows, and no password was given: set "
            "nats_password_file"
        )
    return (
        f"the NATS server does not know the user {login.user} by this password: nats_password_file "
        "has to hold the one that the server was told"
    )


class Subscription:
    """Async context manager and iterator over the decoded chunks of one kind.

    When `limit` chunks wait, the oldest is dropped: late media is worth less than
    fresh media. Garbage is counted and skipped, it never ends the iteration.
    """

    def __init__(self, bus: Bus, session: str, kind: Kind, limit: int) -> None:
        self.kind = kind
        self.dropped = 0
        self.lost = 0
        self.traceparent = ""
        """Of the chunk that was read last; "": it belongs to no span."""
        self._bus = bus
        self._session = session
        self._pattern = all_turns(session, kind)
        self._limit = limit
        self._turn = 0
        self._waiting: deque[tuple[int, bytes, str]] = deque()
        self._arrived = asyncio.Event()
        self._expected_seq: dict[int, int] = {}
        self._closed = False
        self._subscription: NatsSubscription | None = None

    def advance(self, turn: int) -> None:
        """Turns from 1 to turn-1 are over: drop what waits of them, unread.

        Turn 0 is the session itself and never goes stale.
        """
        self._turn = max(self._turn, turn)
        fresh = [item for item in self._waiting if not self._stale(item[0])]
        self._drop("stale", len(self._waiting) - len(fresh))
        self._waiting = deque(fresh)
        for old in [t for t in self._expected_seq if self._stale(t)]:
            del self._expected_seq[old]

    async def __aenter__(self) -> Self:
        try:
            await self._bus.see_through(self._enter())
        except (nats.errors.Error, OSError, TimeoutError) as error:
            raise BusError(f"subscribe {self._pattern}: {error}") from error
        except asyncio.CancelledError:
            self._closed = True  # _enter leaves again
            raise
        return self

    async def _enter(self) -> None:
        self._subscription = await self._bus.client.subscribe(self._pattern, cb=self._receive)
        try:
            await self._bus.flush()
        except BusError:
            self._closed = True  # else it would be there once the server is back, for good
            raise
        finally:
            if self._closed:
                await self._leave()

    async def __aexit__(self, *_: object) -> None:
        self._closed = True
        self._arrived.set()
        await self._leave()

    async def _leave(self) -> None:
        if self._subscription is not None and not self._bus.client.is_closed:
            try:
                await self._subscription.unsubscribe()
            except (nats.errors.Error, OSError) as failure:
                # The connection is gone, and the subscription with it.
                log.debug("unsubscribe %s: %s", self._pattern, failure)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Chunk:
        while True:
            while not self._waiting:
                if self._closed:
                    raise StopAsyncIteration
                self._arrived.clear()
                await self._arrived.wait()
            turn, payload, self.traceparent = self._waiting.popleft()
            try:
                chunk = self._decode(turn, payload)
            except InvalidInputError as error:
                log.warning("%s: dropped a chunk: %s", self._pattern, error)
                self._drop("garbage", 1)
                continue
            self._count_holes(turn, chunk.place.seq)
            _received(self.kind).inc()
            return chunk

    def _decode(self, turn: int, payload: bytes) -> Chunk:
        """Raises InvalidInputError, also where a chunk says that it belongs elsewhere."""
        chunk = decode(self.kind, payload)
        place = chunk.place
        if (place.session, place.turn) != (self._session, turn):
            raise InvalidInputError(
                f"header: session {place.session} and turn {place.turn} are not the subject's"
            )
        return chunk

    async def _receive(self, message: Msg) -> None:
        turn = turn_of(message.subject)
        if turn is None:
            log.warning("%s: dropped a chunk: %s has no turn", self._pattern, message.subject)
            self._drop("garbage", 1)
            return
        if self._stale(turn):
            self._drop("stale", 1)
            return
        if len(self._waiting) >= self._limit:
            self._waiting.popleft()
            self._drop("full", 1)
        traceparent = message.headers.get(HEADER, "") if message.headers else ""
        self._waiting.append((turn, message.data, traceparent))
        self._arrived.set()

    def _stale(self, turn: int) -> bool:
        return 0 < turn < self._turn

    def _drop(self, reason: str, count: int) -> None:
        if count:
            self.dropped += count
            metrics.bus_dropped_chunks.labels(self.kind, reason).inc(count)

    def _count_holes(self, turn: int, seq: int) -> None:
        # A consumer that attaches in the middle has no first number to expect.
        hole = seq - self._expected_seq.get(turn, seq)
        if hole > 0:
            self.lost += hole
            metrics.bus_lost_chunks.labels(self.kind).inc(hole)
        self._expected_seq[turn] = seq + 1
