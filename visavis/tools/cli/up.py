"""`visavis up`: the whole stack on this machine, until Ctrl-C; `visavis restart`: parts of it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TextIO, TypeAlias, cast

import psutil
import typer
from rich.console import Console
from rich.live import Live
from rich.markup import escape

from visavis.bundles.store import bundle_path
from visavis.bundles.store.catalogue import default_catalog, default_model_dir
from visavis.serving.addresses import is_loopback
from visavis.serving.discovery import Replica
from visavis.serving.errors import ModelStoreError, SettingsError, VisavisError
from visavis.serving.lifetime.supervision import end_tasks
from visavis.serving.logs import JsonFormatter
from visavis.serving.settings import SERVICES, env_prefix, secret_in, sections_in
from visavis.serving.trust import own_certificate
from visavis.tools.cli.doctor_checks import Level, check_memory
from visavis.tools.cli.models import chosen_bundles, pull_missing
from visavis.tools.shown import Table, output_console
from visavis.tools.stack.control import (
    announced,
    ask_restart,
    listening,
    running_stacks,
    socket_path,
)
from visavis.tools.stack.keys import write_keys
from visavis.tools.stack.nats_server import check_listening
from visavis.tools.stack.process import (
    Child,
    State,
    log_dir,
    memory_bytes,
    open_log,
    python_child,
)
from visavis.tools.stack.rolling import RollingRestart
from visavis.tools.stack.supervisor import (
    GATEWAY,
    Stack,
    StackOptions,
    check_log_dir,
    new_token_key,
)

_SELF_SIGNED = "--tls-self-signed"
_HOST, _PORT = "127.0.0.1", 8080
_REFRESH_S = 1.0
_LOOK_S = 0.2
_STARTING = "Starting the bus, four services and the gateway …"
_REPLICATED = (*SERVICES, GATEWAY)
MOST_REPLICAS = 32
"""Of one service on one machine: more is a slip of the finger."""
_COLOURS = {
    State.READY: "green",
    State.STARTING: "yellow",
    State.RESTARTING: "yellow",
    State.DRAINING: "yellow",
    State.FAILED: "red",
    State.STOPPED: "dim",
}

Replicas: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="SERVICE=N,…",
        help="How many processes of a service, or gateways, there are to be in a stack that is "
        "started, as in face=2,gateway=2; one of each that is not named. See docs/replicas.md.",
    ),
]


def up(
    profile: Annotated[
        str, typer.Option(help="Set of weights: edge, tiny, default or better.")
    ] = "default",
    host: Annotated[
        str | None,
        typer.Option(
            envvar="VISAVIS_GATEWAY_HOST",
            show_default=_HOST,
            help="Address of the page; other than loopback needs a key, and https (--tls-…) for "
            "the microphone.",
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            envvar="VISAVIS_GATEWAY_PORT",
            show_default=str(_PORT),
            min=0,
            max=65535,
            metavar="PORT",
            help="Port of the page; 0: any free one.",
        ),
    ] = None,
    api_key: Annotated[
        str,
        typer.Option(
            envvar="VISAVIS_GATEWAY_API_KEY",
            help="Key that clients must send. Every user of the machine can read it on a command "
            "line: better set it in the environment, or use --api-key-file.",
        ),
    ] = "",
    api_key_file: Annotated[
        Path | None,
        typer.Option(
            envvar="VISAVIS_GATEWAY_API_KEY_FILE", help="File that holds the key, on one line."
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None,
        typer.Option(
            envvar="VISAVIS_GATEWAY_TLS_CERT",
            help="Certificate (PEM): the page by https.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    tls_key: Annotated[
        Path | None,
        typer.Option(
            envvar="VISAVIS_GATEWAY_TLS_KEY",
            help="Its key (PEM).",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    tls_self_signed: Annotated[
        bool,
        typer.Option(
            "--tls-self-signed",
            envvar="VISAVIS_GATEWAY_TLS_SELF_SIGNED",
            help="https with a certificate made here, of which browsers warn.",
        ),
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            help="TOML file with a section for each process.", exists=True, dir_okay=False
        ),
    ] = None,
    answers: Annotated[
        Path | None,
        typer.Option(
            help="TOML or JSON file of frequent questions and welcome phrases.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    knowledge: Annotated[
        Path | None,
        typer.Option(
            help="Folder of texts (txt, md, html) that answers are made of.",
            exists=True,
            file_okay=False,
        ),
    ] = None,
    replicas: Replicas = "",
    logs: Annotated[Path | None, typer.Option(help="Folder for the log of each process.")] = None,
) -> None:
    """Start the avatar: bus, four services and gateway; print the page's address.

    Weights that are missing are pulled first. Ctrl-C ends everything in order.
    """
    counts = replica_counts(replicas)
    if api_key_file is not None and not api_key:
        secret_in(api_key_file, "--api-key-file")  # what is wrong with it is told at once
    told = section_of(GATEWAY, config)
    host, port = _listening_at(host, port, told)
    if not (api_key or api_key_file is not None or is_loopback(host)):
        _check_exposure(host, told)
    console = output_console(file=cast(TextIO, _Lasting(sys.stdout)))
    folder = logs or log_dir()
    # The stack does, too, but behind a pull of minutes.
    check_listening(host, port)
    check_log_dir(folder)
    for other in running_stacks(folder):
        shared = f"The stack at port {other} has its logs in {escape(str(folder))}, too"
        console.print(f"[yellow]{shared}[/yellow]: --logs keeps them apart", soft_wrap=True)
    arguments = stack_arguments(profile, config, answers, knowledge)
    arguments[GATEWAY] += _tls_arguments(tls_cert, tls_key, self_signed=tls_self_signed)
    if api_key_file is not None and not api_key:
        # Read anew by each gateway that is started, so a new key takes a restart and no more.
        arguments[GATEWAY] += ["--api-key-file", str(api_key_file.resolve())]
    options = StackOptions(
        log_dir=folder,
        host=host,
        port=port,
        api_key=api_key,
        token_key=token_key(told),
        arguments=arguments,
        replicas=counts,
    )
    with contextlib.ExitStack() as start:
        start.enter_context(announced(port))
        names = chosen_bundles(profile, console)
        _compile_meanwhile(names, folder)
        pull_missing(names, console)
        _warn_of_memory(profile, console)
        _tell_of_the_stack(folder, console)
        asyncio.run(_run(options, console, start.close))


def restart(
    services: Annotated[
        list[str],
        typer.Argument(
            metavar="SERVICE|all",
            help="asr, llm, tts, face, gateway, one process of several such as face-2, or all.",
        ),
    ],
    port: Annotated[
        int,
        typer.Option(
            min=0, max=65535, help="Port of the stack's page, where several stacks run here."
        ),
    ] = 0,
    logs: Annotated[
        Path | None, typer.Option(help="Where that `visavis up` was told to keep its logs.")
    ] = None,
) -> None:
    """Restart services of the stack that runs here, and lose no turn. One that is just starting is
    waited for.

    Of each process in turn a new one is started. Once it is ready the old one takes nothing new,
    finishes the turns at work, hands its sessions over between turns, and ends. The bus stays. A
    service of which there is one process is restarted like this as well: for a moment there are
    two, and memory is needed for both. Visitors of a gateway connect again by themselves, within
    a second.

    To have weights or a configuration file read anew, for example:

        visavis restart llm

        visavis restart all
    """
    folder = logs or log_dir()
    found = [running for running in running_stacks(folder) if port in (0, running)]
    if not found:
        at = f" at port {port}" if port else ""
        raise VisavisError(
            f"no stack runs here{at} that keeps its logs in {folder}; start one with `visavis up`, "
            "or say with --logs where its logs are"
        )
    if len(found) > 1:
        ports = ", ".join(map(str, found))
        raise VisavisError(f"several stacks run here; choose one by its --port: {ports}")
    asyncio.run(_restart(socket_path(folder, found[0]), services, output_console()))


def keys(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            file_okay=False,
            help="Where they are to lie; made if it is not there.",
        ),
    ],
) -> None:
    """Write the secrets of a stack in containers: who may speak on the bus, who may call.

    A file for each user of the bus, one that all services share, and bus.conf for nats-server.
    Files that are there stay; bus.conf is written anew. See docs/security-inside.md.
    """
    write_keys(folder)
    output_console().print(f"The keys are in {folder}: whoever has them is a part of the stack.")


async def _restart(path: Path, services: list[str], console: Console) -> None:
    async for step in ask_restart(path, services):
        console.print(step, highlight=False)


def _compile_meanwhile(names: Sequence[str], logs: Path) -> None:
    """Where weights are missing, begin to compile what draws: it is done when they are here.

    Else the first start would take half a minute longer. It ends with us, if not by itself.
    """
    try:
        for name in names:
            bundle_path(name)
    except ModelStoreError:
        python_child("drawing", "services.face.compiled", [], logs).start()


def _warn_of_memory(profile: str, console: Console) -> None:
    """Say that there is too little of it before a process is killed for that."""
    for found in check_memory(default_catalog(), default_model_dir(), profile):
        if found.level is not Level.OK:
            said = f"[yellow]Memory is short:[/yellow] {escape(found.detail)}. To mend it: "
            console.print(said + escape(found.remedy), highlight=False, soft_wrap=True)


class _Lasting:
    """What is shown, on a terminal that may be closed or in a file that may find its disk full: the
    stack stands without it.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Told(logging.Handler):
    """What befalls the stack's processes: on the terminal, and in a log beside theirs."""

    def __init__(self, path: Path, console: Console) -> None:
        super().__init__()
        self._path, self._console = path, console
        self.setFormatter(JsonFormatter("up"))

    def emit(self, record: logging.LogRecord) -> None:
        self._console.print(f"[yellow]visavis:[/yellow] {escape(record.getMessage())}")
        # Opened anew for each of its rare lines: folders move, and disks fill up.
        with contextlib.suppress(OSError), open_log(self._path) as file:
            file.write((self.format(record) + "\n").encode())


