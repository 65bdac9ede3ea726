"""Runs one service: load, warm, serve, drain.

settings -> bus -> bundles -> gRPC server (NOT_SERVING) -> load -> SERVING -> registered
SIGTERM: draining -> no session is left, or the limit is reached -> ended
SIGINT, or SIGTERM again: ended
ended: unregistered -> NOT_SERVING -> calls at work have the rest of the limit, and grace -> closed
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any, Protocol, TypeVar

import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from prometheus_client import start_http_server

from visavis.bundles.store.shared import bring_shared
from visavis.engine.base import EngineState
from visavis.serving.addresses import in_address, is_loopback, told_to_others
from visavis.serving.admission.admission import Admission
from visavis.serving.admission.reporting import CapacityReporter
from visavis.serving.authentication.channel import Door
from visavis.serving.discovery import Registration, instance_of
from visavis.serving.errors import VisavisError, exit_with
from visavis.serving.interceptor import ErrorInterceptor
from visavis.serving.lifetime.collecting import Collecting
from visavis.serving.lifetime.draining import Drain, Phase
from visavis.serving.lifetime.heartbeat import Heartbeat
from visavis.serving.lifetime.open_files import allow_many
from visavis.serving.lifetime.starting import report_starting
from visavis.serving.lifetime.supervision import cancelled_at_last, end_tasks, ends_unless
from visavis.serving.logs import configure_logging
from visavis.serving.settings import ServiceSettings, Settings, load_settings
from visavis.serving.stage import Leases
from visavis.serving.telemetry.gpus import export_gpu
from visavis.serving.telemetry.tracing import start_tracing, stop_tracing
from visavis.wire.bus import Bus
from visavis.wire.clock import MonotonicClock

log = logging.getLogger(__name__)

S = TypeVar("S", bound=ServiceSettings)

# Ten minutes of 48 kHz sound, mono, are the largest single message.
_MAX_MESSAGE_BYTES = 64 * 1024 * 1024
MESSAGE_LIMITS = (
    ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
)
"""Options of every gRPC server and channel."""
# A peer that is frozen, or behind a cable that was pulled, keeps its connection open: while a call
# lasts it is asked for a sign of life where it is silent, and given up 2.5 s after the last one at
# the latest. gRPC answers from threads of its own: a process that is busy is not taken for gone.
KEEPALIVE = (
    ("grpc.keepalive_time_ms", 1000),
    ("grpc.keepalive_timeout_ms", 1500),
    ("grpc.http2.ping_timeout_ms", 1500),  # keepalive's own limit alone is not heeded
    ("grpc.http2.max_pings_without_data", 0),
)
"""Options of the gateway's channels, which hold leases for as long as a session lasts."""
SERVER_OPTIONS = (
    *MESSAGE_LIMITS,
    *KEEPALIVE,  # a gateway that vanished would keep its slots for two hours
    ("grpc.http2.min_ping_interval_without_data_ms", 500),  # less: it hangs up on who asks so often
    ("grpc.so_reuseport", 1),  # for who takes its place: `_bind` sees to it that nobody else does
)
"""Options of every gRPC server."""
_BUS_WAIT_S = 30.0
_LOOK_S = 0.05


class Service(Protocol):
    """One deployable: an engine and the servicer in front of it."""

    name: str
    languages: Sequence[str]
    leases: Leases

    @property
    def admission(self) -> Admission:
        """Who weighs its sessions."""

    @property
    def engine_states(self) -> Sequence[EngineState]:
        """Where each of its networks runs now."""

    async def load(self) -> None:
        """Load engines and warm them with dummy input."""

    def register(self, server: grpc.aio.Server) -> Sequence[str]:
        """Add servicers; return their full gRPC service names."""

    async def close(self) -> None:
        """Free everything."""


ServiceFactory = Callable[[S, Bus | None, str], Service]
"""Settings, bus (None: plain gRPC only) and instance id to a service."""


