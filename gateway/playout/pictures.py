"""Encoded pictures in front of the viewers: when each leaves, and when a key frame is due."""

from __future__ import annotations

import sys
from collections import deque
from dataclasses import dataclass, field

from gateway.playout.pacing import RATE_HZ, TICK_SAMPLES, to_video_clock
from visavis.wire.media import VideoCodec

# Four seconds: the one that the face may run ahead, and a stall of three.
QUEUE_LIMIT = 100
# Late pictures that leave in one tick: a full queue in 180 ms, and no viewer's own queue
# (gateway/playout/sinks/webrtc.py) is flooded.
BURST = 12
# Key frames of one codec are asked for no faster.
_KEYFRAME_INTERVAL_S = 0.4


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
    number: int = 0
    """In its codec's stream; 0: not counted."""
    motion_frame: int = 0
    """Of the motion that runs through idle life and speech."""
    loop: str = ""
    """Digest of the loop that the face's idle life repeats; "": it never does."""
    at_rest: bool = False
    """It shows that frame of the loop, and nothing else."""
    listening: bool = False
    """Of the loop of a face that listens."""

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
    looped: bool = False
    """From memory."""


@dataclass(frozen=True, slots=True)
class TurnTime:
    """Where a turn that plays stands in media time."""

    turn: int
    start_samples: int
    """Media time of the turn's first voice sample, shifted by what was waited for since."""