def _tell_of_the_stack(folder: Path, console: Console) -> None:
    logging.getLogger().addHandler(logging.NullHandler())  # the table shows the rest
    logger = logging.getLogger("visavis.tools.stack")
    logger.handlers[:] = [_Told(folder / "up.log", console)]
    logger.propagate = False


def replica_counts(text: str) -> dict[str, int]:
    """How many there are to be of each service that "face=2,tts=2" names. Raises BadParameter."""
    counts: dict[str, int] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        service, _, count = map(str.strip, part.partition("="))
        if service not in _REPLICATED:
            known = ", ".join(_REPLICATED)
            raise _not_replicas(f"there is no service {service!r}; known are {known}")
        if service in counts:
            raise _not_replicas(f"{service} is named twice")
        if not (count.isascii() and count.isdigit() and 1 <= int(count) <= MOST_REPLICAS):
            raise _not_replicas(f"{part!r}: a number from 1 to {MOST_REPLICAS} is wanted")
        counts[service] = int(count)
    return counts


def _not_replicas(why: str) -> typer.BadParameter:
    return typer.BadParameter(f"{why}; write it as face=2,tts=2", param_hint="--replicas")


def token_key(told: Mapping[str, Any]) -> str:
    """What a stack's gateways sign session tokens with; "" where their section tells it."""
    return "" if {"token_key", "token_key_file"} & told.keys() else new_token_key()


