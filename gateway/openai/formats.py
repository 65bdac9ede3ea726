"""A voice's sound as a file in one of six formats, piece by piece while it is spoken.

The files are never sought in: sizes that only the end could tell are left open, as each format
allows. Those that have a place for it say that the voice was made by a computer.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, cast

import av
import numpy as np
import soxr
from numpy.typing import NDArray

from visavis.synthetic import SYNTHETIC

RATE_HZ = 24_000
"""Of pcm and wav; OpenAI's own."""
_OPUS_RATE_HZ = 48_000
_UNKNOWN_SIZE = 0xFFFFFFFF
"""Of a wav that is still being spoken: 0 would be an empty one to some players."""


class Encoder(Protocol):
    """Makes a file of a voice's sound. `finish` once."""

    def feed(self, pcm: NDArray[np.int16]) -> bytes:
        """pcm: [N] int16, mono. What of the file is ready by it. Blocks for milliseconds."""

    def finish(self) -> bytes:
        """The rest of the file."""


@dataclass(frozen=True, slots=True)
class Format:
    """One of the six. container "": samples alone, by ourselves."""

    media_type: str
    container: str = ""
    codec: str = ""
    rate_hz: int = RATE_HZ
    bit_rate: int = 0


FORMATS: Mapping[str, Format] = {
    "mp3": Format("audio/mpeg", "mp3", "libmp3lame", bit_rate=64_000),
    "opus": Format("audio/ogg", "ogg", "libopus", _OPUS_RATE_HZ, 32_000),
    "aac": Format("audio/aac", "adts", "aac", bit_rate=64_000),
    "flac": Format("audio/flac", "flac", "flac"),
    "wav": Format("audio/wav"),
    "pcm": Format("audio/pcm"),
}


def open_encoder(name: str, rate_hz: int) -> Encoder:
    """name: of FORMATS; rate_hz: of what will be fed."""
    form = FORMATS[name]
    if form.container:
        return _Compressed(form, rate_hz)
    return _Samples(rate_hz, _wav_header() if name == "wav" else b"")


class _Samples:
    """16-bit samples at 24 kHz, behind a header."""

    def __init__(self, rate_hz: int, header: bytes) -> None:
        self._header = header
        self._stream = (
            None
            if rate_hz == RATE_HZ
            else soxr.ResampleStream(rate_hz, RATE_HZ, 1, dtype="int16", quality="HQ")
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


class _Compressed:
    """A container of FFmpeg's, with one stream."""

    def __init__(self, form: Format, rate_hz: int) -> None:
        self._rate_hz = rate_hz
        self._fed_samples = 0
        self._written = _Written()
        # Every packet is handed on at once; pages of Ogg end after a fifth of a second.
        options = {"flush_packets": "1"}
        if form.container == "ogg":
            options["page_duration"] = "200000"
        self._container: Any = av.open(self._written, "w", format=form.container, options=options)
        self._container.metadata["comment"] = SYNTHETIC
        self._stream: Any = self._container.add_stream(form.codec, rate=form.rate_hz)
        context = cast(Any, self._stream.codec_context)
        context.layout = "mono"
        if form.bit_rate:
            context.bit_rate = form.bit_rate

    def feed(self, pcm: NDArray[np.int16]) -> bytes:
        frame = av.AudioFrame.from_ndarray(
            np.ascontiguousarray(pcm)[None, :], format="s16", layout="mono"
        )
        frame.sample_rate = self._rate_hz
        frame.pts, frame.time_base = self._fed_samples, Fraction(1, self._rate_hz)
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


def _wav_header() -> bytes:
    """Mono, 16 bits; of unknown length, with a comment (LIST INFO ICMT)."""
    comment = SYNTHETIC.encode() + b"\0"
    comment += b"\0" * (len(comment) % 2)
    info = b"INFOICMT" + struct.pack("<I", len(comment)) + comment
    return b"".join(
        (
            b"RIFF" + struct.pack("<I", _UNKNOWN_SIZE) + b"WAVEfmt ",
            struct.pack("<IHHIIHH", 16, 1, 1, RATE_HZ, 2 * RATE_HZ, 2, 16),
            b"LIST" + struct.pack("<I", len(info)) + info,
            b"data" + struct.pack("<I", _UNKNOWN_SIZE),
        )
    )
