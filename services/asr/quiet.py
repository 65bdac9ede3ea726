"""Which frames are as quiet as the room: an end of speech is seen there before the VAD sees it."""

import numpy as np
from numpy.typing import NDArray

_TINY = 1e-5
# So much above the room's level a frame is still as quiet as the room.
_MARGIN = 10 ** (6 / 20)
# The room's level falls at once and rises by this much per frame.
_RISE_PER_FRAME = 10 ** (0.5 / 20)
# A room cannot be told from speech that is not well above it.
_FEWEST_RANGE = 10 ** (18 / 20)
_PEAK_FALL_PER_FRAME = 10 ** (-0.1 / 20)


class QuietFrames:
    """One stream's room level and speech level, by the loudness of its frames."""

    def __init__(self) -> None:
        self._room = 1.0
        self._speech = _TINY

    def frame(self, pcm: NDArray[np.float32], speech_probability: float) -> bool:
        """Whether the frame, [N] float32, holds no more than the room's own sound."""
        level = max(_TINY, float(np.sqrt(np.mean(pcm * pcm))))
        self._speech *= _PEAK_FALL_PER_FRAME
        if speech_probability >= 0.5:
            self._speech = max(self._speech, level)
        if level < self._room:
            self._room = level
        elif speech_probability < 0.5:
            self._room = min(level, self._room * _RISE_PER_FRAME)
        return level < self._room * _MARGIN and self._speech > level * _FEWEST_RANGE
