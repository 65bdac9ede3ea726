"""The turn state machine: who speaks, which answer counts, what goes into the history.

Pure: inputs are what happened, the output of each is a list of actions. Every answer is
a turn with its own number; to interrupt is to announce a higher one. While the visitor
pauses an answer is prepared in a held turn, which is confirmed when the visitor has
finished with those words, and thrown away when they go on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from gateway.actions import (
    Action,
    AnnounceTurn,
    BeginAnswer,
    CloseTurn,
    ConfirmTurn,
    Emit,
    ReadAhead,
    Reason,
)
from gateway.events import AnswerEvent, ErrorEvent, StateEvent, TranscriptEvent, TurnEvent
from gateway.heard import heard_text
from gateway.history import History

# A clause that goes on has other marks at its end than one that is cut off.
_MARKS = ".,!?…。，！？、"

State = Literal["idle", "listening", "thinking", "speaking"]


@dataclass(slots=True)
class Turn:
    """The answer that is being prepared or spoken."""

    number: int
    question: str
    utterance: int
    """0: typed."""
    progress_at_s: float
    """When it last came forward, for the time limit."""
    confirmed: bool = True
    speaking: bool = False
    answer: list[str] = field(default_factory=list)
    answer_complete: bool = False
    voice_s: float = 0.0
    voice_complete: bool = False
    played_s: float = 0.0

    @property
    def text(self) -> str:
        return "".join(self.answer)

    def heard(self) -> str:
        """What was audible of the answer so far."""
        known = self.answer_complete and self.voice_complete
        return heard_text(
            self.text, played_s=self.played_s, voice_s=self.voice_s if known else None
        )

    def awaited_stage(self) -> str | None:
        """The stage whose work is missing; None where all of it is here."""
        if not self.answer_complete:
            return "llm"
        return None if self.voice_complete else "tts"


def same_words(one: str, other: str) -> bool:
    """Whether two transcripts differ in punctuation and case at most."""
    return _words(one) == _words(other)


def _certain_words(text: str) -> str:
    """What of a partial transcript will most likely stay: all but its last word and mark.

    Its own end is the recogniser's guess at a word that was cut in the middle.
    """
    if " " in text.strip():
        return text.strip().rpartition(" ")[0].rstrip(_MARKS)
    # One word, or a script without blanks.
    return "" if text.isascii() else text.strip().rstrip(_MARKS)[:-1]


def _words(text: str) -> str:
    return "".join(c for c in text.casefold() if c.isalnum())


class Conversation:
    """One session's turns.

    answer_timeout_s: a turn that makes no progress for so long has failed.
    speculate_above: probability of being finished from which an answer is prepared
        while the visitor pauses.
    """

    def __init__(
        self, persona: str = "", *, answer_timeout_s: float = 20.0, speculate_above: float = 0.2
    ) -> None:
        self._history = History(persona)
        self._timeout_s = answer_timeout_s
        self._speculate_above = speculate_above
        self._epoch = 0
        self._turn: Turn | None = None
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
        actions = self._end_turn("interrupt")
        return self._settle([*actions, self._announce("interrupt")])

    def speech_started(self, utterance: int) -> list[Action]:
        """The visitor's voice was detected: whatever is being said or prepared ends."""
        self._visitor_speaks = True
        if self._turn is None:
            return self._settle([])
        actions = self._end_turn("speech")
        return self._settle([*actions, self._announce("speech")])

    def partial(self, utterance: int, text: str) -> list[Action]:
        """What is understood so far. The visitor goes on: a held answer is void."""
        self._visitor_speaks = True
        actions: list[Action] = []
        if self._turn is not None and not self._turn.confirmed:
            actions += [*self._end_turn("speech"), self._announce("speech")]
        actions.append(Emit(TranscriptEvent(utterance=utterance, text=text, final=False)))
        if self._turn is None and (known := _certain_words(text)):
            actions.append(ReadAhead(self._history.prompt(known)))
        return self._settle(actions)

    def paused(self, utterance: int, text: str, probability: float, now: float) -> list[Action]:
        """The visitor may have finished with `text`: prepare an answer, held back."""
        text = text.strip()
        turn = self._turn
        actions: list[Action] = []
        if turn is not None and (turn.confirmed or same_words(turn.question, text)):
            # A typed question is being answered, or this very answer is under way.
            return []
        if turn is not None:
            actions += self._end_turn("speech")
        if text and probability >= self._speculate_above:
            actions += self._open(text, utterance, confirmed=False, reason="speech", now=now)
        elif turn is not None:
            actions.append(self._announce("speech"))
        return self._settle(actions)

    def final(self, utterance: int, text: str, now: float) -> list[Action]:
        """The visitor has finished with `text`."""
        text = text.strip()
        self._visitor_speaks = False
        turn = self._turn
        if not text:
            return self.discarded(utterance)
        if turn is not None and not turn.confirmed and same_words(turn.question, text):
            turn.question = text
            return self._settle(self._confirm(turn, now))
        actions = self._end_turn("speech")
        actions += self._open(text, utterance, confirmed=True, reason="speech", now=now)
        return self._settle(actions)

    def discarded(self, utterance: int) -> list[Action]:
        """What started was not speech."""
        self._visitor_speaks = False
        actions: list[Action] = []
        if self._turn is not None and not self._turn.confirmed:
            actions += [*self._end_turn("speech"), self._announce("speech")]
        # Captions forget what they showed of it.
        actions.append(Emit(TranscriptEvent(utterance=utterance, text="", final=True)))
        return self._settle(actions)

    # ------------------------------------------------------------ the answer

    def token(self, number: int, text: str, *, last: bool, now: float) -> list[Action]:
        """A piece of the answer's text."""
        turn = self._current(number)
        if turn is None or turn.answer_complete:
            return []
        turn.progress_at_s = now
        turn.answer_complete = last
        if text:
            turn.answer.append(text)
        actions: list[Action] = []
        if turn.confirmed:
            actions.append(Emit(AnswerEvent(turn=number, text=text, final=last)))
        return self._settle(actions)

    def voice(self, number: int, seconds: float, *, last: bool, now: float) -> list[Action]:
        """Voice of the answer has arrived."""
        turn = self._current(number)
        if turn is not None:
            turn.progress_at_s = now
            turn.voice_s += seconds
            turn.voice_complete = turn.voice_complete or last
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

    def finished(self, number: int) -> list[Action]:
        """The turn's last sample and picture have left."""
        turn = self._current(number)
        if turn is None or not turn.confirmed:
            return []
        self._history.face(turn.text.strip())
        self._turn = None
        return self._settle(
            [CloseTurn(number, "finished"), Emit(TurnEvent(turn=number, event="finished"))]
        )

    # ------------------------------------------------------------ faults and time

    def stage_failed(self, stage: str, number: int, code: str, message: str) -> list[Action]:
        """A stage cannot go on with turn `number`; 0: with something outside of turns."""
        turn = self._current(number)
        text = f"{stage}: {message}"
        if turn is not None:
            return self._settle(self._fail(turn, code, text))
        # Turn 0 is the session itself: an utterance, an idle picture.
        return [] if number else [Emit(ErrorEvent(code=code, message=text))]

    def stage_lost(self, stage: str, message: str) -> list[Action]:
        """A stage's replica is gone. Ends the turn only where its work was not done."""
        turn = self._turn
        concerned = turn is not None and (
            (stage == "llm" and not turn.answer_complete)
            or (stage == "tts" and not turn.voice_complete)
            or stage == "face"
        )
        text = f"{stage}: {message}"
        if stage == "asr":
            self._visitor_speaks = False
        if turn is None or not concerned:
            return self._settle([Emit(ErrorEvent(code="stage_lost", message=text))])
        return self._settle(self._fail(turn, "stage_lost", text))

    def bus_lost(self, message: str) -> list[Action]:
        """Chunks may be missing: a turn that still waits for some cannot be completed."""
        turn = self._turn
        if turn is None or turn.awaited_stage() is None:
            return []
        return self._settle(self._fail(turn, "bus_lost", f"bus: {message}"))

    def check(self, now: float) -> list[Action]:
        """Fail a turn that has stood still for too long. A held one waits for the visitor."""
        turn = self._turn
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
        return [ConfirmTurn(turn.number), *self._reveal(turn)]

    def _reveal(self, turn: Turn) -> list[Action]:
        """Make a turn known to listeners, with what a held one has prepared so far."""
        self._history.visitor(turn.question)
        actions: list[Action] = [
            Emit(
                TranscriptEvent(
                    utterance=turn.utterance, text=turn.question, final=True, turn=turn.number
                )
            ),
            Emit(TurnEvent(turn=turn.number, event="opened")),
        ]
        if turn.answer or turn.answer_complete:
            actions.append(
                Emit(AnswerEvent(turn=turn.number, text=turn.text, final=turn.answer_complete))
            )
        return actions

    def _end_turn(self, reason: Reason) -> list[Action]:
        """Close the open turn early; the caller announces what comes next."""
        turn, self._turn = self._turn, None
        if turn is None:
            return []
        if not turn.confirmed:
            return [CloseTurn(turn.number, "discarded")]
        heard = turn.heard()
        self._history.face(heard)
        event = TurnEvent(turn=turn.number, event="interrupted", reason=reason, heard=heard)
        return [CloseTurn(turn.number, "interrupted"), Emit(event)]

    def _fail(self, turn: Turn, code: str, message: str) -> list[Action]:
        heard = turn.heard()
        if heard:
            self._history.face(heard)
        elif turn.confirmed:
            self._history.forget_unanswered()
        self._turn = None
        actions: list[Action] = [self._announce("failed"), CloseTurn(turn.number, "failed")]
        if turn.confirmed:
            event = TurnEvent(turn=turn.number, event="failed", reason=message, heard=heard)
            actions.append(Emit(event))
        return [*actions, Emit(ErrorEvent(code=code, message=message))]

    def _settle(self, actions: list[Action]) -> list[Action]:
        """Append the new state where it changed."""
        state: State = "listening" if self._visitor_speaks else "idle"
        if self._turn is not None and self._turn.confirmed:
            state = "speaking" if self._turn.speaking else "thinking"
        if state != self._state:
            self._state = state
            actions.append(Emit(StateEvent(state=state)))
        return actions
