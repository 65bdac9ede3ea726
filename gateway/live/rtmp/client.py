"""Publishes one stream to an RTMP server, on one connection.

What FFmpeg does for this cannot be had without standing still: its connection waits where nothing
else of the process can go on, has no limit, and believes every certificate. What is sent here waits
in the connection's own buffer, and whoever sends looks at how much that is.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import struct
import time

from gateway.live.push.address import PushAddress
from gateway.live.push.failure import PushError
from gateway.live.rtmp import chunks
from gateway.live.rtmp.amf import AmfError, Value, decode, encode
from gateway.live.rtmp.chunks import ChunkError, ChunkReader, Message, chunked

_CONNECT_S = 10.0
_CLOSE_S = 1.0
_LINGER_S = 5.0
_VERSION = 3
_HANDSHAKE_BYTES = 1536
# What the system may hold beside our own buffer: more would be late where the network is slow.
_SEND_BUFFER_BYTES = 128 * 1024
_WINDOW_BYTES = 2_500_000
_READ_BYTES = 1 << 16
# Chunk streams: of control by the specification, of the others as publishers use them.
_CONTROL, _COMMANDS, _SOUND, _DATA, _PICTURES = 2, 3, 4, 5, 6
_WAYS = {chunks.SOUND: _SOUND, chunks.PICTURE: _PICTURES, chunks.DATA: _DATA}
_PING, _PONG = 6, 7
# Ends of statuses that say nothing of the key or the address: it may be otherwise in a moment.
_PASSING = (".AppShutdown", ".Closed", ".Failed", ".IdleTimeOut")
# Who is not wanted is often not told so: the server hangs up as it sees the key, or soon after.
_ON_TRIAL_S = 5.0
_ASK_KEY = "is the key right, and does the platform expect the stream now?"


class RtmpPublisher:
    """A stream that is being published. `open` it, `send`, `close` it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._chunks = ChunkReader()
        self._received = self._acknowledged = 0
        self._window = _WINDOW_BYTES
        self._stream = 0
        self._key = ""
        self._publishing_since_s: float | None = None

    @classmethod
    async def open(cls, address: PushAddress, tls: ssl.SSLContext | None) -> RtmpPublisher:
        """Connect and begin to publish. tls: for rtmps. Raises PushError, which tells no secret."""
        writer: asyncio.StreamWriter | None = None
        publisher: RtmpPublisher | None = None
        try:
            async with asyncio.timeout(_CONNECT_S):
                reader, writer = await asyncio.open_connection(
                    address.host, address.port, ssl=tls if address.encrypted else None
                )
                publisher = cls(reader, writer)
                publisher._bound_buffers()
                await publisher._shake_hands()
                await publisher._publish(address)
                return publisher
        except BaseException as error:
            if writer is not None:
                writer.transport.abort()
            if isinstance(error, TimeoutError):
                raise PushError(f"no answer within {_CONNECT_S:g} s") from None
            if isinstance(error, PushError):
                raise
            if isinstance(error, OSError | EOFError | ValueError):
                raise PushError(publisher._why(error) if publisher else _reason(error)) from None
            raise

    @property
    def waiting_bytes(self) -> int:
        """What has been sent and waits for the network."""
        return self._writer.transport.get_write_buffer_size()

    def send(self, kind: int, payload: bytes, time_ms: int = 0) -> int:
        """Send a picture, sound or metadata; never waits. How many bytes that is."""
        if self._writer.transport.is_closing():
            return 0
        message = Message(kind, payload, time_ms, self._stream)
        sent = chunked(message, _WAYS[kind])
        self._writer.write(sent)
        return len(sent)

    async def ended(self) -> None:
        """Answer what the server asks, until it ends the stream. Raises PushError with why."""
        try:
            while True:
                await self._read()
        except (OSError, EOFError, ValueError) as error:
            raise PushError(self._why(error)) from None

    async def close(self) -> None:
        """Say that the stream is over, and close the connection. May be called again."""
        if self._writer.transport.is_closing():
            return
        try:
            with contextlib.suppress(OSError, EOFError, ValueError, PushError):
                self._command("FCUnpublish", 0, None, self._key)
                self._command("deleteStream", 0, None, self._stream)
                # What is on its way arrives only if nothing that has come is left unread.
                async with asyncio.timeout(_CLOSE_S):
                    while True:
                        await self._read()
        finally:
            self._writer.close()
            if self.waiting_bytes:  # it leaves first, which is never where a server takes nothing
                loop = asyncio.get_running_loop()
                loop.call_later(_LINGER_S, self._writer.transport.abort)

    # ------------------------------------------------------------ inside

    def _bound_buffers(self) -> None:
        found: socket.socket | None = self._writer.get_extra_info("socket")
        if found is not None:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)

    async def _shake_hands(self) -> None:
        """The simple handshake (RTMP 1.0, 5.2)."""
        ours = bytes(8) + os.urandom(_HANDSHAKE_BYTES - 8)
        self._writer.write(bytes([_VERSION]) + ours)
        (version,) = await self._reader.readexactly(1)
        if version != _VERSION:
            raise PushError("the server does not speak RTMP")
        theirs = await self._reader.readexactly(_HANDSHAKE_BYTES)
        self._writer.write(theirs)
        await self._reader.readexactly(_HANDSHAKE_BYTES)

    async def _publish(self, address: PushAddress) -> None:
        size = Message(chunks.SET_CHUNK_SIZE, struct.pack(">I", chunks.OUR_CHUNK_BYTES))
        self._writer.write(chunked(size, _CONTROL, _THEIR_FIRST_CHUNKS))
        self._command(
            "connect",
            1,
            {
                "app": address.path,
                "type": "nonprivate",
                "flashVer": "FMLE/3.0 (compatible; visavis)",
                "tcUrl": address.tc_url,
            },
        )
        await self._answer(1)
        self._key = address.key
        self._command("releaseStream", 2, None, address.key)
        self._command("FCPublish", 3, None, address.key)
        self._command("createStream", 4, None)
        told = await self._answer(4)
        if not isinstance(told, float):
            raise PushError("the server has given the stream no number")
        self._stream = int(told)
        self._command("publish", 5, None, address.key, "live", stream=self._stream)
        self._publishing_since_s = time.monotonic()
        while True:  # a status that refuses ends it, see `_obey`
            for command in await self._commands():
                if command[:2] == ["_error", 5]:
                    raise _refusal("the stream", command)
                if _code(command) == "NetStream.Publish.Start":
                    return

    def _command(self, name: str, number: int, *values: object, stream: int = 0) -> None:
        payload = encode(name, number, *values)  # type: ignore[arg-type]
        self._writer.write(chunked(Message(chunks.COMMAND, payload, 0, stream), _COMMANDS))

    async def _answer(self, number: int) -> Value:
        """The last value of what answers a command. Raises PushError where that is a refusal."""
        while True:
            for command in await self._commands():
                if len(command) < 2 or command[1] != number:
                    continue
                if command[0] == "_result":
                    return command[-1]
                if command[0] == "_error":
                    raise _refusal("the connection", command)

    async def _commands(self) -> list[list[Value]]:
        """Those in what comes next."""
        kinds = (chunks.COMMAND, chunks.COMMAND_AMF3)
        return [_command_in(message) for message in await self._read() if message.kind in kinds]

    async def _read(self) -> list[Message]:
        """What comes next, after what it asks of us has been done. Raises EOFError."""
        received = await self._reader.read(_READ_BYTES)
        if not received:
            raise EOFError
        self._received += len(received)
        messages = self._chunks.feed(received)
        for message in messages:
            self._obey(message)
        if self._received - self._acknowledged >= self._window // 2:
            self._acknowledged = self._received
            told = struct.pack(">I", self._received & 0xFFFFFFFF)
            self._writer.write(chunked(Message(chunks.ACKNOWLEDGEMENT, told), _CONTROL))
        return messages

    def _obey(self, message: Message) -> None:
        payload = message.payload
        match message.kind:
            case chunks.WINDOW_SIZE:
                self._window = max(1, int.from_bytes(payload[:4], "big"))
            case chunks.PEER_BANDWIDTH:
                told = struct.pack(">I", _WINDOW_BYTES)
                self._writer.write(chunked(Message(chunks.WINDOW_SIZE, told), _CONTROL))
            case chunks.USER_CONTROL:
                if int.from_bytes(payload[:2], "big") == _PING:
                    told = struct.pack(">H", _PONG) + payload[2:6]
                    self._writer.write(chunked(Message(chunks.USER_CONTROL, told), _CONTROL))
            case chunks.COMMAND | chunks.COMMAND_AMF3 if self._stream:
                command = _command_in(message)
                if command[:1] == ["onStatus"] and _told(command, "level") == "error":
                    raise _refusal("the stream", command)

    def _why(self, error: Exception) -> str:
        """Why the connection has ended."""
        since_s, reason = self._publishing_since_s, _reason(error)
        if since_s is None or time.monotonic() - since_s > _ON_TRIAL_S:
            return reason
        return f"{reason} as the stream began: {_ASK_KEY}" if _is_end(error) else reason


