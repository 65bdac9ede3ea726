"""A session's microphone: who holds it, and when each of its samples arrived."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque

import numpy as np
from numpy.typing import NDArray

from visavis.errors import InvalidInputError

RATE_HZ = 16_000
CHUNK_LIMIT_BYTES = 2 * RATE_HZ
"""One second: the most that one message may hold."""

# A speaker that has been silent on the wire for so long has gone.
STALE_S = 2.0
# How far a client's sound may run ahead of real time before it is dropped.
AHEAD_S = 3.0
# Chunks of 10 ms: a minute.
_REMEMBERED = 6000


class MicrophoneTakenError(Exception):
    """Another client speaks in this session."""


class Microphone:
    """Bookkeeping of one session's speaker. Pure: time comes as an argument."""

    def __init__(self) -> None:
        self.dropped_samples = 0
        self._holder: str | None = None
        self._heard_at_s = 0.0
        self._samples = 0
        self._first_at_s: float | None = None
        self._arrivals: deque[tuple[int, float]] = deque(maxlen=_REMEMBERED)

    @property
    def holder(self) -> str | None:
        return self._holder

    def take(self, holder: str, now: float) -> str | None:
        """Make `holder` the speaker; returns the stale one that it replaces.

        Raises MicrophoneTakenError while somebody else speaks.
        """
        stale = self._holder
        if stale not in (None, holder) and now - self._heard_at_s < STALE_S:
            raise MicrophoneTakenError(
                "another client holds this session's microphone; join as a viewer instead"
            )
        self._holder, self._heard_at_s = holder, now
        self._first_at_s = None
        return stale if stale != holder else None

    def release(self, holder: str) -> None:
        if self._holder == holder:
            self._holder = None

    def push(self, holder: str, samples: int, now: float) -> int | None:
        """Media time of a chunk of `samples`; None if it is not to be used.

        A client that sends faster than real time is cut to real time.
        """
        if holder != self._holder:
            return None
        self._heard_at_s = now
        if self._first_at_s is None:
            self._first_at_s = now - self._samples / RATE_HZ
        if self._samples / RATE_HZ > now - self._first_at_s + AHEAD_S:
            self.dropped_samples += samples
            return None
        pts = self._samples
        self._samples += samples
        self._arrivals.append((self._samples, now))
        return pts

    def arrival_s(self, sample: int) -> float | None:
        """When microphone sample `sample` reached the gateway."""
        if not self._arrivals:
            return None
        index = bisect_left(self._arrivals, (sample, 0.0))
        return self._arrivals[min(index, len(self._arrivals) - 1)][1]


def pcm_of_message(payload: bytes) -> NDArray[np.int16]:
    """[N] int16 from a binary message. Raises InvalidInputError."""
    if len(payload) % 2:
        raise InvalidInputError(
            f"sound: {len(payload)} bytes is not a whole number of 16-bit samples"
        )
    if len(payload) > CHUNK_LIMIT_BYTES:
        raise InvalidInputError(
            f"sound: {len(payload)} bytes in one message, at most {CHUNK_LIMIT_BYTES} "
            "(one second of 16 kHz mono) are allowed; 16 to 20 ms are best"
        )
    return np.frombuffer(payload, dtype="<i2").astype(np.int16, copy=False)
