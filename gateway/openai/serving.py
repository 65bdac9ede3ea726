"""Answers that flow while they are made: who hangs up ends the making at once."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, TypeVar

from fastapi import Request
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from gateway.api.state import Gateway, caller_of
from gateway.api.uploads import left, while_wanted
from visavis.serving.lifetime.supervision import ends_unless

T = TypeVar("T")

EVENTS = "text/event-stream"
DONE = b"data: [DONE]\n\n"
_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


def event(content: Mapping[str, Any]) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(content, ensure_ascii=False).encode(errors="replace") + b"\n\n"


async def within_limits(
    request: Request, gateway: Gateway, pieces: AsyncGenerator[T, None]
) -> AsyncGenerator[T, None]:
    """The pieces; while they are made they count as one session of the caller's.

    Raises OverLimitError.
    """
    async with gateway.within_limits(caller_of(request)), aclosing(pieces):
        async for piece in pieces:
            yield piece


async def begun(request: Request, pieces: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
    """The pieces, of which the first is there: what is wrong before it is raised from here."""

    async def first() -> T | None:
        return await anext(pieces, None)

    try:
        piece = await while_wanted(request, first())
    except BaseException:
        await pieces.aclose()
        raise

    async def all_of() -> AsyncGenerator[T, None]:
        async with aclosing(pieces):
            if piece is not None:
                yield piece
            async for more in pieces:
                yield more

    return all_of()


async def whole(request: Request, pieces: AsyncGenerator[T, None]) -> list[T]:
    """All pieces, made for as long as the client waits."""

    async def collect() -> list[T]:
        async with aclosing(pieces):
            return [piece async for piece in pieces]

    return await while_wanted(request, collect())


class Flowing(StreamingResponse):
    """A body that is sent as it is made, and not made any more once the client has left."""

    def __init__(self, pieces: AsyncGenerator[bytes, None], media_type: str) -> None:
        super().__init__(pieces, media_type=media_type, headers=_HEADERS)
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await ends_unless(self.stream_response(send), left(receive))
        finally:
            await self._pieces.aclose()
