"""Speech that a program brings, for a session in which nothing else speaks."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import websockets
from numpy.typing import NDArray
from websockets.asyncio.client import ClientConnection

from visavis.client.errors import has_ended, lost


class Speech:
    """The way of a program's speech to the face: utterances, one after the other.

    Made by `GatewaySession.bring_speech`. Sound may be sent as fast as it is made: five minutes may
    wait, and of what is more an `error` event tells, with the code `too_many_waiting`. Raises
    GatewayError where the connection is lost.
    """

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    async def begin(self, rate_hz: int = 24_000, text: str = "") -> None:
        """An utterance begins. rate_hz: 8000 to 48000. text: what it says, for captions."""
        await self._tell({"type": "begin", "rate_hz": rate_hz, "text": text})

    async def send(self, pcm: NDArray[np.int16] | bytes) -> None:
        """Sound of it: [N] int16, mono; or those samples little-endian."""
        sound = pcm if isinstance(pcm, bytes) else pcm.astype("<i2", copy=False).tobytes()
        await self._send(sound)

    async def end(self) -> None:
        """The utterance is complete."""
        await self._tell({"type": "end"})

    async def cut(self) -> None:
        """Be silent: nothing of what was brought is heard any more, not even the rest of it."""
        await self._tell({"type": "cut"})

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """`turn` and `error` events, until the session ends: of each utterance opened, speaking,
        then finished or interrupted, with `played_ms`. Raises GatewayError where they are lost.
        """
        try:
            async for message in self._socket:
                yield json.loads(message)
        except websockets.ConnectionClosed as closed:
            if not has_ended(closed):
                raise lost(closed) from closed

    async def _tell(self, message: dict[str, Any]) -> None:
        await self._send(json.dumps(message))

    async def _send(self, message: str | bytes) -> None:
        try:
            await self._socket.send(message)
        except websockets.ConnectionClosed as closed:
            raise lost(closed) from closed
