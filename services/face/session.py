"""One attached session: listens to the turn's sound and the clock, sends the face."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from services.face.draw.animator import Animator, Frame
from services.face.draw.pictures import DrawTimes, PictureMaker
from services.face.lips.lips import LipTrack
from services.face.lips.turn_lips import Hearing
from visavis.serving import metrics
from visavis.serving.errors import BusError, VisavisError
from visavis.serving.lease import EventStream
from visavis.wire.bus import Bus, Subscription
from visavis.wire.clock import Clock
from visavis.wire.media import ClockChunk, MelChunk, PcmChunk, Place, Stamp, TurnChunk, VideoCodec
from visavis.wire.subjects import Kind

log = logging.getLogger(__name__)

_VOICE_CHUNKS_WAITING = 256
"""5 s of 20 ms: the voice runs ahead while the first lips are worked out."""


@dataclass
class _Progress:
    """What has been made of the turn that is spoken."""

    turn: int
    began_s: float
    stamps: tuple[Stamp, ...] = ()
    heard_all: Stamp | None = None
    """When the last of its sound came."""
    frames: int = 0
    first_frame_s: float | None = None
    told: bool = False


@dataclass
class _Sequence:
    """Numbers the chunks of one kind within a turn."""

    turn: int = -1
    next: int = 0
    live: int = 0

    def take(self, turn: int) -> int:
        if turn == 0:
            self.live += 1
            return self.live - 1
        if turn != self.turn:
            self.turn, self.next = turn, 0
        self.next += 1
        return self.next - 1


class FaceSession:
    """Use `listening`, and run all of `work` inside it."""

    def __init__(
        self,
        name: str,
        *,
        bus: Bus,
        events: EventStream,
        animator: Animator,
        pictures: PictureMaker,
        hearing: Hearing,
        from_voice: bool,
        clock: Clock,
    ) -> None:
        self._name = name
        self._bus = bus
        self._events = events
        self._animator = animator
        self._pictures = pictures
        self._hearing = hearing
        self._from_voice = from_voice
        self._clock = clock
        self._news = asyncio.Event()
        self._subscriptions: dict[Kind, Subscription] = {}
        self._numbers = {Kind.VIDEO: _Sequence(), Kind.FACE: _Sequence()}
        self._progress: _Progress | None = None
        self._refused = 0
        self._bus_failed = False

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Subscribed to what the session says of its turns, for as long as it lasts."""
        kinds = [Kind.TURN, Kind.CLOCK, Kind.VOICE, Kind.MEL]
        async with contextlib.AsyncExitStack() as stack:
            for kind in kinds:
                limit = _VOICE_CHUNKS_WAITING if kind is Kind.VOICE else 64
                subscription = self._bus.subscribe(self._name, kind, limit=limit)
                self._subscriptions[kind] = await stack.enter_async_context(subscription)
            yield

    def work(self) -> Sequence[Coroutine[Any, Any, None]]:
        """What has to run while the lease lasts."""
        heard = (self._hear(Kind.VOICE), self._hear(Kind.MEL))
        return [self._animate(), self._watch_turns(), self._watch_clock(), *heard]

    def request_keyframe(self, codec: VideoCodec) -> None:
        """A viewer has joined or lost a picture."""
        self._pictures.request_keyframe(codec)

    def set_codecs(self, codecs: Sequence[VideoCodec]) -> None:
        """The streams to send from the next frame on."""
        self._pictures.set_codecs(codecs)

    # What comes in

    async def _watch_turns(self) -> None:
        async for chunk in self._subscriptions[Kind.TURN]:
            assert isinstance(chunk, TurnChunk)
            turn = chunk.place.turn
            for kind, subscription in self._subscriptions.items():
                if kind is not Kind.TURN:
                    subscription.advance(turn)
            self._hearing.begin_turn(turn)
            self._animator.advance(turn, self._clock.now(), held=chunk.held)
            self._news.set()
            await self._tell_finished(before=turn)

    async def _watch_clock(self) -> None:
        async for chunk in self._subscriptions[Kind.CLOCK]:
            assert isinstance(chunk, ClockChunk)
            played_s = chunk.place.pts / chunk.sample_rate_hz
            turn, now = chunk.place.turn, self._clock.now()
            self._animator.played(turn, played_s, now, paused=chunk.paused)
            self._news.set()

    async def _hear(self, kind: Kind) -> None:
        async for chunk in self._subscriptions[kind]:
            turn = chunk.place.turn
            if turn <= self._refused:
                continue
            got = Stamp.now("face.first_got")
            try:
                if isinstance(chunk, MelChunk):
                    self._express(chunk)
                    if self._from_voice:
                        continue  # only how it is said
                    lips = await self._hearing.mel(chunk)
                else:
                    assert isinstance(chunk, PcmChunk)
                    lips = await self._hearing.voice(chunk)
            except VisavisError as error:
                await self._fail(turn, error)
                continue
            if lips is not None:
                await self._speak(turn, lips, (*chunk.place.stamps, got))
                if chunk.place.last and self._progress is not None:
                    self._progress.heard_all = got.renamed("face.last_got")

    def _express(self, chunk: MelChunk) -> None:
        if len(chunk.mel):
            self._animator.express(chunk.place.turn, chunk.start_s, chunk.style)

    async def _speak(self, turn: int, lips: LipTrack, stamps: tuple[Stamp, ...]) -> None:
        now, ready = self._clock.now(), Stamp.now("face.first_ready")
        fresh = turn > (self._progress.turn if self._progress else 0)
        self._animator.speak_turn(turn, lips, now)
        self._news.set()
        if fresh:
            await self._tell_finished(before=turn)
            self._progress = _Progress(turn, now, (*stamps, ready))
            await self._events.turn_started(turn)

    async def _fail(self, turn: int, error: VisavisError) -> None:
        """The turn's input cannot be used. The face goes back to rest, the lease lives on."""
        log.warning("turn %d: %s", turn, error)
        self._refused = max(self._refused, turn)
        self._animator.abandon(turn)
        self._news.set()
        await self._events.turn_failed(turn, error)

    # What goes out

    async def _animate(self) -> None:
        late = 0
        while True:
            frame = self._animator.next_frame(self._clock.now())
            if frame is None:
                await self._wait(self._animator.delay_s(self._clock.now()))
                continue
            metrics.face_late_frames.inc(self._animator.late - late)
            late = self._animator.late
            await self._show(frame)

    async def _wait(self, delay_s: float | None) -> None:
        """Until there is news, or for so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._news.wait()
        self._news.clear()

    async def _show(self, frame: Frame) -> None:
        began_s = self._clock.now()
        restart = frame.restart or self._bus_failed
        self._bus_failed = False
        chunks = await self._pictures.draw(
            frame, restart=restart, place=lambda kind, last: self._place(frame, kind, last)
        )
        took_s = self._clock.now() - began_s
        self._animator.took(took_s)
        metrics.face_frame_seconds.observe(took_s, metrics.exemplar())
        metrics.face_frames.labels("live" if frame.live else "speaking").inc()
        if not frame.live and frame.turn != self._animator.turn:
            return  # interrupted while it was drawn; the next frame stands on its own
        try:
            for kind, chunk in chunks:
                await self._bus.publish(kind, chunk)
        except BusError as error:
            # Media is worth nothing later: go on, and let the next frame stand on its own.
            log.warning("a frame was lost: %s", error)
            self._bus_failed = True
        await self._note(frame)

    def _place(self, frame: Frame, kind: Kind, last: bool) -> Place:
        seq = self._numbers[kind].take(frame.turn)
        stamps = self._stamps(frame)
        return Place(self._name, frame.turn, seq, frame.index, last=last, stamps=stamps)

    def _stamps(self, frame: Frame) -> tuple[Stamp, ...]:
        """What a turn's first and last frames tell of their making."""
        progress, times = self._progress, self._pictures.times
        stamps: tuple[Stamp, ...] = ()
        if frame.live or progress is None or progress.turn != frame.turn:
            return stamps
        if progress.frames == 0:
            stamps = (*progress.stamps, *_work_on("first", times))
        if frame.last:
            got = (progress.heard_all,) if progress.heard_all else ()
            stamps = (*stamps, *got, *_work_on("last", times))
        return stamps

    async def _note(self, frame: Frame) -> None:
        progress = self._progress
        if frame.live or progress is None or progress.turn != frame.turn:
            return
        progress.frames += 1
        if progress.first_frame_s is None:
            progress.first_frame_s = self._clock.now() - progress.began_s
        if frame.last:
            await self._tell(progress, cancelled=False)

    async def _tell_finished(self, *, before: int) -> None:
        """Report the turn at work as cancelled if a newer one has begun."""
        progress = self._progress
        if progress is not None and progress.turn < before:
            await self._tell(progress, cancelled=True)

    async def _tell(self, progress: _Progress, *, cancelled: bool) -> None:
        if progress.told:
            return
        progress.told = True
        seconds = {"total": self._clock.now() - progress.began_s}
        if progress.first_frame_s is not None:
            seconds["first_frame"] = progress.first_frame_s
        await self._events.turn_finished(
            progress.turn, seconds=seconds, produced=progress.frames, cancelled=cancelled
        )


def _work_on(chunk: str, times: DrawTimes) -> tuple[Stamp, ...]:
    return (
        times.started.renamed(f"face.{chunk}_started"),
        times.painted.renamed(f"face.{chunk}_finished"),
        times.painted.renamed(f"encoder.{chunk}_started"),
        times.encoded.renamed(f"encoder.{chunk}_finished"),
    )
