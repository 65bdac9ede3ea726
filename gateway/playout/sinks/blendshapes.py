"""What a client needs that draws the head itself: blendshapes, each with its place in media time.

They leave in the tick in which the picture would, so that whoever hears a sample knows by its time
which face goes with it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence

from gateway import metrics
from gateway.api.hub import Outbox
from gateway.playout.pictures import ReleasedPicture
from gateway.playout.playout import Tick
from visavis.serving.errors import AtCapacityError, UnknownNameError
from visavis.wire.media import BLENDSHAPES_BYTES, VideoCodec

# Two seconds of messages: one for each picture.
QUEUE_LIMIT = 50
_TIME = struct.Struct("<I")
_TICKS_PER_MS = 90


class FaceViewer(Outbox[bytes | str]):
    """One client that draws."""

    def __init__(self) -> None:
        super().__init__(QUEUE_LIMIT)

    def tell(self, item: bytes | str) -> None:
        """Add what a tick has of poses, in place of the oldest if the queue is full."""
        if self.full:
            metrics.viewer_drops.labels("websocket").inc()
        super().tell(item)


class Blendshapes:
    """Sends a session's face to all who draw it themselves. A sink.

    changed: called when somebody has come or gone.
    """

    def __init__(self, limit: int, changed: Callable[[], None]) -> None:
        """limit: how many may be connected."""
        self._limit = limit
        self._changed = changed
        self._viewers: set[FaceViewer] = set()
        self._closed = False

    @property
    def codecs(self) -> set[VideoCodec]:
        return {VideoCodec.BLENDSHAPES} if self._viewers else set()

    @property
    def attended(self) -> bool:
        return bool(self._viewers)

    @property
    def watched(self) -> bool:
        return bool(self._viewers)

    def join(self) -> FaceViewer:
        """Raises AtCapacityError, UnknownNameError once the session is over."""
        if self._closed:
            raise UnknownNameError("session: it has ended")
        if len(self._viewers) >= self._limit:
            raise AtCapacityError(f"face: {self._limit} draw it already, the most allowed")
        viewer = FaceViewer()
        self._viewers.add(viewer)
        self._changed()
        return viewer

    def leave(self, viewer: FaceViewer) -> None:
        """May be called again."""
        viewer.end()
        if viewer in self._viewers:
            self._viewers.discard(viewer)
            self._changed()

    def push(self, tick: Tick) -> None:
        """Send the tick's poses."""
        if not self._viewers:
            return
        self._tell(self._messages(tick))

    def _messages(self, tick: Tick) -> Sequence[bytes | str]:
        """What the tick has for those who draw."""
        message = records_of(tick.pictures)
        return (message,) if message else ()

    def _tell(self, messages: Sequence[bytes | str]) -> None:
        for message in messages:
            for viewer in self._viewers:
                viewer.tell(message)

    def cut(self, turn: int) -> None:
        """Nothing: the next pose takes the place of all that are later."""

    async def close(self) -> None:
        self._closed = True
        for viewer in list(self._viewers):
            self.leave(viewer)


def records_of(pictures: Iterable[ReleasedPicture]) -> bytes:
    """Their poses, each behind its time; what is none is left out."""
    return b"".join(map(_record, pictures))


def _record(released: ReleasedPicture) -> bytes:
    """A pose and its time; empty for what is none."""
    picture = released.picture
    if picture.codec is not VideoCodec.BLENDSHAPES or len(picture.payload) != BLENDSHAPES_BYTES:
        return b""
    # Of 32 bits: seven weeks.
    return _TIME.pack(round(released.time / _TICKS_PER_MS) & 0xFFFFFFFF) + picture.payload
