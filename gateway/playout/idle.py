"""Who shows a session's idle life: the face, picture by picture, or its loop from memory.

Pure. A face whose idle life repeats tells with each live picture which frame of the motion it
shows, and whether that is the loop's own. Once it is, and no turn is open, the loop takes over at
its next key frame, and the face is told to rest from there on. A turn's first picture ends the
loop: the face knows by the turn's announcement which frame viewers see, and goes on from there.

While somebody speaks to it another loop shows the same motion as it listens: it begins to, goes on,
and nods, each from a key frame on of which the face is told.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from gateway.playout.attention import Attention, AttentionOrder
from gateway.playout.loops import IdleLoop, LoopClock
from gateway.playout.pacing import RATE_HZ, TICK_SAMPLES
from gateway.playout.pictures import Picture, ReleasedPicture
from visavis.wire.media import VideoCodec

# The face learns a quarter of a picture later that it may rest.
NOTICE_FRAMES = 3
# A busy face comes to the loop's first frame late, and its motion waits with it. So long is waited
# for the picture before that: it may be lost.
LOST_FRAMES = 8
# A face that says nothing for so long is away, or was told to rest by an earlier gateway.
SILENT_SAMPLES = RATE_HZ
# Who nods at every phrase is not believed.
NODS_APART = 3
# A face that goes on is told again that it may rest, no faster than this.
_TELL_AGAIN_SAMPLES = 2 * RATE_HZ // 5


@dataclass(frozen=True, slots=True)
class IdleOrder:
    """What the face is to be told: draw live pictures, or none from this frame on.

    live: viewers see that frame of the motion now; 0: they have seen none but the face's own.
    """

    live: bool
    frame: int


class IdleLife:
    """Takes one session from live pictures to the loop and back. Times are media time, samples."""

    def __init__(self) -> None:
        self.digest = ""
        """Of the loop that the face's live pictures repeat; "": they do not."""
        self._loops: dict[VideoCodec, IdleLoop] = {}
        self._listening: dict[VideoCodec, IdleLoop] = {}
        self._clock: LoopClock | None = None
        self._shown: dict[VideoCodec, int | None] = {}
        """Of each codec that the loop has or will have: the frame of it that left last."""
        self._leaving = False
        self._attention = Attention.NOBODY
        self._seen = (0, 0)
        """Frame of the face's newest picture, and when it left."""
        self._settled: Attention | None = None
        """That was in this tick, and is the loop's own, in which it attends to them."""
        self._unwanted = False
        self._told_samples = 0
        self.skips: list[int] = []
        """Of turns that ended the loop, not read yet: frames of the motion that were left out
        between its last picture and their first; less than 0: seen twice."""
        self._orders: list[IdleOrder] = []
        self._most_bps: float | None = None
        self._too_much = False
        """Of the loop, more than gets through."""

    def limit(self, most_bps: float | None, now: int) -> None:
        """Of pictures, bits per second that get through; None: all. Where the loop has more, the
        face makes smaller ones.
        """
        self._most_bps = most_bps
        self._weigh()
        if self._too_much and self._clock is not None and not self._leaving:
            self._leave(self._clock, now)

    def _weigh(self) -> None:
        most = self._most_bps
        self._too_much = most is not None and any(loop.bps > most for loop in self._loops.values())

    def missing(self, codecs: Iterable[VideoCodec]) -> list[tuple[VideoCodec, bool]]:
        """Those of which a loop is wanted and not here, and whether that in which it listens."""
        if not self.digest:
            return []
        resting = [(codec, False) for codec in codecs if codec not in self._loops]
        if resting or self._attention is not Attention.LISTENING:
            return resting
        return [(codec, True) for codec in codecs if codec not in self._listening]

    def offer(self, loop: IdleLoop) -> None:
        """A loop that may be played; one of another face is of no use."""
        if loop.digest == self.digest:
            (self._listening if loop.listening else self._loops)[loop.codec] = loop
            self._weigh()

    def take_orders(self) -> list[IdleOrder]:
        """What the face is to be told now."""
        orders, self._orders = self._orders, []
        return orders

    def frame(self, now: int) -> int | None:
        """Frame of the motion that the loop shows; None while the face's pictures are shown, or
        asked for: the face has been told where they go on.
        """
        clock = self._clock
        shown = clock is not None and clock.started and not self._leaving
        return clock.frame(now) if clock is not None and shown else None

    def plays(self, codec: VideoCodec) -> bool:
        """Whether the codec's idle pictures come from memory, and shall."""
        clock = self._clock
        return clock is not None and clock.started and codec in self._shown and not self._leaving

    def plays_all(self, codecs: Iterable[VideoCodec], picture_samples: int) -> bool:
        """Whether these codecs' come from memory, each picture seen for so long at least."""
        clock = self._clock
        slow = clock is not None and clock.frame_samples >= picture_samples
        return all(slow and self.plays(codec) for codec in codecs)

    def set_codecs(self, codecs: set[VideoCodec], now: int) -> None:
        """The streams from now on. One whose loop is not here has all of them drawn live again."""
        for gone in self._shown.keys() - codecs:
            del self._shown[gone]
        clock = self._clock
        if clock is None:
            return
        if self._has(codecs, listening=clock.listens_from is not None):
            for new in codecs - self._shown.keys():
                self._shown[new] = None
            return
        self._leave(clock, now)

    def attend(self, order: AttentionOrder, now: int) -> AttentionOrder:
        """What the face attends to from now on: the order as it is to be told, with what the loop
        shows of it. A cue that the loop does not nod at is none.
        """
        self._attention = order.attention
        clock = self._clock
        if clock is None or self._leaving or order.attention is Attention.NOBODY:
            return order
        listens = order.attention is Attention.LISTENING
        if not listens or not self._shown or not self._has(self._shown, listening=True):
            self._leave(clock, now)
            return order
        loop = self._listening[min(self._shown)]
        seen = [frame for frame in self._shown.values() if frame is not None]
        soon = max(seen, default=clock.frame(now)) + 1
        if clock.listens_from is None:
            clock.listens_from = loop.keyframe_from(soon) if clock.started else clock.first
        elif order.cue and clock.started:
            last = clock.listens_from if clock.nods_from is None else clock.nods_from
            nods_from = loop.keyframe_from(max(soon, last + loop.part_frames))
            if clock.nods_from is None or nods_from - last >= NODS_APART * loop.part_frames:
                clock.nods_from = nods_from
                return replace(order, shown_from=nods_from)
        return replace(order, cue=False, shown_from=clock.listens_from)

    def restart(self) -> None:
        """Another face begins, anywhere in the motion: what the last one was told is void."""
        if self._clock is not None and not self._clock.started:
            self._end()

    def jump(self, now: int) -> None:
        """Nobody has seen the loop up to now: it goes on with a key frame at once."""
        clock, loop = self._clock, next(iter(self._loops.values()), None)
        if clock is not None and clock.started and loop is not None and not self._leaving:
            clock.start(loop.keyframe_from(clock.frame(now)), now)
            self._shown = dict.fromkeys(self._shown)

    def voids(self, picture: Picture) -> bool:
        """Whether a picture that has come is not to be shown: the loop is there for it."""
        clock = self._clock
        if clock is None or not picture.live or picture.codec not in self._shown:
            return False
        if self._leaving or picture.loop != self.digest:
            return False
        void = clock.started or picture.motion_frame >= clock.first
        self._unwanted = self._unwanted or void
        return void

    def left(self, released: list[ReleasedPicture], now: int) -> None:
        """Pictures of the face leave in this tick: where the loop was, it ends."""
        for picture in (one.picture for one in released):
            clock = self._clock
            if clock is not None and (clock.started or not picture.live):
                shown = self._shown.get(picture.codec)
                if shown is not None and not picture.live:
                    self.skips.append(picture.motion_frame - shown - 1)
                self._end()
            self._seen = (picture.motion_frame, now)
            self._settled = None
            if picture.live and picture.at_rest:
                listens = picture.listening
                self._settled = Attention.LISTENING if listens else Attention.NOBODY
            elif self._clock is not None:
                self._leave(self._clock, now)  # something moves it after all, as a nod
            if picture.live and picture.loop != self.digest:
                self._end()
                self.digest, self._loops, self._listening = picture.loop, {}, {}

    def take(self, codec: VideoCodec, now: int, *, free: bool) -> Picture | None:
        """The loop's picture that is due now, if one is.

        free: nothing of the face waits to be shown or is to be seen any longer.
        """
        clock = self._clock
        if clock is None or codec not in self._shown:
            return None
        if not clock.started:
            frame, seen_at = self._seen
            lost = now - seen_at >= LOST_FRAMES * clock.frame_samples
            complete = frame == clock.first - 1 or lost
            if not free or not complete or now + TICK_SAMPLES // 2 < clock.due_samples:
                return None
            clock.start(clock.first, now)
        frame, shown = clock.frame(now), self._shown[codec]
        picture = self._picture(codec, frame, clock)
        if frame == shown or (shown is None and not picture.keyframe):
            return None
        self._shown[codec] = frame
        return picture

    def review(self, codecs: set[VideoCodec], now: int, *, idle: bool) -> None:
        """Call once a tick, after its pictures have left. idle: no turn is open."""
        settled, self._settled = self._settled, None
        unwanted, self._unwanted = self._unwanted, False
        clock = self._clock
        if clock is not None:
            if unwanted and now - self._told_samples >= _TELL_AGAIN_SAMPLES:
                self._tell_to_rest(0 if clock.started else clock.first, now)
            listened = clock.listens_from is not None and self._attention is Attention.NOBODY
            if listened and idle and not self._leaving:
                self._leave(clock, now)
            return
        away = now - self._seen[1] >= SILENT_SAMPLES
        listens = self._attention is Attention.LISTENING
        if away:
            listens = listens and self._has(codecs, listening=True)
        if self._too_much:
            return
        if not codecs or not idle or (settled is not self._attention and not away):
            return
        if not self.digest or not self._has(codecs, listening=listens):
            return
        loop = self._loops[min(codecs)]
        frame_samples = loop.pictures[0].duration_samples
        frame, seen_at = self._seen
        if settled is not None:
            first = loop.keyframe_from(frame + NOTICE_FRAMES)
            due = seen_at + (first - frame) * frame_samples
        elif away:
            first = loop.keyframe_from(frame + (now - seen_at) // frame_samples)
            due = now + TICK_SAMPLES
        else:
            return
        listens_from = first - loop.part_frames if listens else None
        self._clock = LoopClock(first, due, frame_samples, listens_from=listens_from)
        self._shown = dict.fromkeys(codecs)
        self._tell_to_rest(first, now)

    def _has(self, codecs: Iterable[VideoCodec], *, listening: bool) -> bool:
        """Whether the loops are here, also those in which it listens where that is wanted."""
        here = self._loops.keys() & self._listening.keys() if listening else self._loops.keys()
        return here >= set(codecs)

    def _picture(self, codec: VideoCodec, frame: int, clock: LoopClock) -> Picture:
        loop = self._loops[codec]
        part = clock.part(frame, loop.part_frames)
        return loop.at(frame) if part is None else self._listening[codec].at(frame, part)

    def _tell_to_rest(self, frame: int, now: int) -> None:
        self._orders.append(IdleOrder(False, frame))
        self._told_samples = now

    def _leave(self, clock: LoopClock, now: int) -> None:
        """The face's own pictures are to follow the loop, which goes on until they come."""
        self._orders.append(IdleOrder(True, clock.frame(now) if clock.started else 0))
        self._leaving = clock.started
        if not clock.started or not self._shown:
            self._end()

    def _end(self) -> None:
        self._clock, self._shown, self._leaving = None, {}, False
