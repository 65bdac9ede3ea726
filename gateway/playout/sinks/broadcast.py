"""Live fragmented mp4 for viewers on a WebSocket: muxed once, sent to all of them.

A viewer gets an init segment and then fragments from a key frame on, those of a tick in one
message. One that does not keep up loses what it could not take, up to the next key frame; nobody
waits for it. While nothing is said, the silence leaves with the pictures, 25 times a second.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway import metrics
from gateway.api.hub import Outbox
from gateway.playout.allowance import Allowance
from gateway.playout.audience import Seats
from gateway.playout.pacing import RATE_HZ
from gateway.playout.playout import Tick
from gateway.playout.sinks.fmp4 import Fragment, Muxer, init_segment, sound_init_segment
from gateway.playout.sound import AAC_BIT_RATE, AacEncoder, AacPacket
from visavis.wire.media import VideoCodec

# Three seconds of messages: one for each tick.
QUEUE_LIMIT = 150
# Packets of silence that wait for a picture to leave with: where none comes, they leave alone.
_HELD_PACKETS = 2
_LOOK_EVERY_S = 0.5
# Of the messages since the last look as many may wait; one that is large may be on its way.
_LATE_SHARE = 0.5


class Viewer(Outbox[bytes]):
    """One client's way out of the muxer. All that waits is lost when it does not keep up."""

    def __init__(self, *, pictures: bool = True, speaks: bool = False) -> None:
        """pictures: False where it takes sound alone. speaks: it is the visitor's."""
        super().__init__(QUEUE_LIMIT)
        self.pictures = pictures
        self.speaks = speaks
        self.allowance = Allowance()
        """Of its pictures."""
        self._put_bytes = self._put_since = 0
        """Of all messages; and how many since the last look."""
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
        self._put_bytes += len(payload)
        self._put_since += 1
        return True

    def look(self, now_s: float) -> None:
        """Twice a second: whether its network takes what it is given."""
        waiting_bytes = sum(map(len, self._waiting))
        late = len(self._waiting) > _LATE_SHARE * self._put_since
        self._put_since = 0
        self.allowance.queued(self._put_bytes, waiting_bytes, AAC_BIT_RATE, now_s, late=late)


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
        self._held: list[AacPacket] = []
        self._init = b""
        self._version = 0
        self._looked_s = 0.0

    @property
    def codecs(self) -> set[VideoCodec]:
        return {VideoCodec.H264} if any(v.pictures for v in self._viewers) else set()

    @property
    def attended(self) -> bool:
        return bool(self._viewers)

    @property
    def watched(self) -> bool:
        return bool(self._viewers)

    def allowances(self, *, speakers: bool) -> list[Allowance]:
        """Of the pictures of those who speak, or of those who look on."""
        return [v.allowance for v in self._viewers if v.pictures and v.speaks is speakers]

    def join(self, *, pictures: bool = True, speaks: bool = False) -> Viewer:
        """Raises AtCapacityError, UnknownNameError once the session is over."""
        self._seats.take()
        metrics.viewers.labels("websocket").inc()
        viewer = Viewer(pictures=pictures, speaks=speaks)
        self._viewers.add(viewer)
        if pictures:
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
            if self._muxer is not None and not self.codecs:
                self._muxer.break_off()  # the others take sound alone
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
            self._held = []
        fragments = self._pictures(tick, self._muxer, self._sound)
        self._held += self._sound.encode(tick.pcm, silent=tick.silent)
        waits = self._sound.settled and not fragments and len(self._held) < _HELD_PACKETS
        if self._held and not waits:
            fragments.append(self._muxer.sound(*self._held))
            self._held = []
        if fragments:
            self._send(fragments)
        now_s = tick.start_samples / RATE_HZ
        if now_s - self._looked_s >= _LOOK_EVERY_S:
            self._looked_s = now_s
            for viewer in self._viewers:
                viewer.look(now_s)

    def _pictures(self, tick: Tick, muxer: Muxer, sound: AacEncoder) -> list[Fragment]:
        """Those that the tick's pictures complete."""
        fragments: list[Fragment] = []
        for released in tick.pictures:
            if released.picture.codec is not VideoCodec.H264:
                continue
            fragment = muxer.picture(released)
            if fragment is not None:
                fragments.append(fragment)
            if muxer.parameters_changed and muxer.sets is not None:
                if fragments:  # of pictures that stand on the parameters before
                    self._send(fragments)
                    fragments = []
                self._version += 1
                self._init = init_segment(muxer.sets, muxer.width, muxer.height, sound.config)
        return fragments

    def _send(self, fragments: list[Fragment]) -> None:
        """Fragments of one tick, in one message."""
        message = b"".join([fragment.payload for fragment in fragments])
        begins = any(fragment.keyframe and not fragment.sound for fragment in fragments)
        for viewer in self._viewers:
            if not viewer.pictures:
                self._send_sound(viewer, fragments)
                continue
            if viewer.started and not begins:
                delivered = viewer.queue(message)
            else:
                delivered = self._send_beginning(viewer, fragments)
            if not delivered:
                metrics.viewer_drops.labels("websocket").inc()
                self._request_keyframe(VideoCodec.H264)

    def _send_sound(self, viewer: Viewer, fragments: list[Fragment]) -> None:
        """What of a tick is for a viewer who draws the face himself."""
        assert self._sound is not None
        own = [fragment.payload for fragment in fragments if fragment.sound]
        if own and not viewer.started:
            own.insert(0, sound_init_segment(self._sound.config))
            viewer.started = True
        if not self._queue_all(viewer, own):
            metrics.viewer_drops.labels("websocket").inc()

    def _send_beginning(self, viewer: Viewer, fragments: list[Fragment]) -> bool:
        """What of a tick is for a viewer who cannot have all of it, or not yet."""
        own: list[bytes] = []
        for fragment in fragments:
            key = fragment.keyframe and not fragment.sound
            viewer.started = viewer.started or bool(key and self._init)
            if not viewer.started:
                continue
            if key and viewer.init_version != self._version:
                # A message of its own: before it there is nothing that it could stand behind.
                viewer.init_version = self._version
                if not (self._queue_all(viewer, own) and viewer.queue(self._init)):
                    return False
                own = []
            own.append(fragment.payload)
        return self._queue_all(viewer, own)

    def _queue_all(self, viewer: Viewer, payloads: list[bytes]) -> bool:
        return not payloads or viewer.queue(b"".join(payloads))
