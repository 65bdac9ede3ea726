"""Sound as clients send and want it: 16-bit samples at any rate, or G.711, to ours and back."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
import soxr
from numpy.typing import NDArray

from gateway.openai.errors import RefusedError
from gateway.playout.pacing import RATE_HZ as PLAYED_RATE_HZ
from gateway.realtime.protocol.config import Format, Pcm
from gateway.talk.microphone import RATE_HZ as HEARD_RATE_HZ

TELEPHONE_RATE_HZ = 8_000
LONGEST_APPEND_BYTES = 15 * 1024 * 1024
"""Of one message's sound, decoded."""
_DELTA_S = 0.5


class SoundIn:
    """A client's sound, at our 16 kHz. Pieces may end anywhere, also within a sample."""

    def __init__(self, form: Format) -> None:
        self.form = form
        self._rest = b""
        rate_hz = rate_of(form)
        self._stream = (
            None
            if rate_hz == HEARD_RATE_HZ
            # As in asr: a better one is heard no better, and holds back 10 ms more, at 8 kHz 30.
            else soxr.ResampleStream(rate_hz, HEARD_RATE_HZ, 1, dtype="int16", quality="LQ")
        )

    def feed(self, audio: object) -> NDArray[np.int16]:
        """[N] int16 at 16 kHz out of base64. Raises RefusedError."""
        samples = self._samples(decoded(audio, "audio"))
        if self._stream is None or not len(samples):
            return samples
        return np.asarray(self._stream.resample_chunk(samples), np.int16)

    def finish(self) -> NDArray[np.int16]:
        """[N] int16 at 16 kHz: what is still on its way, up to 60 ms. Once."""
        nothing = np.zeros(0, np.int16)
        if self._stream is None:
            return nothing
        return np.asarray(self._stream.resample_chunk(nothing, last=True), np.int16)

    def _samples(self, content: bytes) -> NDArray[np.int16]:
        if not isinstance(self.form, Pcm):
            return _levels(self.form.type)[np.frombuffer(content, np.uint8)]
        content = self._rest + content
        whole = len(content) // 2 * 2
        self._rest = content[whole:]
        return np.frombuffer(content[:whole], "<i2").astype(np.int16)


class SoundOut:
    """An answer's voice in the form that a client wants, in pieces of base64."""

    def __init__(self, form: Format, rate_hz: int = PLAYED_RATE_HZ) -> None:
        """rate_hz: of what is fed."""
        self.form, self.rate_hz = form, rate_hz
        self._step = round(_DELTA_S * rate_of(form))
        self._stream = (
            None
            if rate_of(form) == rate_hz
            else soxr.ResampleStream(rate_hz, rate_of(form), 1, dtype="int16", quality="HQ")
        )

    def feed(self, pcm: NDArray[np.int16], *, last: bool = False) -> list[str]:
        """pcm: [N] int16."""
        if self._stream is not None:
            pcm = self._stream.resample_chunk(np.ascontiguousarray(pcm), last=last)
        pieces = (pcm[at : at + self._step] for at in range(0, len(pcm), self._step))
        return [base64.b64encode(self._encoded(piece)).decode() for piece in pieces]

    def _encoded(self, pcm: NDArray[np.int16]) -> bytes:
        if isinstance(self.form, Pcm):
            return pcm.astype("<i2").tobytes()
        return _codes(self.form.type)[pcm.view(np.uint16)].tobytes()


def rate_of(form: Format) -> int:
    return form.rate if isinstance(form, Pcm) else TELEPHONE_RATE_HZ


def decoded(audio: object, param: str) -> bytes:
    """What base64 stands for. Raises RefusedError."""
    if not isinstance(audio, str):
        raise RefusedError(f"{param}: base64 is wanted", param, "missing_required_parameter")
    if len(audio) > LONGEST_APPEND_BYTES * 4 // 3 + 4:
        limit = LONGEST_APPEND_BYTES // 1024 // 1024
        raise RefusedError(f"{param}: at most {limit} MiB are allowed", param, "invalid_value")
    try:
        return base64.b64decode(audio, validate=True)
    except (binascii.Error, ValueError):
        raise RefusedError(f"{param}: this is no base64", param, "invalid_value") from None


# ------------------------------------------------------------ G.711


def _mu_law(code: int) -> int:
    """Sample of a code of ITU-T G.711, table 2a."""
    inverted = ~code & 0xFF
    level = ((inverted & 0x0F) << 3) + 0x84 << (inverted >> 4 & 7)
    return 0x84 - level if inverted & 0x80 else level - 0x84


def _a_law(code: int) -> int:
    """Sample of a code of ITU-T G.711, table 1a."""
    flipped = code ^ 0x55
    segment, level = flipped >> 4 & 7, (flipped & 0x0F) << 4
    level = level + 8 if segment == 0 else level + 0x108 << segment - 1
    return level if flipped & 0x80 else -level


_LAWS: Mapping[str, Callable[[int], int]] = {"audio/pcmu": _mu_law, "audio/pcma": _a_law}


@cache
def _levels(law: str) -> NDArray[np.int16]:
    """[256] int16, by code."""
    return np.array([_LAWS[law](code) for code in range(256)], np.int16)


@cache
def _codes(law: str) -> NDArray[np.uint8]:
    """[65536] uint8: the nearest code, by the sample's 16 bits."""
    levels = _levels(law).astype(np.int32)
    order = np.argsort(levels, kind="stable")
    between = (levels[order][1:] + levels[order][:-1]) / 2
    samples = np.arange(65536, dtype=np.uint16).view(np.int16)
    return order[np.searchsorted(between, samples)].astype(np.uint8)
