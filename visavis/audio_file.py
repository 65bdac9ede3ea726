"""Reads any sound file as mono PCM."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

from visavis.errors import InvalidInputError

MAX_DURATION_S = 600


def read_mono(path: Path, sample_rate_hz: int) -> NDArray[np.int16]:
    """Samples [N] int16 of the file's first sound track at `sample_rate_hz`.

    WAV, FLAC, MP3, Ogg, M4A and whatever else FFmpeg reads. Raises InvalidInputError
    for a file that is not sound, is empty, or lasts more than ten minutes.
    """
    resampler = av.AudioResampler(format="s16", layout="mono", rate=sample_rate_hz)
    pieces: list[NDArray[np.int16]] = []
    length = 0
    try:
        with av.open(str(path)) as file:
            if not file.streams.audio:
                raise InvalidInputError(f"{path}: there is no sound in it")
            for frame in file.decode(audio=0):
                for resampled in resampler.resample(frame):
                    pieces.append(_samples(resampled))
                    length += len(pieces[-1])
                if length > MAX_DURATION_S * sample_rate_hz:
                    raise InvalidInputError(f"{path}: longer than {MAX_DURATION_S} s")
            pieces += [_samples(rest) for rest in resampler.resample(None)]
    except (av.FFmpegError, OSError) as error:
        raise InvalidInputError(f"{path}: not a sound file that can be read: {error}") from error
    pcm = np.concatenate(pieces or [np.zeros(0, np.int16)])
    if not len(pcm):
        raise InvalidInputError(f"{path}: there is no sound in it")
    return pcm


def _samples(frame: av.AudioFrame) -> NDArray[np.int16]:
    return frame.to_ndarray().reshape(-1).astype(np.int16, copy=False)
