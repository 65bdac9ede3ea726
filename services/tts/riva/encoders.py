"""A voice as bytes while it is spoken: raw samples at any rate, or Ogg/Opus."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Protocol, cast

import av
import numpy as np
import soxr
from numpy.typing import NDArray

from services.tts.sound import SAMPLE_RATE_HZ
from visavis.synthetic import SYNTHETIC

_OPUS_RATE_HZ = 48_000
_OPUS_BIT_RATE = 32_000
# Pages of Ogg end after a fifth of a second, so that a stream can be played as it comes.
_OGG = {"flush_packets": "1", "page_duration": "200000"}


class Encoder(Protocol):
    """Makes bytes of a voice. `finish` once."""

    def feed(self, voice: NDArray[np.int16]) -> bytes:
        """voice: [N] int16 at 24 kHz. What is ready by it; it may be nothing."""

    def finish(self) -> bytes:
        """The rest."""


class RawSamples:
    """16-bit little-endian samples without a header."""

    def __init__(self, sample_rate_hz: int) -> None:
        """sample_rate_hz: of what comes out."""
        self._stream = (
            None
            if sample_rate_hz == SAMPLE_RATE_HZ
            else soxr.ResampleStream(SAMPLE_RATE_HZ, sample_rate_hz, 1, dtype="int16", quality="HQ")
        )

    def feed(self, voice: NDArray[np.int16]) -> bytes:
        return self._made(voice, last=False)

    def finish(self) -> bytes:
        return self._made(np.zeros(0, np.int16), last=True)

    def _made(self, voice: NDArray[np.int16], *, last: bool) -> bytes:
        if self._stream is not None:
            voice = self._stream.resample_chunk(voice, last=last)
        return voice.astype("<i2").tobytes()


class OggOpus:
    """Opus in Ogg, whose comment says that the voice was made by a computer."""

    def __init__(self) -> None:
        self._fed_samples = 0
        self._written = _Written()
        self._container: Any = av.open(self._written, "w", format="ogg", options=_OGG)
        self._container.metadata["comment"] = SYNTHETIC
        self._stream: Any = self._container.add_stream("libopus", rate=_OPUS_RATE_HZ)
        context = cast(Any, self._stream.codec_context)
        context.layout = "mono"
        context.bit_rate = _OPUS_BIT_RATE

    def feed(self, voice: NDArray[np.int16]) -> bytes:
        frame = av.AudioFrame.from_ndarray(
            np.ascontiguousarray(voice)[None, :], format="s16", layout="mono"
        )
        frame.sample_rate = SAMPLE_RATE_HZ
        frame.pts, frame.time_base = self._fed_samples, Fraction(1, SAMPLE_RATE_HZ)
        self._fed_samples += len(voice)
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
