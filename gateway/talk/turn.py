"""One answer on its way: what is known of it, and the doubt whether it is being interrupted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gateway.api.events import AnswerEvent, ServerEvent, TranscriptEvent, TurnEvent
from gateway.talk.history import SpokenMark, heard_text, word_start_s
from gateway.talk.words import asks, is_backchannel, is_echo, without_echo

# ------------------------------------------------------------ turn

# Further back than this nobody remembers how the sentence went: it goes on where it stopped.
LONGEST_RETURN_S = 1.0
# What sounds like a voice and holds no word for so long is none.
WORDLESS_S = 2.0
# The longest that our own voice takes out of the loudspeaker and back into the microphone.
ECHO_TAIL_S = 1.0


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
    marks: list[SpokenMark] = field(default_factory=list)
    played_s: float = 0.0

    @property
    def text(self) -> str:
        return "".join(self.answer)

    def take_text(self, text: str, *, last: bool, now: float) -> None:
        """A piece of the answer."""
        self.progress_at_s = now
        self.answer_complete = last
        if text:
            self.answer.append(text)

    def _written(self) -> list[ServerEvent]:
        if not (self.answer or self.answer_complete):
            return []
        return [AnswerEvent(turn=self.number, text=self.text, final=self.answer_complete)]

    def take_voice(
        self, seconds: float, marks: Sequence[SpokenMark], *, last: bool, now: float
    ) -> None:
        """A piece of the voice, and where words end in it."""
        self.progress_at_s = now
        self.voice_s += seconds
        self.voice_complete = self.voice_complete or last
        self.marks += marks

    def so_far(self) -> list[ServerEvent]:
        """What listeners have missed while the turn was held."""
        number = self.number
        return [
            TranscriptEvent(utterance=self.utterance, text=self.question, final=True, turn=number),
            TurnEvent(turn=number, event="opened"),
            *self._written(),
        ]

    def heard(self) -> str:
        """What was audible of the answer so far."""
        known = self.answer_complete and self.voice_complete
        return heard_text(
            self.text,
            played_s=self.played_s,
            voice_s=self.voice_s if known else None,
            marks=self.marks,
        ).rstrip()

    def resume_s(self) -> float:
        """Where in its voice to go on after a stop: where the word began that was cut."""
        start_s = word_start_s(self.marks, self.played_s)
        if start_s is None or self.played_s - start_s > LONGEST_RETURN_S:
            return self.played_s
        return start_s

    def awaited_stage(self) -> str | None:
        """The stage whose work is missing; None where all of it is here."""
        if not self.answer_complete:
            return "llm"
        return None if self.voice_complete else "tts"

    def needs(self, stage: str) -> bool:
        """Whether the turn cannot go on without `stage`."""
        if stage == "llm":
            return not self.answer_complete
        return stage == "face" or (stage == "tts" and not self.voice_complete)


@dataclass(slots=True)
class Doubt:
    """An utterance that began while an answer was heard, or just after it: what is it?"""

    utterance: int
    since_s: float
    said: str = ""
    """The answer, where it is over."""
    over: bool = False
    """The answer was over before the utterance began: only its echo can be nothing."""
    stopped: bool = False
    """The answer stands still meanwhile."""
    dismissed: bool = False
    """Only words can still make it an interruption."""
    echo: bool = False
    """What is heard of it is our own voice."""
    echoed: bool = False
    """It began as our own voice."""
    worded: bool = False
    """Something was understood of it."""

    def words_of_visitor(self, text: str, turn: Turn | None) -> str:
        """`text` without our own words, where the visitor spoke into our echo."""
        return without_echo(text, self._said_by(turn)) if self.echoed and not self.echo else text

    def closed(self, turn: Turn | None) -> Doubt:
        """Itself, once its words have ended `turn`: more of them may come."""
        self.said = self._said_by(turn)
        return self

    def is_nothing(self, text: str, turn: Turn | None, *, complete: bool) -> bool:
        """Whether what is understood so far leaves the answer as it is."""
        said = turn.heard() if turn is not None else self.said
        if not self.over and is_backchannel(text, complete=complete, asked=asks(said)):
            # What else is said in the same breath shows in its words.
            self.dismissed = True
            return True
        if is_echo(text, self._said_by(turn), sounds_like_it=self.echo, complete=complete):
            self.echo = self.echoed = True
            return True
        return False

    def _said_by(self, turn: Turn | None) -> str:
        """What we have said, and are about to: the clock of the voice is that of its leaving."""
        if turn is None:
            return self.said
        heard = turn.heard()
        return " ".join((heard, *turn.text[len(heard) :].split()[:2]))


# ------------------------------------------------------------ doubts
# Which utterance may be an interruption now, and which words of it are the visitor's own.


class Doubts:
    """One session's. Pure; times in seconds of any clock."""

    def __init__(self) -> None:
        self.current: Doubt | None = None
        """The utterance that may be an interruption, until that is known."""
        self._ended_by: Doubt | None = None
        """The one that has ended an answer: more of its words may come."""
        self._said = ("", 0.0)
        """The newest answer that was heard to its end, and until when it may echo."""

    @property
    def stopped(self) -> bool:
        """Whether an answer stands still for the sake of one."""
        return self.current is not None and self.current.stopped

    def begin(self, utterance: int, now: float, turn: Turn | None) -> bool:
        """An utterance begins; whether it is the first over the answer that is being given."""
        if turn is None:
            said, until_s = self._said
            self.current = Doubt(utterance, now, said, over=True) if now < until_s else None
            return False
        stopped = self.stopped
        self.current = Doubt(utterance, now, stopped=stopped)
        return not stopped

    def answer_over(self, text: str, now: float) -> None:
        """An answer was heard to its end."""
        self._said = (text, now + ECHO_TAIL_S)
        if self.current is not None:
            self.current.stopped, self.current.said = False, text

    def turn_ended(self, turn: Turn | None) -> None:
        """An answer ends before its end, if there is one."""
        if self.current is not None:
            self._ended_by, self.current = self.current.closed(turn), None

    def own_words(self, utterance: int, text: str, turn: Turn | None) -> str:
        """What of `text` the visitor has said."""
        doubt, turn = (self.current, turn) if self.current else (self._ended_by, None)
        if doubt is not None and doubt.utterance == utterance:
            text = doubt.words_of_visitor(text, turn)
        return text.strip()

    def is_nothing(self, utterance: int, text: str, turn: Turn | None, *, complete: bool) -> bool:
        """Whether words over an answer ask for nothing, as far as they go."""
        doubt = self.current
        if doubt is not None and doubt.utterance == utterance:
            doubt.worded = doubt.worded or bool(text)
        return doubt is not None and doubt.is_nothing(text, turn, complete=complete)