def main(
    service_factory: ServiceFactory[S],
    settings_class: type[S],
    argv: Sequence[str] | None = None,
    *,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> None:
    """Entry point of `python -m services.<name>`. Exits with one line on an error.

    loop_factory: None: asyncio's own.
    """
    name = settings_class.section
    try:
        settings = load_settings(
            settings_class,
            sys.argv[1:] if argv is None else argv,
            prog=f"python -m services.{name}",
        )
        configure_logging(name, settings.log_level)
        allow_many()
        instance = instance_of(settings.label or name)
        start_tracing(name, instance)
        try:
            with asyncio.Runner(loop_factory=loop_factory) as runner:
                runner.run(_serve(service_factory, settings, instance))
        finally:
            stop_tracing()
    except VisavisError as error:
        exit_with(name, error)


async def _serve(service_factory: ServiceFactory[S], settings: S, instance: str) -> None:
    """What a service needs before it can be made, and what outlives it."""
    label = settings.label or settings.section
    ending = _Ending(settings.drain_limit_s)
    async with AsyncExitStack() as at_last:
        heartbeat = Heartbeat()
        heartbeat.start()
        at_last.push_async_callback(heartbeat.stop)
        bus = None
        if settings.nats_url:
            # Where all parts start together, the bus may be up a little later.
            connecting = asyncio.create_task(connect_bus(settings, instance))
            if not await _until_told(connecting, None, ending.told, label):
                return
            bus = connecting.result()
            at_last.push_async_callback(bus.close)
        # Its constructor looks for them.
        bringing = bring_shared(bus, settings.own_bundles, settings.model_dir)
        if not await _until_told(bringing, bus, ending.told, label):
            return
        service = service_factory(settings, bus, instance)
        await _live(service, settings, bus, instance, ending, heartbeat)


async def _live(
    service: Service,
    settings: ServiceSettings,
    bus: Bus | None,
    instance: str,
    ending: _Ending,
    heartbeat: Heartbeat,
) -> None:
    """A service's life: it listens, loads, is found and used, drains, and is closed."""
    name, collecting = settings.section, Collecting()
    health_servicer = health.aio.HealthServicer()
    own = settings
    if settings.takes_over:
        free = {"port": 0, "metrics_port": min(0, settings.metrics_port)}
        own = settings.model_copy(update=free)
    server, door, grpc_names = _make_server(service, health_servicer, settings)
    port = _bind(server, own, door)
    servers, fixed = [server], _FixedPorts(settings)
    await _set_health(health_servicer, grpc_names, serving=False)
    await server.start()
    registration: Registration | None = None
    capacity = CapacityReporter(
        bus, name, instance, service.admission, capacity=service.leases.capacity
    )
    try:
        if not await _loaded(service, bus, ending.told, settings.label):
            return
        await asyncio.to_thread(export_gpu, settings.device)
        metrics_port = _serve_metrics(own)
        collecting.settled()  # before anybody comes: it takes a quarter of a second
        await _set_health(health_servicer, grpc_names, serving=True)
        await capacity.start()
        if settings.takes_over:
            servers += fixed.open(*_make_server(service, health_servicer, settings)[:2])
        if bus is not None:
            registration = Registration(
                bus,
                name,
                instance=instance,
                addresses=addresses_of(settings, port, metrics_port),
                states=lambda: service.engine_states,
                wanted_device=settings.device,
            )
            await registration.start()
        heartbeat.working()
        log.info("%s is ready: gRPC on %s:%d", instance, in_address(settings.host), port)
        await ending.told.wait()
        if ending.waits_for(service.leases):
            log.info("%s is draining: %d sessions are here", instance, service.leases.held)
            if registration is not None:
                registration.drain()
            await _set_health(health_servicer, grpc_names, serving=False)
            await ending.drained(service.leases)
        else:
            service.leases.drain()
    finally:
        log.info("%s is stopping", instance)
        collecting.stop()
        if registration is not None:
            await registration.stop()
        await capacity.stop()
        await fixed.leave()
        await _set_health(health_servicer, grpc_names, serving=False)
        await ending.answered(servers, settings.grace_s)
        await service.close()


async def connect_bus(settings: Settings, instance: str) -> Bus:
    """The bus that settings name. Raises SettingsError, BusError."""
    tls = settings.certificates().bus() if settings.nats_url.startswith("tls:") else None
    return await Bus.connect(
        settings.nats_url, name=instance, wait_s=_BUS_WAIT_S, login=settings.login(), tls=tls
    )


class _Ending:
    """What the signals that a process gets come to: it drains, or ends."""

    def __init__(self, limit_s: float) -> None:
        self.told = asyncio.Event()
        """Set once it is to stop."""
        self._drain = Drain(limit_s)
        self._clock = MonotonicClock()
        self._again = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._stop, False)
        loop.add_signal_handler(signal.SIGINT, self._stop, True)

    def _stop(self, at_once: bool) -> None:
        if self.told.is_set():
            self._again.set()
        self._drain.told_to_stop(self._clock.now(), at_once=at_once)
        self.told.set()

    def waits_for(self, leases: Leases) -> bool:
        """Whether there is anybody to wait for."""
        return self._drain.look(self._clock.now(), leases.held) is Phase.DRAINING

    async def drained(self, leases: Leases) -> None:
        """Have all sessions leave; returns once the process may end."""
        leases.drain()
        while self.waits_for(leases):
            leases.slots.left.clear()
            news = (leases.slots.left.wait(), self._again.wait())
            async with cancelled_at_last(*news) as tasks:
                left_s = self._drain.left_s(self._clock.now())
                await asyncio.wait(tasks, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)

    async def answered(self, servers: Sequence[grpc.aio.Server], grace_s: float) -> None:
        """End the servers once the calls that run are answered; no other one is taken.

        They have what is left of the limit, and `grace_s`, which is all if it is told again.
        """
        left_s = self._drain.left_s(self._clock.now())
        async with cancelled_at_last(self._again.wait()) as told_again:
            stopping = asyncio.gather(*(server.stop(left_s + grace_s) for server in servers))
            await asyncio.wait({stopping, *told_again}, return_when=asyncio.FIRST_COMPLETED)
        if not stopping.done():
            await asyncio.gather(*(server.stop(grace_s) for server in servers))
        await stopping