_THEIR_FIRST_CHUNKS = 128


def _command_in(message: Message) -> list[Value]:
    """To who has asked for nothing else a message of AMF3, too, has AMF0, behind a byte."""
    return decode(message.payload[message.kind == chunks.COMMAND_AMF3 :])


def _told(command: list[Value], name: str) -> str:
    """What a status says: a code is no secret, where a description may repeat the key."""
    info = command[-1] if command else None
    value = info.get(name) if isinstance(info, dict) else None
    return value[:80] if isinstance(value, str) else "unknown"


def _code(command: list[Value]) -> str:
    return _told(command, "code")


def _refusal(what: str, command: list[Value]) -> PushError:
    code = _code(command)
    asked = _ASK_KEY if what == "the stream" else "is the address right?"
    permanent = not code.endswith(_PASSING)
    return PushError(f"the server refuses {what} ({code}): {asked}", permanent=permanent)


def _is_end(error: Exception) -> bool:
    return isinstance(error, EOFError | ConnectionError)


def _reason(error: Exception) -> str:
    """Without the address, which may stand in what the system says."""
    match error:
        case ssl.SSLCertVerificationError():
            return f"the server's certificate is not to be trusted: {error.verify_message}"
        case ssl.SSLError():
            return f"TLS failed: {error.reason}"
        case socket.gaierror():
            return "the host's name is not known"
        case OSError():
            return os.strerror(error.errno).lower() if error.errno else "it cannot be reached"
        case EOFError():
            return "the server has closed the connection"
        case AmfError() | ChunkError():
            return str(error)
    return "what the server says cannot be read"