def section_of(name: str, config: Path | None) -> dict[str, Any]:
    """What a stack's file tells one of its services, or its gateways; None: the file that the
    environment names to them, if any. Raises SettingsError where it is not in order.
    """
    named = config or os.environ.get(f"{env_prefix(name)}CONFIG")
    return sections_in(named).get(name, {}) if named else {}


def _listening_at(host: str | None, port: int | None, told: Mapping[str, Any]) -> tuple[str, int]:
    """Where the page is to be, which the gateways' section may tell. Raises SettingsError."""
    found_host = told.get("host", _HOST) if host is None else host
    found_port = told.get("port", _PORT) if port is None else port
    if not isinstance(found_host, str):
        raise SettingsError(f"--config: [gateway] host: no address: {found_host!r}")
    if not isinstance(found_port, int) or not 0 <= found_port <= 65535:
        raise SettingsError(f"--config: [gateway] port: not from 0 to 65535: {found_port!r}")
    return found_host, found_port


def _check_profile(profile: str, config: Path | None) -> None:
    """Raises SettingsError where a service is told another one than the stack is of."""
    for name in SERVICES:
        variable = f"{env_prefix(name)}PROFILE"
        told = {
            variable: os.environ.get(variable),
            f"[{name}] profile": section_of(name, config).get("profile"),
        }
        for setting, value in told.items():
            if value and value != profile:
                raise SettingsError(
                    f"{setting}: {value}, but all services of a stack have one profile, which is "
                    f"{profile} here: take it away, or give --profile {value}"
                )


