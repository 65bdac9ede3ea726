"""HLS for players that ask for it: cut while somebody asks, forgotten when nobody does any more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from gateway import metrics
from gateway.live.hls.segments import Segmenter
from gateway.live.hls.viewers import HlsViewers
from gateway.live.media import LiveTick
from gateway.playout.audience import Seats
from visavis.serving.errors import StageLostError, UnknownNameError
from visavis.wire.clock import Clock

# Players ask once or twice a second.
IDLE_S = 15.0
# Two segments are two seconds; a face that was at rest has to draw its first picture before them.
_FIRST_WAIT_S = 12.0
_FIRST_SEGMENTS = 2
_ASK_AGAIN_S = 0.5


class Hls:
    """One session's stream for phones and players. It runs while its playlist is asked for.

    seats: each viewer takes one. on_keyframe: a segment waits for one. changed: it has begun, or
    stopped.
    """

    def __init__(
        self,
        clock: Clock,
        seats: Seats,
        on_keyframe: Callable[[], None],
        changed: Callable[[], None],
    ) -> None:
        self.running = False
        self._clock = clock
        self._viewers = HlsViewers(seats)
        self._on_keyframe = on_keyframe
        self._changed = changed
        self._segmenter = Segmenter(time.time())
        self._asked_at_s = self._wanted_at_s = -1e9
        self._progress = asyncio.Event()
        self._closed = False

    async def index(self) -> str:
        """What there is to play, once there is something: the playlist, by a token of one's own.

        Raises AtCapacityError, StageLostError where no pictures come, UnknownNameError once the
        session is over.
        """
        token = self._viewers.hand_out(self._clock.now())
        await self._something_to_see()
        return self._segmenter.index(f"stream.m3u8?viewer={token}")

    async def playlist(self, viewer: str) -> str:
        """The playlist for the viewer with this token, who has a seat from now on.

        Raises as `index` does.
        """
        self._viewers.asked(viewer, self._clock.now())
        await self._something_to_see()
        self._viewers.asked(viewer, self._clock.now())
        return self._segmenter.playlist()

    async def _something_to_see(self) -> None:
        self._check_open()
        self._asked_at_s = self._clock.now()
        if not self.running:
            self.running = True
            metrics.hls_streams.inc()
            self._segmenter.restart()
            self._changed()
            self._on_keyframe()
        try:
            async with asyncio.timeout(_FIRST_WAIT_S):
                while self._segmenter.complete < _FIRST_SEGMENTS:
                    self._check_open()
                    self._progress.clear()
                    await self._progress.wait()
        except TimeoutError:
            raise StageLostError("hls: no pictures have come yet; try again") from None

    def segment(self, number: int) -> bytes:
        """Raises UnknownNameError."""
        return self._found(self._segmenter.payload(number), f"segment {number}")

    def init(self, version: int) -> bytes:
        """Raises UnknownNameError."""
        return self._found(self._segmenter.init(version), f"init segment {version}")

    def push(self, live: LiveTick) -> None:
        """What leaves in this tick."""
        now_s = self._clock.now()
        self._viewers.look(now_s)
        if now_s - self._asked_at_s > IDLE_S:
            self._stop()
            return
        if self._segmenter.take(live, time.time()):
            self._progress.set()
        if self._segmenter.wants_keyframe and now_s - self._wanted_at_s > _ASK_AGAIN_S:
            self._wanted_at_s = now_s
            self._on_keyframe()

    def close(self) -> None:
        """The session is over: whoever waits is told."""
        self._closed = True
        self._progress.set()
        self._viewers.clear()
        if self.running:
            self._stop()

    def _stop(self) -> None:
        self.running = False
        self._viewers.clear()
        metrics.hls_streams.dec()
        self._segmenter.restart()
        self._changed()

    def _check_open(self) -> None:
        if self._closed:
            raise UnknownNameError("session: it has ended")

    @staticmethod
    def _found(payload: bytes | None, what: str) -> bytes:
        if payload is None:
            raise UnknownNameError(f"hls: there is no {what} (any more)")
        metrics.hls_bytes.inc(len(payload))
        return payload
