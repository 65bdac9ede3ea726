"""A voice's sound as a file in one of six formats, and a file of any kind to samples.

A voice's file is made piece by piece while it is spoken, and never sought in: sizes that only the
end could tell are left open, as each format allows. Those that have a place for it say that the
voice was made by a computer.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping
from dataclasses import dataclass

import av
import numpy as np
from numpy.typing import NDArray

from gateway.openai.errors import RefusedError
from gateway.stages.plain_calls import RECOGNISED_RATE_HZ
from visavis.synthetic import SYNTHETIC
from visavis.voice_bytes import (
    OPUS_BIT_RATE,
    OPUS_RATE_HZ,
    Compressed,
    Encoder,
    Samples,
    decoded_samples,
)

RATE_HZ = 24_000
"""Of pcm and wav; OpenAI's own."""
_UNKNOWN_SIZE = 0xFFFFFFFF
"""Of a wav that is still being spoken: 0 would be an empty one to some players."""
LONGEST_S = 3600.0
"""Of a recording: two bytes for each of 16,000 samples a second are held in memory."""
# Nothing that could name other files, such as playlists, is read.
_OPTIONS = {
    "format_whitelist": "mp3,mov,mp4,m4a,ogg,flac,wav,w64,matroska,webm,aac,mpeg,amr,aiff,caf",
    "protocol_whitelist": "none",
}


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
    "opus": Format("audio/ogg", "ogg", "libopus", OPUS_RATE_HZ, OPUS_BIT_RATE),
    "aac": Format("audio/aac", "adts", "aac", bit_rate=64_000),
    "flac": Format("audio/flac", "flac", "flac"),
    "wav": Format("audio/wav"),
    "pcm": Format("audio/pcm"),
}


def open_encoder(name: str, rate_hz: int) -> Encoder:
    """name: of FORMATS; rate_hz: of what will be fed."""
    form = FORMATS[name]
    if not form.container:
        return Samples(rate_hz, RATE_HZ, _wav_header() if name == "wav" else b"")
    return Compressed(
        rate_hz,
        container=form.container,
        codec=form.codec,
        rate_hz=form.rate_hz,
        bit_rate=form.bit_rate,
    )


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


def samples_of(file: bytes) -> NDArray[np.int16]:
    """[N] int16 at 16 kHz, mono; none where the file holds no sound. Blocks.

    What it is the content tells, not its name. Raises RefusedError where it is nothing known,
    damaged from its beginning, or too long.
    """
    pieces: list[NDArray[np.int16]] = []
    try:
        with av.open(io.BytesIO(file), options=_OPTIONS) as container:
            count = 0
            for piece in decoded_samples(container, RECOGNISED_RATE_HZ):
                pieces.append(piece)
                count += len(piece)
                if count > LONGEST_S * RECOGNISED_RATE_HZ:
                    raise RefusedError(
                        f"file: it is longer than {LONGEST_S / 60:.0f} minutes", "file", "too_large"
                    )
    except (av.FFmpegError, ValueError, IndexError) as error:
        if not pieces:
            raise RefusedError(
                "file: it cannot be read as flac, mp3, mp4, mpeg, m4a, ogg, wav or webm",
                "file",
                "invalid_value",
            ) from error
    return np.concatenate(pieces) if pieces else np.zeros(0, np.int16)
