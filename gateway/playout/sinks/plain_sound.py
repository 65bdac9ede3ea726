"""A session's sound as plain samples, for programs: mono, 16 bits, at the rate that they want.

It goes on without end, silence included, at the pace of the clock: whoever reads it has a voice's
pauses where they are, and need not be told of an interruption.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import soxr

from gateway import metrics
from gateway.api.hub import Outbox
from gateway.playout.audience import Seats
from gateway.playout.pacing import RATE_HZ, TICK_SAMPLES
from gateway.playout.playout import Tick
from visavis.wire.media import VideoCodec

# Three seconds of messages: one for each tick.
QUEUE_LIMIT = 150
RATES_HZ = (16_000, 24_000, 48_000)
# By then a resampler gives nothing but silence, whatever it heard before.
_SETTLED_SAMPLES = RATE_HZ // 5


class SoundListener(Outbox[bytes]):
    """One program that takes the sound."""

    def __init__(self, rate_hz: int) -> None:
        super().__init__(QUEUE_LIMIT)
        self.rate_hz = rate_hz

    def tell(self, item: bytes) -> None:
        """Add the sound of a tick, in place of the oldest if the queue is full."""
        if self.full:
            metrics.viewer_drops.labels("websocket").inc()
        super().tell(item)


class PlainSound:
    """Sends a session's sound to all who take it as samples. A sink.

    changed: called when somebody has come or gone.
    """

    def __init__(self, seats: Seats, changed: Callable[[], None]) -> None:
        self._seats = seats
        self._changed = changed
        self._listeners: set[SoundListener] = set()
        self._resamplers: dict[int, Any] = {}
        self._silent_samples = 0

    @property
    def codecs(self) -> set[VideoCodec]:
        return set()

    @property
    def attended(self) -> bool:
        return bool(self._listeners)

    @property
    def watched(self) -> bool:
        return bool(self._listeners)

    def join(self, rate_hz: int) -> SoundListener:
        """rate_hz: one of RATES_HZ.

        Raises AtCapacityError, UnknownNameError once the session is over.
        """
        self._seats.take()
        metrics.viewers.labels("websocket").inc()
        listener = SoundListener(rate_hz)
        self._listeners.add(listener)
        self._changed()
        return listener

    def leave(self, listener: SoundListener) -> None:
        """May be called again."""
        listener.end()
        if listener in self._listeners:
            self._listeners.discard(listener)
            self._seats.give_back()
            metrics.viewers.labels("websocket").dec()
            self._changed()

    def push(self, tick: Tick) -> None:
        """Send the tick's sound."""
        if not self._listeners:
            self._resamplers.clear()
            return
        self._silent_samples = self._silent_samples + len(tick.pcm) if tick.silent else 0
        made: dict[int, list[bytes]] = {}
        for listener in self._listeners:
            rate_hz = listener.rate_hz
            if rate_hz not in made:
                made[rate_hz] = self._messages(rate_hz, tick)
            for message in made[rate_hz]:
                listener.tell(message)

    def cut(self, turn: int) -> None:
        """Nothing: it leaves as it is heard."""

    async def close(self) -> None:
        for listener in list(self._listeners):
            self.leave(listener)
        self._resamplers.clear()

    def _messages(self, rate_hz: int, tick: Tick) -> list[bytes]:
        """One for each 20 ms, also of a long tick."""
        sound = self._at(rate_hz, tick)
        if len(tick.pcm) <= TICK_SAMPLES:
            return [sound] if sound else []
        half = len(sound) // 4 * 2
        return [sound[:half], sound[half:]]

    def _at(self, rate_hz: int, tick: Tick) -> bytes:
        if rate_hz == RATE_HZ:
            return tick.pcm.tobytes()
        if self._silent_samples > _SETTLED_SAMPLES:
            return bytes(2 * (len(tick.pcm) * rate_hz // RATE_HZ))
        resampler = self._resamplers.get(rate_hz)
        if resampler is None:
            resampler = soxr.ResampleStream(RATE_HZ, rate_hz, 1, dtype="int16", quality="HQ")
            self._resamplers[rate_hz] = resampler
        return np.ascontiguousarray(resampler.resample_chunk(tick.pcm)).tobytes()
