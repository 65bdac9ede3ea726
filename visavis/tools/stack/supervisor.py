"""Starts a whole stack on this machine, keeps it alive and ends it without a trace."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import shutil
import signal
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self

import httpx

from visavis.serving.addresses import (
    SHARES_PORTS,
    in_address,
    is_every_address,
    is_loopback,
    machine_addresses,
)
from visavis.serving.admission.probes import MachineTime
from visavis.serving.discovery import Replica, discover
from visavis.serving.errors import BusError, VisavisError
from visavis.serving.lifetime.starting import on_starting
from visavis.serving.lifetime.supervision import Keeper, end_tasks
from visavis.serving.settings import ENV_PREFIX, SERVICES
from visavis.tools.stack.keys import (
    USERS_FILE,
    Keys,
    hold_folder,
    leave_for_owner,
    private_folder,
    write_private,
)
from visavis.tools.stack.nats_server import NatsServer, check_listening, free_port, hold_port
from visavis.tools.stack.process import Child, State, make_log_dir, python_child
from visavis.tools.stack.restarter import Restarter
from visavis.wire.bucket import keep_buckets
from visavis.wire.bus import Bus
from visavis.wire.clock import Clock, MonotonicClock
from visavis.wire.permissions import BUCKETS, RECORDS, User, users_config

log = logging.getLogger(__name__)

GATEWAY = "gateway"
_OWN_KEY = ("TOKEN_KEY", "TOKEN_KEY_FILE")
_POLL_S = 0.1
_HTTP_TIMEOUT_S = 10.0
_BUS_WAIT_S = 30.0
_LOOK_AT_OTHERS_S = 10.0
_BUSY_SHARE = 0.6
_LONGEST_COMPUTING_S = 900.0
"""A start that does nothing but compute for so long will do so for ever."""


def new_token_key() -> str:
    """A secret for the gateways of one stack; "" where the environment has one for them."""
    given = any(f"{ENV_PREFIX}GATEWAY_{name}" in os.environ for name in _OWN_KEY)
    return "" if given else secrets.token_urlsafe(32)


def check_log_dir(folder: Path) -> None:
    """Make the folder of a stack's logs. Raises VisavisError with what to do instead."""
    try:
        make_log_dir(folder)
    except OSError as error:
        raise VisavisError(
            f"logs: {folder} cannot be made: {error.strerror}; choose another folder with --logs"
        ) from error


