"""What was heard or played a moment ago, and the gain of what is played."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

# ------------------------------------------------------------ recall
# What was heard or played a moment ago.


class Recall:
    """The newest `limit_samples` of a sound, and a little more."""

    def __init__(self, limit_samples: int) -> None:
        self._limit = limit_samples
        self._pieces: deque[NDArray[np.int16]] = deque()
        self._samples = 0

    def add(self, pcm: NDArray[np.int16]) -> None:
        """pcm: [N] int16, after what came before."""
        self._pieces.append(pcm)
        self._samples += len(pcm)
        while self._samples - len(self._pieces[0]) >= self._limit:
            self._samples -= len(self._pieces.popleft())

    def take(self, count: int) -> NDArray[np.int16]:
        """The newest `count` samples, or as many as there are, removed."""
        kept = np.concatenate(self._pieces) if self._pieces else np.zeros(0, np.int16)
        count = min(count, len(kept))
        self._pieces = deque([kept[: len(kept) - count]])
        self._samples = len(kept) - count
        return kept[len(kept) - count :]

    def whole(self) -> NDArray[np.int16] | None:
        """[limit_samples] int16; None while there is less."""
        if self._samples < self._limit:
            return None
        return np.concatenate(self._pieces)[-self._limit :]


# ------------------------------------------------------------ fader
# The voice on its way out: quieter or louder without a click.


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
