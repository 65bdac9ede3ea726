"""One session's ways to many viewers, as a sink beside those to its visitor."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gateway.api.events import WordTime
from gateway.live.hls.on_demand import Hls
from gateway.live.media import LiveMedia
from gateway.live.push.broadcasts import Broadcasts, Run
from gateway.live.push.target import Target
from gateway.playout.audience import Seats
from gateway.playout.playout import Tick
from gateway.playout.sinks.ice import IceServer
from visavis.wire.clock import Clock
from visavis.wire.media import VideoCodec


class Live:
    """Encodes a session's sound once for all that is live in it, and hands on its pictures. A sink.

    seats: of viewers by HLS. run: looks after a task. on_keyframe: called when somebody waits for
    one. changed: something has begun, or stopped. told: called with a broadcast whose phase has
    changed.
    """

    def __init__(
        self,
        clock: Clock,
        seats: Seats,
        run: Run,
        on_keyframe: Callable[[VideoCodec], None],
        changed: Callable[[], None],
        told: Callable[[Target], None],
        ice_servers: Callable[[], list[IceServer]],
    ) -> None:
        def wanted() -> None:
            on_keyframe(VideoCodec.H264)

        self.hls = Hls(clock, seats, wanted, changed)
        self.broadcasts = Broadcasts(clock, run, wanted, changed, told, ice_servers)
        self._media: LiveMedia | None = None

    @property
    def codecs(self) -> set[VideoCodec]:
        return {VideoCodec.H264} if self.watched else set()

    @property
    def attended(self) -> bool:
        return self.watched

    @property
    def watched(self) -> bool:
        return self.hls.running or self.broadcasts.running

    def push(self, tick: Tick) -> None:
        """Hand a tick to all that is live."""
        if not self.watched:
            self._media = None
            return
        self._media = self._media or LiveMedia(tick.start_samples)
        live = self._media.take(tick, opus=self.broadcasts.wants_opus)
        if self.hls.running:
            self.hls.push(live)
        self.broadcasts.push(live)

    def caption(self, turn: int, words: Sequence[WordTime], played_s: float) -> None:
        """So much of a turn's answer has been heard; see `Captions`."""
        if self._media is not None:
            self._media.captions.spoken(turn, words, played_s)

    def cut(self, turn: int) -> None:
        """Nothing: what has left cannot be taken back."""

    async def close(self) -> None:
        self.hls.close()
        await self.broadcasts.close()
        self._media = None
