"""Wyoming's frames: a line of JSON, then as many bytes of data and of payload as it says.

What is too large is refused by its announced size, before it is read.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import from_json

from visavis.serving.errors import InvalidInputError

LONGEST_LINE_BYTES = 65_536
MOST_DATA_BYTES = 262_144
MOST_PAYLOAD_BYTES = 1_048_576


@dataclass(frozen=True, slots=True)
class Event:
    """One message. data: what JSON can say; payload: samples."""

    type: str
    data: Mapping[str, Any] = field(default_factory=dict)
    payload: bytes = b""

    def text(self, name: str) -> str:
        """A field of the data; "" where it is missing. Raises InvalidInputError."""
        value = self.data.get(name)
        if value is not None and not isinstance(value, str):
            raise InvalidInputError(f"{self.type}: {name} is not a text")
        return value or ""

    def number(self, name: str) -> int:
        """A field of the data. Raises InvalidInputError."""
        value = self.data.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise InvalidInputError(f"{self.type}: {name} is not a whole number")
        return value

    def part(self, name: str) -> Mapping[str, Any]:
        """An object of the data; empty where it is missing. Raises InvalidInputError."""
        value = self.data.get(name)
        if value is not None and not isinstance(value, dict):
            raise InvalidInputError(f"{self.type}: {name} is not an object")
        return value or {}


def encoded(event: Event) -> bytes:
    """A frame."""
    data = (
        json.dumps(event.data, ensure_ascii=False).encode(errors="replace") if event.data else b""
    )
    head: dict[str, Any] = {"type": event.type}
    if data:
        head["data_length"] = len(data)
    if event.payload:
        head["payload_length"] = len(event.payload)
    return json.dumps(head).encode() + b"\n" + data + event.payload


async def read_head(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """The next frame's line; None: the client has ended.

    Raises InvalidInputError. The reader's limit is to be LONGEST_LINE_BYTES.
    """
    try:
        line = await reader.readuntil(b"\n")
    except asyncio.IncompleteReadError as error:
        if error.partial.strip():
            raise InvalidInputError("the last line has no end") from None
        return None
    except asyncio.LimitOverrunError:
        raise InvalidInputError(f"a line is longer than {LONGEST_LINE_BYTES} bytes") from None
    return _object(line)


async def read_rest(reader: asyncio.StreamReader, head: Mapping[str, Any]) -> Event:
    """The event that a line has begun. Raises InvalidInputError, asyncio.IncompleteReadError."""
    kind, data = head.get("type"), head.get("data")
    if not isinstance(kind, str) or not isinstance(data, dict | None):
        raise InvalidInputError("a line has no type, or data that is no object")
    data_bytes = _length(head, "data_length", MOST_DATA_BYTES)
    payload_bytes = _length(head, "payload_length", MOST_PAYLOAD_BYTES)
    more = _object(await reader.readexactly(data_bytes)) if data_bytes else {}
    payload = await reader.readexactly(payload_bytes) if payload_bytes else b""
    return Event(kind, {**(data or {}), **more}, payload)


def _length(head: Mapping[str, Any], name: str, most: int) -> int:
    length = head.get(name)
    if length is None:
        return 0
    if not isinstance(length, int) or isinstance(length, bool) or not 0 <= length <= most:
        raise InvalidInputError(f"{name}: {str(length)[:20]} is not between 0 and {most}")
    return length


def _object(data: bytes) -> dict[str, Any]:
    try:
        # It takes no half a character, which no service can be sent.
        read = from_json(data)
    except ValueError:
        why = "it is no JSON, is nested too deeply or holds half a character"
        raise InvalidInputError(f"a frame cannot be read: {why}") from None
    if not isinstance(read, dict):
        raise InvalidInputError("a frame cannot be read: it is no object")
    return read
