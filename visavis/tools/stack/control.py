"""How other commands find the `visavis up` that runs, and talk to it.

`visavis restart` does by a UNIX socket beside its logs. One line of JSON asks,
`{"restart": ["face"]}`; lines answer: `{"told": …}` for each step, at the end `{"done": true}` or
`{"error": …}`. The folder is its owner's alone, and so is the socket.

Whoever wants a gateway that is not there yet looks for a file in the folder for temporary ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from visavis.serving.addresses import is_loopback, machine_addresses
from visavis.serving.errors import VisavisError
from visavis.serving.lifetime.supervision import end_tasks

log = logging.getLogger(__name__)

Restart = Callable[[list[str], Callable[[str], None]], Awaitable[None]]
"""Restarts what is named, and calls with each step."""
_CONNECT_TIMEOUT_S = 2.0
_STARTS = "visavis-starts-"
_LONGEST_PATH_BYTES = 100
"""Of a socket's address: Linux takes 107, others 103."""


def socket_path(log_dir: Path, port: int) -> Path:
    """Of the stack whose gateway listens on `port`."""
    return log_dir / f"up-{port}.sock"


@contextlib.asynccontextmanager
async def listening(path: Path, restart: Restart) -> AsyncIterator[None]:
    """Answers at `path` while the context lasts; where that cannot be, says so and goes on."""

    asked: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(serve(reader, writer))
        asked.add(task)
        task.add_done_callback(asked.discard)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def say(**told: Any) -> None:
            # Whoever has asked may have gone: what they began goes on to its end.
            writer.write(json.dumps(told).encode() + b"\n")

        try:
            if not (line := await reader.readline()):
                return  # somebody has looked whether we are here
            wanted = json.loads(line)["restart"]
            await restart([str(name) for name in wanted], lambda step: say(told=step))
            say(done=True)
        except VisavisError as error:
            say(error=str(error))
        except Exception as error:
            log.exception("restart")
            say(error=f"it failed: {error!r}")
        finally:
            writer.close()

    with contextlib.ExitStack() as held:
        try:
            if await asyncio.to_thread(_answers, path):
                raise FileExistsError("another stack has this port, of another host; see --logs")
            await asyncio.to_thread(path.unlink, missing_ok=True)
            address = held.enter_context(_address(path))
            server = await asyncio.start_unix_server(connected, address)
            await asyncio.to_thread(path.chmod, 0o600)
        except OSError as error:
            log.warning("`visavis restart` cannot reach this stack: %s: %s", path, error)
            yield
            return
        try:
            yield
        finally:
            server.close()
            await end_tasks(asked)
            await asyncio.to_thread(path.unlink, missing_ok=True)


async def ask_restart(path: Path, names: list[str]) -> AsyncIterator[str]:
    """Each step as it is told. Raises VisavisError with the reason if it comes to no good end."""
    reader, writer = await _connected(path)
    try:
        writer.write(json.dumps({"restart": names}).encode() + b"\n")
        async for line in reader:
            told = json.loads(line)
            if "error" in told:
                raise VisavisError(told["error"])
            if "done" in told:
                return
            yield told["told"]
        raise VisavisError("`visavis up` has ended meanwhile")
    finally:
        writer.close()


async def _connected(path: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    try:
        with _address(path) as address:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                return await asyncio.open_unix_connection(address)
    except (OSError, TimeoutError) as error:
        raise VisavisError(f"the stack at {path} does not answer: {error}") from error


def running_stacks(log_dir: Path) -> Iterator[int]:
    """Ports of the stacks that run, with their logs in `log_dir`."""
    for path in sorted(log_dir.glob("up-*.sock")):
        port = path.stem.removeprefix("up-")
        if port.isdigit() and _answers(path):
            yield int(port)


def _answers(path: Path) -> bool:
    """A stack that was killed leaves its socket behind."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_CONNECT_TIMEOUT_S)
        try:
            with _address(path) as address:
                probe.connect(address)
        except OSError:
            return False
        return True


@contextlib.contextmanager
def _address(path: Path) -> Iterator[str]:
    """By which a socket at `path` is bound and reached. One that is too long goes by way of its
    folder, opened, on systems that have /proc.
    """
    if len(os.fsencode(path)) <= _LONGEST_PATH_BYTES:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


# ------------------------------------------------------------ one that starts


@contextlib.contextmanager
def announced(port: int) -> Iterator[None]:
    """Meanwhile `starts_here` knows that a stack of ours is about to have its page at `port`.

    Where no file can be left, nobody is told.
    """
    with contextlib.ExitStack() as told:
        with contextlib.suppress(OSError):
            name = f"{_STARTS}{port}-{os.getpid()}-"
            told.enter_context(tempfile.NamedTemporaryFile(prefix=name))
        yield


def starts_here(url: str) -> bool:
    """Whether a stack of ours, on this machine, is about to have its page at `url`."""
    address = urlsplit(url)
    host = address.hostname or ""
    for path in Path(tempfile.gettempdir()).glob(f"{_STARTS}{address.port}-*"):
        pid = path.name.removeprefix(_STARTS).split("-")[1]
        with contextlib.suppress(OSError):  # it has just begun
            ours = path.stat().st_uid == os.getuid()
            if ours and pid.isdigit() and psutil.pid_exists(int(pid)):
                return is_loopback(host) or host in machine_addresses()
    return False
