"""A file of any kind that holds sound, to samples."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from gateway.openai.errors import RefusedError
from gateway.stages.plain_calls import RECOGNISED_RATE_HZ

LONGEST_S = 3600.0
"""Of a recording: two bytes for each of 16,000 samples a second are held in memory."""
# Nothing that could name other files, such as playlists, is read.
_OPTIONS = {
    "format_whitelist": "mp3,mov,mp4,m4a,ogg,flac,wav,w64,matroska,webm,aac,mpeg,amr,aiff,caf",
    "protocol_whitelist": "none",
}


def samples_of(file: bytes) -> NDArray[np.int16]:
    """[N] int16 at 16 kHz, mono; none where the file holds no sound. Blocks.

    What it is the content tells, not its name. Raises RefusedError where it is nothing known,
    damaged from its beginning, or too long.
    """
    pieces: list[NDArray[np.int16]] = []
    try:
        with av.open(io.BytesIO(file), options=_OPTIONS) as container:
            count = 0
            for piece in _pieces(container):
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


def _pieces(container: Any) -> Iterator[NDArray[np.int16]]:
    resampler = av.AudioResampler(format="s16", layout="mono", rate=RECOGNISED_RATE_HZ)
    for frame in container.decode(audio=0):
        frame.pts = None  # holes and jumps in a file's times are no sound
        for resampled in resampler.resample(frame):
            yield resampled.to_ndarray()[0]
    for resampled in resampler.resample(None):
        yield resampled.to_ndarray()[0]
