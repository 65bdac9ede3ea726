"""AMF0 (Action Message Format, version 0): the values of RTMP's commands as bytes. Pure."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final, TypeAlias

Value: TypeAlias = "float | bool | str | dict[str, Value] | list[Value] | None"

_NUMBER, _BOOLEAN, _STRING, _OBJECT, _NULL, _ECMA_ARRAY, _OBJECT_END = 0, 1, 2, 3, 5, 8, 9
_LONG_STRING: Final = 12
_END: Final = b"\0\0\x09"
_DEEPEST: Final = 8
_MOST_ITEMS: Final = 1000


class AmfError(ValueError):
    """The bytes are no AMF0, or none that a server has reason to send."""


def encode(*values: float | bool | str | Mapping[str, float | bool | str] | None) -> bytes:
    """One value after the other; a mapping becomes an object."""
    return b"".join(_encoded(value) for value in values)


def ecma_array(values: Mapping[str, float | bool | str]) -> bytes:
    """An associative array, as a stream's metadata is."""
    return bytes([_ECMA_ARRAY]) + struct.pack(">I", len(values)) + _members(values)


def decode(payload: bytes) -> list[Value]:
    """All values in it. Raises AmfError."""
    reader = _Reader(payload)
    values: list[Value] = []
    try:
        while not reader.at_end:
            values.append(reader.value())
    except (struct.error, UnicodeDecodeError) as error:
        raise AmfError(f"not AMF0: {error}") from error
    return values


def _encoded(value: float | bool | str | Mapping[str, float | bool | str] | None) -> bytes:
    match value:
        case None:
            return bytes([_NULL])
        case bool():
            return bytes([_BOOLEAN, value])
        case int() | float():
            return bytes([_NUMBER]) + struct.pack(">d", value)
        case str():
            text = value.encode()
            if len(text) > 0xFFFF:
                return bytes([_LONG_STRING]) + struct.pack(">I", len(text)) + text
            return bytes([_STRING]) + _short(text)
        case _:
            return bytes([_OBJECT]) + _members(value)


def _members(values: Mapping[str, float | bool | str]) -> bytes:
    members = (_short(name.encode()) + _encoded(value) for name, value in values.items())
    return b"".join(members) + _END


def _short(text: bytes) -> bytes:
    return struct.pack(">H", len(text)) + text


class _Reader:
    """Reads values from bytes, none beyond their end."""

    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self._at = 0

    @property
    def at_end(self) -> bool:
        return self._at >= len(self._payload)

    def value(self, depth: int = 0) -> Value:
        if depth > _DEEPEST:
            raise AmfError("not AMF0: values within values")
        (kind,) = self._unpack(">B")
        match kind:
            case 0:  # number
                return float(self._unpack(">d")[0])
            case 1:  # boolean
                return bool(self._unpack(">B")[0])
            case 2:  # string
                return self._text(*self._unpack(">H"))
            case 3:  # object
                return self._members(depth)
            case 5 | 6:  # null, undefined
                return None
            case 8:  # ECMA array
                self._unpack(">I")  # how many, which need not be right
                return self._members(depth)
            case 10:  # strict array
                (count,) = self._unpack(">I")
                if count > _MOST_ITEMS:
                    raise AmfError("not AMF0: too many items")
                return [self.value(depth + 1) for _ in range(count)]
            case 11:  # date, with a time zone that means nothing
                return float(self._unpack(">dh")[0])
            case 12:  # long string
                return self._text(*self._unpack(">I"))
        raise AmfError(f"not AMF0: a value of kind {kind}")

    def _members(self, depth: int) -> dict[str, Value]:
        found: dict[str, Value] = {}
        while len(found) <= _MOST_ITEMS:
            name = self._text(*self._unpack(">H"))
            if not name and self._payload[self._at : self._at + 1] == bytes([_OBJECT_END]):
                self._at += 1
                return found
            found[name] = self.value(depth + 1)
        raise AmfError("not AMF0: too many members")

    def _text(self, length: int) -> str:
        text = self._payload[self._at : self._at + length]
        if len(text) < length:
            raise AmfError("not AMF0: it breaks off")
        self._at += length
        return text.decode()

    def _unpack(self, layout: str) -> tuple[int, ...]:
        values: tuple[int, ...] = struct.unpack_from(layout, self._payload, self._at)
        self._at += struct.calcsize(layout)
        return values
