"""A session's media over its WebSocket: PCM out, live mp4 in."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from websockets.asyncio.client import ClientConnection

from visavis.bench.fragments import FragmentReader
from visavis.bench.media import Arrival, MediaEndedError
from visavis.client import GatewayClient
from visavis.clock import Clock


class WebSocketMedia:
    """Made by `connect`. The mp4's sound coder holds sound back by 20 to 60 ms."""

    def __init__(self, socket: ClientConnection, clock: Clock) -> None:
        self._socket, self._clock = socket, clock

    async def send(self, pcm_s16le: bytes) -> None:
        await self._socket.send(pcm_s16le)

    async def arrivals(self) -> AsyncIterator[Arrival]:
        reader = FragmentReader()
        async for message in self._socket:
            at_s = self._clock.now()
            if isinstance(message, str):
                raise MediaEndedError(f"the gateway refused sound: {message}")
            found = reader.push(message)
            if found is not None:
                yield at_s, found
        raise MediaEndedError("the media socket was closed")


@contextlib.asynccontextmanager
async def connect(
    client: GatewayClient, session: str, clock: Clock
) -> AsyncIterator[WebSocketMedia]:
    """Speaker and viewer of a session."""
    async with client.connect(f"/v1/sessions/{session}/media?role=speaker") as socket:
        yield WebSocketMedia(socket, clock)
