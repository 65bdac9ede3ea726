"""Live fragmented mp4 for viewers on a WebSocket: muxed once, sent to all of them.

A viewer gets an init segment and then fragments from a key frame on. One that does not
keep up loses what it could not take, up to the next key frame; nobody waits for it.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway import metrics
from gateway.api.hub import Outbox
from gateway.playout.audience import Seats
from gateway.playout.playout import Tick
from gateway.playout.sinks.fmp4 import Fragment, Muxer, init_segment
from gateway.playout.sound import AacEncoder
from visavis.wire.media import VideoCodec

# About three seconds of fragments: 25 pictures and 47 sound packets a second.
QUEUE_LIMIT = 220


class Viewer(Outbox[bytes]):
    """One client's way out of the muxer. All that waits is lost when it does not keep up."""

    def __init__(self) -> None:
        super().__init__(QUEUE_LIMIT)
        self.init_version = 0
        self.started = False

    def queue(self, payload: bytes) -> bool:
        """Add a fragment. False, and everything that waits is dropped, if the queue is full."""
        if self.full:
            self.dropped += len(self._waiting) + 1
            self._waiting.clear()
            # The init segment may have been among what was dropped.
            self.started, self.init_version = False, 0
            return False
        self._put(payload)
        return True


class Broadcast:
    """Muxes a session's ticks while somebody watches. A sink.

    request_keyframe: called when a viewer cannot start before the next key frame.
    changed: called when somebody has come or gone.
    """

    def __init__(
        self,
        seats: Seats,
        request_keyframe: Callable[[VideoCodec], None],
        changed: Callable[[], None],
    ) -> None:
        self._seats = seats
        self._request_keyframe = request_keyframe
        self._changed = changed
        self._viewers: set[Viewer] = set()
        self._muxer: Muxer | None = None
        self._sound: AacEncoder | None = None
        self._init = b""
        self._version = 0

    @property
    def codecs(self) -> set[VideoCodec]:
        return {VideoCodec.H264} if self._viewers else set()

    @property
    def attended(self) -> bool:
        return bool(self._viewers)

    @property
    def watched(self) -> bool:
        return bool(self._viewers)

    def join(self) -> Viewer:
        """Raises AtCapacityError, UnknownNameError once the session is over."""
        self._seats.take()
        metrics.viewers.labels("websocket").inc()
        viewer = Viewer()
        self._viewers.add(viewer)
        self._request_keyframe(VideoCodec.H264)
        self._changed()
        return viewer

    def leave(self, viewer: Viewer) -> None:
        """May be called again."""
        viewer.end()
        if viewer in self._viewers:
            self._viewers.discard(viewer)
            self._seats.give_back()
            metrics.viewers.labels("websocket").dec()
            self._changed()

    async def close(self) -> None:
        for viewer in list(self._viewers):
            self.leave(viewer)
        self._muxer = self._sound = None

    def cut(self, turn: int) -> None:
        """Nothing: of what is muxed nothing can be taken back."""

    def push(self, tick: Tick) -> None:
        """Send a tick's sound and pictures to all viewers."""
        if not self._viewers:
            self._muxer = self._sound = None
            return
        if self._muxer is None or self._sound is None:
            self._muxer, self._sound = Muxer(), AacEncoder(tick.start_samples)
        for released in tick.pictures:
            if released.picture.codec is not VideoCodec.H264:
                continue
            fragment = self._muxer.picture(released)
            if fragment is not None:
                self._send(fragment)
            if self._muxer.parameters_changed and self._muxer.sets is not None:
                self._version += 1
                self._init = init_segment(
                    self._muxer.sets, self._muxer.width, self._muxer.height, self._sound.config
                )
        for packet in self._sound.encode(tick.pcm):
            self._send(self._muxer.sound(packet))

    def _send(self, fragment: Fragment) -> None:
        for viewer in self._viewers:
            if not viewer.started:
                if fragment.sound or not fragment.keyframe or not self._init:
                    continue
                viewer.started = True
            delivered = True
            if fragment.keyframe and not fragment.sound and viewer.init_version != self._version:
                viewer.init_version = self._version
                delivered = viewer.queue(self._init)
            if not (delivered and viewer.queue(fragment.payload)):
                metrics.viewer_drops.labels("websocket").inc()
                self._request_keyframe(VideoCodec.H264)