class _FixedPorts:
    """Those that settings name, of a process that takes the place of one that listens there.

    Each is opened as soon as that can be: gRPC's on Linux at once, beside the other one, so that
    nobody who comes is turned away.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self._settings = settings
        self._opening: list[asyncio.Task[None]] = []

    def open(self, server: grpc.aio.Server, door: Door) -> list[grpc.aio.Server]:
        """Have them opened; the servers that are to be ended then. door: of `server`."""
        settings, opened = self._settings, []
        if settings.port:
            opened.append(server)
            self._opening.append(asyncio.create_task(self._serve(server, door)))
        if settings.metrics_port > 0:
            self._opening.append(asyncio.create_task(_once_free(lambda: _serve_metrics(settings))))
        return opened

    async def leave(self) -> None:
        """Wait for none any more."""
        await end_tasks(self._opening)

    async def _serve(self, server: grpc.aio.Server, door: Door) -> None:
        await _once_free(lambda: _bind(server, self._settings, door))
        await server.start()


async def _once_free(listen: Callable[[], Any]) -> None:
    while True:
        try:
            listen()
            return
        except VisavisError:
            await asyncio.sleep(_LOOK_S)


def _make_server(
    service: Service, health_servicer: health.aio.HealthServicer, settings: ServiceSettings
) -> tuple[grpc.aio.Server, Door, list[str]]:
    """A server with everything that it answers, its door, and the names of the service's part."""
    door = Door(settings.access().secret, settings.secret("client_key"))
    server = grpc.aio.server(interceptors=[ErrorInterceptor(door.admit)], options=SERVER_OPTIONS)
    health_pb2_grpc.add_HealthServicer_to_server(health_servicer, server)
    grpc_names = list(service.register(server))
    reflection.enable_server_reflection(
        [*grpc_names, health.SERVICE_NAME, reflection.SERVICE_NAME], server
    )
    return server, door, grpc_names


async def _loaded(service: Service, bus: Bus | None, stop: asyncio.Event, label: str = "") -> bool:
    """Load `service`, telling what is done; False if the process was told to end before that."""
    return await _until_told(service.load(), bus, stop, label or service.name)


async def _until_told(
    work: Awaitable[Any], bus: Bus | None, stop: asyncio.Event, label: str
) -> bool:
    async with cancelled_at_last(report_starting(bus, label)):
        return await ends_unless(work, stop.wait())


def addresses_of(settings: ServiceSettings, port: int, metrics_port: int | None) -> dict[str, str]:
    """Where others reach this process, by kind."""
    reach = in_address(settings.advertise) or told_to_others(settings.host)
    addresses = {"grpc": f"{reach}:{port}"}
    if metrics_port is not None:
        addresses["metrics"] = f"{reach}:{metrics_port}"
    return addresses


def _bind(server: grpc.aio.Server, settings: ServiceSettings, door: Door) -> int:
    address = f"{in_address(settings.host)}:{settings.port}"
    try:
        if settings.port and not settings.takes_over:
            _look_whether_free(settings.host, settings.port)
        credentials = settings.certificates().server()
        port: int = (
            server.add_insecure_port(address)
            if credentials is None
            else server.add_secure_port(address, credentials)
        )
    except (RuntimeError, OSError) as error:
        raise VisavisError(f"port: cannot listen on {address}; is it taken?") from error
    door.address = addresses_of(settings, port, None)["grpc"]
    if not door.locked and not is_loopback(settings.host):
        log.warning("whoever reaches port %d may call it: set stack_secret_file", port)
    return port


def _look_whether_free(host: str, port: int) -> None:
    """Raises OSError where it is not: gRPC would share it with any other one of this user."""
    found = socket.getaddrinfo(
        host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    family, *_, address = found[0]
    socket.create_server(address, family=family).close()


def _serve_metrics(settings: ServiceSettings) -> int | None:
    if settings.metrics_port < 0:
        return None
    try:
        http_server, _thread = start_http_server(settings.metrics_port, settings.host)
    except OSError as error:
        raise VisavisError(
            f"metrics_port: cannot listen on {in_address(settings.host)}:{settings.metrics_port}: "
            f"{error.strerror}"
        ) from error
    return int(http_server.server_port)


async def _set_health(
    servicer: health.aio.HealthServicer, grpc_names: Sequence[str], *, serving: bool
) -> None:
    status = health_pb2.HealthCheckResponse.ServingStatus
    for grpc_name in ("", *grpc_names):
        await servicer.set(grpc_name, status.SERVING if serving else status.NOT_SERVING)
