"""A session's microphone: who holds it, when its samples came, and what of it travels together."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque

import numpy as np
from numpy.typing import NDArray

from visavis.serving.errors import InvalidInputError, VisavisError

RATE_HZ = 16_000
CHUNK_LIMIT_BYTES = 2 * RATE_HZ
"""One second: the most that one message may hold."""

# A speaker that has been silent on the wire for so long has gone.
STALE_S = 2.0
# How far a client's sound may run ahead of real time before it is dropped.
AHEAD_S = 3.0
# What was said to a machine that slept comes all at once as it wakes.
_BACKLOG_S = 0.5
# Chunks of 10 ms: a minute.
_REMEMBERED = 6000

# Of the voice detector, which counts from the microphone's first sample: nothing is heard sooner
# than the frame that it is in is full. A quiet microphone's packets travel three frames together.
_FRAME_SAMPLES = 512
_BUNDLE_SAMPLES = 3 * _FRAME_SAMPLES
# So much above the room's level somebody may begin to speak; below the floor nothing can be heard.
_ABOVE_ROOM, _FLOOR = 2.0, 4.0
# The room's level falls at once and rises by this in a second.
_ROOM_RISES = 6.0


class MicrophoneTakenError(VisavisError):
    """Another client speaks in this session."""


class Microphone:
    """Says whose sound counts, and when each sample of it came. Pure: time comes as an argument."""

    def __init__(self) -> None:
        self.dropped_samples = 0
        self._holder: str | None = None
        self._heard_at_s = 0.0
        self._samples = 0
        self._first_at_s: float | None = None
        self._deaf_until_s = -math.inf
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
                "another client speaks in this session; join as a viewer, or make one of your own"
            )
        self._holder, self._heard_at_s = holder, now
        self._first_at_s = None
        return stale if stale != holder else None

    def release(self, holder: str) -> None:
        if self._holder == holder:
            self._holder = None

    def begin_anew(self, now: float) -> None:
        """What comes now was said long ago, and is dropped."""
        self._deaf_until_s, self._first_at_s = now + _BACKLOG_S, None

    def place(self, holder: str, samples: int, now: float) -> int | None:
        """Media time of a chunk of `samples`; None if it is not to be used.

        A client that sends faster than real time is cut to real time.
        """
        if holder != self._holder:
            return None
        self._heard_at_s = now
        if now < self._deaf_until_s:
            self.dropped_samples += samples
            return None
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


class MicBundle:
    """Has packets of the microphone travel together where nobody hears them any sooner. Pure.

    A message costs gateway, bus and recogniser more than the sound in it, and the voice detector
    computes three frames in a row in half the time of three by themselves. As soon as something
    rises above the room, or a question or answer is under way, what there is goes with the packet
    that fills a frame.
    """

    def __init__(self) -> None:
        self._held: list[NDArray[np.int16]] = []
        self._begins_at = 0
        self._held_samples = 0
        self._room = math.inf

    def add(
        self, pts: int, pcm: NDArray[np.int16], level: float, *, awaited: bool
    ) -> list[tuple[int, NDArray[np.int16]]]:
        """What is to be sent now, each with the media time of its first sample.

        pcm: [N] int16, 0 < N <= a second, which follows on what came before; level: see `level_of`.
        awaited: somebody speaks, or is being answered.
        """
        # By itself it may be as long as a message may be.
        sent = self._take() if len(pcm) > _BUNDLE_SAMPLES else []
        if not self._held:
            self._begins_at = pts
        self._held.append(pcm)
        self._held_samples += len(pcm)
        self._learn_room(level, len(pcm))
        hurried = self.rises(level) or awaited
        if self._held_samples >= _BUNDLE_SAMPLES or (hurried and self._fills_a_frame):
            sent += self._take()
        return sent

    @property
    def _fills_a_frame(self) -> bool:
        ends_at = self._begins_at + self._held_samples
        return ends_at // _FRAME_SAMPLES > self._begins_at // _FRAME_SAMPLES

    def _take(self) -> list[tuple[int, NDArray[np.int16]]]:
        held, self._held, self._held_samples = self._held, [], 0
        match held:
            case []:
                return []
            case [alone]:
                return [(self._begins_at, alone)]
        return [(self._begins_at, np.concatenate(held))]

    def rises(self, level: float) -> bool:
        """Whether sound of this level may be somebody who begins to speak."""
        return max(_FLOOR, level) > _ABOVE_ROOM * self._room

    def _learn_room(self, level: float, samples: int) -> None:
        risen = self._room * _ROOM_RISES ** (samples / RATE_HZ)
        self._room = min(max(_FLOOR, level), risen)


def level_of(pcm: NDArray[np.int16]) -> float:
    """Root mean square of [N] int16, N > 0."""
    # Each packet comes by here: one product, no passes over temporaries.
    sound = pcm.astype(np.float32)
    return math.sqrt(float(sound.dot(sound)) / len(sound))


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
