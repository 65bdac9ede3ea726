"""Playout: one pacing clock that releases the voice and the pictures of a turn together.

Pure: time is what `tick` has released of session media time, 20 ms with each call. The session's
sound never stops (silence between turns), so that every listener's clock keeps running. While an
answer is awaited it is silence of 10 ms, for the voice begins only where a tick does, and what was
sent ahead of it cannot be taken back. While nobody says or awaits anything it is silence of 40 ms,
which leaves with a picture of the idle loop.

A turn starts with its first voice where the face is quick: its first picture, on which the lips
are still as they were at rest, then follows within 40 ms, at its own place in media time. For a
face that is not, or is not known yet, the voice waits until the picture is there, 40 ms at most.
From then on sound is the master: picture k is due at start + k / fps. Where the voice runs dry the
turn's start moves on by the gap, so that the lips stay with the sound; where pictures are late, the
sound goes on.

A turn that is paused falls silent and its pictures are given up: idle ones are seen instead.
It goes on from an earlier sample, together with pictures that the face has made anew.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto

import numpy as np
from numpy.typing import NDArray

from gateway.playout.idle import IdleLife
from gateway.playout.pacing import (
    HALF_TICK_SAMPLES,
    LONG_TICK_SAMPLES,
    ORIGIN_SAMPLES,
    RATE_HZ,
    TICK_S,
    TICK_SAMPLES,
)
from gateway.playout.pictures import Picture, PictureLane, ReleasedPicture, TurnTime
from gateway.playout.sound import Fader, Recall
from visavis.wire.media import VideoCodec

WAIT_FOR_PICTURE_S = 0.040
# A face whose last turn had its first picture here by then is not waited for: behind the voice it
# leaves no later than 40 ms, with the end of the frame that it belongs to.
_QUICK_SAMPLES = TICK_SAMPLES + HALF_TICK_SAMPLES
# An answer that takes longer is not noticed to be 5 ms later, and twice the ticks are not free.
_AWAITED_SAMPLES = 2 * RATE_HZ
# By then encoders of sound have forgotten the voice.
_SETTLED_SAMPLES = RATE_HZ // 4
# After the voice's end: how long a late picture can still belong to the turn.
LINGER_S = 0.5
LONGEST_LINGER_S = 2.0
# A voice that is cut off within a sample clicks; so short a fade is not heard as speech.
FADE_SAMPLES = 240
# The voice is bounded by the synthesis' credit of 10 s; more is a fault of the sender.
VOICE_LIMIT_SAMPLES = 30 * RATE_HZ
# The face makes the pictures after a pause anew, beginning with a key frame.
RESUME_WAIT_S = 0.15
# How far back a paused turn can go on, and on which grid: pictures are made for whole frames.
RECALL_SAMPLES = 3 * RATE_HZ // 2
RESUME_GRID_SAMPLES = RATE_HZ // 25
# While it is not known whether somebody interrupts: clearly quieter, and still to be followed.
DUCKED_GAIN = 0.4


class PlayoutEvent(StrEnum):
    """What happens to a turn's voice in a tick."""

    STARTED = "started"
    """The turn's first sample is in this tick."""
    FINISHED = "finished"
    UNDERRUN = "underrun"
    """The voice ran dry in this tick: one per gap."""


@dataclass(frozen=True, slots=True)
class Tick:
    """What leaves in one step. pcm: [960] int16 at 48 kHz, starting at `start_samples`; silence may
    be [480] or [1920].

    silent: all of it is 0, and need not be looked at.
    """

    start_samples: int
    pcm: NDArray[np.int16]
    pictures: tuple[ReleasedPicture, ...] = ()
    events: tuple[tuple[PlayoutEvent, int], ...] = ()
    """With the turn that each is about."""
    silent: bool = False
    second_half: bool = False
    """Of 20 ms whose first half has left by itself, with their pictures."""


class _Phase(Enum):
    """Where the one turn that may be heard stands."""

    HELD = auto()
    """It may not be heard yet."""
    WAITING = auto()
    """For its first voice and picture."""
    PLAYING = auto()
    PAUSED = auto()
    """Before or after its start."""
    RESUMING = auto()
    """Waits for its pictures after a pause."""
    OVER = auto()


