"""Carries out what the turn state machine decides: on bus, stages, playout and those who listen."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence

from gateway import metrics
from gateway.api.events import ToolCallEvent
from gateway.api.hub import Overheard
from gateway.playout.pacing import RATE_HZ
from gateway.session.parts import Parts
from gateway.stages.incoming import played
from gateway.talk import actions, speculation
from gateway.talk.actions import AS_THE_SESSION_SAYS, Manner
from gateway.talk.turn import Phase, Turn
from gateway.tools.doing import ServerTools, ToolDoer
from gateway.tools.offers import Call
from visavis.serving.errors import (
    OutdatedError,
    StageLostError,
    UnknownNameError,
    VisavisError,
)


class Performer:
    """Performs the actions of one session's conversation, in order.

    wake: called where there is work for ticks. tools: that the gateway does itself. fillers: what
    is said while a tool takes its time, by language.
    """

    def __init__(
        self,
        parts: Parts,
        wake: Callable[[], None],
        tools: ServerTools,
        fillers: Mapping[str, str],
    ) -> None:
        self._parts = parts
        self._conversation = parts.conversation
        self._playout = parts.playout
        self._stages = parts.stages
        self._feed = parts.feed
        self._stopwatch = parts.stopwatch
        self._run = parts.background.run
        self._now = parts.clock.now
        self._wake = wake
        self._fillers = fillers
        self._tools = ToolDoer(tools, parts.background, self._ask_clients, self._tool_done)

    def perform(
        self, wanted: Sequence[actions.Action], manner: Manner = AS_THE_SESSION_SAYS
    ) -> None:
        """Do what is wanted. manner: of the turn that it opens."""
        if wanted:
            self._wake()
        for action in wanted:
            match action:
                case actions.AnnounceTurn():
                    self._announce(action, manner if action.opens else AS_THE_SESSION_SAYS)
                case actions.BeginAnswer():
                    if (turn := self._conversation.turns.find(action.turn)) is not None:
                        self._run(self._begin(turn, action))
                case actions.ResumeAnswer():
                    self._tools.stop()
                    self._run(self._go_on_writing(action))
                case actions.ResumeVoice():
                    # At once: what else comes of the voice that was lost is behind that.
                    self._playout.shorten(action.turn, round(action.at_s * RATE_HZ))
                    self._run(self._go_on_speaking(action))
                case actions.ResumeFace():
                    self._resume_face(action.turn)
                case actions.CallTool():
                    self._call(action)
                case actions.ContinueAnswer():
                    self._stopwatch.results(action.turn, self._now())
                    self._tools.stop()
                    self._run(self._go_on(action))
                case actions.SayMeanwhile():
                    if filler := self._filler():
                        self._run(self._stages.say_meanwhile(action.turn, filler))
                case actions.ReadAhead():
                    self._run(self._parts.answering.read_ahead(action))
                case actions.ConfirmTurn():
                    self._confirm(action)
                case actions.DuckTurn() | actions.PauseTurn() | actions.ResumeTurn():
                    self._hold_or_resume(action)
                case actions.CloseTurn():
                    self._close(action)
                case actions.Emit():
                    self._parts.hub.publish(action.event)
            speculation.count(action)
        # Each tick comes by here, mostly with nothing.
        if wanted:
            talk = (self._conversation.asked, self._conversation.answered)
            if talk != self._stages.talk:
                self._run(self._stages.tell_talk(talk))

    # ------------------------------------------------------------ a turn begins, and ends

    def _announce(self, action: actions.AnnounceTurn, manner: Manner) -> None:
        now = self._now()
        self._parts.interruption.void(action.reason, now)
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
        settled = self._stages.settled
        await self._stages.settle()
        if self._conversation.turn is not turn:
            return  # superseded before its stage was asked
        if not settled:
            held, frame = turn.phase is Phase.HELD, self._playout.motion_frame
            self._feed.announce_again(held=held, motion_frame=frame)
        if action.run != turn.text_run.number:
            return  # it is asked for as another run
        if self._stages.voice_away:
            self._conversation.stage_away(action.turn, "tts", self._stages.voice_away)
        try:
            await self._parts.answering.answer(turn, action)
        except StageLostError as error:
            self._conversation.stage_away(action.turn, "llm", str(error))
        except VisavisError as error:
            self._lost("llm", action.turn, error)
        self.perform(self._conversation.sources_known(turn.number))

    def _confirm(self, action: actions.ConfirmTurn) -> None:
        self._playout.confirm(action.turn)
        # Whatever of it waits in a stage is as urgent now as of any other answer.
        self._feed.announce(action.turn, "confirmed", traceparent=self._stopwatch.traceparent)
        self._feed.send_clock(action.turn, 0, RATE_HZ)
        self._stopwatch.confirmed(self._now())

    async def _go_on_writing(self, action: actions.ResumeAnswer) -> None:
        turn = self._conversation.current(action.turn)
        if turn is None:
            return
        metrics.turns_resumed.labels("llm").inc()
        try:
            await self._parts.answering.go_on_writing(turn, action)
        except StageLostError as error:
            self._conversation.stage_away(action.turn, "llm", str(error))
        except OutdatedError as error:
            self._lost("llm", action.turn, error)

    async def _go_on_speaking(self, action: actions.ResumeVoice) -> None:
        turn = self._conversation.current(action.turn)
        if turn is None:
            return
        metrics.turns_resumed.labels("tts").inc()
        announced = self._feed.announced_as(self._playout.motion_frame)
        heard = played(turn, self._playout.played_samples)
        try:
            await self._stages.resume_voice(announced, turn, action, heard)
        except StageLostError as error:
            self._conversation.stage_away(action.turn, "tts", str(error))
        except OutdatedError as error:
            self._lost("tts", action.turn, error)

    def _resume_face(self, number: int) -> None:
        turn = self._conversation.current(number)
        if turn is None:
            return
        metrics.turns_resumed.labels("face").inc()
        announced = self._feed.announced_as(self._playout.motion_frame)
        begun = self._playout.playing or self._playout.paused
        heard = played(turn, self._playout.played_samples) if begun else None
        sound, paused = self._parts.unheard.of(number), self._playout.paused
        self._run(self._stages.resume_face(announced, *sound, heard, paused=paused))

    def _lost(self, stage: str, turn: int, error: VisavisError) -> None:
        """It cannot be asked."""
        self.perform(self._conversation.stage_failed(stage, turn, "stage_lost", str(error)))

    def _close(self, action: actions.CloseTurn) -> None:
        metrics.turns.labels(action.outcome).inc()
        self._tools.stop()
        if (turn := self._conversation.turns.find(action.turn)) is not None:
            self._parts.answering.closed(action, turn)
        self._parts.unheard.clear()
        if action.outcome != "finished":
            self._parts.audience.cut(action.turn)
        if action.outcome in ("interrupted", "failed"):
            self._parts.unasked.drop(action.outcome)
        if action.outcome not in ("discarded", "replaced"):
            self._stopwatch.ended(action.turn, self._now())
            self.report_latency()
        self._stopwatch.closed(action.turn, action.outcome)
        self.refresh_face()

    def report_latency(self) -> None:
        """Tell where the newest turn's time went so far."""
        latency = self._stopwatch.latency()
        turn = None if latency is None else self._conversation.turns.find(latency.turn)
        if latency is not None and turn is not None:
            turn.latency = latency
            self._parts.hub.publish(latency)

    def refresh_face(self) -> None:
        """Change the avatar, once nothing is being said."""
        if self._conversation.turn is None:
            self._stages.refresh_face()

    def look_for_losses(self) -> None:
        """Tell the conversation if the bus has gone, be it for a moment, since this was asked."""
        if self._feed.newly_lost():
            self.perform(self._conversation.bus_lost("the bus connection was lost", self._now()))
            self._stages.hear_anew()

    # ------------------------------------------------------------ what it calls

    def result(self, call_id: str, output: str) -> None:
        """A call has come to this. Raises UnknownNameError where none waits under that id."""
        self.look_for_losses()  # what was lost before is nothing that the results are followed by
        wanted = self._conversation.tool_result(call_id, output, self._now())
        self._tools.told(call_id)
        self.perform(wanted)

    def _call(self, action: actions.CallTool) -> None:
        self._stopwatch.called(action.turn, self._now())
        self._tools.do(action.turn, action.call, self._stages.options.tools)

    def _ask_clients(self, turn: int, call: Call) -> None:
        asked = ToolCallEvent(turn=turn, call_id=call.id, name=call.name, arguments=call.arguments)
        self._parts.hub.publish(asked)

    def _tool_done(self, call_id: str, output: str) -> None:
        with contextlib.suppress(UnknownNameError):  # the time was over just then
            self.result(call_id, output)

    async def _go_on(self, action: actions.ContinueAnswer) -> None:
        turn = self._conversation.current(action.turn)
        if turn is None:
            return
        try:
            await self._parts.answering.go_on(turn, action)
        except VisavisError as error:
            self._lost("llm", action.turn, error)

    def _filler(self) -> str:
        """What is said while a tool takes its time, as a phrase that ends; "": nothing."""
        language = self._stages.options.language.partition("-")[0].lower()
        filler = self._fillers.get(language, "")
        return f"{filler}\n" if filler else ""

    # ------------------------------------------------------------ speech over it

    def _hold_or_resume(
        self, action: actions.DuckTurn | actions.PauseTurn | actions.ResumeTurn
    ) -> None:
        was_paused = self._playout.paused
        self._parts.interruption.carry_out(action, self._now())
        if isinstance(action, actions.PauseTurn) and not action.rests:
            doubt = self._conversation.doubt
            utterance = 0 if doubt is None else doubt.utterance
            self._parts.hub.overheard(Overheard("over_answer", utterance))
        # Where the loop is seen, the turn goes on from what it shows by then.
        changed = self._playout.paused != was_paused
        seen = self._playout.motion_frame if changed else None
        if self._playout.playing:
            self.publish_clock(seen)
        elif changed:  # before its first sample: the face is to live on meanwhile
            paused = self._playout.paused
            self._feed.send_clock(action.turn, 0, RATE_HZ, paused=paused, motion_frame=seen)

    def publish_clock(self, motion_frame: int | None = None) -> None:
        """Tell the stages how much of the turn has been heard. motion_frame: as in `announce`."""
        turn = self._conversation.turn
        heard = None if turn is None else played(turn, self._playout.played_samples)
        if turn is not None and heard is not None:
            paused = self._playout.paused
            self._feed.send_clock(turn.number, *heard, paused=paused, motion_frame=motion_frame)
