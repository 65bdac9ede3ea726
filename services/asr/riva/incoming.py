"""What clients send as sound, raw samples or the bytes of a file, to samples as it comes.

Riva's own scripts send files as they are, header and all, and say nothing of what is in them.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from enum import Enum, auto

import av
import numpy as np
from numpy.typing import NDArray

from visavis.serving.errors import InvalidInputError
from visavis.voice_bytes import decoded_samples
from visavis.wire.media import check_sample_rate

LARGEST_FILE_BYTES = 25_000_000
"""Of a compressed file, which is kept until all of it is there."""
_LARGEST_HEADER_BYTES = 65_536
_MAGIC = (b"RIFF", b"fLaC", b"OggS")
_RATE_OF_FILES_HZ = 16_000
_LONGEST_S = 3600
# What a WAV file's format chunk says of its samples.
_WAV_PCM, _WAV_ALAW, _WAV_MULAW, _WAV_EXTENSIBLE = 1, 6, 7, 0xFFFE
_UNKNOWN_SIZES = (0, 0x7FFFFFFF, 0xFFFFFFFF)
"""Of a file that was still being written."""

Pcm = NDArray[np.int16]
Decode = Callable[[bytes], Pcm]


class Encoding(Enum):
    """What a client says that its sound is, where no header says it."""

    UNKNOWN = auto()
    PCM = auto()
    MULAW = auto()
    ALAW = auto()
    FILE = auto()
    """FLAC or Ogg: the bytes have to show it."""


class Incoming:
    """One client's sound: `feed` pieces of any size, `finish` once; samples are mono.

    A compressed file becomes samples at its end.
    """

    def __init__(self, encoding: Encoding, sample_rate_hz: int, channels: int = 1) -> None:
        """sample_rate_hz: 0: the file tells. Raises InvalidInputError."""
        if not 0 <= channels <= 8:
            raise InvalidInputError(f"audio_channel_count: {channels} is not between 1 and 8")
        self._encoding = encoding
        self._sample_rate_hz = sample_rate_hz
        self._channels = channels or 1
        self._begin = b""
        self._frames: _Frames | None = None
        self._file: bytearray | None = None

    @property
    def sample_rate_hz(self) -> int:
        """Of the samples; known once there are any."""
        return _RATE_OF_FILES_HZ if self._frames is None else self._frames.sample_rate_hz

    def feed(self, data: bytes) -> Pcm:
        """[N] int16, as many as the bytes make; of megabytes it takes a while. Raises
        InvalidInputError."""
        if self._frames is not None:
            return self._frames.feed(data)
        if self._file is not None:
            if len(self._file) + len(data) > LARGEST_FILE_BYTES:
                most = LARGEST_FILE_BYTES // 1_000_000
                raise InvalidInputError(
                    f"audio: a FLAC or Ogg file of more than {most} MB; send WAV or raw samples"
                )
            self._file += data
            return _NOTHING
        self._begin += data
        return self._look(last=False)

    def finish(self) -> Pcm:
        """[N] int16: what is left. Raises InvalidInputError. Blocks where a file is decoded."""
        rest = self._look(last=True) if self._begin else _NOTHING
        if self._file is not None:
            return _decoded(bytes(self._file))
        return rest

    def _look(self, *, last: bool) -> Pcm:
        """Decide by the first bytes what this is."""
        begin = self._begin
        if len(begin) < 4 and not last and any(magic.startswith(begin) for magic in _MAGIC):
            return _NOTHING
        if begin[:4] in (b"fLaC", b"OggS"):
            self._file, self._begin = bytearray(), b""
            return self.feed(begin)
        if begin[:4] == b"RIFF":
            header = _wav_header(begin)
            if header is None:
                if last or len(begin) > _LARGEST_HEADER_BYTES:
                    raise InvalidInputError("audio: the WAV header is damaged")
                return _NOTHING
            self._frames, start = header
        else:
            self._frames, start = self._raw(), 0
        self._begin = b""
        return self._frames.feed(begin[start:])

    def _raw(self) -> _Frames:
        if self._encoding is Encoding.FILE:
            raise InvalidInputError("encoding: the sound is neither FLAC nor Ogg")
        if not self._sample_rate_hz:
            raise InvalidInputError(
                "sample_rate_hertz: needed, because the sound does not begin with the header of a "
                "WAV, FLAC or Ogg file"
            )
        rate = check_sample_rate(self._sample_rate_hz)
        width, decode = _DECODERS[self._encoding]
        return _Frames(rate, self._channels, width, decode)


class _Frames:
    """Uncompressed sound of several channels to mono, whatever pieces it comes in."""

    def __init__(
        self,
        sample_rate_hz: int,
        channels: int,
        width_bytes: int,
        decode: Decode,
        size_bytes: int | None = None,
    ) -> None:
        """size_bytes: what comes behind them is no sound; None: all is."""
        self.sample_rate_hz = sample_rate_hz
        self._channels = channels
        self._frame_bytes = channels * width_bytes
        self._decode = decode
        self._left_bytes = size_bytes
        self._rest = b""

    def feed(self, data: bytes) -> Pcm:
        if self._left_bytes is not None:
            data = data[: self._left_bytes]
            self._left_bytes -= len(data)
        data = self._rest + data
        whole = len(data) // self._frame_bytes * self._frame_bytes
        self._rest = data[whole:]
        samples = self._decode(data[:whole])
        if self._channels == 1:
            return samples
        mixed = np.zeros(len(samples) // self._channels, np.int32)
        for channel in range(self._channels):
            mixed += samples[channel :: self._channels]
        mixed //= self._channels
        return mixed.astype(np.int16)


def _wav_header(begin: bytes) -> tuple[_Frames, int] | None:
    """What a RIFF header says, and where the samples begin; None while it is not all there."""
    if len(begin) < 12:
        return None
    if begin[8:12] != b"WAVE":
        raise InvalidInputError("audio: a RIFF file that is no WAV")
    at, form = 12, b""
    while at + 8 <= len(begin):
        name, size = begin[at : at + 4], struct.unpack_from("<I", begin, at + 4)[0]
        at += 8
        if name == b"data":
            known = None if size in _UNKNOWN_SIZES else size
            return _frames_of(form, known), at
        if at + size > len(begin):
            return None
        if name == b"fmt ":
            form = begin[at : at + size]
        at += size + size % 2
    return None


def _frames_of(form: bytes, size_bytes: int | None) -> _Frames:
    if len(form) < 16:
        raise InvalidInputError("audio: the WAV header does not say what the samples are")
    tag, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", form)
    if tag == _WAV_EXTENSIBLE and len(form) >= 26:
        tag = struct.unpack_from("<H", form, 24)[0]
    kinds = {
        (_WAV_PCM, 16): Encoding.PCM,
        (_WAV_ALAW, 8): Encoding.ALAW,
        (_WAV_MULAW, 8): Encoding.MULAW,
    }
    kind = kinds.get((tag, bits))
    if kind is None or not 1 <= channels <= 8:
        raise InvalidInputError(
            f"audio: a WAV of {channels} channels, format {tag}, {bits} bits; understood are up to "
            "8 channels of 16-bit PCM, A-law or mu-law"
        )
    width, decode = _DECODERS[kind]
    return _Frames(check_sample_rate(rate), channels, width, decode, size_bytes)


def _decoded(file: bytes) -> Pcm:
    """A FLAC or Ogg file to [N] int16 at 16 kHz. Raises InvalidInputError."""
    # Nothing that could name other files is read.
    options = {"format_whitelist": "flac,ogg", "protocol_whitelist": "none"}
    pieces: list[Pcm] = []
    count = 0
    try:
        with av.open(io.BytesIO(file), options=options) as container:
            for piece in decoded_samples(container, _RATE_OF_FILES_HZ):
                pieces.append(piece)
                count += len(piece)
                if count > _LONGEST_S * _RATE_OF_FILES_HZ:
                    raise InvalidInputError(f"audio: longer than {_LONGEST_S // 60} minutes")
    except (av.FFmpegError, ValueError, IndexError) as error:
        if not pieces:
            raise InvalidInputError("audio: the FLAC or Ogg file cannot be read") from error
    return np.concatenate(pieces) if pieces else _NOTHING


def _from_pcm(data: bytes) -> Pcm:
    return np.frombuffer(data, "<i2")


def _mulaw_table() -> Pcm:
    """ITU-T G.711: 256 codes to linear samples."""
    code = ~np.arange(256, dtype=np.int32) & 0xFF
    magnitude = (((code & 0x0F) << 3) + 0x84 << ((code >> 4) & 7)) - 0x84
    return np.where(code & 0x80, -magnitude, magnitude).astype(np.int16)


def _alaw_table() -> Pcm:
    """ITU-T G.711: 256 codes to linear samples."""
    code = np.arange(256, dtype=np.int32) ^ 0x55
    exponent, mantissa = (code >> 4) & 7, (code & 0x0F) << 4
    magnitude = np.where(
        exponent == 0, mantissa + 8, mantissa + 0x108 << np.maximum(0, exponent - 1)
    )
    return np.where(code & 0x80, magnitude, -magnitude).astype(np.int16)


_NOTHING: Pcm = np.zeros(0, np.int16)
_MULAW, _ALAW = _mulaw_table(), _alaw_table()
_DECODERS: dict[Encoding, tuple[int, Decode]] = {
    Encoding.UNKNOWN: (2, _from_pcm),
    Encoding.PCM: (2, _from_pcm),
    Encoding.MULAW: (1, lambda data: _MULAW[np.frombuffer(data, np.uint8)]),
    Encoding.ALAW: (1, lambda data: _ALAW[np.frombuffer(data, np.uint8)]),
}
"""Bytes of a sample, and how it is read."""
