"""A small HTTP/1.1 server that answers with the bytes a test wants, as slowly as it wants."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

Script = Callable[["Exchange"], Awaitable[None]]


@dataclass
class Exchange:
    """One request, and the way to answer it."""

    path: str
    headers: dict[str, str]
    body: Any
    _writer: asyncio.StreamWriter
    _reader: asyncio.StreamReader

    async def reply(self, status: int, body: bytes, content_type: str = "application/json") -> None:
        head = (
            f"HTTP/1.1 {status} X\r\nContent-Type: {content_type}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        await self.send(head.encode() + body)

    async def begin_stream(self) -> None:
        """The body lasts until the connection ends."""
        await self.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")

    async def send(self, payload: bytes) -> None:
        self._writer.write(payload)
        await self._writer.drain()

    async def event(self, content: dict[str, Any]) -> None:
        await self.send(b"data: " + json.dumps(content, ensure_ascii=False).encode() + b"\n\n")

    async def closed_by_client(self) -> None:
        """Returns once the client has hung up."""
        while await self._reader.read(1024):
            pass


@dataclass
class HttpServer:
    """Answers GET .../models with `models`, and everything else with `script`."""

    script: Script
    models: bytes = b'{"data": [{"id": "first"}, {"id": "second"}]}'
    models_status: int = 200
    exchanges: list[Exchange] = field(default_factory=list)
    url: str = ""
    _serving: set[asyncio.Task[None]] = field(default_factory=set)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._answer(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
            self._serving.discard(task)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {k.lower(): v.strip() for k, _, v in (h.partition(":") for h in head[1:])}
        raw = await reader.readexactly(int(headers.get("content-length", 0)))
        exchange = Exchange(path, headers, json.loads(raw or b"null"), writer, reader)
        self.exchanges.append(exchange)
        if method == "GET":
            await exchange.reply(self.models_status, self.models)
        else:
            await self.script(exchange)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[HttpServer]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        try:
            yield self
        finally:
            server.close()
            await asyncio.gather(*self._serving, return_exceptions=True)