@dataclass(frozen=True)
class StackOptions:
    """How a stack is to be run. `arguments` are flags of all its replicas by service name."""

    log_dir: Path
    host: str = "127.0.0.1"
    port: int = 0
    api_key: str = field(default="", repr=False)
    token_key: str = field(default_factory=new_token_key, repr=False)
    """What all gateways sign session tokens with; "": their own settings say it."""
    arguments: Mapping[str, Sequence[str]] = field(default_factory=dict)
    replicas: Mapping[str, int] = field(default_factory=dict)
    """How many processes of a service there are to be, where not one."""
    programs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By service: the module that is run in the place of its own, and what comes before flags."""
    monitored: bool = False
    """The bus tells its figures over HTTP, see `NatsProcess.monitoring_url`."""
    ready_timeout_s: float = 120.0
    """Longest wait for all to be ready, counted anew whenever a service gets on: tells so, or
    computes for a twentieth of that, or waits so long for a core."""


class Stack:
    """Everything on one machine; an async context manager: entered, all is ready; left, nothing
    remains.

    A process that ends or no longer answers is started again, for as long as it takes; while the
    stack starts, one that keeps ending is given up, and the error names it and shows the end of
    its log.
    """

    def __init__(self, options: StackOptions, clock: Clock | None = None) -> None:
        self.options = options
        self.port = options.port or free_port()
        self.scheme = "http"
        """What the gateway speaks: known once it runs."""
        self.ready_s = 0.0
        self.anything_started = False
        self.replicas: list[Replica] = []
        self._clock = clock or MonotonicClock()
        self.keys = Keys.draw()
        """Of this run alone."""
        self._held: list[socket.socket] = []
        """So that no other stack begins at our port before our gateways listen there."""
        self._nats = NatsServer(options.log_dir)
        self._nats.process.monitored = options.monitored
        self._bus: Bus | None = None
        self._buckets: Keeper | None = None
        self._bus_folder: Path | None = None
        self._folder_held: int | None = None
        self._restarters: dict[Child, Restarter] = {}
        self._keeping: dict[Child, asyncio.Task[None]] = {}
        self.children: dict[str, Child] = {}
        self._commands: dict[str, tuple[str, Sequence[str]]] = {}
        """Module and flags of each, by name."""
        self._passing: list[Child] = []
        """Beside the children: those that take the place of one, and those that make place."""
        self.starting: dict[str, str] = {}
        """What services say that they are busy with before they are ready, by name."""
        self.busy = ""
        """That other programs have most of the machine, where that is so as it starts: a line for a
        person."""
        self._deadline: asyncio.Timeout | None = None
        self._worked_s = 0.0
        """Processor time that those that start have had or waited for, as the deadline was put off
        for it last."""
        self._next_look_s = 0.0
        """At them."""

    @property
    def url(self) -> str:
        """Where this machine opens the page."""
        host = self.options.host
        if is_every_address(host):
            host = "::1" if ":" in host else "127.0.0.1"
        return f"{self.scheme}://{in_address(host)}:{self.port}"

    @property
    def urls(self) -> list[str]:
        """Where others do; nothing where they cannot."""
        host = self.options.host
        if is_loopback(host):
            return []
        hosts = [host]
        if is_every_address(host):  # of its family: "::" is not listened on by IPv4
            hosts = [a for a in machine_addresses() if (":" in a) == (":" in host)]
        return [f"{self.scheme}://{in_address(host)}:{self.port}" for host in hosts]

    @property
    def nats(self) -> NatsServer:
        return self._nats

    @property
    def processes(self) -> tuple[Child, ...]:
        """The bus and all that stand on it."""
        return (self._nats.process, *self.children.values(), *self._passing)

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    async def _start(self) -> None:
        started = self._clock.now()
        self._check_options()
        self.anything_started = True
        await on_starting(await self._open_bus(), self._note_starting)
        for service in SERVICES:
            for name in self._names(service):
                self._add(name, service, [f"services.{service}"], ["--label", name])
        listen = ["--host", self.options.host, "--port", str(self.port)]
        gateways = self._names(GATEWAY)
        if SHARES_PORTS:
            listen += ["--share-port", "true"]  # with the one that takes its place, if one alone
        for name in gateways:
            self._add(name, GATEWAY, [GATEWAY], [*listen, "--label", name])
        for child in self.processes:
            self._keep(child, child.name)
        try:
            async with asyncio.timeout(self.options.ready_timeout_s) as deadline:
                self._deadline = deadline
                await self._until_ready()
        except TimeoutError:
            late = [c for c in self.processes if c.state is not State.READY]
            if complaints := [_complaint(c, "did not become ready") for c in late]:
                raise VisavisError("\n".join(filter(None, [self.busy, *complaints]))) from None
            if unfound := sorted(self._unfound):
                raise VisavisError(f"not to be found on the bus: {', '.join(unfound)}") from None
            if (said := await self._gateway_says()) != "ok":  # else it was just in time
                raise VisavisError(f"the gateway does not become ready: {said}") from None
        finally:
            self._deadline = None
        self.ready_s = self._clock.now() - started
        for restarter in self._restarters.values():
            restarter.for_ever = True

    async def _open_bus(self) -> Bus:
        """Start nats-server, which knows the users of `keys` alone. Raises VisavisError."""
        self._bus_folder = folder = private_folder(self.options.log_dir)
        bus = self._nats.process
        # The folder for logs may be one that we cannot write in.
        bus.storage, bus.users, bus.ports_dir = folder / "kept", folder / USERS_FILE, folder
        try:
            self._folder_held = hold_folder(folder)
            write_private(folder / USERS_FILE, users_config(self.keys.passwords))
            self._nats.launch()
            await asyncio.to_thread(self._nats.until_listening)
            leave_for_owner(folder, self.port, self.keys, self._nats.url)
        except OSError as error:
            raise VisavisError(f"{folder} cannot hold the bus's keys: {error.strerror}") from error
        operator = self.keys.login(User.OPERATOR)
        self._bus = await Bus.connect(
            self._nats.url, name="supervisor", wait_s=_BUS_WAIT_S, login=operator
        )
        # Nobody else may make one.
        names = (*BUCKETS, *RECORDS)
        self._buckets = Keeper("buckets", partial(keep_buckets, self._bus, names))
        self._buckets.start()
        return self._bus

    def _check_options(self) -> None:
        """Before anything is started. Raises VisavisError."""
        if not SHARES_PORTS and len(self._names(GATEWAY)) > 1:
            raise VisavisError(
                "several gateways need Linux: they share one port, which this system does not "
                "spread over processes"
            )
        check_listening(self.options.host, self.port)
        self._held = hold_port(self.options.host, self.port)
        check_log_dir(self.options.log_dir)

    def _note_starting(self, name: str, doing: str) -> None:
        """Who gets on with its start is waited for; whoever says the same again does not."""
        if name not in self.children or self.starting.get(name) == doing:
            return
        self.starting[name] = doing
        self._put_off()

    def _look_for_progress(self, began_s: float) -> None:
        """Who computes gets on, or would if others left it a core."""
        if (now_s := self._clock.now()) < self._next_look_s:
            return
        self._next_look_s = now_s + self.options.ready_timeout_s / 120
        starts = [c for c in self.processes if c.state is State.STARTING]
        worked_s = sum(c.computed_s() + c.reading().waited_s for c in starts)
        self._worked_s = min(self._worked_s, worked_s)
        lately_s = worked_s - self._worked_s
        if lately_s < self.options.ready_timeout_s / 20:
            return
        if now_s - began_s < _LONGEST_COMPUTING_S:
            self._worked_s = worked_s
            self._put_off()

    def _look_at_others(self, before: MachineTime) -> None:
        now = MachineTime.now()
        ours_s = sum(child.computed_s() for child in self.processes)
        theirs_s = now.busy_s - before.busy_s - ours_s
        share = theirs_s / max(1.0, now.total_s - before.total_s)
        said = (
            f"This machine is busy: other programs have {min(1.0, share):.0%} of its processor, "
            "and the start takes longer. Where they can wait, stop them."
        )
        self.busy = said if share >= _BUSY_SHARE else ""

    def _put_off(self) -> None:
        if self._deadline is not None and not self._deadline.expired():
            now = asyncio.get_running_loop().time()
            self._deadline.reschedule(now + self.options.ready_timeout_s)

    def _names(self, service: str) -> list[str]:
        """What the service's processes are called: "face", or "face-1" and "face-2"."""
        count = self.options.replicas.get(service, 1)
        return [service] if count == 1 else [f"{service}-{n}" for n in range(1, count + 1)]

    def _add(self, name: str, service: str, usual: Sequence[str], arguments: Sequence[str]) -> None:
        module, *first = self.options.programs.get(service, usual)
        given = self.options.arguments.get(service, ())
        flags = [*first, "--nats-url", self._nats.url, *arguments, *given]
        self._commands[name] = (module, flags)
        self.children[name] = python_child(name, module, flags, self.options.log_dir)

    def _environ(self, name: str) -> dict[str, str]:
        # A key on the command line could be read by every user of the machine.
        environ: dict[str, str] = {}
        for service in (*SERVICES, GATEWAY):
            if name in self._names(service):
                environ |= self.keys.environ(service)
        if name in self._names(GATEWAY):
            given = {"API_KEY": self.options.api_key, "TOKEN_KEY": self.options.token_key}
            environ |= {f"{ENV_PREFIX}GATEWAY_{k}": value for k, value in given.items() if value}
        return environ

    async def _until_ready(self) -> None:
        began_s, before = self._clock.now(), MachineTime.now()
        look_s = began_s + _LOOK_AT_OTHERS_S
        while True:
            await self.refresh()
            self._look_for_progress(began_s)
            if self._clock.now() >= look_s:
                look_s = self._clock.now() + _LOOK_AT_OTHERS_S
                self._look_at_others(before)
            for child in self.processes:
                if child.state is State.FAILED:
                    raise VisavisError(_complaint(child, "cannot be started"))
            working = all(child.state is State.READY for child in self.processes)
            if working and not self._unfound and await self._gateway_says() == "ok":
                return
            await asyncio.sleep(_POLL_S)

    @property
    def _unfound(self) -> set[str]:
        """Names of those that have not said on the bus that they are there."""
        return self.children.keys() - {replica.label for replica in self.replicas}

    async def refresh(self) -> None:
        """Bring `replicas` and `starting` up to date."""
        assert self._bus is not None
        if self._bus.connected:
            # Who works has said on the bus that it is there.
            work = all(child.state is State.READY for child in self.children.values())
            known = len(self.children) if work and not self._passing else None
            with contextlib.suppress(BusError):  # it may go at any time
                self.replicas = await discover(self._bus.client, all_are=known)
        for name, child in self.children.items():
            if child.state is State.READY:
                self.starting.pop(name, None)

    async def _gateway_says(self) -> str:
        """What `/readyz` of each gateway tells: "ok", or what one of them misses."""
        gateways = [r for r in self.replicas if r.label in self._names(GATEWAY)]
        try:
            # No certificates: to read them takes 40 ms, and it is our own process that we ask.
            client = httpx.AsyncClient(timeout=_HTTP_TIMEOUT_S, trust_env=False, verify=False)
            async with client:
                for gateway in gateways:
                    self.scheme = gateway.scheme
                    answer = await client.get(f"{gateway.scheme}://{gateway.http_address}/readyz")
                    if (said := str(answer.json()["status"])) != "ok":
                        return said
        except (httpx.HTTPError, ValueError, LookupError) as error:
            return f"it does not answer ({error!r})"
        return "ok" if gateways else "it is not to be found on the bus"

    def _keep(self, child: Child, name: str) -> None:
        self._restarters[child] = restarter = Restarter(child, self._environ(name), self._clock)
        self._keeping[child] = asyncio.create_task(restarter.run(), name=f"keep-{name}")

    async def _let_go(self, child: Child) -> None:
        """It is not started again when it ends."""
        self._restarters.pop(child, None)
        if (task := self._keeping.pop(child, None)) is not None:
            await end_tasks([task])

    # ------------------------------------------------------------ one process for another

    def processes_of(self, service: str) -> list[str]:
        """Names of the processes of a service, or of all; of one that is named, its own.

        Raises VisavisError where there is none.
        """
        if service == "all":
            return list(self.children)
        names = [service] if service in self.children else []
        if service in (*SERVICES, GATEWAY):
            names = self._names(service)
        if not names:
            known = ", ".join(["all", *SERVICES, GATEWAY])
            raise VisavisError(f"there is no service {service!r} to restart; known are {known}")
        return names

    async def start_spare(self, name: str) -> Child:
        """Another process with the name and the settings of one of ours; returns once it is ready.

        Raises VisavisError where it does not become ready; nothing of it remains then.
        """
        is_gateway = name in self._names(GATEWAY)  # these share their port from the beginning
        if is_gateway and not SHARES_PORTS:
            raise VisavisError(
                f"{name} cannot be restarted beside the one that runs: this system lets no two "
                "processes share its port"
            )
        module, flags = self._commands[name]
        if not is_gateway:
            flags = [*flags, "--takes-over", "true"]
        spare = python_child(name, module, flags, self.options.log_dir)
        spare.name = f"{name} (new)"
        self._passing.append(spare)
        self._keep(spare, name)
        try:
            await self._until_found(spare, name)
        except BaseException:
            await self._let_go(spare)
            await spare.stop()
            self._passing.remove(spare)
            raise
        return spare

    async def _until_found(self, child: Child, name: str) -> None:
        """Returns once a process that was just started serves. Raises VisavisError."""
        await self.refresh()
        before = {replica.instance for replica in self.replicas}
        began_s = self._clock.now()
        try:
            async with asyncio.timeout(self.options.ready_timeout_s) as self._deadline:
                while not await self._serves(child, name, before):
                    await asyncio.sleep(_POLL_S)
                    await self.refresh()
                    self._look_for_progress(began_s)
        except TimeoutError:
            raise VisavisError(_complaint(child, "did not become ready")) from None
        finally:
            self._deadline = None
        self._restarters[child].for_ever = True

    async def _serves(self, child: Child, name: str, before: set[str]) -> bool:
        if child.state is State.FAILED:
            raise VisavisError(_complaint(child, "cannot be started"))
        found = {r.instance for r in self.replicas if r.label == name} - before
        if child.state is not State.READY or not found:
            return False
        return name not in self._names(GATEWAY) or await self._gateway_says() == "ok"

    def siblings(self, name: str) -> list[str]:
        """The other processes of its service."""
        services = [self._names(service) for service in (*SERVICES, GATEWAY)]
        return [other for names in services if name in names for other in names if other != name]

    async def retire(self, name: str, spare: Child) -> None:
        """Have the process called `name` drain and end; `spare` has its place from now on."""
        old = self.children[name]
        await self._let_go(old)
        self._passing[self._passing.index(spare)] = old
        old.name, spare.name = f"{name} (old)", name
        self.children[name] = spare
        await old.drain()
        self._passing.remove(old)

    async def restart_in_place(self, name: str) -> None:
        """Have the process called `name` drain and end, then start it anew."""
        child = self.children[name]
        await self._let_go(child)
        await child.drain()
        self._keep(child, name)
        self._restarters[child].for_ever = True
        await self._until_found(child, name)

    async def stop(self) -> None:
        """End everything, the gateway first so that visitors are told. Idempotent."""
        for one in self._held:
            one.close()
        await end_tasks(self._keeping.values())
        self._keeping.clear()
        gateways = self._names(GATEWAY)
        now = signal.SIGINT  # without handing sessions over, or draining: all others end, too
        await asyncio.gather(*(c.stop(now) for n, c in self.children.items() if n in gateways))
        await asyncio.gather(*(c.stop(now) for c in (*self.children.values(), *self._passing)))
        if self._buckets is not None:
            await self._buckets.stop()
        if self._bus is not None:
            await self._bus.close()
            self._bus = None
        await asyncio.to_thread(self._nats.stop)
        if self._folder_held is not None:
            os.close(self._folder_held)
            self._folder_held = None
        if self._bus_folder is not None:
            await asyncio.to_thread(shutil.rmtree, self._bus_folder, ignore_errors=True)


def _complaint(child: Child, what: str) -> str:
    why = f": it {child.ended}" if child.ended else ""
    tail = child.log_tail()
    return f"{child.name} {what}{why}" + (f"; the end of {child.log_path}:\n{tail}" if tail else "")
