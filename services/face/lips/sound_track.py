"""The sound of a turn as a network wants it that draws pictures from sound."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class SoundTrack(Protocol):
    """What is known of the sound of one turn, frame by frame of the video."""

    @property
    def known_s(self) -> float:
        """Frames up to here have all the sound that they need; below 0: none has."""
        ...

    def window(self, index: int) -> NDArray[np.float32] | None:
        """The sound of frame `index` of the turn, an array of its own: float32, the shape is the
        network's.

        None while it is not all known, after the end, and when it is long past.
        """
        ...


class Ear(Protocol):
    """Hears the voice of one turn and fills its track."""

    @property
    def track(self) -> SoundTrack: ...

    def features(self, pcm: NDArray[np.int16], *, last: bool) -> NDArray[np.float32]:
        """What a piece of sound adds; slow, so it runs on a lane. One at a time.

        pcm: [N] int16 at the voice's rate -> float32, one row for each step of the network.
        """
        ...

    def add(self, features: NDArray[np.float32], *, last: bool) -> None:
        """Take them into the track. features: float32, of the shape that `features` gives."""
        ...
