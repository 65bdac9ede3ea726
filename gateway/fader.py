"""The voice on its way out: quieter or louder without a click."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class Fader:
    """A gain that moves to its goal within one piece of sound."""

    def __init__(self) -> None:
        self.goal = 1.0
        self._gain = 1.0

    def jump(self, gain: float) -> None:
        """Have this gain now: where silence was, there is nothing to click."""
        self._gain = gain

    def apply(self, pcm: NDArray[np.int16]) -> NDArray[np.int16]:
        """pcm: [N] int16."""
        if self._gain == self.goal == 1.0 or not len(pcm):
            return pcm
        ramp = np.linspace(self._gain, self.goal, len(pcm), dtype=np.float32)
        self._gain = self.goal
        return (pcm * ramp).astype(np.int16)