@dataclass(slots=True)
class PictureLane:
    """Holds the pictures of one codec until they are due, and says when a key frame is.

    They are one stream: each is decoded on top of those before it. So late pictures are dropped
    where a later one that is due stands on its own. Where none does, they are released at their
    own place in media time, several at once: viewers decode them, and see the newest. After a
    stall the picture is thus back with the sound within 200 ms.
    """

    codec: VideoCodec
    dropped: int = 0
    """Pictures that were wanted and never left; what an interruption makes void is not among
    them."""
    late: int = 0
    needs_keyframe: bool = True
    missed: bool = False
    """A picture that was wanted could not be used without the key frame."""
    last_index: int | None = None
    """Index of the newest synced picture of the current turn released so far."""
    complete: bool = False
    """The turn's last picture has arrived."""
    given_up: bool = False
    """The turn is paused: its pictures are of no use until it goes on."""
    _epoch: int = 0
    _next_number: int = 0
    _waiting: deque[Picture] = field(default_factory=deque)
    _last_time: int = -1
    _busy_until: int = 0
    """Media time until which the newest synced picture is to be seen."""

    def advance(self, epoch: int) -> None:
        """Pictures of turns before `epoch` are void; idle ones in front of them are not."""
        self._epoch = epoch
        self.given_up = False
        self._restart(epoch)

    def give_up(self) -> None:
        """The turn is paused: its pictures are void, until it goes on with new ones."""
        self.given_up = True
        self._restart(self._epoch + 1)

    def take_up(self) -> None:
        """The turn goes on: pictures of it count again."""
        self.given_up = False

    def _restart(self, epoch: int) -> None:
        """Drop what waits of turns before `epoch`; idle pictures in front of it stay."""
        self.complete = False
        self.last_index = None
        kept: list[Picture] = []
        for picture in self._waiting:
            if not picture.live and picture.turn < epoch:
                break
            kept.append(picture)
        self._truncate(kept, void=True)

    def queue(self, picture: Picture) -> None:
        """Queue a picture, or drop it and all up to the next key frame.

        A hole in the stream is as good as a drop: viewers keep the last good picture.
        """
        current = picture.live or (picture.turn == self._epoch and not self.given_up)
        if current and picture.last and not picture.live:
            self.complete = True
        if not picture.payload:
            return
        if self._lost_before(picture):
            self.needs_keyframe = True
        if not current:
            # Void, or of a turn that was never opened here.
            self.needs_keyframe = True
            return
        if self.needs_keyframe and not picture.keyframe:
            self.dropped += 1
            self.missed = True
            return
        if len(self._waiting) >= QUEUE_LIMIT:
            self._truncate([])
            if not picture.keyframe:
                self.dropped += 1
                return
        self.needs_keyframe = self.missed = False
        self._waiting.append(picture)

    def _lost_before(self, picture: Picture) -> bool:
        """Whether one that it stands on has not arrived."""
        hole = bool(picture.number and self._next_number) and picture.number != self._next_number
        self._next_number = picture.number + 1 if picture.number else 0
        return hole

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
        self._drop_late(now_samples, turn)
        while self._waiting and len(out) < BURST:
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
            due = _due(head, turn)
            if due > now_samples + TICK_SAMPLES // 2:
                break
            skew_s = (now_samples - due) / RATE_HZ
            if skew_s > 1 / head.fps:
                self.late += 1
            self.last_index = head.index
            self._busy_until = due + head.duration_samples
            out.append(self._leave(head, due, skew_s))
        return out

    @property
    def waits(self) -> bool:
        """Whether a picture is here that has not left."""
        return bool(self._waiting)

    def is_free(self, now_samples: int) -> bool:
        """Whether no picture of the face is to be seen now, or waits for that."""
        live = bool(self._waiting) and self._waiting[0].live
        return not live and now_samples + TICK_SAMPLES // 2 >= self._busy_until

    def show(self, picture: Picture, now_samples: int) -> ReleasedPicture:
        """Another stream's picture leaves: of ours, the next one has to stand on its own."""
        self.needs_keyframe = True
        return ReleasedPicture(picture, self._time(now_samples), looped=True)

    def _leave(self, picture: Picture, samples: int, skew_s: float | None) -> ReleasedPicture:
        self._waiting.popleft()
        return ReleasedPicture(picture, self._time(samples), skew_s)

    def _time(self, samples: int) -> int:
        self._last_time = max(to_video_clock(samples), self._last_time + 1)
        return self._last_time

    def _drop_late(self, now_samples: int, turn: TurnTime | None) -> None:
        """Begin with the newest key frame that is due, if what stands before it is late."""
        head = next((p for p in self._waiting if not p.live), None)
        if turn is None or head is None:
            return
        if now_samples - _due(head, turn) <= head.duration_samples:
            return
        waiting = list(self._waiting)
        keys = [i for i, p in enumerate(waiting) if p.keyframe and _due(p, turn) <= now_samples]
        if keys and waiting[keys[-1]] is not head:
            self._truncate(waiting[keys[-1] :], suffix=True)

    def _truncate(self, kept: list[Picture], *, suffix: bool = False, void: bool = False) -> None:
        removed = len(self._waiting) - len(kept)
        if removed:
            self.dropped += 0 if void else removed
            # What follows a kept suffix still continues it.
            self.needs_keyframe = not (suffix and kept)
        self._waiting = deque(kept)


def _due(picture: Picture, turn: TurnTime) -> int:
    """Media time at which a picture of the turn is shown; one of another turn never is."""
    if picture.live or picture.turn != turn.turn:
        return sys.maxsize
    return turn.start_samples + picture.index * RATE_HZ // picture.fps


class KeyframeThrottle:
    """Says how often a key frame is asked for: many viewers may miss the same one.

    What was refused is not forgotten, for somebody who came just after a key frame has not seen
    it: ask for `refused` again. Pure: time comes as an argument.
    """

    def __init__(self) -> None:
        self.refused: set[VideoCodec] = set()
        self._asked_at_s: dict[VideoCodec, float] = {}

    def allows(self, codec: VideoCodec, now: float) -> bool:
        """Whether to ask now; if so, it counts as asked."""
        last = self._asked_at_s.get(codec)
        if last is not None and now - last < _KEYFRAME_INTERVAL_S:
            self.refused.add(codec)
            return False
        self.refused.discard(codec)
        self._asked_at_s[codec] = now
        return True
