"""One attached session: listens to the turn's sound and the clock, sends the face."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from services.face.draw.animator import Animator
from services.face.draw.pictures import DrawTimes, Picture, PictureMaker
from services.face.draw.pose import Frame
from services.face.drawing import Drawing
from services.face.life.gaze import Phase
from services.face.lips.lips import LipTrack
from services.face.lips.turn_lips import Hearing
from visavis.serving import metrics
from visavis.serving.errors import BusError
from visavis.serving.stage import CHUNKS_WAITING, Stage, StageWork, Turn
from visavis.serving.telemetry.stages import Work
from visavis.wire.clock import Clock
from visavis.wire.media import (
    Chunk,
    ClockChunk,
    MelChunk,
    PcmChunk,
    Place,
    Stamp,
    TurnChunk,
    VideoCodec,
)
from visavis.wire.subjects import Kind

log = logging.getLogger(__name__)

_VOICE_CHUNKS_WAITING = 256
"""5 s of 20 ms: the voice runs ahead while the first lips are worked out."""


@dataclass(frozen=True, slots=True)
class Resumption:
    """How far a turn is whose pictures are to go on here."""

    turn: TurnChunk
    """As it was announced, with what viewers see now."""
    mel: tuple[MelChunk, ...]
    voice: tuple[PcmChunk, ...]
    """Both of what has not been heard yet, in order."""
    clock: ClockChunk | None
    """None: nothing of it was heard."""


class ShownTurn(Turn):
    """The pictures of one turn: how far they have come, and when."""

    def __init__(self, number: int, clock: Clock, stamps: tuple[Stamp, ...]) -> None:
        """stamps: of the sound that began it, for the first picture to carry on."""
        super().__init__(number)
        self.stamps = stamps
        self.heard_all: Stamp | None = None
        """When the last of its sound came."""
        self.frames = 0
        self._clock = clock
        self._began_s = clock.now()
        self._first_frame_s: float | None = None

    @property
    def produced(self) -> int:
        return self.frames

    def seconds(self) -> dict[str, float]:
        seconds = {"total": self._clock.now() - self._began_s}
        if self._first_frame_s is not None:
            seconds["first_frame"] = self._first_frame_s
        return seconds

    def traced_as(self) -> Work:
        return Work("animate")

    def count_frame(self) -> None:
        """One more has been sent."""
        self.frames += 1
        if self._first_frame_s is None:
            self._first_frame_s = self._clock.now() - self._began_s


class FaceSession(StageWork):
    """One session's face: `voice`, `mel` and `clock` in, pictures out, also while nobody speaks."""

    inputs = MappingProxyType(
        {
            Kind.TURN: CHUNKS_WAITING,
            Kind.CLOCK: CHUNKS_WAITING,
            Kind.VOICE: _VOICE_CHUNKS_WAITING,
            Kind.MEL: CHUNKS_WAITING,
        }
    )

    def __init__(
        self,
        stage: Stage[ShownTurn],
        *,
        animator: Animator,
        pictures: PictureMaker,
        hearing: Hearing,
        from_voice: bool,
        drawing: Drawing,
    ) -> None:
        """from_voice: the voice moves the lips; of the mel only the style counts. drawing: of all
        sessions.
        """
        self._stage = stage
        self._animator = animator
        self._pictures = pictures
        self._hearing = hearing
        self._from_voice = from_voice
        self._clock = drawing.clock
        self._face = drawing.face(animator, pictures)
        self._unwatched = False
        self._early: deque[MelChunk | PcmChunk] = deque(maxlen=_VOICE_CHUNKS_WAITING)
        """Of a turn whose beginning went to another face: they wait until it goes on here."""
        self._resuming = False
        self._voice = (0, 0)
        """The newest turn, and its newest voice: what is of an earlier one is void."""

    def loops(self) -> Sequence[Coroutine[Any, Any, None]]:
        return [
            self._animate(),
            self._follow_playback(),
            self._hear(Kind.VOICE),
            self._hear(Kind.MEL),
        ]

    def request_keyframe(self, codec: VideoCodec) -> None:
        """A viewer has joined or lost a picture."""
        self._pictures.request_keyframe(codec)

    def set_codecs(self, codecs: Sequence[VideoCodec]) -> None:
        """The streams to send from the next frame on. While there are none, idle life stands still:
        whoever comes then has not seen where.
        """
        self._pictures.set_codecs(codecs)
        if not self._pictures.wanted:
            self._unwatched = True
            self._animator.rest(0)
        elif self._unwatched:
            self._unwatched = False
            self._animator.begin_to_be_seen(self._clock.now())
        self._face.changed()

    def set_bitrate(self, most_kbps: int) -> None:
        """Of each stream from the next picture on; 0: as many bits as the face allows."""
        self._pictures.set_bitrate(1000 * most_kbps)

    def rest(self, motion_frame: int) -> None:
        """From this frame on the loop is shown from memory."""
        self._animator.rest(motion_frame)
        self._face.changed()

    def wake(self, motion_frame: int | None) -> None:
        """Viewers see this frame of the loop, if they do, and live pictures shall follow."""
        self._animator.wake(motion_frame, self._clock.now())
        self._face.changed()

    def attend(self, phase: Phase, cue: bool, shown_from: int | None) -> None:
        """Whom it talks with speaks, or waits for an answer; see `Animator.attend`."""
        self._animator.attend(phase, cue=cue, shown_from=shown_from)

    async def resume(self, resumed: Resumption) -> None:
        """Go on with a turn of another face's, or of this one's that has missed some of it."""
        number = resumed.turn.place.turn
        if not self._stage.wants(number):
            return
        self._resuming = True
        self.announced(resumed.turn)
        await self._stage.advance(number)
        if resumed.clock is not None:
            self._follow(resumed.clock)
            self._animator.join(number)
        heard = _silence_before(resumed.voice[0]) if resumed.voice else ()
        for chunk in (*resumed.mel, *heard, *resumed.voice):
            await self._take(chunk)
        while self._early:
            await self._take(self._early.popleft())
        self._resuming = False

    # What comes in

    def announced(self, chunk: TurnChunk) -> None:
        self._hearing.begin_turn(chunk.place.turn)
        turn, seen = chunk.place.turn, chunk.motion_frame
        self._animator.advance(turn, self._clock.now(), held=chunk.held, seen=seen)
        self._face.changed()

    async def _follow_playback(self) -> None:
        async for chunk in self._stage.chunks(Kind.CLOCK):
            assert isinstance(chunk, ClockChunk)
            self._follow(chunk)
            self._face.changed()

    def _follow(self, clock: ClockChunk) -> None:
        played_s = clock.place.pts / clock.sample_rate_hz
        turn, now = clock.place.turn, self._clock.now()
        seen = clock.motion_frame
        self._animator.played(turn, played_s, now, paused=clock.paused, seen=seen)

    async def _hear(self, kind: Kind) -> None:
        async for chunk in self._stage.chunks(kind):
            assert isinstance(chunk, MelChunk | PcmChunk)
            voice = (chunk.place.turn, chunk.run)
            if voice < self._voice:
                continue
            self._voice = voice
            missed = chunk.place.pts and not self._hearing.has_begun(chunk.place.turn)
            if missed or self._resuming:
                self._early.append(chunk)
            else:
                await self._take(chunk)

    async def _take(self, chunk: MelChunk | PcmChunk) -> None:
        """A piece of a turn's sound."""
        turn, got = chunk.place.turn, Stamp.now("face.first_got")
        if not self._stage.wants(turn):
            return
        try:
            lips = await self._lips(chunk)
        except Exception as error:
            await self._fail(turn, error)
            return
        if lips is not None:
            await self._speak(turn, lips, (*chunk.place.stamps, got))
            if chunk.place.last and self._stage.turn is not None:
                self._stage.turn.heard_all = got.renamed("face.last_got")

    async def _lips(self, chunk: Chunk) -> LipTrack | None:
        """The lips of the chunk's turn; None where they do not come of chunks of its kind."""
        if isinstance(chunk, PcmChunk):
            return await self._hearing.voice(chunk)
        assert isinstance(chunk, MelChunk)
        if len(chunk.mel):
            self._animator.express(chunk.place.turn, chunk.start_s, chunk.style)
        return None if self._from_voice else await self._hearing.mel(chunk)

    async def _speak(self, turn: int, lips: LipTrack, stamps: tuple[Stamp, ...]) -> None:
        if turn > self._stage.begun:
            ready = Stamp.now("face.first_ready")
            await self._stage.begin_turn(ShownTurn(turn, self._clock, (*stamps, ready)))
        self._animator.speak_turn(turn, lips, self._clock.now())
        self._face.changed()

    async def _fail(self, turn: int, error: Exception) -> None:
        """The turn's input cannot be used. The face goes back to rest."""
        log.warning("turn %d: %s", turn, error)
        self._animator.abandon(turn)
        self._face.changed()
        await self._stage.fail(turn, error)

    # What goes out

    async def _animate(self) -> None:
        late, late_live = 0, 0
        async with self._face as passes:
            async for pictures in passes:
                for picture, took_s in pictures:
                    self._animator.took(took_s)
                    await self._show(picture)
                animator = self._animator
                metrics.face_late_frames.labels("speaking").inc(animator.late - late)
                metrics.face_late_frames.labels("live").inc(animator.late_live - late_live)
                late, late_live = animator.late, animator.late_live

    async def _show(self, picture: Picture) -> None:
        frame = picture.frame
        if picture.drawn:
            metrics.face_frame_seconds.observe(picture.times.seconds, metrics.exemplar())
            metrics.face_frames.labels("live" if frame.live else "speaking").inc()
        else:
            metrics.face_frames.labels("blendshapes").inc()
        chunks = self._pictures.chunks(picture, partial(self._place, picture))
        try:
            for kind, chunk in chunks:
                await self._stage.publish(kind, chunk)
        except BusError as error:
            # Media is worth nothing later: go on, and let the next frame stand on its own.
            log.warning("a frame was lost: %s", error)
            self._pictures.restart()
        turn = self._turn_of(frame)
        if turn is not None:
            turn.count_frame()
            if frame.last:
                await self._stage.finish(turn)

    def _place(self, picture: Picture, kind: Kind, last: bool) -> Place:
        frame, stamps = picture.frame, self._stamps(picture)
        return self._stage.place(frame.turn, kind, frame.index, last=last, stamps=stamps)

    def _stamps(self, picture: Picture) -> tuple[Stamp, ...]:
        """What a turn's first and last frames tell of their making."""
        frame, times = picture.frame, picture.times
        turn = self._turn_of(frame)
        stamps: tuple[Stamp, ...] = ()
        if turn is None:
            return stamps
        if turn.frames == 0:
            stamps = (*turn.stamps, *_work_on("first", times))
        if frame.last:
            got = (turn.heard_all,) if turn.heard_all else ()
            stamps = (*stamps, *got, *_work_on("last", times))
        return stamps

    def _turn_of(self, frame: Frame) -> ShownTurn | None:
        turn = self._stage.turn
        return turn if turn is not None and turn.number == frame.turn else None


def _silence_before(first: PcmChunk) -> Iterator[PcmChunk]:
    """In the place of what was heard before: for lips that come of the voice, time counts from its
    first sample.
    """
    size = first.sample_rate_hz
    for start in range(0, first.place.pts, size):
        place = replace(first.place, pts=start, last=False, stamps=())
        yield replace(
            first, place=place, pcm=np.zeros(min(size, first.place.pts - start), np.int16)
        )


def _work_on(chunk: str, times: DrawTimes) -> tuple[Stamp, ...]:
    return (
        times.started.renamed(f"face.{chunk}_started"),
        times.painted.renamed(f"face.{chunk}_finished"),
        times.painted.renamed(f"encoder.{chunk}_started"),
        times.encoded.renamed(f"encoder.{chunk}_finished"),
    )
