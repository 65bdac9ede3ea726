"""One visitor's session: how it begins, goes on elsewhere and ends, and what is asked of it.

It makes its parts and puts them together. Nothing in here is shared between sessions.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gateway.answers.answering import Answering, Sources
from gateway.answers.cache import Speaker
from gateway.api.choices import DrawnBy
from gateway.api.events import (
    BroadcastEvent,
    ErrorEvent,
    StateEvent,
    WarningEvent,
)
from gateway.api.hub import EventHub, Follower, Listener
from gateway.api.problems import code_of
from gateway.apps.sayings import Saying
from gateway.apps.speech import SpeechInTrack
from gateway.apps.unasked import Unasked
from gateway.background import Background
from gateway.ledger.records import Records, Timeline, TurnRecord
from gateway.ledger.stopwatch import Stopwatch
from gateway.live.push.target import Target
from gateway.playout.audience import Audience
from gateway.playout.outlets import OutletNews, Outlets
from gateway.playout.pictures import Picture
from gateway.playout.playout import Playout
from gateway.playout.ticker import Ticker
from gateway.session.parts import Parts
from gateway.session.performer import Performer
from gateway.session.presence import Presence
from gateway.session.ticks import Ticks
from gateway.settings import GatewaySettings
from gateway.stages.bus_feed import BusFeed
from gateway.stages.ears import Ears
from gateway.stages.idle_loops import LoopLibrary
from gateway.stages.incoming import Incoming, Unheard
from gateway.stages.registry import Registry
from gateway.stages.stages import Options, StageNews, Stages
from gateway.talk import actions
from gateway.talk.actions import AS_THE_SESSION_SAYS, Manner
from gateway.talk.conversation import Conversation, State, TurnTaking
from gateway.talk.history import system_message
from gateway.talk.interruption import Interruption
from gateway.talk.microphone import RATE_HZ as MIC_RATE_HZ
from gateway.talk.microphone import MicBundle, Microphone, level_of
from gateway.talk.speech_over import BargeIn
from gateway.talk.turn import Begun, Turn
from visavis.serving.errors import AtCapacityError, InvalidInputError
from visavis.serving.logs import log_context
from visavis.wire import media
from visavis.wire.bus import Bus
from visavis.wire.clock import MonotonicClock
from visavis.wire.media import VideoCodec
from visavis.wire.subjects import Kind

# Of speech that comes over WebRTC, as good as most voices are made.
BROUGHT_RATE_HZ = 24_000
_LISTENERS_BESIDES = 16
"""To its events, besides those who watch it: programs, and connections that were lost."""


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
        self.created_at = datetime.now(UTC)
        self.owner = owner
        self.persona = persona
        self.unwanted = False
        """Whom it was made for has gone, and will not come back."""
        self._ticker = ticker
        self._clock = MonotonicClock()
        self._background = Background()
        self._hub = EventHub()
        self._most_listeners = settings.max_viewers + _LISTENERS_BESIDES
        self._conversation = Conversation(
            system_message(persona, options.language),
            answer_timeout_s=settings.answer_timeout_s,
            speculation=settings.speculation,
            tools=settings.tool_limits,
        )
        self.records = Records(self._conversation.turns)
        self._playout = Playout()
        self._playout.set_codecs(set(options.codecs))
        judge = BargeIn(settings.barge_in_after_s)
        self._interruption = Interruption(session_id, self._playout, judge)
        self._stopwatch = Stopwatch(session_id, registry.clocks)
        self.microphone = Microphone()
        self._mic_bundle = MicBundle()
        self._ears = ears = Ears()
        self._unheard = Unheard()
        self._incoming = self._hearing(ears)
        self.news = self._stage_news(ears)
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
        self._feed = self._listening(bus)
        self.answering = Answering(self.stages, self._feed, answers, welcome)
        self.answering.speak_as(Speaker(persona, options.language))
        self.unasked = self._unasked()
        self._track = SpeechInTrack(self.unasked.brought, BROUGHT_RATE_HZ)
        self.audience = Audience(settings.max_viewers, self._codecs_changed, options.codecs)
        self.outlets = self._outlets(settings)
        self.presence = self._presence(settings)
        parts = self._parts()
        self._performer = Performer(parts, self._wake_ticks, answers.tools, settings.tool_fillers)
        self._ticks = Ticks(
            parts,
            self._performer,
            loops,
            lambda: self.outlets.pictures_bps,
            self.outlets.caption,
        )

    # ------------------------------------------------------------ its parts

    def _hearing(self, ears: Ears) -> Incoming:
        return Incoming(
            self._conversation,
            self._playout,
            self._interruption,
            self._stopwatch,
            self.microphone,
            ears,
            self._hub,
            self._unheard,
        )

    def _stage_news(self, ears: Ears) -> StageNews:
        return StageNews(
            self._conversation,
            self._playout,
            self._clock,
            self._perform,
            ears,
            partial(self._take_off, attached=False),
            lambda: self._background.run(self.stages.brief_face()),
            lambda: self.stages.hear_anew(),
            lambda pts, pcm: self._feed.send_mic(pts, pcm, recorded=True),
        )

    def _unasked(self) -> Unasked:
        return Unasked(
            self._conversation,
            self._feed,
            self.answering,
            self._clock,
            self._perform,
            self._hub.publish,
        )

    def _parts(self) -> Parts:
        return Parts(
            conversation=self._conversation,
            playout=self._playout,
            interruption=self._interruption,
            stopwatch=self._stopwatch,
            stages=self.stages,
            feed=self._feed,
            answering=self.answering,
            unasked=self.unasked,
            audience=self.audience,
            hub=self._hub,
            presence=self.presence,
            unheard=self._unheard,
            background=self._background,
            clock=self._clock,
        )

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
            self._mic_may_wait,
        )

    def _listening(self, bus: Bus) -> BusFeed:
        return BusFeed(
            bus,
            self.id,
            {
                Kind.TRANSCRIPT: self._on_transcript,
                Kind.TOKENS: self._on_token,
                Kind.VOICE: self._on_voice,
                Kind.MEL: self._incoming.mel,
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
            refused=lambda error: self._hub.publish(
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
            self._ticks.begin(self._ticker)
            self._background.keep(self.presence.watch(), "presence")

    async def close(self, message: str = "the session was closed") -> None:
        """Free everything, also where a part of it fails; listeners are told why."""
        async with AsyncExitStack() as stack:  # the last that is named is closed first
            stack.callback(self._hub.end)
            stack.callback(self._ticks.loops.close)
            stack.push_async_callback(self.audience.close)
            stack.push_async_callback(self._feed.close)
            stack.push_async_callback(self.presence.release_for_good)
            stack.push_async_callback(self._background.cancel_all)
            stack.callback(self._ticks.end)
            if not self.moved:
                self.unasked.drop("closed")
                self._hub.publish(ErrorEvent(code="session_closed", message=message))
                self._feed.announce(self._conversation.epoch + 1, "close")

    # ------------------------------------------------------------ from gateway to gateway

    @property
    def moved(self) -> bool:
        """It has gone to another gateway."""
        departure = self.presence.departure
        return departure is not None and departure.moved

    @property
    def between_turns(self) -> bool:
        """Nobody speaks, nothing is being answered, no recording would be lost."""
        kept = self.outlets.recordings.kept
        return self.news.may_move("llm") and not self.unasked.waits and not kept

    @property
    def epoch(self) -> int:
        """The newest turn's number."""
        return self._conversation.epoch

    @property
    def utterance(self) -> int:
        """The newest utterance's number."""
        return self._ears.newest

    @property
    def saying(self) -> int:
        """Number of the newest text that was to be said as it stands."""
        return self.unasked.sayings.newest

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
        *,
        utterance: int,
        saying: int,
        created_at: datetime | None,
    ) -> None:
        """Go on where it stood in another gateway. created_at: None where that did not tell."""
        self.created_at = created_at or self.created_at
        self._conversation.carry_on(epoch, said)
        self._ears.carry_on(utterance)
        self.unasked.sayings.newest = saying
        self.records.carry_on(turns, timelines)

    @property
    def begun(self) -> Begun | None:
        """The answer that is under way, where another gateway could go on with it."""
        turn = self._conversation.turn
        return None if turn is None else turn.begun

    def take_up(self, question: str, begun: Begun) -> None:
        """Go on with an answer of another gateway's. Call `wake` before."""
        self.presence.asked()
        now = self._clock.now()
        self._stopwatch.asked(now)
        self._perform(self._conversation.take_up(question, begun, now))

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
        self._ears.tape.forget()
        lost = self._conversation.stage_lost("asr", "nobody is connected", self._clock.now())
        self._perform(lost)

    # ------------------------------------------------------------ what a client can do

    @property
    def options(self) -> Options:
        """As they were last changed."""
        return self.stages.options

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
        return self._ticks.rest

    @property
    def state(self) -> State:
        return self._conversation.state

    @property
    def turn(self) -> Turn | None:
        """The turn that is open, held ones included; to be read."""
        return self._conversation.turn

    def check_listeners(self) -> None:
        """Raises AtCapacityError where as many listen as may watch, and some more."""
        if self._hub.listeners >= self._most_listeners:
            most = self._most_listeners
            raise AtCapacityError(f"listeners: the session has {most} already, the most allowed")

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

    def speak_on(
        self, turn: int, text: str, piece: int, block: int = 0, language: str = "", *, last: bool
    ) -> None:
        """Say this piece of it, the first being 0, or show it, of a block. Of a turn that is over
        it is dropped.
        """
        if self._conversation.epoch == turn:
            self._feed.send_answer(turn, text, piece, block, language, last=last)

    def submit_text(self, text: str, style: str = "", *, asks: str = "") -> int:
        """The visitor typed `text`; returns the turn that answers it, in `style` if given.

        asks: what of it is looked up in the operator's texts; "": all. Call `wake` before.
        """
        self._needs_a_voice()
        self.presence.asked()
        now = self._clock.now()
        self._stopwatch.asked(now)
        self._perform(
            self._conversation.submit_text(text, now, as_prepared=not style, asks=asks),
            Manner(style),
        )
        return self._conversation.epoch

    def typing(self, text: str) -> None:
        """The visitor has typed `text` so far, and may send it."""
        self._needs_a_voice()
        self._perform(self._conversation.typing(text, self._clock.now()))

    def say(self, text: str, manner: Manner, *, interrupt: bool = False) -> Saying:
        """Have `text` said as it stands, behind what is being said and what waits.

        interrupt: now, in place of all that. Call `wake` before. Raises SayingsFullError.
        """
        self._needs_a_voice()
        self.presence.asked()
        self._wake_ticks()
        may_begin = self._ticks.may_begin
        return self.unasked.say(text, manner, interrupt=interrupt, may_begin=may_begin)

    def interrupt(self) -> int:
        """Silence; returns the turn number from which on something can be said again."""
        self.touch()
        self.unasked.drop("interrupted")
        self._perform(self._conversation.interrupt())
        return self._conversation.epoch

    def wake_up(self) -> bool:
        """The machine has slept, or stood still: nobody goes on with what was being asked or
        answered before; whether anything was under way.
        """
        self.touch()
        busy = self.state != "idle"
        now = self._clock.now()
        self.microphone.begin_anew(now)
        self._ears.begin_anew()
        self._perform(self._conversation.begin_anew(now))
        return busy

    def tool_result(self, call_id: str, output: str) -> None:
        """A client has done what an answer called. Raises UnknownNameError where none waits."""
        self.touch()
        self._performer.result(call_id, output)

    async def update(self, options: Options, persona: str | None = None) -> None:
        """Take effect from the next turn on; a stage that is away learns it as it returns."""
        self.touch()
        self.persona = self.persona if persona is None else persona
        self._conversation.set_persona(system_message(self.persona, options.language))
        self.answering.speak_as(Speaker(self.persona, options.language))
        await self.stages.update(options)
        self._performer.refresh_face()
        self._hub.publish(options.event(self.id))

    def avatar_deleted(self) -> None:
        """The face that it wears is there no more: it wears the default one, after this turn."""
        self._take_off(attached=self.stages.attached)
        self._performer.refresh_face()

    def avatar_renamed(self, name: str) -> None:
        """The face that it wears is called so from now on."""
        self.stages.avatar_renamed(name)
        self._hub.publish(self.options.event(self.id))

    def _take_off(self, *, attached: bool) -> None:
        name = self.options.avatar
        if not name:
            return
        self.stages.wear_default(attached=attached)
        self._hub.publish(self.options.event(self.id))
        message = f"the avatar {name!r} was deleted; this is the default one"
        self._hub.publish(WarningEvent(turn=self.epoch, code="avatar_deleted", message=message))

    def begin_speech(self, rate_hz: int, text: str) -> None:
        """The client begins to bring an utterance. Raises as `BroughtSpeech.begin` does."""
        self.presence.asked()
        self.unasked.brought.begin(rate_hz, text)

    def add_speech(self, pcm: NDArray[np.int16]) -> None:
        """Sound of it: [N] int16. Raises as `BroughtSpeech.add` does."""
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
            level = level_of(pcm)
            self._interruption.hear(pcm, level, now)
            awaited = self._conversation.state != "idle"
            for begins_at, sound in self._mic_bundle.add(pts, pcm, level, awaited=awaited):
                self._ears.tape.add(begins_at, sound)
                if self._ears.tape.heard:  # else it is sent once somebody listens
                    self._feed.send_mic(begins_at, sound)

    def _mic_may_wait(self, level: float) -> bool:
        """Whether sound of this level can be nothing that anybody waits for (`MicBundle`)."""
        return (
            self.options.spoken_by != "client"
            and self._conversation.state == "idle"
            and not self._mic_bundle.rises(level)
        )

    # ------------------------------------------------------------ what the bus brings

    def _on_transcript(self, chunk: media.TranscriptChunk) -> None:
        self._stopwatch.caused_by(self._feed.cause)
        now = self._clock.now()
        self._ticks.heard(chunk, now)
        self._perform(self._incoming.transcript(chunk, now))

    def _on_token(self, chunk: media.TokenChunk) -> None:
        self._performer.look_for_losses()
        self._perform(self._incoming.token(chunk, self._clock.now()))

    def _on_voice(self, chunk: media.PcmChunk) -> None:
        self._performer.look_for_losses()
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

    # ------------------------------------------------------------ what its outlets tell

    def _picture_missed(self, codec: VideoCodec) -> None:
        """A viewer waits for a key frame, or a recording does."""
        self._wake_ticks()
        self._ticks.request_keyframe(codec)

    def _audience_changed(self) -> None:
        self._wake_ticks()
        self.audience.review()

    def _codecs_changed(self, codecs: set[VideoCodec]) -> None:
        self._playout.set_codecs(codecs)
        self._background.run(self.stages.set_codecs(sorted(codecs)))

    def _broadcast_changed(self, target: Target) -> None:
        if self.moved:
            return  # it goes on there
        self._hub.publish(
            BroadcastEvent(id=target.name, state=target.phase.value, message=target.error)
        )

    def _recording_failed(self, message: str) -> None:
        self._hub.publish(ErrorEvent(code="recording_failed", message=message))

    # ------------------------------------------------------------ for parts made before these are

    def _perform(
        self, wanted: Sequence[actions.Action], manner: Manner = AS_THE_SESSION_SAYS
    ) -> None:
        self._performer.perform(wanted, manner)

    def _wake_ticks(self) -> None:
        self._ticks.wake()
