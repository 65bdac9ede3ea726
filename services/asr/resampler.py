"""Any microphone's rate to the networks' 16 kHz, as a stream."""

import numpy as np
import soxr
from numpy.typing import NDArray

from services.asr.vad import SAMPLE_RATE_HZ

# Short filters: 6 ms of delay from 48 kHz, where the best quality takes 21 ms
# and recognition is no better.
_QUALITY = "LQ"


class Resampler:
    """One stream's resampling; state is carried from call to call."""

    def __init__(self, sample_rate_hz: int) -> None:
        """sample_rate_hz: 8000 to 48000 of what will be fed."""
        self.sample_rate_hz = sample_rate_hz
        self._stream = (
            None
            if sample_rate_hz == SAMPLE_RATE_HZ
            else soxr.ResampleStream(
                sample_rate_hz, SAMPLE_RATE_HZ, 1, dtype="float32", quality=_QUALITY
            )
        )

    def feed(self, pcm: NDArray[np.int16], *, last: bool = False) -> NDArray[np.float32]:
        """pcm: [N] int16 -> [M] float32 in -1..1 at 16 kHz; `last` brings the rest."""
        level = pcm.astype(np.float32) / np.float32(32768)
        if self._stream is None:
            return level
        resampled: NDArray[np.float32] = self._stream.resample_chunk(level, last=last)
        return resampled


def resample(pcm: NDArray[np.int16], sample_rate_hz: int) -> NDArray[np.float32]:
    """A whole recording [N] int16 -> [M] float32 at 16 kHz."""
    return Resampler(sample_rate_hz).feed(pcm, last=True)
