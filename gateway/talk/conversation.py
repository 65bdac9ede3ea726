"""The turn state machine: who speaks, which answer counts, what goes into the history.

Pure: inputs are what happened, the output of each is a list of actions. Every answer is
a turn with its own number; to interrupt is to announce a higher one. While the visitor
pauses an answer is prepared in a held turn, which is confirmed when the visitor has
finished with those words, and thrown away when they go on.
"""

from __future__ import annotations

from typing import Literal

from gateway.api.events import AnswerEvent, ErrorEvent, StateEvent, TranscriptEvent, TurnEvent
from gateway.talk.actions import (
    Action,
    AnnounceTurn,
    BeginAnswer,
    CloseTurn,
    ConfirmTurn,
    DuckTurn,
    Emit,
    PauseTurn,
    ReadAhead,
    Reason,
    ResumeTurn,
)
from gateway.talk.history import History, Marks
from gateway.talk.speculation import Speculation, SpeculationLimits
from gateway.talk.turn import WORDLESS_S, Doubt, Doubts, Turn
from gateway.talk.words import same_question, words_to_read

State = Literal["idle", "listening", "thinking", "speaking"]


class Conversation:
    """One session's turns.

    answer_timeout_s: a turn that makes no progress for so long has failed.
    """

    def __init__(
        self,
        persona: str = "",
        *,
        answer_timeout_s: float = 20.0,
        speculation: SpeculationLimits | None = None,
    ) -> None:
        self._history = History(persona)
        self._timeout_s = answer_timeout_s
        self._speculation = Speculation(speculation)
        self._epoch = 0
        self._turn: Turn | None = None
        self._doubts = Doubts()
        self._visitor_speaks = False
        self._state: State = "idle"

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def state(self) -> State:
        return self._state

    @property
    def turn(self) -> Turn | None:
        """The turn that is open, held ones included."""
        return self._turn

    @property
    def doubt(self) -> Doubt | None:
        """The utterance that may be an interruption, until that is known."""
        return self._doubts.current

    def set_persona(self, persona: str) -> None:
        """What the language model is told it is, from the next turn on."""
        self._history.persona = persona

    # ------------------------------------------------------------ the visitor

    def submit_text(self, text: str, now: float) -> list[Action]:
        """The visitor typed `text`: it interrupts, and opens a turn at once."""
        actions = self._end_turn("text")
        actions += self._open(text, utterance=0, confirmed=True, reason="text", now=now)
        return self._settle(actions)

    def greet(self, now: float) -> list[Action]:
        """Open a turn that nobody asked for; its text comes as any answer's does."""
        self._epoch += 1
        self._turn = Turn(self._epoch, "", 0, now)
        opened = Emit(TurnEvent(turn=self._epoch, event="opened"))
        return self._settle([AnnounceTurn(self._epoch, "welcome", opens=True), opened])

    def interrupt(self) -> list[Action]:
        """The visitor wants silence. Without a turn this does nothing."""
        if self._turn is None:
            return []
        if self._turn.confirmed and not self._turn.heard():
            self._history.forget_unanswered()
        return self._settle(self._silence("interrupt"))

    def speech_started(self, utterance: int, now: float) -> list[Action]:
        """The visitor's voice was detected: an answer under way is kept until words come.

        One that speaks gets quieter and goes on until `voice_persists`; one that is about to
        speak waits.
        """
        self._visitor_speaks = True
        turn = self._turn
        if turn is not None and not turn.confirmed:
            return self._settle(self._silence("speech"))
        first = self._doubts.begin(utterance, now, turn)
        if turn is None or not first:
            return self._settle([])
        return self._settle([DuckTurn(turn.number)]) if turn.speaking else self.voice_persists()

    def voice_persists(self) -> list[Action]:
        """The voice over the answer is no mere blip: fall silent and listen."""
        turn, doubt = self._turn, self.doubt
        if turn is None or doubt is None or doubt.stopped or doubt.dismissed:
            return []
        doubt.stopped, doubt.echo = True, False
        return self._settle([PauseTurn(turn.number)])

    def dismiss(self, now: float, *, echo: bool = False) -> list[Action]:
        """What sounds over the answer is no word, or our own (and may hold a voice later on)."""
        doubt = self.doubt
        if doubt is None or doubt.dismissed or (echo and doubt.echo):
            return []
        doubt.echo, doubt.dismissed, doubt.echoed = echo, not echo, doubt.echoed or echo
        return self._settle(self._resume(now))

    def partial(self, utterance: int, text: str) -> list[Action]:
        """What is understood so far. Words that contradict a held answer void it."""
        self._visitor_speaks = True
        turn, text = self._turn, self._doubts.own_words(utterance, text, self._turn)
        shown = Emit(TranscriptEvent(utterance=utterance, text=text, final=False))
        if self._is_nothing(utterance, text, complete=False):
            return self._settle([shown])
        held = turn is not None and not turn.confirmed and not same_question(turn.question, text)
        void = held or (turn is not None and self.doubt is not None)
        actions = [*(self._silence("speech") if void else []), shown]
        if self._turn is None and (known := words_to_read(text)):
            actions.append(ReadAhead(self._history.prompt(known)))
        return self._settle(actions)

    def paused(self, utterance: int, text: str, probability: float, now: float) -> list[Action]:
        """The visitor may have finished with `text`: prepare an answer, held back."""
        text = self._doubts.own_words(utterance, text, self._turn)
        if self._is_nothing(utterance, text, complete=True):
            latest = self.doubt is not None and self.doubt.utterance == utterance
            return self._settle(self._resume(now) if latest else [])
        turn = self._turn
        if turn is not None and self.doubt is None:
            if turn.confirmed or same_question(turn.question, text):
                # A typed question is being answered, or this very answer is under way.
                return []
        actions = self._end_turn("speech")
        if self._speculation.allows(utterance, text, probability):
            self._speculation.opened(utterance)
            actions += self._open(text, utterance, confirmed=False, reason="speech", now=now)
        elif turn is not None:
            actions.append(self._announce("speech"))
        return self._settle(actions)

    def final(self, utterance: int, text: str, now: float) -> list[Action]:
        """The visitor has finished with `text`."""
        text = self._doubts.own_words(utterance, text, self._turn)
        if not text or self._is_nothing(utterance, text, complete=True):
            return self.discarded(utterance, now)
        self._visitor_speaks = False
        if forgone := self._speculation.take_forgone():
            self._speculation.decided(won=same_question(forgone, text))
        turn = self._turn
        if turn is not None and not turn.confirmed and same_question(turn.question, text):
            turn.question = text
            return self._settle(self._confirm(turn, now))
        actions = self._end_turn("speech")
        actions += self._open(text, utterance, confirmed=True, reason="speech", now=now)
        return self._settle(actions)

    def discarded(self, utterance: int, now: float) -> list[Action]:
        """What started was not speech, or nothing that wants an answer."""
        actions: list[Action] = []
        doubt = self.doubt
        if doubt is None or doubt.utterance <= utterance:
            # Otherwise the visitor speaks again already.
            self._visitor_speaks = False
            actions += self._resume(now)
            self._doubts.current = None
        if self._turn is not None and not self._turn.confirmed:
            actions += self._silence("speech")
        # Captions forget what they showed of it.
        actions.append(Emit(TranscriptEvent(utterance=utterance, text="", final=True)))
        return self._settle(actions)

    # ------------------------------------------------------------ the answer

    def token(self, number: int, text: str, *, last: bool, now: float) -> list[Action]:
        """A piece of the answer's text."""
        turn = self._current(number)
        if turn is None or turn.answer_complete:
            return []
        turn.take_text(text, last=last, now=now)
        actions: list[Action] = []
        if turn.confirmed and (text or last):
            actions.append(Emit(AnswerEvent(turn=number, text=text, final=last)))
        return self._settle(actions)

    def voice(
        self, number: int, seconds: float, marks: Marks = (), *, last: bool, now: float
    ) -> list[Action]:
        """Voice of the answer has arrived, and where its words end in it. Nothing follows yet."""
        turn = self._current(number)
        if turn is not None:
            turn.take_voice(seconds, marks, last=last, now=now)
        return []

    def started(self, number: int) -> list[Action]:
        """The turn's first sample is leaving."""
        turn = self._current(number)
        if turn is None or turn.speaking:
            return []
        turn.speaking = True
        return self._settle([Emit(TurnEvent(turn=number, event="speaking"))])

    def played(self, number: int, seconds: float, now: float) -> None:
        """So much of the voice has been heard."""
        turn = self._current(number)
        if turn is not None and seconds > turn.played_s:
            turn.played_s = seconds
            turn.progress_at_s = now

    def finished(self, number: int, now: float) -> list[Action]:
        """The turn's last sample and picture have left."""
        turn = self._current(number)
        if turn is None or not turn.confirmed:
            return []
        self._history.face(turn.text.strip())
        self._turn = None
        self._doubts.answer_over(turn.text, now)
        event = TurnEvent(turn=number, event="finished")
        return self._settle([CloseTurn(number, "finished"), Emit(event)])

    # ------------------------------------------------------------ faults and time

    def stage_failed(self, stage: str, number: int, code: str, message: str) -> list[Action]:
        """A stage cannot go on with turn `number`; 0: with something outside of turns."""
        turn, text = self._current(number), f"{stage}: {message}"
        if turn is not None and not turn.confirmed:
            return self._settle(self._silence("failed"))  # nobody has asked yet: it is tried again
        if turn is not None:
            return self._settle(self._fail(turn, code, text))
        # Turn 0 is the session itself: an utterance, an idle picture.
        return [] if number else [Emit(ErrorEvent(code=code, message=text))]

    def stage_lost(self, stage: str, message: str, now: float) -> list[Action]:
        """A stage's replica is gone. Ends the turn only where its work was not done."""
        turn, text = self._turn, f"{stage}: {message}"
        actions: list[Action] = []
        if stage == "asr":
            # Nobody will tell any more what the visitor has said.
            self._visitor_speaks = False
            actions += self._resume(now)
            self._doubts.current = None
        if turn is None or not turn.needs(stage):
            return self._settle([*actions, Emit(ErrorEvent(code="stage_lost", message=text))])
        return self._settle(self._fail(turn, "stage_lost", text))

    def bus_lost(self, message: str) -> list[Action]:
        """Chunks may be missing: a turn that still waits for some cannot be completed."""
        turn = self._turn
        if turn is None or turn.awaited_stage() is None:
            return []
        return self._settle(self._fail(turn, "bus_lost", f"bus: {message}"))

    def check(self, now: float) -> list[Action]:
        """Fail a turn that has stood still for too long. A held one waits for the visitor."""
        turn, doubt = self._turn, self.doubt
        if doubt is not None and doubt.stopped:
            limit_s = self._timeout_s if doubt.worded else WORDLESS_S
            doubt.dismissed = now - doubt.since_s > limit_s
            return self._settle(self._resume(now)) if doubt.dismissed else []
        if turn is None or not turn.confirmed or now - turn.progress_at_s <= self._timeout_s:
            return []
        stage = turn.awaited_stage()
        if stage is None and turn.speaking:
            return []
        message = f"{stage or 'playout'}: no progress for {self._timeout_s:g} s"
        return self._settle(self._fail(turn, "timeout", message))

    # ------------------------------------------------------------ inside

    def _current(self, number: int) -> Turn | None:
        return self._turn if self._turn is not None and self._turn.number == number else None

    def _announce(self, reason: Reason) -> AnnounceTurn:
        self._epoch += 1
        return AnnounceTurn(self._epoch, reason)

    def _open(
        self, text: str, utterance: int, *, confirmed: bool, reason: Reason, now: float
    ) -> list[Action]:
        self._epoch += 1
        turn = Turn(self._epoch, text, utterance, now, confirmed)
        self._turn = turn
        actions: list[Action] = [
            AnnounceTurn(turn.number, reason, opens=True, held=not confirmed),
            BeginAnswer(turn.number, self._history.prompt(text)),
        ]
        return actions + (self._reveal(turn) if confirmed else [])

    def _confirm(self, turn: Turn, now: float) -> list[Action]:
        turn.confirmed = True
        turn.progress_at_s = now
        self._speculation.decided(won=True)
        return [ConfirmTurn(turn.number), *self._reveal(turn)]

    def _reveal(self, turn: Turn) -> list[Action]:
        """Make a turn known to listeners, with what a held one has prepared so far."""
        self._history.visitor(turn.question)
        return [Emit(event) for event in turn.so_far()]

    def _end_turn(self, reason: Reason) -> list[Action]:
        """Close the open turn early; the caller announces what comes next."""
        turn, self._turn = self._turn, None
        self._doubts.turn_ended(turn)
        if turn is None:
            return []
        if not turn.confirmed:
            self._speculation.decided(won=False)
            return [CloseTurn(turn.number, "discarded", turn.voice_s)]
        heard = turn.heard()
        self._history.face(heard)
        event = TurnEvent(turn=turn.number, event="interrupted", reason=reason, heard=heard)
        return [CloseTurn(turn.number, "interrupted"), Emit(event)]

    def _silence(self, reason: Reason) -> list[Action]:
        """End the open turn, and let nothing follow it yet."""
        return [*self._end_turn(reason), self._announce(reason)]

    def _is_nothing(self, utterance: int, text: str, *, complete: bool) -> bool:
        """Whether words over an answer ask for nothing, as far as they go."""
        return self._doubts.is_nothing(utterance, text, self._turn, complete=complete)

    def _resume(self, now: float) -> list[Action]:
        """Let an answer go on that was kept waiting, or quiet."""
        turn, doubt = self._turn, self.doubt
        if turn is None or doubt is None or not turn.confirmed:
            return []
        doubt.stopped = False
        turn.progress_at_s = now
        return [ResumeTurn(turn.number, turn.resume_s())]

    def _fail(self, turn: Turn, code: str, message: str) -> list[Action]:
        heard = turn.heard()
        if heard:
            self._history.face(heard)
        elif turn.confirmed:
            self._history.forget_unanswered()
        self._turn = self._doubts.current = None
        actions: list[Action] = [self._announce("failed"), CloseTurn(turn.number, "failed")]
        if turn.confirmed:
            event = TurnEvent(turn=turn.number, event="failed", reason=message, heard=heard)
            actions.append(Emit(event))
        return [*actions, Emit(ErrorEvent(code=code, message=message))]

    def _settle(self, actions: list[Action]) -> list[Action]:
        """Append the new state where it changed."""
        state: State = "listening" if self._visitor_speaks else "idle"
        if self._turn is not None and self._turn.confirmed and not self._doubts.stopped:
            state = "speaking" if self._turn.speaking else "thinking"
        if state != self._state:
            self._state = state
            actions.append(Emit(StateEvent(state=state)))
        return actions
