"""The turn state machine: who speaks, which answer counts, what goes into the history.

Pure: inputs are what happened, the output of each is a list of actions. Every answer is
a turn with its own number; to interrupt is to announce a higher one. While the visitor
pauses, or seems to be about to, an answer is prepared in a held turn, which is confirmed when the
visitor has finished with those words, and thrown away when they go on. Where they go on after
that, before a word of the answer was heard, the question goes on: another turn answers all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gateway.api.events import (
    AnswerEvent,
    ErrorEvent,
    StateEvent,
    TranscriptEvent,
    TurnEvent,
    WarningEvent,
    WordsEvent,
)
from gateway.talk.actions import (
    Action,
    AnnounceTurn,
    BeginAnswer,
    CloseTurn,
    ConfirmTurn,
    DuckTurn,
    Emit,
    Message,
    PauseTurn,
    Reason,
    ResumeFace,
    ResumeTurn,
    Unasked,
)
from gateway.talk.history import History, Marks
from gateway.talk.reading import Reading
from gateway.talk.speculation import Speculation, SpeculationLimits
from gateway.talk.speech_over import WORDLESS_S, Doubt, DoubtPhase, Doubts, Verdict
from gateway.talk.turn import Begun, Continuation, Phase, Turn, Turns
from gateway.talk.words import asks, may_take_back, same_question, takes_back
from gateway.tools.offers import Call
from gateway.tools.rounds import ToolLimits, ToolRounds
from visavis.serving.errors import UnknownNameError

State = Literal["idle", "listening", "thinking", "speaking"]
_STATES: dict[Phase, State] = {
    Phase.THINKING: "thinking",
    Phase.SPEAKING: "speaking",
    Phase.STOPPED: "listening",
}


# Who has not sent what he typed by then may never do.
_DRAFT_ANSWERED_S = 10.0


@dataclass(frozen=True, slots=True)
class TurnTaking:
    """What follows from speech by itself; a client that decides for itself wants less of it.

    answers: what was said is answered. interrupts: speech over an answer may end it. goes_on: who
    speaks before a word of the answer was heard goes on with his question. answers_again: an answer
    that was ended by what turns out to be nothing is given anew.
    """

    answers: bool = True
    interrupts: bool = True
    goes_on: bool = True
    answers_again: bool = True


_EMPTY = "llm: the language model has answered without a word"


class Conversation:
    """Decides who speaks in one session and which answer counts; owns the record of each turn.

    answer_timeout_s: a turn that makes no progress for so long has failed.
    """

    def __init__(
        self,
        persona: str = "",
        *,
        answer_timeout_s: float = 20.0,
        speculation: SpeculationLimits | None = None,
        tools: ToolLimits | None = None,
    ) -> None:
        self._tool_limits = tools or ToolLimits()
        self._history = History(persona)
        self._reading = Reading(self._history)
        self._timeout_s = answer_timeout_s
        self._speculation = Speculation(speculation)
        self.turns = Turns()
        """The last ones, for whoever reads them."""
        self._epoch = 0
        self._turn: Turn | None = None
        self._doubts = Doubts()
        self.taking = TurnTaking()
        self._going_on: Continuation | None = None
        self._captioned = (0, "")
        """The utterance whose words so far are shown, and these."""
        self._voice = 0
        """The utterance in which the visitor speaks; 0: he is silent."""
        self.answered = 0
        """The newest utterance that was the visitor's own and wanted an answer."""
        self._state: State = "idle"

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def state(self) -> State:
        return self._state

    @property
    def silent(self) -> bool:
        """Whether neither of both says anything, or is about to."""
        return (self._turn is None or self._drafted) and not self._voice

    @property
    def calm(self) -> bool:
        """Whether nobody says, writes or awaits anything."""
        return self._turn is None and not self._voice and not self._reading.draft.text

    @property
    def turn(self) -> Turn | None:
        """The turn that is open, held ones included."""
        return self._turn

    def current(self, number: int) -> Turn | None:
        """Turn `number`, while it is the open one."""
        return self._turn if self._turn is not None and self._turn.number == number else None

    @property
    def doubt(self) -> Doubt | None:
        """The utterance that may be an interruption, until that is known."""
        return self._doubts.current

    @property
    def said(self) -> tuple[Message, ...]:
        """What both have said, as the language model reads it."""
        return self._history.said

    @property
    def asked(self) -> bool:
        """Whether what the visitor hears, or heard last, asks something."""
        turn = self._turn
        if turn is not None and turn.has_begun:
            return asks(turn.text)
        if self._voice and self._doubts.answers(self._voice):
            return True
        answers = (said.content for said in reversed(self.said) if said.role == "assistant")
        return asks(next(answers, ""))

    def carry_on(self, epoch: int, said: Sequence[Message]) -> None:
        """Go on with a conversation that began in another gateway."""
        self._epoch = epoch
        self._history.carry_on(said)

    def rewrite(self, said: Sequence[Message]) -> None:
        """This is what was said, as somebody else keeps it."""
        self._history.replace(said)

    def set_persona(self, persona: str) -> None:
        """What the language model is told it is, from the next turn on."""
        self._history.persona = persona

    # ------------------------------------------------------------ the visitor

    def typing(self, text: str, now: float) -> list[Action]:
        """The visitor has typed `text` so far: it is read ahead, now or behind the answer.

        Where it may be all of it, an answer is prepared.
        """
        draft = self._reading.draft
        if not draft.typed(text):
            return []
        actions = self._silence("text") if self._drafted else []
        if self.silent and self.taking.answers:
            if draft.may_be_all() and not self._history.unanswered:
                actions += self._open(
                    draft.text, 0, confirmed=False, reason="text", now=now, foreseen=True
                )
            elif draft.words:
                actions.append(self._reading.next())
        elif self._turn is not None:
            actions += self._read_behind(self._turn)
        return self._settle(actions)

    def submit_text(
        self, text: str, now: float, *, as_prepared: bool = True, asks: str = ""
    ) -> list[Action]:
        """The visitor typed `text`: it interrupts, and opens a turn at once.

        as_prepared: one that was prepared while it was typed will do. asks: as in `Turn`.
        """
        parted = self._part()
        self._reading.draft.sent()
        turn = self._turn
        if turn is not None and self._drafted and as_prepared and turn.question == text.strip():
            return self._settle([*parted, *self._confirm(turn, now)])
        actions = [*parted, *self._end_turn("text")]
        self._history.supersede()
        actions += self._open(text, 0, confirmed=True, reason="text", now=now, asks=asks)
        return self._settle(actions)

    @property
    def _drafted(self) -> bool:
        """Whether the open turn answers what is typed and not sent."""
        turn = self._turn
        return turn is not None and turn.phase is Phase.HELD and not turn.utterance

    def _read_behind(self, turn: Turn) -> list[Action]:
        """Have the open turn's answer read while it is spoken, where nobody speaks over it."""
        return [] if self._voice else self._reading.answer(turn)

    def respond(self, prompt: Sequence[Message], now: float) -> list[Action]:
        """Answer `prompt` as it stands, whatever was said before: it interrupts.

        Its last message is the question; a system's is for this answer alone.
        """
        actions = [*self._part(), *self._end_turn("text")]
        *said, question = prompt
        self._history.replace([message for message in said if message.role != "system"])
        actions += self._open(
            question.content, 0, confirmed=True, reason="text", now=now, prompt=tuple(prompt)
        )
        return self._settle(actions)

    def take_up(self, question: str, begun: Begun, now: float) -> list[Action]:
        """Go on with an answer to `question` that another gateway has begun. Clients know both: of
        its first turn nothing is left, and this one has what is there of it.
        """
        turn = self._add_turn(question, 0, now, Phase.THINKING)
        turn.messages = self._history.prompt(question)
        turn.take_up(begun, now)
        self._history.visitor(question)
        _, *told = turn.opened()
        actions: list[Action] = [
            AnnounceTurn(turn.number, "text", opens=True),
            Emit(TurnEvent(turn=begun.turn, event="replaced")),
            *map(Emit, told),
            *(turn.go_on_speaking() if begun.complete else turn.go_on_writing()),
        ]
        return self._settle(actions)

    def speak_unasked(self, reason: Unasked, now: float) -> list[Action]:
        """Open a turn that nobody asked for; its text comes as any answer's does. It interrupts."""
        if self._turn is not None and self._turn.phase is not Phase.HELD and not self._turn.heard():
            self._history.forget_unanswered()
        actions = [*self._part(), *self._end_turn(reason)]
        self._epoch += 1
        self._turn = turn = Turn(self._epoch, "", 0, now)
        self.turns.add(turn)
        opened = Emit(turn.tell("opened"))
        return self._settle([*actions, AnnounceTurn(turn.number, reason, opens=True), opened])

    def interrupt(self, reason: Reason = "interrupt") -> list[Action]:
        """Silence is wanted. Without a turn this does nothing."""
        turn, parted = self._turn, self._part()
        if parted:
            self._history.forget_unanswered()
        if turn is None:
            return parted
        if turn.phase is not Phase.HELD and not (turn.heard() or turn.tools.messages()):
            self._history.forget_unanswered()
        return self._settle([*parted, *self._silence(reason)])

    def begin_anew(self, now: float) -> list[Action]:
        """Nobody remembers what was being asked or said, or waits for an answer. What nobody asked
        for goes on.
        """
        actions = self._cut_off()
        unasked = self._turn is not None and not self._turn.question
        actions += self._resume(now) if unasked else self.interrupt()
        self._doubts.resolve()
        return self._settle(actions)

    def speech_started(
        self, utterance: int, now: float, began_s: float | None = None
    ) -> list[Action]:
        """The visitor's voice was detected: an answer under way is kept until words come.

        One that speaks gets quieter and goes on until `voice_persists`; one that is about to
        speak waits. began_s: when it was there; None: now. Much of it may have been said by now.
        """
        self._voice = utterance
        if self._turn is not None and self._turn.phase is Phase.HELD:
            return self._settle(self._silence("speech"))
        began_s = now if began_s is None else began_s
        return self._settle(self._spoken_over(utterance, now, began_s))

    def _spoken_over(self, utterance: int, now: float, began_s: float) -> list[Action]:
        """The visitor speaks, over the answer if there is one."""
        turn = self._turn
        if turn is not None and not self.taking.interrupts:
            return []
        self._doubts.speech_began(utterance, now, began_s, turn)
        if turn is not None:
            goes_on = self.taking.goes_on and turn.may_go_on(began_s)
            shown = self._captioned[0] == utterance
            self._going_on = Continuation(utterance, turn, shown) if goes_on else None
        if turn is None or turn.phase is Phase.STOPPED:
            return []
        return [DuckTurn(turn.number)] if turn.phase is Phase.SPEAKING else self.voice_persists()

    def voice_persists(self) -> list[Action]:
        """The voice over the answer is no mere blip: fall silent and listen."""
        turn, doubt = self._turn, self.doubt
        if turn is None or doubt is None or turn.phase is Phase.STOPPED:
            return []
        if doubt.phase is DoubtPhase.DISMISSED:
            return []
        turn.stand_still()
        doubt.sounds_like_a_voice()
        return self._settle([PauseTurn(turn.number)])

    def echo_heard(self, now: float) -> list[Action]:
        """What sounds over the answer is our own voice; a visitor's may be in it later on."""
        doubt = self.doubt
        if doubt is None or doubt.phase is DoubtPhase.DISMISSED or doubt.echo:
            return []
        doubt.sounds_like_us()
        return self._settle(self._resume(now))

    def partial(
        self, utterance: int, text: str, probability: float = 0.0, now: float = 0.0
    ) -> list[Action]:
        """What is understood so far. Words that contradict a held answer void it.

        probability: that they are all, for which an answer may be worth preparing.
        """
        self._voice = max(self._voice, utterance)
        turn, text = self._turn, self._doubts.own_words(utterance, text, self._turn)
        if self._understand(utterance, text, complete=False) is not Verdict.VOICE:
            if self._going_on is not None and self._going_on.utterance == utterance:
                self._going_on.shown_apart = True
            return self._settle([_shown(utterance, text)])
        self._speculation.foreseeing.resumed()
        spoken, question = self._asked(utterance, text)
        other = turn is not None and turn.phase is Phase.HELD and self._prepared(question) is None
        void = other or (turn is not None and self.doubt is not None)
        again, self._captioned = self._captioned == (spoken, question), (spoken, question)
        actions = self._end_turn("speech") if void else []
        answers = self.taking.answers and self._turn is None
        if answers and self._speculation.foresees(utterance, question, probability):
            self._speculation.opened(utterance)
            self._doubts.turn_ended(None)  # behind an answer: what is spoken over is not this one
            actions += self._open(
                text, utterance, confirmed=False, reason="speech", now=now, foreseen=True
            )
        elif void:
            actions.append(self._announce("speech"))
        if not again:
            actions.append(_shown(spoken, question))
        if answers and self._turn is None and not again:
            actions += self._reading.question(text)
        return self._settle(actions)

    def paused(self, utterance: int, text: str, probability: float, now: float) -> list[Action]:
        """The visitor may have finished with `text`: prepare an answer, held back."""
        text = self._doubts.own_words(utterance, text, self._turn)
        if self._understand(utterance, text, complete=True) is not Verdict.VOICE:
            latest = self.doubt is not None and self.doubt.utterance == utterance
            return self._settle(self._resume(now) if latest else [])
        if not self.taking.answers:
            return self._settle([])
        turn, (_, question) = self._turn, self._asked(utterance, text)
        self._speculation.foreseeing.paused(now)
        if turn is not None and self.doubt is None:
            if turn.phase is not Phase.HELD or same_question(turn.question, question):
                # A typed question is being answered, or this very answer is under way.
                return []
        actions = self._end_turn("speech")
        if self._speculation.allows(utterance, question, probability):
            self._speculation.opened(utterance)
            actions += self._open(text, utterance, confirmed=False, reason="speech", now=now)
        elif turn is not None:
            actions.append(self._announce("speech"))
        return self._settle(actions)

    def final(self, utterance: int, text: str, now: float) -> list[Action]:
        """The visitor has finished with `text`."""
        text = self._doubts.own_words(utterance, text, self._turn)
        if not text or self._understand(utterance, text, complete=True) is not Verdict.VOICE:
            return self.discarded(utterance, now)
        self.answered = utterance
        if self._voice <= utterance:
            self._voice = 0
        answers = self._turn is not None and self._turn.phase is not Phase.HELD
        undisturbed = answers and not self.taking.interrupts
        if undisturbed or not self.taking.answers:
            return self._noted(utterance, text, now, undisturbed=undisturbed)
        _, question = self._asked(utterance, text)
        self._speculation.foreseeing.ended(question, now)
        if forgone := self._speculation.take_forgone():
            self._speculation.decided(won=same_question(forgone, question))
        others = self._going_on is not None and self._going_on.utterance != utterance
        actions = self._part() if others else []
        if (turn := self._prepared(question)) is not None:
            turn.question = question
            actions += self._confirm(turn, now)
        else:
            actions += self._end_turn("speech")
            actions += self._open(text, utterance, confirmed=True, reason="speech", now=now)
        self._going_on = None
        if self._voice:  # he speaks again already: these words came late
            actions += self._spoken_over(self._voice, now, now)
        return self._settle(actions)

    def _noted(self, utterance: int, text: str, now: float, *, undisturbed: bool) -> list[Action]:
        """The visitor has said `text`, which somebody else answers or nobody."""
        if undisturbed:  # by now; it may have been stopped before
            actions = self._resume(now)
            self._doubts.resolve()
        else:
            actions = [] if self._turn is None else self._silence("speech")
        actions.append(Emit(TranscriptEvent(utterance=utterance, text=text, final=True)))
        return self._settle(actions)

    def discarded(self, utterance: int, now: float) -> list[Action]:
        """What started was not speech, or nothing that wants an answer."""
        actions: list[Action] = []
        self._speculation.foreseeing.ended("", now)
        if self._voice <= utterance:  # otherwise the visitor speaks again already
            self._voice = 0
            actions += self._resume(now)
            self._doubts.resolve()
        if self._turn is not None and self._turn.phase is Phase.HELD:
            actions += self._silence("speech")
        actions.append(_forgotten(utterance))
        if self._going_on is not None and self._going_on.utterance <= utterance:
            actions += self._ask_again(now)
        if (ended := self._doubts.ended_by(utterance)) is not None:
            actions += self._answer_again(ended, now)
        return self._settle(actions)

    # ------------------------------------------------------------ the answer

    def token(self, number: int, text: str, *, last: bool, now: float) -> list[Action]:
        """A piece of the answer's text, style tags and all."""
        turn = self.current(number)
        if turn is None or turn.text_complete:
            return []
        text = turn.take_text(text, last=last, now=now)
        actions: list[Action] = []
        if turn.phase is not Phase.HELD and (text or last):
            actions.append(Emit(AnswerEvent(turn=number, text=text, final=last)))
        return self._settle([*actions, *self._words(turn), *self._read_behind(turn)])

    def shown(self, number: int, block: int, language: str, text: str, now: float) -> list[Action]:
        """A piece of a block of the answer's, which is shown and not said."""
        turn = self.current(number)
        if turn is None or turn.text_complete:
            return []
        event = turn.take_shown(block, language, text, now)
        return [] if turn.phase is Phase.HELD else [Emit(event)]

    def voice(
        self, number: int, seconds: float, marks: Marks = (), *, last: bool, now: float
    ) -> list[Action]:
        """Voice of the answer has arrived, and where its words end in it."""
        turn = self.current(number)
        if turn is None:
            return []
        if seconds and not turn.voice_s and turn.source == "llm":
            self._speculation.foreseeing.prepared(now - turn.opened_at_s)
        turn.take_voice(seconds, marks, last=last, now=now)
        words = self._words(turn)
        if not turn.rests:
            return words
        turn.rests = False
        if turn.phase is Phase.STOPPED:
            return words  # whoever speaks over it decides
        return self._settle([*words, ResumeTurn(number, turn.played_s, rested=True)])

    def sources_known(self, number: int) -> list[Action]:
        """What of the operator's texts the answer is given; of a held turn it is told with it."""
        turn = self.current(number)
        if turn is None or turn.phase is Phase.HELD:
            return []
        return [Emit(event) for event in turn.sources()]

    def tools_called(
        self, number: int, text: str, calls: Sequence[Call], now: float, *, run: int = 0
    ) -> list[Action]:
        """The answer goes on with the results of these. text: of it, since the last ones; run: of
        the language model that calls them.

        Nothing is done yet of a held turn, or while somebody speaks over it: nobody may have asked
        for what a tool changes.
        """
        turn = self.current(number)
        if turn is None or turn.text_complete or turn.tools.waits or turn.tools.pending:
            return []
        if run != turn.text_run.number:
            return []
        turn.progress_at_s = now
        turn.tools.called(text, calls, self.turns.call_ids())
        waits = turn.phase in (Phase.HELD, Phase.STOPPED)
        return self._settle([] if waits else turn.call_tools(now))

    def tool_result(self, call_id: str, output: str, now: float) -> list[Action]:
        """A call has come to this. Raises UnknownNameError where none waits under that id."""
        turn = self._turn
        if turn is None or not turn.tools.result(call_id, output):
            raise UnknownNameError(
                f"call_id: no call {call_id[:80]!r} waits for its result (any more)"
            )
        turn.progress_at_s = now
        return self._settle(turn.after_tools())

    def started(self, number: int, media_ms: float | None = None) -> list[Action]:
        """The turn's first sample is leaving, at that media time."""
        turn = self.current(number)
        if turn is None or not turn.start_speaking():
            return []
        return self._settle([Emit(turn.tell("speaking", media_ms=media_ms))])

    def played(self, number: int, seconds: float, now: float) -> None:
        """So much of the voice has been heard."""
        turn = self.current(number)
        if turn is not None and seconds > turn.played_s:
            turn.played_s = seconds
            turn.progress_at_s = now

    def finished(self, number: int, now: float) -> list[Action]:
        """The turn's last sample and picture have left."""
        turn = self.current(number)
        if turn is None or turn.phase is Phase.HELD:
            return []
        written = turn.written(turn.text)
        self._history.face(written, turn.tools.messages(spoken=True))
        empty = turn.source in (None, "llm") and not written
        told = self.notice(number, "empty_answer", _EMPTY) if empty else []
        self._turn = self._going_on = None
        turn.end()
        self._doubts.answer_over(turn.text, now)
        actions: list[Action] = [CloseTurn(number, "finished"), *told, Emit(turn.tell("finished"))]
        if not self._voice:
            actions.append(self._reading.next())
        return self._settle(actions)

    def notice(self, number: int, code: str, message: str) -> list[Action]:
        """A stage cannot do all that is asked; of a held turn it is told once that is heard."""
        turn = self.current(number)
        if turn is None:
            return []
        warning = WarningEvent(turn=number, code=code, message=message)
        turn.warnings.append(warning)
        return [] if turn.phase is Phase.HELD else [Emit(warning)]

    # ------------------------------------------------------------ faults and time

    def stage_failed(self, stage: str, number: int, code: str, message: str) -> list[Action]:
        """A stage cannot go on with turn `number`; 0: with something outside of turns."""
        turn, text = self.current(number), f"{stage}: {message}"
        if turn is not None:
            return self._settle(self._cannot_complete(turn, code, text))
        # Turn 0 is the session itself: an utterance, an idle picture.
        return [] if number else [Emit(ErrorEvent(code=code, message=text))]

    def stage_lost(self, stage: str, message: str, now: float) -> list[Action]:
        """A stage's replica is gone. A turn that it was working at waits for another one, or for
        that one to be started again: `stage_back`.
        """
        turn = self._turn
        actions = self._heard_anew(now) if stage == "asr" else []
        if turn is not None and turn.needs(stage):
            turn.lost[stage] = f"{stage}: {message}"
        return self._settle(actions)

    def stage_back(self, stage: str, now: float) -> list[Action]:
        """A replica has the session, perhaps another one: it goes on with the turn, from where it
        stands.
        """
        turn = self._turn
        # A voice or a face that was lost before the turn began is told of it as well.
        if turn is not None and (stage in ("tts", "face") or stage in turn.lost):
            turn.progress_at_s = now
            return self._go_on_with(turn, stage)
        # A language model that may have read nothing of it begins now, not when somebody asks.
        return [self._reading.next()] if stage == "llm" and self.said else []

    def stage_away(self, number: int, stage: str, message: str) -> None:
        """What turn `number` is to be told to is not there: it waits for `stage_back`."""
        if (turn := self.current(number)) is not None:
            turn.lost[stage] = f"{stage}: {message}"

    def _go_on_with(self, turn: Turn, stage: str) -> list[Action]:
        """Tell the stage's replica all of the turn that it may have missed."""
        if stage == "llm" and (turn.tools.waits or turn.tools.pending):
            return []  # their results come first: `Turn.after_tools`
        turn.lost.pop(stage, None)
        if not turn.needs(stage):
            return []
        if stage == "llm":
            return turn.go_on_writing()
        return [ResumeFace(turn.number)] if stage == "face" else turn.go_on_speaking()

    def bus_lost(self, message: str, now: float) -> list[Action]:
        """The bus is back, and anybody may have missed something, we as well: all go on from what
        is here.
        """
        turn, actions = self._turn, self._heard_anew(now)
        if turn is not None and self._turn is turn:
            actions += self._go_on_from_here(turn, f"bus: {message}")
        if turn is not None and self._turn is turn:
            actions += self._go_on_with(turn, "face")
        return self._settle(actions)

    def _heard_anew(self, now: float) -> list[Action]:
        """What is being said is heard from its beginning, by another recogniser or the same, and
        told as new.
        """
        actions, cut_off = list[Action](), self._cut_off()
        if self._turn is not None and self._turn.phase is Phase.STOPPED:
            self._doubts.unheard(now)
        else:
            actions += self._resume(now)
            self._doubts.resolve()
        return [*actions, *self._drop_prepared(), *cut_off, *self._ask_again(now)]

    def stage_lost_bus(self, stage: str) -> list[Action]:
        """A stage that has a part in turns has missed something, or what it said was lost: its own
        connection to the bus had gone, and is back.
        """
        if self._turn is None:
            return [self._announce("failed")]  # it may not know that the last one is over
        return self._go_on_with(self._turn, stage)

    def text_missed(self, number: int) -> list[Action]:
        """Some of the text of turn `number` was lost on its way here."""
        turn = self.current(number)
        if turn is None:
            return []
        return self._settle(self._go_on_from_here(turn, "bus: some of the text was lost"))

    def voice_missed(self, number: int) -> list[Action]:
        """Some of the voice of turn `number` was."""
        turn = self.current(number)
        return [] if turn is None else self._go_on_with(turn, "tts")

    def _go_on_from_here(self, turn: Turn, message: str) -> list[Action]:
        """Have the turn's text and its voice go on from what is here of them: nobody knows who has
        more, or less. It fails where nobody can write the rest.
        """
        if not turn.may_be_completed:
            return self._cannot_complete(turn, "bus_lost", message)
        return self._go_on_with(turn, "llm") or self._go_on_with(turn, "tts")

    def _cut_off(self) -> list[Action]:
        """Nobody will tell any more what the visitor is saying: whoever has seen it begin hears of
        no other end.
        """
        utterance, self._voice = self._voice, 0
        return [_forgotten(utterance)] if utterance else []

    def check(self, now: float) -> list[Action]:
        """Fail a turn that has stood still for too long. A held one waits for the visitor."""
        turn, doubt = self._turn, self.doubt
        if turn is not None and self._drafted and now - turn.opened_at_s > _DRAFT_ANSWERED_S:
            return self._settle(self._silence("text"))
        if turn is None or turn.phase is Phase.HELD:
            return []
        actions = self._settle(turn.while_it_waits(now))
        if doubt is not None and turn.phase is Phase.STOPPED:
            return actions + self._check_stopped(doubt, now)
        stage = turn.awaited_stage()
        progress_at_s = max(turn.progress_at_s, turn.shown_at_s)
        if turn.tools.waits or now - progress_at_s <= self._timeout_s:
            return actions
        if stage is None and turn.phase is Phase.SPEAKING:
            return []
        if stage in turn.lost:
            lost = f"{turn.lost[stage]}; no other one has come within {self._timeout_s:g} s"
            return self._settle(self._fail(turn, "stage_lost", lost))
        message = f"{stage or 'playout'}: no progress for {self._timeout_s:g} s"
        return self._settle(self._fail(turn, "timeout", message))

    # ------------------------------------------------------------ inside

    def _prepared(self, text: str) -> Turn | None:
        """The held turn, if it is an answer to `text`."""
        turn = self._turn
        if turn is None or turn.phase is not Phase.HELD:
            return None
        return turn if same_question(turn.question, text) else None

    def _words(self, turn: Turn) -> list[Action]:
        """Tell those whose times have become known; of a held turn once that is heard."""
        words = turn.take_words()
        if not words or turn.phase is Phase.HELD:
            return []
        return [Emit(WordsEvent(turn=turn.number, words=words))]

    def _announce(self, reason: Reason) -> AnnounceTurn:
        self._epoch += 1
        return AnnounceTurn(self._epoch, reason)

    def _asked(self, utterance: int, text: str) -> tuple[int, str]:
        """All that is asked where `text` goes on with a question, and of which utterance it is."""
        going_on = self._going_on
        if not text or going_on is None or going_on.utterance != utterance:
            return utterance, text
        return going_on.of.utterance, going_on.question(text)

    def _drop_prepared(self) -> list[Action]:
        """The words for which an answer was prepared may never come to their end."""
        prepared = self._turn is not None and self._turn.phase is Phase.HELD and not self._drafted
        return self._silence("speech") if prepared else []

    def _part(self) -> list[Action]:
        """Whoever goes on with a question says something new now. Captions that show both parts
        already show the first alone.
        """
        going_on, self._going_on = self._going_on, None
        if going_on is None or not going_on.taken_up:
            return []
        first = going_on.of
        return [Emit(TranscriptEvent(utterance=first.utterance, text=first.question, final=True))]

    def _ask_again(self, now: float) -> list[Action]:
        """Nobody goes on with the question after all: where its turn was given up, open another."""
        going_on, self._going_on = self._going_on, None
        if going_on is None or not going_on.taken_up or self._turn is not None:
            return []
        self._history.take_back()
        question, utterance = going_on.of.question, going_on.of.utterance
        return self._open(question, utterance, confirmed=True, reason="speech", now=now)

    def _answer_again(self, ended: Turn, now: float) -> list[Action]:
        """What seemed words, and has ended an answer, was nothing: who asked wants it yet. People
        begin their sentence anew, too.
        """
        told, question = ended.told, ended.question
        if told is None or told.event != "interrupted" or not ended.utterance:
            return []
        if told.reason != "speech":
            return []  # he has stopped it himself, while something sounded
        if self._turn is not None or not self.taking.answers_again:
            return []
        if not self._history.take_back_answer(question, told.heard or ""):
            return []  # tools have done something for it, or more was said
        return self._open(question, ended.utterance, confirmed=True, reason="speech", now=now)

    def _open(
        self,
        text: str,
        utterance: int,
        *,
        confirmed: bool,
        reason: Reason,
        now: float,
        prompt: tuple[Message, ...] | None = None,
        foreseen: bool = False,
        asks: str = "",
    ) -> list[Action]:
        """prompt: None: the history's. foreseen: the visitor has not even paused. asks: as in
        `Turn`.
        """
        spoken, question = self._asked(utterance, text)
        turn = self._add_turn(question, spoken, now, Phase.THINKING if confirmed else Phase.HELD)
        turn.foreseen, turn.asks, turn.goes_on = foreseen, asks, spoken != utterance
        turn.messages = messages = prompt or self._history.prompt(text)
        actions: list[Action] = [
            AnnounceTurn(turn.number, reason, opens=True, held=not confirmed, foreseen=foreseen),
            BeginAnswer(turn.number, messages),
        ]
        return actions + (self._reveal(turn) if confirmed else [])

    def _add_turn(self, question: str, utterance: int, now: float, phase: Phase) -> Turn:
        """The next turn, which answers `question`."""
        self._epoch += 1
        self._turn = turn = Turn(self._epoch, question, utterance, now, phase, asked_at_s=now)
        turn.opened_at_s, turn.tools = now, ToolRounds(self._tool_limits)
        self.turns.add(turn)
        return turn

    def _confirm(self, turn: Turn, now: float) -> list[Action]:
        turn.confirm(now)
        if turn.foreseen:
            told: list[Action] = [ConfirmTurn(turn.number, now - turn.opened_at_s)]
        else:
            self._speculation.decided(won=True)
            told = [ConfirmTurn(turn.number)]
        told += [*map(Emit, turn.warnings), *self._reveal(turn), *self._read_behind(turn)]
        return told + (turn.call_tools(now) if turn.tools.pending else [])

    def _reveal(self, turn: Turn) -> list[Action]:
        """Make a turn known to listeners, with what a held one has prepared so far."""
        self._history.visitor(turn.question, goes_on=turn.goes_on)
        return [Emit(event) for event in turn.opened()]

    def _end_turn(self, reason: Reason) -> list[Action]:
        """Close the open turn early; the caller announces what comes next."""
        turn, self._turn = self._turn, None
        self._doubts.turn_ended(turn)
        if turn is None:
            return []
        held, heard = turn.phase is Phase.HELD, turn.heard()
        turn.end()
        if held:
            if not turn.foreseen:
                self._speculation.decided(won=False)
            self.turns.discard(turn)
            return [CloseTurn(turn.number, "discarded", turn.voice_s, turn.tokens)]
        going_on = self._going_on
        if going_on is not None and going_on.of is turn:
            if reason == "speech":
                return self._replace(going_on)
            self._going_on = None
        self._history.face(turn.written(heard), turn.tools.messages(spoken=True))
        return [
            CloseTurn(turn.number, "interrupted"),
            Emit(turn.tell("interrupted", reason, heard)),
        ]

    def _replace(self, going_on: Continuation) -> list[Action]:
        """The question goes on: what of its answer there is leaves no trace."""
        turn = going_on.of
        self.turns.discard(turn)
        return [
            CloseTurn(turn.number, "replaced", turn.voice_s, turn.tokens),
            Emit(turn.tell("replaced")),
            *([_forgotten(going_on.utterance)] if going_on.shown_apart else []),
        ]

    def _silence(self, reason: Reason) -> list[Action]:
        """End the open turn, and let nothing follow it yet."""
        return [*self._end_turn(reason), self._announce(reason)]

    def _understand(self, utterance: int, text: str, *, complete: bool) -> Verdict:
        """What words amount to, as far as they go; noted for what follows them."""
        verdict = self._doubts.judge(text, self._turn, complete=complete)
        self._doubts.understood(utterance, text, verdict)
        going_on = self._going_on
        if going_on is not None and going_on.utterance == utterance and not going_on.taken_up:
            if verdict is Verdict.VOICE and not complete and may_take_back(text):
                return Verdict.OPEN  # the voice is silent by now: nothing is lost by more words
            # What tools have done is done, and the language model has to know it.
            done = takes_back(text) or going_on.of.tools.messages()
            if verdict is Verdict.VOICE and done:
                self._going_on = None
        return verdict

    def _check_stopped(self, doubt: Doubt, now: float) -> list[Action]:
        """Let an answer go on for whose interruption no words come."""
        limit_s = self._timeout_s if doubt.worded else WORDLESS_S
        if now - doubt.since_s <= limit_s:
            # A listener's word that goes on may yet be more than that.
            doubt.phase = DoubtPhase.OPEN
            return []
        doubt.phase = DoubtPhase.DISMISSED
        return self._settle(self._resume(now))

    def _resume(self, now: float) -> list[Action]:
        """Let an answer go on that was kept waiting, or quiet."""
        turn = self._turn
        if turn is None or self.doubt is None or turn.phase is Phase.HELD:
            return []
        turn.go_on(now)
        resumed: list[Action] = [ResumeTurn(turn.number, turn.resume_s())]
        return resumed + (turn.call_tools(now) if turn.tools.pending else [])

    def _cannot_complete(self, turn: Turn, code: str, message: str) -> list[Action]:
        if turn.phase is Phase.HELD:
            return self._silence("failed")  # nobody has asked yet: it is tried again
        return self._fail(turn, code, message)

    def _fail(self, turn: Turn, code: str, message: str) -> list[Action]:
        held, heard = turn.phase is Phase.HELD, turn.heard()
        if heard or turn.tools.messages():
            self._history.face(turn.written(heard), turn.tools.messages(spoken=True))
        elif not held:
            self._history.forget_unanswered()
        self._turn = None
        if self._going_on is not None and self._going_on.of is turn:
            self._going_on = None
        turn.end()
        self._doubts.resolve()
        actions: list[Action] = [self._announce("failed"), CloseTurn(turn.number, "failed")]
        if not held:
            actions.append(Emit(turn.tell("failed", message, heard)))
        return [*actions, Emit(ErrorEvent(code=code, message=message))]

    def _settle(self, actions: list[Action]) -> list[Action]:
        """Append the new state where it changed."""
        state: State = "listening" if self._voice else "idle"
        if self._turn is not None:
            state = _STATES.get(self._turn.phase, state)
            if state == "speaking" and self._turn.rests:
                state = "thinking"
        if state != self._state:
            self._state = state
            actions.append(Emit(StateEvent(state=state)))
        return actions


def _shown(utterance: int, text: str) -> Action:
    return Emit(TranscriptEvent(utterance=utterance, text=text, final=False))


def _forgotten(utterance: int) -> Action:
    """Captions forget what they showed of it."""
    return Emit(TranscriptEvent(utterance=utterance, text="", final=True))
