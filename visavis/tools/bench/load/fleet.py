"""The processes of a load's visitors, seen from the one that measures: started, heard, ended.

The edge: what they say is put together and not judged.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from visavis.serving.errors import VisavisError
from visavis.tools.bench.load.client import Orders
from visavis.tools.bench.load.results import ClientReport
from visavis.tools.stack.process import open_log

# A session is ended one after the other.
_END_TIMEOUT_S = 30.0
# The report is one line: ten minutes of sixteen visitors are about 2 MB.
_LINE_BYTES = 1 << 28
_TAIL_BYTES = 2_000
PROGRAM = ("visavis.tools.bench.load.client",)
"""The module that is such a process, and what it is told on its command line."""


class ClientProcess:
    """One process of visitors. Made by `clients`."""

    def __init__(
        self, process: asyncio.subprocess.Process, log_path: Path, log_start_bytes: int
    ) -> None:
        self._process = process
        self._log_path, self._log_start_bytes = log_path, log_start_bytes

    async def ready(self) -> None:
        """Returns once each of its visitors is connected or refused. Raises VisavisError."""
        await self._message("ready")

    async def report(self, on_exchange: Callable[[str], None]) -> ClientReport:
        """What it noted, once its step is over. on_exchange: told the outcome of each question.

        Raises VisavisError."""
        return ClientReport.from_dict((await self._message("done", on_exchange))["report"])

    async def tell(self, line: str) -> None:
        """Raises VisavisError where it is gone."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode() + b"\n")
            await self._process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            raise self._gone() from None

    async def end(self) -> None:
        """It ends by itself when nobody speaks to it any more."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(_END_TIMEOUT_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    async def _message(
        self, kind: str, on_exchange: Callable[[str], None] | None = None
    ) -> dict[str, Any]:
        """The next message of a kind; exchanges on the way to it are told."""
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            message: dict[str, Any] = json.loads(line)
            if message["kind"] == kind:
                return message
            if on_exchange is not None:
                on_exchange(str(message["outcome"]))
        raise self._gone()

    def _gone(self) -> VisavisError:
        logged = self._log_path.read_bytes()[self._log_start_bytes :]
        tail = logged[-_TAIL_BYTES:].decode(errors="replace").strip() or "(empty)"
        return VisavisError(f"a process of visitors ended; the end of {self._log_path}:\n{tail}")


@contextlib.asynccontextmanager
async def clients(
    orders: Sequence[Orders], log_dir: Path, program: Sequence[str] = PROGRAM
) -> AsyncIterator[list[ClientProcess]]:
    """A process for each of the orders, with all their visitors connected or refused."""
    started: list[ClientProcess] = []
    try:
        # Those who ask come first: where there is no room for all, a watcher stays out.
        for _, group in groupby(orders, lambda order: bool(order.visitors)):
            before = len(started)
            for order in group:
                started.append(await _start(log_dir / f"load-client-{len(started)}.log", program))
                await started[-1].tell(order.to_line())
            await asyncio.gather(*(client.ready() for client in started[before:]))
        yield started
    finally:
        await asyncio.gather(*(client.end() for client in started))


async def _start(log_path: Path, program: Sequence[str]) -> ClientProcess:
    with open_log(log_path) as log:
        begins = log.tell()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            *program,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            # Its arithmetic is small: threads for each core would only take time from the stack.
            env={"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **os.environ},
            # Ctrl-C reaches this process alone, which then ends it.
            process_group=0,
            limit=_LINE_BYTES,
        )
    return ClientProcess(process, log_path, begins)