@dataclass(slots=True)
class _Turn:
    """The voice and the media time of the one turn that may be heard."""

    number: int
    phase: _Phase
    opened_samples: int
    """Times are media time."""
    voice: deque[NDArray[np.int16]] = field(default_factory=deque)
    waiting_samples: int = 0
    voice_complete: bool = False
    played_samples: int = 0
    start_samples: int | None = None
    waits_since: int | None = None
    """Of the first tick that its voice could have been in."""
    voice_since: int | None = None
    pictured: bool = False
    """Its first picture has come."""
    starved: bool = False
    """The voice has run dry while it plays."""
    voice_end_ticks: int | None = None
    fader: Fader = field(default_factory=Fader)
    recall: Recall = field(default_factory=lambda: Recall(RECALL_SAMPLES))

    def take(self, count: int) -> NDArray[np.int16]:
        """Up to `count` samples, removed from the queue."""
        out: list[NDArray[np.int16]] = []
        wanted = count
        while wanted and self.voice:
            head = self.voice.popleft()
            out.append(head[:wanted])
            if len(head) > wanted:
                self.voice.appendleft(head[wanted:])
            wanted -= len(out[-1])
        self.waiting_samples -= count - wanted
        return np.concatenate(out) if out else np.zeros(0, np.int16)

    def go_back(self, to_samples: int) -> None:
        """Have voice that was played wait again, back to `to_samples` or as far as is known."""
        again = self.recall.take(max(0, self.played_samples - to_samples))
        self.put_back(again)
        self.played_samples -= len(again)

    def put_back(self, voice: NDArray[np.int16]) -> None:
        """The first samples to be taken next."""
        if len(voice):
            self.voice.appendleft(voice)
            self.waiting_samples += len(voice)
            self.voice_end_ticks = None

    @property
    def voice_done(self) -> bool:
        return self.voice_complete and not self.waiting_samples

    @property
    def sounds(self) -> bool:
        return self.phase in (_Phase.PLAYING, _Phase.RESUMING)

    def is_awaited(self, now: int) -> bool:
        """Whether it is waited for, and has not been for long."""
        waits = self.phase in (_Phase.HELD, _Phase.WAITING)
        return waits and now - self.opened_samples < _AWAITED_SAMPLES


