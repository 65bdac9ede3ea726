"""One visitor's session: carries out what the turn state machine decides.

The edge between the pure parts (conversation, playout, ledger) and the outside: bus,
stages, viewers, recordings. Nothing in here is shared between sessions.
"""

from __future__ import annotations

import contextlib
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gateway import metrics
from gateway.answers.answering import Answering, Sources
from gateway.answers.cache import Speaker
from gateway.api.choices import DrawnBy
from gateway.api.events import (
    BroadcastEvent,
    ErrorEvent,
    ServerEvent,
    StateEvent,
    ToolCallEvent,
    WarningEvent,
)
from gateway.api.hub import EventHub, Follower, Listener, Overheard
from gateway.api.problems import code_of
from gateway.apps.sayings import Saying
from gateway.apps.speech import SpeechInTrack
from gateway.apps.unasked import Unasked
from gateway.background import Background
from gateway.ledger.records import Records, Timeline, TurnRecord
from gateway.ledger.stopwatch import Stopwatch
from gateway.live.push.target import Target
from gateway.playout.attention import Attending, Attention
from gateway.playout.audience import Audience
from gateway.playout.outlets import OutletNews, Outlets
from gateway.playout.pacing import RATE_HZ
from gateway.playout.pictures import KeyframeThrottle, Picture
from gateway.playout.playout import Playout, PlayoutEvent
from gateway.playout.ticker import Pulse, Ticker
from gateway.settings import GatewaySettings
from gateway.stages.bus_feed import BusFeed
from gateway.stages.ears import Ears
from gateway.stages.idle_loops import LoopLibrary, SessionLoops
from gateway.stages.incoming import Incoming, played
from gateway.stages.registry import Registry
from gateway.stages.stages import Options, StageNews, Stages
from gateway.talk import actions, speculation
from gateway.talk.actions import AS_THE_SESSION_SAYS, Manner
from gateway.talk.conversation import Conversation, State, TurnTaking
from gateway.talk.history import system_message
from gateway.talk.interruption import Interruption
from gateway.talk.microphone import RATE_HZ as MIC_RATE_HZ
from gateway.talk.microphone import MicBundle, Microphone
from gateway.talk.presence import Presence
from gateway.talk.speech_over import BargeIn
from gateway.talk.turn import Phase, Turn
from gateway.tools.doing import ToolDoer
from gateway.tools.offers import Call
from visavis.serving.errors import InvalidInputError, UnknownNameError, VisavisError
from visavis.serving.logs import log_context
from visavis.wire import media
from visavis.wire.bus import Bus
from visavis.wire.clock import MonotonicClock
from visavis.wire.media import VideoCodec
from visavis.wire.subjects import Kind

CLOCK_TICKS = 5
# Of speech that comes over WebRTC, as good as most voices are made.
BROUGHT_RATE_HZ = 24_000
CHECK_TICKS = 25
# With nobody there and nothing to do for so long, there are no ticks: by then the pictures that the
# face had on the way have come, and what was played is no echo any more.
REST_TICKS = 100


