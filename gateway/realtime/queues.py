"""What waits on its way between a client and its session: sound, and events for those beside."""

from __future__ import annotations

import math
from collections import deque

import numpy as np
from numpy.typing import NDArray

from gateway.api.hub import Outbox
from gateway.realtime.protocol.reply import Event
from gateway.talk.microphone import AHEAD_S, RATE_HZ
from visavis.serving.errors import InvalidInputError

_MOST_ASIDE = 2000
"""Events that wait for a side-band."""
_LONGEST_WAIT_S = 300.0
_PIECE_SAMPLES = RATE_HZ // 10
_LEAD_S = AHEAD_S - 0.5
_AT_ONCE_S, _CATCHES_UP = 8.0, 2.0
"""Late sound, or sound behind a pause: so much of it is heard at once, the rest at such a speed. On
the bus twelve seconds of it may wait for a recogniser; what is more is lost there."""


class MicQueue:
    """Sound on its way to a session, which listens in real time. Pure: time is an argument."""

    def __init__(self) -> None:
        self._waiting: deque[NDArray[np.int16]] = deque()
        self._samples = 0
        self.sent_samples = 0
        """That were heard so far."""
        self._since_s: float | None = None
        self._taken_at_s = 0.0
        self._at_once_s = _AT_ONCE_S

    def __len__(self) -> int:
        return self._samples

    @property
    def sent_ms(self) -> int:
        """As `sent_samples`."""
        return self.sent_samples * 1000 // RATE_HZ

    @property
    def whole_samples(self) -> int:
        """Those that wait, too."""
        return self.sent_samples + self._samples

    def add(self, pcm: NDArray[np.int16]) -> None:
        """pcm: [N] int16 at 16 kHz. Raises InvalidInputError where too much waits already."""
        if self._samples + len(pcm) > _LONGEST_WAIT_S * RATE_HZ:
            message = f"audio: more than {_LONGEST_WAIT_S:.0f} s of sound wait to be heard"
            raise InvalidInputError(message)
        for at in range(0, len(pcm), _PIECE_SAMPLES):
            self._waiting.append(pcm[at : at + _PIECE_SAMPLES])
        self._samples += len(pcm)

    def clear(self) -> None:
        self._waiting.clear()
        self._samples = 0

    def take(self, now: float, until: float = math.inf) -> list[NDArray[np.int16]]:
        """What may be heard now: pieces of 100 ms at most, none once `until` samples are sent."""
        if self._since_s is None:
            self._since_s = self._taken_at_s = now
        passed_s, self._taken_at_s = now - self._taken_at_s, now
        self._at_once_s = min(_AT_ONCE_S, self._at_once_s + _CATCHES_UP * passed_s)
        taken = []
        while self._waiting and self.sent_samples / RATE_HZ <= now - self._since_s + _LEAD_S:
            if self.sent_samples >= until or self._at_once_s <= 0:
                break
            piece = self._waiting.popleft()
            self._samples -= len(piece)
            self.sent_samples += len(piece)
            self._at_once_s -= len(piece) / RATE_HZ
            taken.append(piece)
        return taken


class SideBand(Outbox[Event]):
    """Somebody who sees and steers a client's session beside him. One who does not read is left."""

    def __init__(self) -> None:
        super().__init__(_MOST_ASIDE)

    def tell(self, item: Event) -> None:
        """Add an event; where that is too much, nothing more comes."""
        if self.full:
            self.end()
        else:
            self._put(item)
