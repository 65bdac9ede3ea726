"""Open Sound Control 1.0: messages of texts and numbers, and bundles of them. Pure."""

from __future__ import annotations

import struct
from collections.abc import Sequence

_AT_ONCE = struct.pack(">Q", 1)
"""A bundle's time tag: as it comes."""


def message(address: str, *values: str | int | float) -> bytes:
    """One message; a text is ASCII."""
    tags, body = ",", b""
    for value in values:
        if isinstance(value, str):
            tags, body = tags + "s", body + _text(value)
        elif isinstance(value, int):
            tags, body = tags + "i", body + struct.pack(">i", value)
        else:
            tags, body = tags + "f", body + struct.pack(">f", value)
    return _text(address) + _text(tags) + body


def bundles(messages: Sequence[bytes], most_bytes: int) -> list[bytes]:
    """Messages in order, in as few bundles as fit into datagrams of `most_bytes`."""
    found: list[bytes] = []
    head = bundle = b"#bundle\0" + _AT_ONCE
    for each in messages:
        element = struct.pack(">i", len(each)) + each
        if len(bundle) > len(head) and len(bundle) + len(element) > most_bytes:
            found.append(bundle)
            bundle = head
        bundle += element
    return [*found, bundle]


def _text(text: str) -> bytes:
    """Ends with a zero, filled up to fours."""
    data = text.encode("ascii", "replace") + b"\0"
    return data + bytes(-len(data) % 4)
