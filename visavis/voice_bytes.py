"""A voice's sound as bytes while it is spoken: plain samples, or a container of FFmpeg's. And back.

Nothing is ever sought in: sizes that only the end could tell are left open.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Protocol, cast

import av
import numpy as np
import soxr
from numpy.typing import NDArray

from visavis.synthetic import SYNTHETIC

OPUS_RATE_HZ = 48_000
OPUS_BIT_RATE = 32_000
_LOWEST_RATE_HZ = 4_000
"""Of a file's sound. Of one sample a second thousands are made: of kilobytes, gigabytes."""


def decoded_samples(container: Any, rate_hz: int) -> Iterator[NDArray[np.int16]]:
    """Pieces [N] int16, mono, of the first sound in an open container of FFmpeg's.

    Raises ValueError for a rate that no sound has, and what FFmpeg says of a file that is damaged.
    """
    resampler = av.AudioResampler(format="s16", layout="mono", rate=rate_hz)
    for frame in container.decode(audio=0):
        if frame.sample_rate < _LOWEST_RATE_HZ:
            raise ValueError(f"{frame.sample_rate} samples a second are no sound")
        frame.pts = None  # holes and jumps in a file's times are no sound
        for resampled in resampler.resample(frame):
            yield resampled.to_ndarray()[0]
    for resampled in resampler.resample(None):
        yield resampled.to_ndarray()[0]


class Encoder(Protocol):
    """Makes bytes of a voice. `finish` once."""

    def feed(self, pcm: NDArray[np.int16]) -> bytes:
        """pcm: [N] int16, mono. What is ready by it, maybe nothing. Blocks for milliseconds."""

    def finish(self) -> bytes:
        """The rest."""


class Samples:
    """16-bit little-endian samples, behind a header if there is one."""

    def __init__(self, fed_hz: int, rate_hz: int, header: bytes = b"") -> None:
        """fed_hz, rate_hz: of what is fed, and of what comes out."""
        self._header = header
        self._stream = (
            None
            if fed_hz == rate_hz
            else soxr.ResampleStream(fed_hz, rate_hz, 1, dtype="int16", quality="HQ")
        )

    def feed(self, pcm: NDArray[np.int16]) -> bytes:
        return self._made(pcm, last=False)

    def finish(self) -> bytes:
        return self._made(np.zeros(0, np.int16), last=True)

    def _made(self, pcm: NDArray[np.int16], *, last: bool) -> bytes:
        if self._stream is not None:
            pcm = self._stream.resample_chunk(pcm, last=last)
        header, self._header = self._header, b""
        return header + pcm.astype("<i2").tobytes()


class Compressed:
    """A container of FFmpeg's with one stream; its comment says that the voice is a computer's."""

    def __init__(
        self, fed_hz: int, *, container: str, codec: str, rate_hz: int, bit_rate: int = 0
    ) -> None:
        """fed_hz, rate_hz: of what is fed, and of the stream. bit_rate 0: the codec's own."""
        self._fed_hz = fed_hz
        self._fed_samples = 0
        self._written = _Written()
        # Every packet is handed on at once; pages of Ogg end after a fifth of a second.
        options = {"flush_packets": "1"}
        if container == "ogg":
            options["page_duration"] = "200000"
        self._container: Any = av.open(self._written, "w", format=container, options=options)
        self._container.metadata["comment"] = SYNTHETIC
        self._stream: Any = self._container.add_stream(codec, rate=rate_hz)
        context = cast(Any, self._stream.codec_context)
        context.layout = "mono"
        if bit_rate:
            context.bit_rate = bit_rate

    def feed(self, pcm: NDArray[np.int16]) -> bytes:
        frame = av.AudioFrame.from_ndarray(
            np.ascontiguousarray(pcm)[None, :], format="s16", layout="mono"
        )
        frame.sample_rate = self._fed_hz
        frame.pts, frame.time_base = self._fed_samples, Fraction(1, self._fed_hz)
        self._fed_samples += len(pcm)
        self._container.mux(self._stream.encode(frame))
        return self._written.take()

    def finish(self) -> bytes:
        if self._fed_samples:
            self._container.mux(self._stream.encode(None))
        self._container.close()
        return self._written.take()


class _Written:
    """What FFmpeg writes, until it is taken. It cannot be sought in."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def write(self, piece: bytes) -> int:
        self._bytes += piece
        return len(piece)

    def take(self) -> bytes:
        taken = bytes(self._bytes)
        self._bytes.clear()
        return taken
