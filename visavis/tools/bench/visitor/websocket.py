"""A session's media over the WebSocket: live mp4 taken apart as it arrives."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import AsyncIterator, Iterator

import av
import numpy as np
import websockets
from websockets.asyncio.client import ClientConnection

from visavis.client import GatewayClient
from visavis.client.errors import goes_on, has_ended
from visavis.client.session import connected
from visavis.serving.errors import InvalidInputError
from visavis.tools.bench.visitor.media import (
    HeardSound,
    MediaEndedError,
    MediaLostError,
    MediaMovedError,
    Role,
    SeenPicture,
)
from visavis.wire.clock import Clock

_CONTAINERS = {b"moov", b"trak", b"mdia", b"minf", b"stbl", b"moof", b"traf"}
_DECODER_SPECIFIC = 5
_DEEPEST = 8


class FragmentReader:
    """Takes one viewer's live mp4 apart, message by message.

    Only what a measurement needs: a message is an init segment or fragments, each of one track
    (ISO/IEC 14496-12). Sound is decoded at once, or left alone where nobody `listens`; pictures are
    only timed.
    """

    def __init__(self, *, listens: bool = True) -> None:
        self._listens = listens
        self._sound_tracks: dict[int, tuple[av.AudioCodecContext, int]] = {}
        self._scales: dict[int, int] = {}

    def take_apart(self, message: bytes, at_s: float) -> list[HeardSound | SeenPicture]:
        """What `message`, which came at `at_s`, holds; nothing for an init segment or sound that is
        not complete yet.

        Raises InvalidInputError for what is no such stream.
        """
        found: list[HeardSound | SeenPicture | None] = []
        boxes: dict[bytes, bytes] = {}
        try:
            for kind, body in _walk(message):
                boxes[kind] = body
                if kind == b"moov":
                    self._begin(message)
                elif kind == b"mdat":
                    found.append(self._fragment(boxes, at_s))
            return [one for one in found if one is not None]
        except (struct.error, KeyError, IndexError, ValueError, av.FFmpegError) as error:
            raise InvalidInputError(f"media: not the stream that was expected: {error}") from error

    def _begin(self, message: bytes) -> None:
        self._sound_tracks.clear()
        track = 0
        for kind, body in _walk(message):
            if kind == b"tkhd":
                (track,) = struct.unpack_from(">I", body, 12)
            elif kind == b"mdhd":
                (self._scales[track],) = struct.unpack_from(">I", body, 12)
            elif kind == b"stsd" and body[12:16] == b"mp4a":
                decoder = av.AudioCodecContext.create("aac", "r")
                decoder.sample_rate = self._scales[track]
                decoder.layout = "mono"
                decoder.extradata = _audio_config(body)
                self._sound_tracks[track] = (decoder, self._scales[track])

    def _fragment(self, boxes: dict[bytes, bytes], at_s: float) -> HeardSound | SeenPicture | None:
        (track,) = struct.unpack_from(">I", boxes[b"tfhd"], 4)
        (time,) = struct.unpack_from(">Q", boxes[b"tfdt"], 4)
        if not self._scales[track]:
            raise KeyError(f"track {track} counts no time")
        media_s = time / self._scales[track]
        if track not in self._sound_tracks:
            return SeenPicture(at_s, media_s)
        if not self._listens:
            return None
        decoder, rate_hz = self._sound_tracks[track]
        frames = [f for sample in _samples(boxes) for f in decoder.decode(av.Packet(sample))]
        if not frames:
            return None
        wave = np.concatenate([frame.to_ndarray().reshape(-1) for frame in frames])
        pcm = (np.clip(wave, -1, 1) * 32767).astype(np.int16)
        return HeardSound(at_s, media_s, pcm, rate_hz)


def _walk(payload: bytes, depth: int = 0) -> Iterator[tuple[bytes, bytes]]:
    """Every box with its content, containers before what is in them."""
    if depth > _DEEPEST:
        raise KeyError("boxes within boxes without end")
    at = 0
    while at + 8 <= len(payload):
        size, kind = struct.unpack_from(">I4s", payload, at)
        if size < 8 or at + size > len(payload):
            raise KeyError(f"a box of {size} bytes")
        body = payload[at + 8 : at + size]
        yield kind, body
        if kind in _CONTAINERS:
            yield from _walk(body, depth + 1)
        at += size


def _samples(boxes: dict[bytes, bytes]) -> Iterator[bytes]:
    """A fragment's samples, whose duration, size and flags stand in its trun box."""
    (count,) = struct.unpack_from(">I", boxes[b"trun"], 4)
    at = 0
    for k in range(count):
        (size,) = struct.unpack_from(">I", boxes[b"trun"], 12 + 12 * k + 4)
        yield boxes[b"mdat"][at : at + size]
        at += size


def _audio_config(sample_description: bytes) -> bytes:
    """AudioSpecificConfig out of the esds box of an mp4a sample entry."""
    at = sample_description.index(b"esds") + 8
    # Descriptors of one length byte: 3 (header of 3), 4 (header of 13), then 5.
    for header in (3, 13):
        at += 2 + header
    tag, size = sample_description[at], sample_description[at + 1]
    if tag != _DECODER_SPECIFIC:
        raise KeyError("a sound track without its decoder's configuration")
    return sample_description[at + 2 : at + 2 + size]


class WebSocketMedia:
    """A visitor's connection over the session's WebSocket: PCM out, live mp4 in. Made by `connect`.

    The mp4's sound coder holds sound back by 20 to 60 ms. Who is there without a microphone only
    looks.
    """

    def __init__(self, socket: ClientConnection, clock: Clock, role: Role) -> None:
        self._socket, self._clock = socket, clock
        self._reader = FragmentReader(listens=role == "speaker")

    async def send(self, pcm_s16le: bytes) -> None:
        with contextlib.suppress(websockets.ConnectionClosed):  # whoever listens tells why
            await self._socket.send(pcm_s16le)

    async def arrivals(self) -> AsyncIterator[HeardSound | SeenPicture]:
        """Sound and pictures as they come. Raises MediaEndedError, MediaLostError or
        MediaMovedError at the end."""
        try:
            async for message in self._socket:
                if isinstance(message, str):
                    raise MediaEndedError(f"the gateway refused sound: {message}")
                for found in self._reader.take_apart(message, self._clock.now()):
                    yield found
        except websockets.ConnectionClosed as closed:
            if goes_on(closed):
                raise MediaMovedError("the session has gone to another gateway") from closed
            if has_ended(closed):
                raise MediaEndedError("the session has ended") from closed
            raise MediaLostError(f"the connection was lost: {closed}") from closed
        raise MediaEndedError("the media socket was closed")

    def doubt(self, lost_s: float) -> None:
        """It breaks with its gateway by itself."""


@contextlib.asynccontextmanager
async def connect(
    client: GatewayClient,
    session: str,
    clock: Clock,
    role: Role = "speaker",
) -> AsyncIterator[WebSocketMedia]:
    """Speaker and viewer of a session, or a viewer without a microphone. Raises GatewayError."""
    path = f"/v1/sessions/{session}/media?role={role}"
    await client.renew_token(path)
    async with await connected(client, path) as socket:
        yield WebSocketMedia(socket, clock, role)
