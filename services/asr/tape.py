"""The recent past of a stream of sound, addressed by absolute sample position."""

import numpy as np
from numpy.typing import NDArray

_FIRST_SIZE = 16_000
_HOP_SAMPLES = 160
_QUIET_HOPS = 6


class Tape:
    """Grows at its end and forgets at its beginning; appending is amortised O(1)."""

    def __init__(self) -> None:
        self._samples = np.zeros(_FIRST_SIZE, np.float32)
        self._first = 0
        self._used = 0

    @property
    def start(self) -> int:
        """Position of the oldest sample that is kept."""
        return self._first

    @property
    def end(self) -> int:
        """Position after the newest sample: how much has been heard."""
        return self._first + self._used

    @property
    def capacity(self) -> int:
        """Samples that the memory held at present has room for."""
        return len(self._samples)

    def append(self, pcm: NDArray[np.float32]) -> None:
        """pcm: [N] float32."""
        needed = self._used + len(pcm)
        if needed > len(self._samples):
            grown = np.zeros(max(needed, 2 * len(self._samples)), np.float32)
            grown[: self._used] = self._samples[: self._used]
            self._samples = grown
        self._samples[self._used : needed] = pcm
        self._used = needed

    def between(self, start: int, end: int) -> NDArray[np.float32]:
        """A copy of what is left of [start, end)."""
        low = max(start - self._first, 0)
        high = max(min(end - self._first, self._used), low)
        return self._samples[low:high].copy()

    def quietest(self, start: int, end: int) -> int:
        """The middle of the quietest 60 ms in [start, end), or `start` where that is shorter."""
        pcm = self.between(start, end)
        n_hops = len(pcm) // _HOP_SAMPLES
        if n_hops < _QUIET_HOPS:
            return start
        power = (pcm[: n_hops * _HOP_SAMPLES].reshape(n_hops, -1) ** 2).mean(axis=1)
        smooth = np.convolve(power, np.ones(_QUIET_HOPS), "valid")
        return start + (int(smooth.argmin()) + _QUIET_HOPS // 2) * _HOP_SAMPLES

    def forget(self, before: int) -> None:
        """Drop what lies before this position."""
        gone = min(max(before - self._first, 0), self._used)
        if not gone:
            return
        left = self._used - gone
        size = len(self._samples)
        # A long monologue must not leave its size behind for the rest of the session.
        target = max(_FIRST_SIZE, size // 2) if left < size // 4 else size
        kept = self._samples[gone : self._used].copy()
        if target != size:
            self._samples = np.zeros(target, np.float32)
        self._samples[:left] = kept
        self._first += gone
        self._used = left