def _check_exposure(host: str, told: Mapping[str, Any]) -> None:
    """Raises SettingsError where the gateway would refuse to listen there without a key.

    It would say so itself, once everything else had been started.
    """
    prefix = env_prefix(GATEWAY)
    in_file = {"api_key", "api_key_file", "access_file"} & told.keys()
    if not in_file and not os.environ.get(f"{prefix}ACCESS_FILE"):
        raise SettingsError(
            f"host: {host} can be reached from other machines, so an API key is needed: give one "
            f"with --api-key-file, {prefix}API_KEY or an access_file in the --config, or listen on "
            "127.0.0.1"
        )


def stack_arguments(
    profile: str,
    config: Path | None = None,
    answers: Path | None = None,
    knowledge: Path | None = None,
) -> dict[str, list[str]]:
    """Flags of each process of a stack that runs `profile`. Raises SettingsError."""
    _check_profile(profile, config)
    shared = ["--config", str(config.resolve())] if config else []
    arguments = {name: [*shared, "--profile", profile] for name in SERVICES}
    arguments[GATEWAY] = [*shared, *(["--answers", str(answers.resolve())] if answers else [])]
    arguments[GATEWAY] += ["--knowledge", str(knowledge.resolve())] if knowledge else []
    return arguments


def _tls_arguments(cert: Path | None, key: Path | None, *, self_signed: bool) -> list[str]:
    flags = ["--tls-cert", str(cert.resolve())] if cert is not None else []
    flags += ["--tls-key", str(key.resolve())] if key is not None else []
    return [*flags, *([_SELF_SIGNED, "true"] if self_signed else [])]