class Session:
    """One visitor's talk with a face. Open it, use it, close it."""

    def __init__(
        self,
        session_id: str,
        options: Options,
        persona: str,
        *,
        bus: Bus,
        registry: Registry,
        settings: GatewaySettings,
        answers: Sources,
        loops: LoopLibrary,
        ticker: Ticker,
        welcome: str = "",
        owner: str = "",
    ) -> None:
        """owner: name of the app that made it; "": an operator did."""
        self.id = session_id
        self.owner = owner
        self.options = options
        self.persona = persona
        self.microphone = Microphone()
        self._mic_bundle = MicBundle()
        self.audience = Audience(settings.max_viewers, self._codecs_changed, options.codecs)
        self._clock = MonotonicClock()
        self._background = Background()
        self._hub = EventHub()
        self.outlets = self._outlets(settings)
        self._conversation = Conversation(
            system_message(persona, options.language),
            answer_timeout_s=settings.answer_timeout_s,
            speculation=settings.speculation,
            tools=settings.tool_limits,
        )
        self._fillers = settings.tool_fillers
        self.records = Records(self._conversation.turns)
        self._playout = Playout()
        self._playout.set_codecs(set(options.codecs))
        judge = BargeIn(settings.barge_in_after_s)
        self._interruption = Interruption(session_id, self._playout, judge)
        self._attending = Attending()
        self._stopwatch = Stopwatch(session_id, registry.clocks)
        ears = Ears()
        self._incoming = Incoming(
            self._conversation,
            self._playout,
            self._interruption,
            self._stopwatch,
            self.microphone,
            ears,
            self._hub,
        )
        self.news = StageNews(
            self._conversation,
            self._playout,
            self._clock,
            self._perform,
            ears,
            partial(self._take_off, attached=False),
        )
        self.stages = Stages(
            session_id,
            options,
            registry,
            self.news,
            settings,
            self._background,
            ears,
            answers.tools,
        )
        self._tools = ToolDoer(answers.tools, self._background, self._ask_clients, self._tool_done)
        self._loops = SessionLoops(
            self._playout, loops, self.stages, self._background, lambda: self.options.avatar
        )
        self._feed = self._listening(bus)
        self.unwanted = False
        """Whom it was made for has gone, and will not come back."""
        self._ticker = ticker
        self._pulse: Pulse | None = None
        self._ticks = self._quiet_ticks = 0
        self._watched = self._pictures_held = False
        self._keyframes = KeyframeThrottle()
        self.answering = Answering(self.stages, self._feed, answers, self._background, welcome)
        self.answering.speak_as(Speaker(persona, options.language))
        self.unasked = Unasked(
            self._conversation, self._feed, self.answering, self._clock, self._perform, self._emit
        )
        self._track = SpeechInTrack(self.unasked.brought, BROUGHT_RATE_HZ)
        self.presence = self._presence(settings)

    def _outlets(self, settings: GatewaySettings) -> Outlets:
        brought = self.options.spoken_by == "client"
        return Outlets(
            self.id,
            settings,
            self.audience,
            OutletNews(
                self._picture_missed,
                self._audience_changed,
                self._recording_failed,
                self._broadcast_changed,
            ),
            self._clock,
            self._background,
            BROUGHT_RATE_HZ if brought else MIC_RATE_HZ,
        )

    def _listening(self, bus: Bus) -> BusFeed:
        return BusFeed(
            bus,
            self.id,
            {
                Kind.TRANSCRIPT: self._on_transcript,
                Kind.TOKENS: self._on_token,
                Kind.VOICE: self._on_voice,
                Kind.VIDEO: self._on_video,
            },
        )

    def _presence(self, settings: GatewaySettings) -> Presence:
        return Presence(
            self.stages,
            self._clock,
            settings.idle_release_s,
            connected=lambda: bool(self._hub.listeners) or self.audience.attending,
            recorded=lambda: self.outlets.recordings.watched,
            answering=lambda: self._conversation.turn is not None,
            leave=self._left_alone,
            refused=lambda error: self._emit(
                ErrorEvent(code=code_of(error)[1], message=str(error))
            ),
        )

    # ------------------------------------------------------------ life

    async def open(self, *, attached: bool = True) -> None:
        """Take a slot of every stage. Raises AtCapacityError, UnknownNameError and others.

        attached: else it takes them once somebody is there.
        """
        with log_context(session=self.id):
            try:
                await self._feed.open()
                if attached:
                    await self.stages.attach()
            except BaseException:
                await self._feed.close()
                raise
            for task in self._feed.tasks:
                self._background.watch(task)
            self._pulse = self._ticker.join(
                self._tick, self._playout.skip, partial(self._background.fault, "the tick")
            )
            self._background.keep(self.presence.watch(), "presence")

    async def close(self, message: str = "the session was closed") -> None:
        """Free everything, also where a part of it fails; listeners are told why."""
        async with AsyncExitStack() as stack:  # the last that is named is closed first
            stack.callback(self._hub.end)
            stack.callback(self._loops.close)
            stack.push_async_callback(self.audience.close)
            stack.push_async_callback(self._feed.close)
            stack.push_async_callback(self.presence.release_for_good)
            stack.push_async_callback(self._background.cancel_all)
            if self._pulse is not None:
                stack.callback(self._pulse.end)
            if not self.moved:
                self.unasked.drop("closed")
                self._emit(ErrorEvent(code="session_closed", message=message))
                self._feed.announce(self._conversation.epoch + 1, "close")

    # ------------------------------------------------------------ from gateway to gateway

    @property
    def moved(self) -> bool:
        """It has gone to another gateway."""
        departure = self.presence.departure
        return departure is not None and departure.moved

    @property
    def between_turns(self) -> bool:
        """Nobody speaks, nothing is being answered, no recording or broadcast would be cut off."""
        kept = self.outlets.kept
        return self.news.may_move("llm") and not self.unasked.waits and not kept

    @property
    def epoch(self) -> int:
        """The newest turn's number."""
        return self._conversation.epoch

    @property
    def said(self) -> tuple[actions.Message, ...]:
        """The conversation as the language model reads it."""
        return self._conversation.said

    def carry_on(
        self,
        epoch: int,
        said: Sequence[actions.Message],
        turns: Sequence[TurnRecord],
        timelines: Sequence[Timeline],
    ) -> None:
        """Go on where it stood in another gateway."""
        self._conversation.carry_on(epoch, said)
        self.records.carry_on(turns, timelines)

    def remember(self, said: Sequence[actions.Message]) -> None:
        """Begin with what was said before, in a session that is no more."""
        self._conversation.carry_on(self._conversation.epoch, said)

    def touch(self) -> None:
        """Somebody has used the session."""
        self.presence.touch()

    def idle_s(self) -> float:
        """How long nobody has been connected to it or used it."""
        return self.presence.idle_s()

    async def wake(self) -> None:
        """Somebody comes back: have the stages attached. Raises AtCapacityError and others."""
        await self.presence.wake()

    def _left_alone(self) -> None:
        """Nobody is there: nothing is said, and nobody listens to what was being said."""
        self._perform(self._conversation.interrupt())
        lost = self._conversation.stage_lost("asr", "nobody is connected", self._clock.now())
        self._perform(lost)

    # ------------------------------------------------------------ what a client can do

    @property
    def failed(self) -> bool:
        """A fault of ours has left it unusable."""
        return self._background.failed.is_set()

    def drawn_by(self, wanted: DrawnBy | None = None) -> DrawnBy:
        """Who draws the face of a connection that wants this; None: what the session says."""
        return wanted or self.options.drawn_by

    @property
    def rests(self) -> bool:
        """Nobody is with it, and it costs nothing."""
        return self._pulse is not None and self._pulse.rests

    @property
    def state(self) -> State:
        return self._conversation.state

    @property
    def turn(self) -> Turn | None:
        """The turn that is open, held ones included; to be read."""
        return self._conversation.turn

    def listen(self) -> Listener:
        """The session's events from now on, after its present state."""
        self._wake_ticks()
        return self._hub.join(
            self.options.event(self.id), StateEvent(state=self._conversation.state)
        )

    def unlisten(self, listener: Listener) -> None:
        self._hub.leave(listener)
        self.touch()

    def follow(self, follower: Follower) -> None:
        """Tell `follower` everything from now on; somebody is there as long as it is told."""
        self._wake_ticks()
        self._hub.follow(follower)

    def unfollow(self, follower: Follower) -> None:
        self._hub.unfollow(follower)
        self.touch()

    @property
    def followers(self) -> tuple[Follower, ...]:
        """Those who are told everything."""
        return self._hub.followers

    def run_beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` of whoever follows; it ends with the session."""
        self._background.run(work)

    def take_turns(self, taking: TurnTaking) -> None:
        """What follows from speech from now on."""
        self._conversation.taking = taking

    def rewrite(self, said: Sequence[actions.Message]) -> None:
        """Whoever follows keeps the conversation, and this is what was said in it."""
        self._conversation.rewrite(said)

    def respond(self, prompt: Sequence[actions.Message]) -> int:
        """Answer `prompt` as it stands, its last message being the question: it interrupts.

        Returns the turn. Call `wake` before.
        """
        self.presence.asked()
        now = self._clock.now()
        self._stopwatch.asked(now)
        self._perform(self._conversation.respond(prompt, now))
        return self._conversation.epoch

    def begin_speaking(self) -> int:
        """Open a turn for what somebody else writes; it interrupts. Returns the turn.

        Call `wake` before, and `speak_on` as it is written.
        """
        self.presence.asked()
        now = self._clock.now()
        self._stopwatch.asked(now)
        self._perform(self._conversation.speak_unasked("say", now))
        if (turn := self._conversation.turn) is not None:
            turn.source = "say"
        return self._conversation.epoch

    def speak_on(self, turn: int, text: str, piece: int, *, last: bool) -> None:
        """Say this piece of it, the first being 0. Of a turn that is over it is dropped."""
        if self._conversation.epoch == turn:
            self._feed.send_answer(turn, text, piece, last=last)

    def submit_text(self, text: str, style: str = "") -> int:
        """The visitor typed `text`; returns the turn that answers it, in `style` if given.

        Call `wake` before.
        """
        self._needs_a_voice()
        self.presence.asked()
        now = self._clock.now()
        self._stopwatch.asked(now)
        self._perform(self._conversation.submit_text(text, now), Manner(style))
        return self._conversation.epoch

    def say(self, text: str, manner: Manner, *, interrupt: bool = False) -> Saying:
        """Have `text` said as it stands, behind what is being said and what waits.

        interrupt: now, in place of all that. Call `wake` before. Raises SayingsFullError.
        """
        self._needs_a_voice()
        self.presence.asked()
        self._wake_ticks()
        may_begin = self._may_begin
        return self.unasked.say(text, manner, interrupt=interrupt, may_begin=may_begin)

    def interrupt(self) -> int:
        """Silence; returns the turn number from which on something can be said again."""
        self.touch()
        self.unasked.drop("interrupted")
        self._perform(self._conversation.interrupt())
        return self._conversation.epoch

    def tool_result(self, call_id: str, output: str) -> None:
        """A client has done what an answer called. Raises UnknownNameError where none waits."""
        self.touch()
        wanted = self._conversation.tool_result(call_id, output, self._clock.now())
        self._tools.told(call_id)
        self._perform(wanted)

    async def update(self, options: Options, persona: str | None = None) -> None:
        """Take effect from the next turn on; a stage that is away learns it as it returns."""
        self.touch()
        self.options = options
        self.persona = self.persona if persona is None else persona
        self._conversation.set_persona(system_message(self.persona, options.language))
        self.answering.speak_as(Speaker(self.persona, options.language))
        await self.stages.update(options)
        self._refresh_face()
        self._emit(options.event(self.id))

    def avatar_deleted(self) -> None:
        """The face that it wears is there no more: it wears the default one, after this turn."""
        self._take_off(attached=self.stages.attached)
        self._refresh_face()

    def _take_off(self, *, attached: bool) -> None:
        name = self.options.avatar
        if not name:
            return
        self.options = replace(self.options, avatar="")
        self.stages.wear_default(attached=attached)
        self._emit(self.options.event(self.id))
        message = f"the avatar {name!r} was deleted; this is the default one"
        self._emit(WarningEvent(turn=self.epoch, code="avatar_deleted", message=message))

    def begin_speech(self, rate_hz: int, text: str) -> None:
        """The client begins to bring an utterance. Raises as `BroughtSpeech.begin` does."""
        self.presence.asked()
        self.unasked.brought.begin(rate_hz, text)

    def add_speech(self, pcm: NDArray[np.int16]) -> None:
        """Sound of it: [N] int16. Raises OutOfOrderError where none was begun."""
        self.unasked.brought.add(pcm)
        self._wake_ticks()

    def end_speech(self) -> None:
        """It is complete. Raises OutOfOrderError where none was begun."""
        self.unasked.brought.end()
        self._wake_ticks()

    def check_ears(self) -> None:
        """Raises InvalidInputError where nothing that is said to it is heard."""
        if self.options.spoken_by == "client":
            raise InvalidInputError("role: this session's speech is brought, on …/speech")

    def _needs_a_voice(self) -> None:
        if self.options.spoken_by == "client":
            raise InvalidInputError(
                "session: its client brings the speech (spoken_by); there is no language model and "
                "no voice here"
            )

    @property
    def _may_begin(self) -> bool:
        """Whether the stages are there for a turn."""
        return self.stages.settled and self.presence.departure is None

    async def take_microphone(self, holder: str) -> None:
        """Make `holder` the speaker. Raises MicrophoneTakenError."""
        stale = self.microphone.take(holder, self._clock.now())
        if stale is not None:
            self._end_bringing()
        if stale is not None and stale in self.outlets.peers:
            await self.outlets.peers.disconnect(stale)

    def release_microphone(self, holder: str) -> None:
        if holder == self.microphone.holder:
            self._end_bringing()
        self.microphone.release(holder)

    def _end_bringing(self) -> None:
        """Who brought speech has gone: what there is of it is all."""
        self._track.end()
        if self.unasked.brought.bringing:
            self.end_speech()

    def push_mic(self, holder: str, pcm: NDArray[np.int16]) -> None:
        """Sound of the microphone. pcm: [N] int16 at 16 kHz, at most one second.

        Where the client brings the speech it is that, at BROUGHT_RATE_HZ.
        """
        if not len(pcm):
            return
        if self.options.spoken_by == "client":
            if holder == self.microphone.holder:
                self.microphone.take(holder, self._clock.now())
                self._track.hear(pcm)
                self._wake_ticks()
            return
        now = self._clock.now()
        pts = self.microphone.place(holder, len(pcm), now)
        if pts is not None:
            self._interruption.hear(pcm, now)
            awaited = self._conversation.state != "idle"
            for begins_at, sound in self._mic_bundle.add(pts, pcm, awaited=awaited):
                self._feed.send_mic(begins_at, sound)

    def request_keyframe(self, codec: VideoCodec) -> None:
        """A viewer needs one; asked of the face at most every 0.4 s. A loop has one each second."""
        if self._playout.idle.plays(codec):
            self._keyframes.refused.discard(codec)
        elif self._keyframes.allows(codec, self._clock.now()):
            self._background.run(self.stages.request_keyframe(codec))

    # ------------------------------------------------------------ what the bus brings

    def _on_transcript(self, chunk: media.TranscriptChunk) -> None:
        self._stopwatch.caused_by(self._feed.cause)
        now = self._clock.now()
        self._attending.heard(chunk.event, chunk.text, now)
        self._perform(self._incoming.transcript(chunk, now))

    def _on_token(self, chunk: media.TokenChunk) -> None:
        self._perform(self._incoming.token(chunk, self._clock.now()))

    def _on_voice(self, chunk: media.PcmChunk) -> None:
        self._perform(self._incoming.voice(chunk, self._clock.now()))

    def _on_video(self, chunk: media.VideoChunk) -> None:
        self._wake_ticks()
        self._prepare_recording(self._incoming.video(chunk, self._clock.now()))

    def _prepare_recording(self, picture: Picture | None) -> None:
        """Ask for a key frame where a recording begins with the turn.

        Each idle picture may be the last before the turn's first, which has to be one.
        """
        if picture is None or self._conversation.turn is None or not self.outlets.recordings.waits:
            return
        if picture.live and picture.codec is VideoCodec.H264:
            self._background.run(self.stages.request_keyframe(picture.codec))

    # ------------------------------------------------------------ the pacing clock

    def _tick(self) -> bool:
        """What happens every 20 ms; False: nothing more, until the ticks are woken."""
        was_watched, self._watched = self._watched, self.audience.watched
        if self._watched and not was_watched:
            self._playout.begin_to_be_seen()
        tick = self._playout.tick()
        self.audience.push(tick)
        now = self._clock.now()
        self._stopwatch.tick(tick, self._playout, now)
        turn = self._conversation.turn
        if turn is not None:
            played_s = self._playout.played_samples / RATE_HZ
            self._conversation.played(turn.number, played_s, now)
        for event, number in tick.events:
            if event is PlayoutEvent.STARTED:
                media_ms = 1000 * tick.start_samples / RATE_HZ
                self._perform(self._conversation.started(number, media_ms))
                self._report_latency()
            elif event is PlayoutEvent.FINISHED:
                self._publish_clock()
                self._perform(self._conversation.finished(number, now))
        for codec in self._keyframes.refused.union(self._playout.needs_keyframe()):
            self.request_keyframe(codec)
        self._attend(now)
        self._loops.tick()
        self._perform(self._interruption.tick(tick.pcm, self._conversation, now))
        self._ticks += 1
        if self._ticks % CLOCK_TICKS == 0 and self._playout.playing:
            self._publish_clock()
        if self._ticks % CHECK_TICKS == 0:
            self._check(now)
        self._greet(now)
        if self.unasked.waits:
            self.unasked.tick(may_begin=self._may_begin)
        self._quiet_ticks = self._quiet_ticks + 1 if self._deserted else 0
        return self._quiet_ticks < REST_TICKS

    @property
    def _deserted(self) -> bool:
        """Nobody is there, and nothing goes on that time would change."""
        if self._watched or self._hub.listeners or self.unasked.waits:
            return False
        conversation = self._conversation
        return conversation.turn is None and conversation.state == "idle" and self._playout.at_rest

    def _wake_ticks(self) -> None:
        """Somebody comes, or something: there is work for ticks."""
        self._quiet_ticks = 0
        if self._pulse is not None:
            self._pulse.wake()

    def _picture_missed(self, codec: VideoCodec) -> None:
        """A viewer waits for a key frame, or a recording does."""
        self._wake_ticks()
        self.request_keyframe(codec)

    def _audience_changed(self) -> None:
        self._wake_ticks()
        self.audience.review()

    def _greet(self, now: float) -> None:
        if not self.answering.welcome.text or not self.stages.settled:
            return
        if self.presence.departure is not None:
            return
        untouched = not self._conversation.epoch and self._conversation.state == "idle"
        text = self.answering.welcome.due(now, watched=self.audience.watched, untouched=untouched)
        if text:
            self.unasked.speak("welcome", text)

    def _attend(self, now: float) -> None:
        """Have the face listen or think, and be drawn for that."""
        order = self._attending.review(self._conversation.state, now, watched=self._watched)
        if order is not None:
            live = order.attention is not Attention.NOBODY
            self._playout.idle.keep_live(live, self._playout.now_samples)
            self._background.run(self.stages.tell_attention(order))

    def _publish_clock(self) -> None:
        """Tell the stages how much of the turn has been heard."""
        turn = self._conversation.turn
        heard = None if turn is None else played(turn, self._playout.played_samples)
        if turn is not None and heard is not None:
            self._feed.send_clock(turn.number, *heard, paused=self._playout.paused)

    def _hold_pictures(self, turn: int) -> None:
        """The turn is paused or goes on before its first sample. While the loop is shown, the face
        is to begin it later, from what is seen then.
        """
        paused, frame = self._playout.paused, self._playout.motion_frame
        held, self._pictures_held = self._pictures_held, paused and frame is not None
        if held != self._pictures_held:
            self._feed.send_clock(turn, 0, RATE_HZ, paused=paused, motion_frame=frame)

    def _check(self, now: float) -> None:
        self._perform(self._conversation.check(now))
        if self._feed.newly_lost():
            self._perform(self._conversation.bus_lost("the bus connection was lost"))

    # ------------------------------------------------------------ carrying out

    def _perform(
        self, wanted: Sequence[actions.Action], manner: Manner = AS_THE_SESSION_SAYS
    ) -> None:
        if wanted:
            self._wake_ticks()
        for action in wanted:
            match action:
                case actions.AnnounceTurn():
                    self._announce(action, manner if action.opens else AS_THE_SESSION_SAYS)
                case actions.BeginAnswer():
                    if (turn := self._conversation.turns.find(action.turn)) is not None:
                        self._background.run(self._begin(turn, action))
                case actions.CallTool(turn=number, call=call):
                    self._stopwatch.called(number, self._clock.now())
                    self._tools.do(number, call, self.options.tools)
                case actions.ContinueAnswer():
                    self._stopwatch.results(action.turn, self._clock.now())
                    self._tools.stop()
                    self._background.run(self._go_on(action))
                case actions.SayMeanwhile():
                    if filler := self._filler():
                        self._background.run(self.stages.say_meanwhile(action.turn, filler))
                case actions.ReadAhead():
                    self._background.run(self.answering.read_ahead(action))
                case actions.ConfirmTurn():
                    self._playout.confirm(action.turn)
                    # Whatever of it waits in a stage is as urgent now as of any other answer.
                    self._feed.announce(
                        action.turn, "confirmed", traceparent=self._stopwatch.traceparent
                    )
                    self._feed.send_clock(action.turn, 0, RATE_HZ)
                    self._stopwatch.confirmed(self._clock.now())
                case actions.DuckTurn() | actions.PauseTurn() | actions.ResumeTurn():
                    was_paused = self._playout.paused
                    self._interruption.carry_out(action, self._clock.now())
                    if isinstance(action, actions.PauseTurn) and not action.rests:
                        doubt = self._conversation.doubt
                        utterance = 0 if doubt is None else doubt.utterance
                        self._hub.overheard(Overheard("over_answer", utterance))
                    if self._playout.playing:
                        self._publish_clock()
                    elif self._playout.paused != was_paused:
                        self._hold_pictures(action.turn)
                case actions.CloseTurn():
                    self._close_turn(action)
                case actions.Emit():
                    self._emit(action.event)
            speculation.count(action)

    def _announce(self, action: actions.AnnounceTurn, manner: Manner) -> None:
        now = self._clock.now()
        self._interruption.void(action.reason, now)
        if action.opens:
            self._playout.open_turn(action.turn, held=action.held)
            self._stopwatch.opened(action.turn, action.reason, now, held=action.held)
        else:
            self._playout.void(action.turn)
        self._feed.announce(
            action.turn,
            action.reason,
            held=action.held,
            manner=manner,
            motion_frame=self._playout.motion_frame,
            traceparent=self._stopwatch.traceparent if action.opens else "",
        )

    async def _begin(self, turn: Turn, action: actions.BeginAnswer) -> None:
        if not self.stages.settled:
            await self.stages.settle()
            held, frame = turn.phase is Phase.HELD, self._playout.motion_frame
            self._feed.announce_again(held=held, motion_frame=frame)
        if self._conversation.turn is not turn:
            return  # superseded before its stage was asked
        try:
            await self.answering.answer(turn, action)
            self._perform(self._conversation.sources_known(turn.number))
        except VisavisError as error:
            failed = self._conversation.stage_failed("llm", action.turn, "stage_lost", str(error))
            self._perform(failed)

    def _ask_clients(self, turn: int, call: Call) -> None:
        self._emit(
            ToolCallEvent(turn=turn, call_id=call.id, name=call.name, arguments=call.arguments)
        )

    def _tool_done(self, call_id: str, output: str) -> None:
        with contextlib.suppress(UnknownNameError):  # the time was over just then
            self._perform(self._conversation.tool_result(call_id, output, self._clock.now()))

    async def _go_on(self, action: actions.ContinueAnswer) -> None:
        if self._conversation.turn is None or self._conversation.turn.number != action.turn:
            return
        try:
            await self.stages.continue_answer(action.turn, action.messages, last=action.last)
        except VisavisError as error:
            failed = self._conversation.stage_failed("llm", action.turn, "stage_lost", str(error))
            self._perform(failed)

    def _filler(self) -> str:
        """What is said while a tool takes its time, as a phrase that ends; "": nothing."""
        language = self.options.language.partition("-")[0].lower()
        filler = self._fillers.get(language, "")
        return f"{filler}\n" if filler else ""

    def _close_turn(self, action: actions.CloseTurn) -> None:
        metrics.turns.labels(action.outcome).inc()
        self._tools.stop()
        if (turn := self._conversation.turns.find(action.turn)) is not None:
            self.answering.closed(action, turn)
        if action.outcome != "finished":
            self.audience.cut(action.turn)
        if action.outcome in ("interrupted", "failed"):
            self.unasked.drop(action.outcome)
        if action.outcome not in ("discarded", "replaced"):
            self._stopwatch.ended(action.turn, self._clock.now())
            self._report_latency()
        self._stopwatch.closed(action.turn, action.outcome)
        self._refresh_face()

    def _report_latency(self) -> None:
        latency = self._stopwatch.latency()
        turn = None if latency is None else self._conversation.turns.find(latency.turn)
        if latency is not None and turn is not None:
            turn.latency = latency
            self._emit(latency)

    def _refresh_face(self) -> None:
        """Change the avatar, once nothing is being said."""
        if self._conversation.turn is None:
            self.stages.refresh_face()

    def _codecs_changed(self, codecs: set[VideoCodec]) -> None:
        self._playout.set_codecs(codecs)
        self._background.run(self.stages.set_codecs(sorted(codecs)))

    def _broadcast_changed(self, target: Target) -> None:
        self._emit(BroadcastEvent(id=target.name, state=target.phase.value, message=target.error))

    def _recording_failed(self, message: str) -> None:
        self._emit(ErrorEvent(code="recording_failed", message=message))

    def _emit(self, event: ServerEvent) -> None:
        self._hub.publish(event)
