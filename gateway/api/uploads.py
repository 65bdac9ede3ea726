"""What a form brings, in memory; and work that is done for as long as the client is there."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import Request
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.types import Receive

from gateway.api.problems import not_text
from visavis.serving.errors import InvalidInputError
from visavis.serving.lifetime.supervision import ends_unless

T = TypeVar("T")

UPLOAD_TIMEOUT_S = 120.0
_CLIENT_LEFT = 499
"""Nobody reads it; nginx logs it so, too."""


class _InMemory(MultiPartParser):
    """Writes no file: the limits bound what comes, and a full disk is no reason to refuse it. Text
    that is not in the form's character set is refused, not guessed at.
    """

    spool_max_size = 1_000_000_000

    def on_part_end(self) -> None:
        part = self._current_part
        if part.file is None:
            try:
                part.data.decode(self._charset)
            except UnicodeDecodeError as fault:
                raise not_text(fault, part.field_name) from None
        super().on_part_end()


async def read_form(request: Request, file: str, fields: str, *, max_fields: int) -> FormData:
    """A form of one file, which has this name, and some fields. Close it.

    Raises InvalidInputError, HTTPException.
    """
    if not request.headers.get("Content-Type", "").startswith("multipart/form-data"):
        raise InvalidInputError(f"body: a form is wanted (multipart/form-data), of {fields}")
    parser = _InMemory(request.headers, request.stream(), max_files=1, max_fields=max_fields)
    try:
        async with asyncio.timeout(UPLOAD_TIMEOUT_S):
            return await parser.parse()
    except MultiPartException as error:
        raise HTTPException(400, error.message) from None
    except TimeoutError:
        raise InvalidInputError(
            f"{file}: it has not arrived within {UPLOAD_TIMEOUT_S:.0f} s"
        ) from None


async def while_wanted(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is cancelled as soon as the client has left."""
    working = asyncio.create_task(work)
    if not await ends_unless(working, left(request.receive)):
        raise HTTPException(_CLIENT_LEFT, "the client has left")
    return working.result()


async def left(receive: Receive) -> None:
    """Returns once the client has. What he has to say must have been read."""
    while (await receive())["type"] != "http.disconnect":
        pass
