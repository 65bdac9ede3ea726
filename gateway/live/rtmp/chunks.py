"""RTMP messages in chunks (RTMP 1.0, 5.3), both ways. Pure: bytes in, bytes out."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Final

SET_CHUNK_SIZE, ACKNOWLEDGEMENT, USER_CONTROL, WINDOW_SIZE, PEER_BANDWIDTH = 1, 3, 4, 5, 6
SOUND, PICTURE, DATA, COMMAND_AMF3, COMMAND = 8, 9, 18, 17, 20

OUR_CHUNK_BYTES: Final = 4096
_THEIR_CHUNK_BYTES: Final = 128
_EXTENDED: Final = 0xFFFFFF
# Of what a server says to a publisher nothing is long.
_LONGEST_MESSAGE: Final = 1 << 20
_MOST_STREAMS: Final = 64
_HEADER_BYTES: Final = {0: 11, 1: 7, 2: 3, 3: 0}


class ChunkError(ValueError):
    """The bytes are no RTMP, or none that a server has reason to send."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message. time_ms: of the stream; wraps at 32 bits."""

    kind: int
    payload: bytes
    time_ms: int = 0
    stream: int = 0


def chunked(message: Message, chunk_stream: int, chunk_bytes: int = OUR_CHUNK_BYTES) -> bytes:
    """A message as it is sent, its header whole. chunk_stream: 3 to 63."""
    time = message.time_ms & 0xFFFFFFFF
    extended = struct.pack(">I", time) if time >= _EXTENDED else b""
    payload = message.payload
    head = bytes([chunk_stream]) + min(time, _EXTENDED).to_bytes(3, "big")
    head += len(payload).to_bytes(3, "big") + bytes([message.kind])
    parts = [head + struct.pack("<I", message.stream) + extended, payload[:chunk_bytes]]
    # Where the first chunk has an extended time stamp, the others have it, too.
    again = bytes([0xC0 | chunk_stream]) + extended
    for at in range(chunk_bytes, len(payload), chunk_bytes):
        parts += [again, payload[at : at + chunk_bytes]]
    return b"".join(parts)


@dataclass(slots=True)
class _Stream:
    """What the next chunk of a chunk stream may leave out."""

    time_ms: int = 0
    delta_ms: int = 0
    length: int = 0
    kind: int = 0
    stream: int = 0
    extended: bool = False
    begun: bytearray = field(default_factory=bytearray)


class ChunkReader:
    """Puts messages together from the bytes of a connection."""

    def __init__(self) -> None:
        self.chunk_bytes = _THEIR_CHUNK_BYTES
        self._waiting = bytearray()
        self._streams: dict[int, _Stream] = {}

    def feed(self, received: bytes) -> list[Message]:
        """Messages that are complete with these bytes. Raises ChunkError."""
        self._waiting += received
        messages: list[Message] = []
        while True:
            taken, message = self._chunk()
            if not taken:
                return messages
            del self._waiting[:taken]
            if message is not None:
                if message.kind == SET_CHUNK_SIZE:
                    self._resize(message.payload)
                messages.append(message)

    def _resize(self, payload: bytes) -> None:
        size = int.from_bytes(payload[:4], "big") & 0x7FFFFFFF
        if not 1 <= size <= _LONGEST_MESSAGE * 16:
            raise ChunkError("no RTMP: chunks of no size")
        self.chunk_bytes = size

    def _chunk(self) -> tuple[int, Message | None]:
        """Bytes of the first chunk, 0 where it is not whole; the message that it completes."""
        data = self._waiting
        if not data:
            return 0, None
        form, number, at = data[0] >> 6, data[0] & 0x3F, 1
        if number < 2:
            at += 1 + number
            if len(data) < at:
                return 0, None
            number = 64 + int.from_bytes(data[1:at], "little")
        if len(data) < at + _HEADER_BYTES[form]:
            return 0, None
        found = self._streams.get(number)
        if found is None and (form or len(self._streams) >= _MOST_STREAMS):
            raise ChunkError("no RTMP: a chunk goes on with what has not begun")
        stream = found or _Stream()
        time, length, kind, owner = self._header(stream, form, at)
        at += _HEADER_BYTES[form]
        extended = stream.extended if form == 3 else time == _EXTENDED
        if extended:
            if len(data) < at + 4:
                return 0, None
            time = int.from_bytes(data[at : at + 4], "big")
            at += 4
        wanted = min(self.chunk_bytes, length - len(stream.begun))
        if len(data) < at + wanted:
            return 0, None
        self._streams[number] = stream
        stream.length, stream.kind, stream.stream = length, kind, owner
        stream.extended = extended
        self._advance(stream, form, time)
        stream.begun += data[at : at + wanted]
        return at + wanted, self._completed(stream)

    def _header(self, stream: _Stream, form: int, at: int) -> tuple[int, int, int, int]:
        """Time field, length, kind and owner of a chunk; what it leaves out is as before."""
        head = self._waiting[at : at + _HEADER_BYTES[form]]
        time = int.from_bytes(head[:3], "big") if form < 3 else stream.delta_ms
        length, kind, owner = stream.length, stream.kind, stream.stream
        if form < 2:
            length, kind = int.from_bytes(head[3:6], "big"), head[6]
        if form == 0:
            owner = int.from_bytes(head[7:11], "little")
        if length > _LONGEST_MESSAGE:
            raise ChunkError(f"no RTMP: a message of {length} bytes")
        return time, length, kind, owner

    @staticmethod
    def _advance(stream: _Stream, form: int, time: int) -> None:
        if stream.begun:
            return  # it goes on: the time is that of its beginning
        if form == 0:
            stream.time_ms, stream.delta_ms = time, 0
        else:
            stream.delta_ms = time
            stream.time_ms = (stream.time_ms + time) & 0xFFFFFFFF

    @staticmethod
    def _completed(stream: _Stream) -> Message | None:
        if len(stream.begun) < stream.length:
            return None
        payload, stream.begun = bytes(stream.begun), bytearray()
        return Message(stream.kind, payload, stream.time_ms, stream.stream)
