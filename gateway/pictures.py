"""The queue of one codec's encoded pictures in front of the viewers.

Pictures of a codec are one stream: each is decoded on top of those before it. So a
late picture is still released (at its own place in media time, where decoders catch
up), and where one has to be dropped, all are up to the next key frame.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from gateway.timeline import RATE_HZ, TICK_SAMPLES, to_video_clock
from visavis.media import VideoCodec

# Two seconds: twice what the face may run ahead.
QUEUE_LIMIT = 50
# Beyond this, catching up would look like a film on fast forward.
HOPELESS_S = 0.4


@dataclass(frozen=True, slots=True)
class Picture:
    """An encoded picture. `index` counts frames from the turn's first voice sample."""

    turn: int
    index: int
    live: bool
    codec: VideoCodec
    keyframe: bool
    width: int
    height: int
    fps: int
    payload: bytes
    last: bool = False

    @property
    def duration_samples(self) -> int:
        return RATE_HZ // self.fps


@dataclass(frozen=True, slots=True)
class ReleasedPicture:
    """A picture that leaves now, to be shown at `time` (90 kHz, session media time).

    skew_s: sound minus picture at the moment of release; None for idle pictures.
    """

    picture: Picture
    time: int
    skew_s: float | None = None


@dataclass(frozen=True, slots=True)
class TurnTime:
    """Where a turn that plays stands in media time."""

    turn: int
    start_samples: int
    """Media time of the turn's first voice sample, shifted by what was waited for since."""


@dataclass(slots=True)
class PictureLane:
    """FIFO of one codec."""

    codec: VideoCodec
    dropped: int = 0
    late: int = 0
    needs_keyframe: bool = True
    last_index: int | None = None
    """Index of the newest synced picture of the current turn released so far."""
    complete: bool = False
    """The turn's last picture has arrived."""
    _epoch: int = 0
    _waiting: deque[Picture] = field(default_factory=deque)
    _last_time: int = -1
    _busy_until: int = 0
    """Media time until which the newest synced picture is to be seen."""

    def advance(self, epoch: int) -> None:
        """Pictures of turns before `epoch` are void; idle ones in front of them are not."""
        self._epoch = epoch
        self.complete = False
        self.last_index = None
        kept: list[Picture] = []
        for picture in self._waiting:
            if not picture.live and picture.turn < epoch:
                break
            kept.append(picture)
        self._truncate(kept)

    def push(self, picture: Picture) -> None:
        """Queue a picture, or drop it and all up to the next key frame."""
        current = picture.live or picture.turn == self._epoch
        if current and picture.last and not picture.live:
            self.complete = True
        if not picture.payload:
            return
        if not current:
            # Void, or of a turn that was never opened here.
            self.dropped += 1
            self.needs_keyframe = True
            return
        if self.needs_keyframe and not picture.keyframe:
            self.dropped += 1
            return
        if len(self._waiting) >= QUEUE_LIMIT:
            self._truncate([])
            if not picture.keyframe:
                self.dropped += 1
                return
        self.needs_keyframe = False
        self._waiting.append(picture)

    def holds_first(self) -> bool:
        """Whether the turn's first picture is here."""
        return any(not p.live for p in self._waiting) or self.last_index is not None

    def holds_synced(self) -> bool:
        """Whether pictures of the turn wait to be shown."""
        return any(not p.live for p in self._waiting)

    def release(self, now_samples: int, turn: TurnTime | None) -> list[ReleasedPicture]:
        """What leaves in the tick that starts at `now_samples`."""
        out: list[ReleasedPicture] = []
        idle_shown = False
        while self._waiting:
            head = self._waiting[0]
            if head.live:
                # At most one a tick: a burst plays at double speed instead of jumping.
                if idle_shown or now_samples + TICK_SAMPLES // 2 < self._busy_until:
                    break
                idle_shown = True
                out.append(self._leave(head, now_samples, None))
                continue
            if turn is None or head.turn != turn.turn:
                break
            due = turn.start_samples + head.index * RATE_HZ // head.fps
            if due > now_samples + TICK_SAMPLES // 2:
                break
            skew_s = (now_samples - due) / RATE_HZ
            if skew_s > HOPELESS_S:
                self._skip_to_keyframe()
                continue
            if skew_s > 1 / head.fps:
                self.late += 1
            self.last_index = head.index
            self._busy_until = due + head.duration_samples
            out.append(self._leave(head, due, skew_s))
        return out

    def _leave(self, picture: Picture, samples: int, skew_s: float | None) -> ReleasedPicture:
        self._waiting.popleft()
        self._last_time = max(to_video_clock(samples), self._last_time + 1)
        return ReleasedPicture(picture, self._last_time, skew_s)

    def _skip_to_keyframe(self) -> None:
        rest = list(self._waiting)[1:]
        start = next((i for i, p in enumerate(rest) if p.keyframe), len(rest))
        self._truncate(rest[start:], suffix=True)

    def _truncate(self, kept: list[Picture], *, suffix: bool = False) -> None:
        removed = len(self._waiting) - len(kept)
        if removed:
            self.dropped += removed
            # What follows a kept suffix still continues it.
            self.needs_keyframe = not (suffix and kept)
        self._waiting = deque(kept)
