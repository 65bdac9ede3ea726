"""What happens in a session every 20 ms, and that nothing does where it would change nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from gateway import metrics
from gateway.api.events import WordTime
from gateway.playout.attention import Attending
from gateway.playout.pacing import RATE_HZ, TICK_SAMPLES
from gateway.playout.pictures import KeyframeThrottle
from gateway.playout.playout import PlayoutEvent, Tick
from gateway.playout.ticker import Pulse, Ticker
from gateway.session.parts import Parts
from gateway.session.performer import Performer
from gateway.stages.idle_loops import LoopLibrary, SessionLoops
from visavis.wire.media import TranscriptChunk, VideoCodec

CLOCK_TICKS = 5
CHECK_TICKS = 25
# Of what pictures may take: less is no change to tell the face of.
_NOTICEABLE = 0.05
# With nobody there and nothing to do for so long, there are no ticks: by then the pictures that the
# face had on the way have come, and what was played is no echo any more.
REST_TICKS = 100


class Ticks:
    """One session's ticks: what is due leaves, and whatever waits for a moment has its turn.

    Call `begin`, `end`, and `wake` whenever somebody comes, or something.
    """

    def __init__(
        self,
        parts: Parts,
        performer: Performer,
        loops: LoopLibrary,
        pictures_bps: Callable[[], float | None],
        caption: Callable[[int, Sequence[WordTime], float], None],
    ) -> None:
        """pictures_bps: what the network carries of them (`Outlets.pictures_bps`). caption: how far
        a turn, whose words are given, has been heard (`Outlets.caption`).
        """
        self._parts = parts
        self._caption = caption
        self._pictures_bps = pictures_bps
        self._told_bps: float | None = None
        self._performer = performer
        self._conversation = parts.conversation
        self._playout = parts.playout
        self._run = parts.background.run
        self.loops = SessionLoops(
            parts.playout,
            loops,
            parts.stages,
            parts.background,
            lambda: parts.stages.options.avatar,
        )
        self._attending = Attending()
        self._keyframes = KeyframeThrottle()
        self._pulse: Pulse | None = None
        self._ticks = self._quiet_ticks = 0
        self._watched = False

    # ------------------------------------------------------------ when there are any

    def begin(self, ticker: Ticker) -> None:
        """Have a tick every 20 ms from now on, until `end`."""
        fault = partial(self._parts.background.fault, "the tick")
        self._pulse = ticker.join(self._tick, self._playout.skip, fault)

    def end(self) -> None:
        """No tick any more, if there were any."""
        if self._pulse is not None:
            self._pulse.end()
        self._count_narrow(self._told_bps, None)
        self._told_bps = None

    def wake(self) -> None:
        """Somebody comes, or something: there is work for ticks."""
        self._quiet_ticks = 0
        if self._pulse is not None:
            self._pulse.wake()

    @property
    def rest(self) -> bool:
        """Whether there are none just now."""
        return self._pulse is not None and self._pulse.rests

    @property
    def _deserted(self) -> bool:
        """Nobody is there, and nothing goes on that time would change."""
        if self._watched or self._parts.hub.listeners or self._parts.unasked.waits:
            return False
        conversation = self._conversation
        return conversation.turn is None and conversation.state == "idle" and self._playout.at_rest

    @property
    def _calm(self) -> bool:
        """Whether nobody says or awaits anything, and nothing waits to be said, which is begun with
        behind a tick; nor a rest, which begins behind a whole one.
        """
        waits = self._parts.unasked.waits or self._quiet_ticks
        return self._conversation.calm and not waits

    # ------------------------------------------------------------ one of them

    def _tick(self, may_be_long: bool) -> int:
        """What happens every 20 ms; how many samples have left. 0: there are no ticks any more,
        until they are woken.
        """
        parts = self._parts
        was_watched, self._watched = self._watched, parts.audience.watched
        if self._watched and not was_watched:
            self._playout.begin_to_be_seen()
        tick = self._playout.tick(calm=may_be_long and self._calm)
        parts.audience.push(tick)
        now = parts.clock.now()
        parts.stopwatch.tick(tick, self._playout, now)
        self._note_played(tick, now)
        for codec in self._keyframes.refused.union(self._playout.needs_keyframe()):
            self.request_keyframe(codec)
        self._attend(now)
        self.loops.tick()
        overheard = parts.interruption.tick(tick.pcm, self._conversation, now)
        self._performer.perform(overheard)
        if tick.second_half:
            return len(tick.pcm)  # what is due every 20 ms was, with the first
        before, passed = self._ticks, max(1, len(tick.pcm) // TICK_SAMPLES)
        self._ticks += passed
        if self._ticks % CLOCK_TICKS == 0 and self._playout.playing:
            self._performer.publish_clock()
        if self._ticks // CHECK_TICKS > before // CHECK_TICKS:
            self._check(now)
        self._greet(now)
        if parts.unasked.waits:
            parts.unasked.tick(may_begin=self.may_begin)
        self._quiet_ticks = self._quiet_ticks + passed if self._deserted else 0
        return len(tick.pcm) if self._quiet_ticks < REST_TICKS else 0

    def _note_played(self, tick: Tick, now: float) -> None:
        """Tell the conversation how far its turn has been heard."""
        turn = self._conversation.turn
        if turn is not None:
            played_s = self._playout.played_samples / RATE_HZ
            self._conversation.played(turn.number, played_s, now)
            if played_s:
                self._caption(turn.number, turn.words, played_s)
        for event, number in tick.events:
            if event is PlayoutEvent.STARTED:
                media_ms = 1000 * tick.start_samples / RATE_HZ
                self._performer.perform(self._conversation.started(number, media_ms))
                self._performer.report_latency()
            elif event is PlayoutEvent.FINISHED:
                self._performer.publish_clock()
                self._performer.perform(self._conversation.finished(number, now))

    def _check(self, now: float) -> None:
        self._limit_pictures()
        self._performer.look_for_losses()
        self._performer.perform(self._conversation.check(now))

    def _limit_pictures(self) -> None:
        """Have the face make pictures that get through, and no idle life that does not."""
        bps, told = self._pictures_bps(), self._told_bps
        if bps == told or (bps and told and abs(bps - told) < _NOTICEABLE * told):
            return
        self._told_bps = bps
        self._count_narrow(told, bps)
        self._playout.idle.limit(bps, self._playout.now_samples)
        self._run(self._parts.stages.limit_pictures(round((bps or 0) / 1000)))

    @staticmethod
    def _count_narrow(before: float | None, now: float | None) -> None:
        metrics.narrow_sessions.inc((now is not None) - (before is not None))

    @property
    def may_begin(self) -> bool:
        """Whether the stages are there for a turn."""
        return self._parts.stages.may_begin and self._parts.presence.departure is None

    def _greet(self, now: float) -> None:
        welcome = self._parts.answering.welcome
        if not welcome.text or not self.may_begin:
            return
        untouched = not self._conversation.epoch and self._conversation.state == "idle"
        text = welcome.due(now, watched=self._parts.audience.watched, untouched=untouched)
        if text:
            self._parts.unasked.speak("welcome", text)

    # ------------------------------------------------------------ what the face is asked for

    def heard(self, chunk: TranscriptChunk, now: float) -> None:
        """The visitor speaks, to whom the face listens."""
        self._attending.heard(chunk.event, chunk.text, now)

    def _attend(self, now: float) -> None:
        """Have the face listen or think."""
        order = self._attending.review(self._conversation.state, now, watched=self._watched)
        if order is not None:
            told = self._playout.idle.attend(order, self._playout.now_samples)
            self._run(self._parts.stages.tell_attention(told))

    def request_keyframe(self, codec: VideoCodec) -> None:
        """A viewer needs one; asked of the face at most every 0.4 s. A loop has one each second."""
        if self._playout.idle.plays(codec):
            self._keyframes.refused.discard(codec)
        elif self._keyframes.allows(codec, self._parts.clock.now()):
            self._run(self._parts.stages.request_keyframe(codec))