async def _run(options: StackOptions, console: Console, started: Callable[[], object]) -> None:
    """The stack until it is told to end. started: is called once it is ready."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    ending = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup wants it to go on
        ending.append(signal.SIGHUP)
    for signal_number in ending:
        loop.add_signal_handler(signal_number, stop.set)
    stack = Stack(options)
    rolling = RollingRestart(stack)
    starting = asyncio.create_task(stack.__aenter__())
    stopping = asyncio.create_task(stop.wait())

    async def restart(names: list[str], tell: Callable[[str], None]) -> None:
        def both(step: str) -> None:
            console.print(f"[dim]restart:[/dim] {escape(step)}", highlight=False)
            tell(step)

        if not starting.done():
            both("the stack is starting; it is waited for")
        await asyncio.shield(starting)
        await rolling.run(names, both)

    try:
        async with listening(socket_path(options.log_dir, stack.port), restart):
            await _until_started(stack, console, starting, stopping)
            if not starting.done():
                return
            starting.result()
            started()
            console.print(_ready(stack), highlight=False, soft_wrap=True)
            await _show(stack, console, stop)
    finally:
        if stack.anything_started:
            console.print("Stopping …")
        await end_tasks([starting, stopping])
        await stack.stop()


def _ready(stack: Stack) -> str:
    """What there is to know once all is ready: the addresses that can be opened, first of all."""
    lines = [
        f"[bold green]Ready[/bold green] in {stack.ready_s:.1f} s.  "
        f"Open [bold]{stack.url}[/bold]  (API: {stack.url}/docs)"
    ]
    if stack.urls:
        lines.append(f"On other machines: [bold]{'  '.join(map(escape, stack.urls))}[/bold]")
    if stack.urls and stack.scheme == "http":
        lines.append(
            "[yellow]The microphone will not work there[/yellow]: browsers give it to https and to "
            f"their own machine alone.\n  For https: {_SELF_SIGNED}, or --tls-cert and --tls-key."
        )
    if _SELF_SIGNED in stack.options.arguments.get(GATEWAY, ()):
        lines.append(
            "Browsers warn of the certificate, which was made here: pass the warning, or import "
            f"{own_certificate()}"
        )
    lines.append(f"Logs: {stack.options.log_dir}   End with Ctrl-C.")
    return "\n" + "".join(f"  {line}\n" for line in lines)


async def _until_started(
    stack: Stack, console: Console, starting: asyncio.Task[Stack], stopping: asyncio.Task[bool]
) -> None:
    """Wait for either task, and show what the services are busy with meanwhile."""
    told: set[str] = set()
    told_busy = False
    with console.status(_STARTING) as status:
        while not starting.done() and not stopping.done():
            await asyncio.wait(
                {starting, stopping}, timeout=_LOOK_S, return_when=asyncio.FIRST_COMPLETED
            )
            doing = [f"{name}: {what}" for name, what in stack.starting.items()]
            status.update("\n  ".join(filter(None, [_STARTING, *doing, stack.busy])))
            if not console.is_terminal:  # no spinner there: one line for each
                if stack.busy and not told_busy:
                    console.print(stack.busy, highlight=False)
                told_busy = told_busy or bool(stack.busy)
                for name in stack.starting.keys() - told:
                    told.add(name)
                    console.print(f"{name}: {stack.starting[name]}", highlight=False)


async def _show(stack: Stack, console: Console, stop: asyncio.Event) -> None:
    """The live table on a terminal; in a log file one table is enough."""
    if not console.is_terminal:
        console.print(_table(stack))
        await stop.wait()
        return
    with Live(_table(stack), console=console, auto_refresh=False, transient=True) as live:
        while not stop.is_set():
            await stack.refresh()
            live.update(_table(stack), refresh=True)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_REFRESH_S):
                    await stop.wait()


def placed(replica: Replica) -> str:
    """Where a service's networks run, and that this is not where they were to."""
    if not replica.wanted_device:
        return replica.device
    return f"[yellow]{replica.device} (not {replica.wanted_device})[/yellow]"


def address_of(replica: Replica) -> str:
    """Where a process answers."""
    if not replica.http_address:
        return replica.grpc_address
    return f"{replica.scheme}://{replica.http_address}"


def _pid_of(child: Child) -> str:
    """The command's own: whoever sends a signal there means it, and no guard."""
    if child.runs():
        with contextlib.suppress(psutil.Error, LookupError):
            return str(child.started().pid)
    return ""


def _table(stack: Stack) -> Table:
    table = Table("process", "", "address", "device", "pid", box=None)
    table.add_column("memory", justify="right")
    replicas = {replica.label: replica for replica in stack.replicas if not replica.draining}
    addresses = {"nats-server": stack.nats.url, "gateway": stack.url}
    sizes_bytes = memory_bytes(stack.processes)
    for child in stack.processes:
        replica = replicas.get(child.name)
        address = addresses.get(child.name) or (address_of(replica) if replica else "")
        table.add_row(
            child.name,
            f"[{_COLOURS[child.state]}]{child.state}[/]",
            address,
            placed(replica) if replica else "",
            _pid_of(child),
            f"{sizes_bytes[child.name] / 2**20:.0f} MiB",
        )
    total_bytes = sum(sizes_bytes.values())
    table.add_row("all", "", "", "", "", f"[bold]{total_bytes / 2**20:.0f} MiB[/bold]")
    return table