class Playout:
    """Releases the sound and the pictures of one session, 20 ms with each tick."""

    def __init__(self) -> None:
        self.underruns = 0
        self._now = ORIGIN_SAMPLES
        self._turn: _Turn | None = None
        self._epoch = 0
        self._lanes: dict[VideoCodec, PictureLane] = {}
        self._faceless = False
        """The face is lost, and no other one has come yet."""
        self._picture_lag_samples: int | None = None
        """Of the last turn that had a picture: how long its voice was here before."""
        self._pictures_at = ORIGIN_SAMPLES
        """Media time of the last tick that had pictures."""
        self._silent_samples = TICK_SAMPLES
        """So much silence has left since a voice."""
        self.idle = IdleLife()
        self._tail = np.zeros(0, np.int16)

    @property
    def now_samples(self) -> int:
        """Media time of the next tick."""
        return self._now

    @property
    def turn(self) -> int:
        """The turn that is heard or will be; 0: none."""
        return self._turn.number if self._turn else 0

    @property
    def playing(self) -> bool:
        """Whether a turn's voice is being released."""
        turn = self._turn
        if turn is None or turn.start_samples is None:
            return False
        return turn.phase is not _Phase.OVER

    @property
    def paused(self) -> bool:
        """Whether the turn stands still."""
        return self._turn is not None and self._turn.phase is _Phase.PAUSED

    @property
    def at_rest(self) -> bool:
        """Whether nothing waits to leave, but what comes from memory."""
        over = self._turn is None or self._turn.phase is _Phase.OVER
        return over and not len(self._tail) and not any(lane.waits for lane in self._lanes.values())

    @property
    def played_samples(self) -> int:
        """Voice of the current turn released so far, at 48 kHz."""
        return self._turn.played_samples if self._turn else 0

    @property
    def start_samples(self) -> int | None:
        """Media time of the current turn's first voice sample; None before it started."""
        return self._turn.start_samples if self._turn else None

    @property
    def dropped_pictures(self) -> int:
        return sum(lane.dropped for lane in self._lanes.values())

    @property
    def late_pictures(self) -> int:
        return sum(lane.late for lane in self._lanes.values())

    def needs_keyframe(self) -> list[VideoCodec]:
        """Codecs whose viewers see a still picture until a key frame comes."""
        return [
            codec
            for codec, lane in self._lanes.items()
            if lane.needs_keyframe and (lane.missed or not self.idle.plays(codec))
        ]

    @property
    def motion_frame(self) -> int | None:
        """Frame of the face's motion that viewers see from memory; None: they see its pictures."""
        return self.idle.frame(self._pictures_at)

    @property
    def missing_loops(self) -> list[tuple[VideoCodec, bool]]:
        """Codecs of which a loop is wanted, and whether that in which the face listens."""
        return self.idle.missing(self._lanes)

    def begin_to_be_seen(self) -> None:
        """The first viewer has come, and waits for a key frame."""
        self.idle.jump(self._now)

    def set_codecs(self, codecs: set[VideoCodec]) -> None:
        """The streams that the face sends from now on."""
        for gone in self._lanes.keys() - codecs:
            del self._lanes[gone]
        for new in codecs - self._lanes.keys():
            lane = PictureLane(new)
            lane.advance(self._epoch)
            self._lanes[new] = lane
        self.idle.set_codecs(codecs, self._now)

    def restart_stream(self, *, lost: bool = False) -> None:
        """Another face encodes from now on: what was decoded before is no reference.

        lost: there is none yet; where it takes long, idle life is seen even while a turn is heard.
        """
        self._faceless = lost
        self._picture_lag_samples = None
        self.idle.restart()
        for lane in self._lanes.values():
            lane.needs_keyframe = True

    def open_turn(self, number: int, *, held: bool = False) -> None:
        """Turns before `number` are void. A held turn waits for `confirm`."""
        self.void(number)
        self._turn = _Turn(number, _Phase.HELD if held else _Phase.WAITING, self._now)

    def void(self, epoch: int) -> None:
        """Turns before `epoch` are void: silence follows in the next tick."""
        if self._turn is not None and self._turn.number < epoch:
            self._cut_voice(self._turn)
            self._turn = None
        if epoch > self._epoch:
            self._epoch = epoch
            for lane in self._lanes.values():
                lane.advance(epoch)

    def confirm(self, number: int) -> None:
        """The turn may be heard."""
        turn = self._turn
        if turn is not None and turn.number == number and turn.phase is _Phase.HELD:
            turn.phase = _Phase.WAITING

    def duck(self, number: int) -> None:
        """The turn goes on, quieter."""
        if self._turn is not None and self._turn.number == number:
            self._turn.fader.goal = DUCKED_GAIN

    def pause(self, number: int) -> None:
        """The turn falls silent with the next tick and keeps its voice. Before its start: waits."""
        turn = self._turn
        if turn is None or turn.number != number:
            return
        if turn.phase not in (_Phase.WAITING, _Phase.PLAYING, _Phase.RESUMING):
            return
        if turn.start_samples is not None:
            self._cut_voice(turn, keep=True)
        for lane in self._lanes.values():
            lane.give_up()
        turn.phase = _Phase.PAUSED

    def resume(self, number: int, at_samples: int) -> None:
        """The turn goes on at full strength, after a pause from `at_samples` of its voice.

        Earlier than asked for, so that a picture begins there; and no earlier than is remembered.
        """
        turn = self._turn
        if turn is None or turn.number != number:
            return
        turn.fader.goal = 1.0
        if turn.phase is not _Phase.PAUSED:
            return
        turn.waits_since = None
        for lane in self._lanes.values():
            lane.take_up()
        if turn.start_samples is None:
            turn.phase = _Phase.WAITING
            return
        turn.go_back(at_samples // RESUME_GRID_SAMPLES * RESUME_GRID_SAMPLES)
        turn.fader.jump(0.0)
        turn.phase = _Phase.RESUMING

    def push_voice(self, number: int, pcm: NDArray[np.int16], *, last: bool = False) -> None:
        """Voice that follows what came before, unless too much waits. pcm: [N] int16 at 48 kHz."""
        turn = self._turn
        if turn is None or turn.number != number or turn.voice_complete:
            return
        if len(pcm) and turn.waiting_samples + len(pcm) <= VOICE_LIMIT_SAMPLES:
            turn.voice.append(pcm)
            turn.waiting_samples += len(pcm)
        turn.voice_complete = last

    def shorten(self, number: int, to_samples: int) -> None:
        """The turn's voice ends there, or where it is heard by now: another one follows."""
        turn = self._turn
        if turn is None or turn.number != number:
            return
        voice = turn.take(max(0, to_samples - turn.played_samples))
        turn.voice.clear()
        turn.waiting_samples, turn.voice_complete, turn.voice_end_ticks = 0, False, None
        turn.put_back(voice)

    def push_picture(self, picture: Picture) -> None:
        """One of a turn or an idle one, in the order in which they were encoded."""
        lane = self._lanes.get(picture.codec)
        if lane is not None and not self.idle.voids(picture):
            lane.queue(picture)

    def skip(self, samples: int) -> None:
        """So much has passed in which nobody watched, and nothing was to leave."""
        self._now += samples
        self._pictures_at += samples

    def tick(self, *, calm: bool = False) -> Tick:
        """Release what is due. calm: nothing is about to come, so the tick may be a long one."""
        settled = self._silent_samples >= _SETTLED_SAMPLES
        if calm and settled and self.at_rest and not self._now % TICK_SAMPLES:
            return self._idle_tick()
        now, turn = self._now, self._turn
        events: list[tuple[PlayoutEvent, int]] = []
        if turn is not None:
            picture_there = self._look_for_picture(turn, now)
            self._start_if_ready(turn, now, events, picture_there)
            if turn.phase is _Phase.RESUMING:
                self._go_on_if_ready(turn, now)
        pcm = np.zeros(self._due_samples(turn, now), np.int16)
        self._now += len(pcm)
        silent = not len(self._tail)
        self._fade(pcm)
        time = None
        if turn is not None and turn.phase in (_Phase.PLAYING, _Phase.OVER):
            silent = silent and turn.phase is _Phase.OVER
            time = TurnTime(turn.number, self._release_voice(turn, pcm, events))
        self._silent_samples = self._silent_samples + len(pcm) if silent else 0
        second_half = len(pcm) < TICK_SAMPLES and now % TICK_SAMPLES > 0
        pictures = [] if second_half else self._release_pictures(now, time)
        if turn is not None:
            self._finish_if_over(turn, events)
        return Tick(now, pcm, tuple(pictures), tuple(events), silent, second_half)

    def _idle_tick(self) -> Tick:
        """Silence, and the pictures of the loop."""
        now = self._now
        pictures = self._release_pictures(now, None)
        # One that is due within a long tick is seen 20 ms late, once.
        long = self.idle.plays_all(self._lanes, LONG_TICK_SAMPLES)
        pcm = np.zeros(LONG_TICK_SAMPLES if long else TICK_SAMPLES, np.int16)
        self._now += len(pcm)
        self._silent_samples += len(pcm)
        return Tick(now, pcm, tuple(pictures), silent=True)

    def _due_samples(self, turn: _Turn | None, now: int) -> int:
        """Of the tick that starts `now`: where nothing is heard, it may be half a one."""
        # The Opus packet of a tick holds the end of the voice in the one before.
        if not self._silent_samples or (turn is not None and turn.sounds):
            return TICK_SAMPLES
        if turn is not None and turn.is_awaited(now):
            return HALF_TICK_SAMPLES
        # Back to where the ticks of all sessions are.
        return TICK_SAMPLES - now % TICK_SAMPLES

    def _release_pictures(self, now: int, turn: TurnTime | None) -> list[ReleasedPicture]:
        """Those of the face, and where it rests those of its loop."""
        self._pictures_at = now
        out: list[ReleasedPicture] = []
        for codec, lane in self._lanes.items():
            released = lane.release(now, turn)
            self.idle.left(released, now)
            free = not released and lane.is_free(now)
            looped = self.idle.take(codec, now, free=free)
            if looped is not None:
                released = [lane.show(looped, now)]
            out += released
        over = self._turn is None or self._turn.phase is _Phase.OVER
        self.idle.review(set(self._lanes), now, idle=over or self._faceless)
        return out

    def _cut_voice(self, turn: _Turn, *, keep: bool = False) -> None:
        """Fade out what is being heard; with `keep` it comes again, as it was not understood."""
        if turn.phase is not _Phase.PLAYING:
            return
        rest = turn.take(FADE_SAMPLES)
        self._tail = turn.fader.apply(rest)
        if keep:
            turn.put_back(rest)

    def _go_on_if_ready(self, turn: _Turn, now: int) -> None:
        pictures_there = all(lane.holds_synced() for lane in self._lanes.values())
        if turn.waits_since is None:
            turn.waits_since = now
        patient = now - turn.waits_since < RESUME_WAIT_S * RATE_HZ
        if pictures_there or not patient or turn.voice_done:
            turn.phase = _Phase.PLAYING
            turn.start_samples = now - turn.played_samples

    def _fade(self, pcm: NDArray[np.int16]) -> None:
        count = len(self._tail)
        if count:
            gain = np.linspace(1, 0, count, dtype=np.float32)
            pcm[:count] = (self._tail * gain).astype(np.int16)
            self._tail = self._tail[:0]

    def _look_for_picture(self, turn: _Turn, now: int) -> bool:
        """Whether the turn's first picture is here; how quick this face is follows from when."""
        there = all(lane.holds_first() for lane in self._lanes.values())
        if turn.pictured or not self._lanes or not (turn.waiting_samples or turn.played_samples):
            return there
        if turn.voice_since is None:
            turn.voice_since = now
        if there:
            self._picture_lag_samples, turn.pictured = now - turn.voice_since, True
        return there

    def _start_if_ready(
        self, turn: _Turn, now: int, events: list[tuple[PlayoutEvent, int]], picture_there: bool
    ) -> None:
        if turn.phase not in (_Phase.HELD, _Phase.WAITING):
            return
        if not (turn.waiting_samples or turn.voice_complete):
            return
        if turn.waits_since is None:
            turn.waits_since = now
        lag_samples = self._picture_lag_samples
        quick = lag_samples is not None and lag_samples <= _QUICK_SAMPLES
        patient = not quick and now - turn.waits_since < WAIT_FOR_PICTURE_S * RATE_HZ
        if not turn.waiting_samples:
            if turn.phase is not _Phase.HELD:
                # An answer with nothing to say is over at once.
                turn.phase, turn.start_samples = _Phase.PLAYING, now
            return
        enough = turn.waiting_samples >= TICK_SAMPLES or turn.voice_complete
        if turn.phase is _Phase.HELD or not enough or (not picture_there and patient):
            return
        turn.phase, turn.start_samples = _Phase.PLAYING, now
        events.append((PlayoutEvent.STARTED, turn.number))

    def _release_voice(
        self, turn: _Turn, pcm: NDArray[np.int16], events: list[tuple[PlayoutEvent, int]]
    ) -> int:
        """Fill `pcm`; the turn's start by which this tick's pictures are timed."""
        assert turn.start_samples is not None
        start = turn.start_samples
        if turn.voice_done:
            turn.voice_end_ticks = (turn.voice_end_ticks or 0) + 1
            return start
        resumes = not turn.starved or turn.waiting_samples >= TICK_SAMPLES or turn.voice_complete
        voice = turn.take(TICK_SAMPLES) if resumes else np.zeros(0, np.int16)
        pcm[: len(voice)] = turn.fader.apply(voice)
        turn.recall.add(voice)
        turn.played_samples += len(voice)
        if len(voice) == TICK_SAMPLES or turn.voice_done:
            turn.starved = False
            return start
        turn.start_samples += TICK_SAMPLES - len(voice)
        if not turn.starved:
            turn.starved = True
            self.underruns += 1
            events.append((PlayoutEvent.UNDERRUN, turn.number))
        # Sound that is in this tick goes with its pictures; where there is none, they wait.
        return start if len(voice) else turn.start_samples

    def _finish_if_over(self, turn: _Turn, events: list[tuple[PlayoutEvent, int]]) -> None:
        if turn.phase is not _Phase.PLAYING or not turn.voice_done:
            return
        if turn.played_samples and turn.voice_end_ticks is None:
            return
        waited_s = (turn.voice_end_ticks or 0) * TICK_S
        lanes = self._lanes.values()
        shown = not any(lane.holds_synced() for lane in lanes)
        complete = all(lane.complete for lane in lanes) or not turn.played_samples
        if (shown and (complete or waited_s >= LINGER_S)) or waited_s >= LONGEST_LINGER_S:
            turn.phase = _Phase.OVER
            events.append((PlayoutEvent.FINISHED, turn.number))
