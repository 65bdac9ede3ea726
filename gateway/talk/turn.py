"""One answer on its way: what is known of it, and whether its question goes on."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gateway.answers.cache import Speaker
from gateway.api.events import (
    AnswerEvent,
    LatencyEvent,
    ServerEvent,
    ShownEvent,
    SourcesEvent,
    TextSource,
    TranscriptEvent,
    TurnEvent,
    WarningEvent,
    WordsEvent,
    WordTime,
    add_shown,
)
from gateway.knowledge.passages import Passage
from gateway.playout.pacing import RATE_HZ
from gateway.playout.sound import VoiceResampler
from gateway.talk.actions import (
    Action,
    BeginAnswer,
    CallTool,
    ContinueAnswer,
    Message,
    PauseTurn,
    ResumeAnswer,
    ResumeVoice,
    SayMeanwhile,
)
from gateway.talk.history import SpokenMark, heard_text, word_start_s
from gateway.talk.words import joined
from gateway.tools.rounds import ToolLimits, ToolRounds
from visavis.styles import CaptionText

KEPT_TURNS = 100
# Discarded ones that a stage may still report on.
_KEPT_DISCARDED = 32
# Who goes on with a question so long after it seemed over, goes on; later he says something new.
GOES_ON_WITHIN_S = 3.0
# Nobody answers to a word sooner: people take 0.2 s to begin what they had ready when they heard it
# (Levinson & Torreira, "Timing in turn-taking", Front. Psychol. 6, 2015).
REACTION_S = 0.2
# Further back than this nobody remembers how the sentence went: it goes on where it stopped.
LONGEST_RETURN_S = 1.0
# A voice that goes on with it speaks by then.
VOICE_MADE_IN_S = 0.5
# So little of a voice is no voice; and so long it may be silent before the face stops to wait.
_DRY_S, _DRY_FOR_S = 0.04, 0.3

Source: TypeAlias = Literal["llm", "cache", "welcome", "say", "brought"]
Life: TypeAlias = Literal["opened", "speaking", "finished", "interrupted", "failed", "replaced"]


class Phase(StrEnum):
    """Where a turn stands."""

    HELD = "held"
    """Prepared while the visitor pauses: nobody has asked yet, nobody is told."""
    THINKING = "thinking"
    """Asked for; nothing of it is heard yet."""
    SPEAKING = "speaking"
    STOPPED = "stopped"
    """Somebody speaks over it: it stands still until it is known what they want."""
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Begun:
    """An answer under way, as another gateway needs it to go on with it."""

    turn: int
    text: str
    """So far, style tags and all."""
    complete: bool
    chars: int
    """Of it without tags, heard up to a pause."""


@dataclass(slots=True)
class Run:
    """The work of one stage on a turn: each time that it is to go on from what is here of that,
    another run begins.
    """

    number: int = 0
    _next: int = 0
    """The `seq` of its next chunk."""

    def begin_anew(self) -> int:
        """What comes of the run so far is void. Returns the number of the next one."""
        self.number += 1
        self._next = 0
        return self.number

    def lacks(self, run: int, seq: int) -> bool:
        """Whether this chunk is of it, and something before it is missing."""
        return run == self.number and seq > self._next

    def take(self, run: int, seq: int) -> bool:
        """Whether this is its next chunk, which it is no more."""
        follows = (run, seq) == (self.number, self._next)
        self._next += follows
        return follows


@dataclass(slots=True)
class Turn:
    """The one record of an answer that is being prepared or spoken, or that was.

    The conversation owns it and alone changes its phase; others read it. What its voice is on its
    way out is playout's (`playout.py`), what took how long the stopwatch's (`ledger.py`).
    """

    number: int
    question: str
    utterance: int
    """0: typed."""
    progress_at_s: float
    """When it last came forward, for the time limit."""
    phase: Phase = Phase.THINKING
    asked_at_s: float = 0.0
    """When its question seemed over; a held one was not asked yet."""
    opened_at_s: float = 0.0
    """When work on it began."""
    foreseen: bool = False
    """Then the visitor had not even paused."""
    goes_on: bool = False
    """Its question begins with that of a turn that it stands for."""
    source: Source | None = None
    """Where the answer comes from; None while that is not known."""
    lesson: tuple[str, Speaker] | None = None
    """The question, and whose answer it is, where that can be learned once it was heard."""
    messages: tuple[Message, ...] = ()
    """The conversation that it answers."""
    asks: str = ""
    """What its answer is looked up by, where the question has more: a live room says who asks."""
    known: tuple[Passage, ...] = ()
    """What of the operator's texts it is given."""
    tools: ToolRounds = field(default_factory=lambda: ToolRounds(ToolLimits()))
    """What the answer has called."""
    text_run: Run = field(default_factory=Run)
    """Of the language model, or whoever else writes it."""
    voice_run: Run = field(default_factory=Run)
    text: str = ""
    """Of the answer so far, without style tags."""
    tagged: str = ""
    """The same with them, as it came."""
    shown: list[ShownEvent] = field(default_factory=list)
    """What of the answer is not said: each block, as far as it is written."""
    shown_at_s: float = 0.0
    """When a piece of it came last, for the time limit."""
    shows: bool = False
    """The newest of the answer is a block: nothing more to say comes until that is written."""
    text_complete: bool = False
    tokens: int = 0
    """That the language model says it has written, once it writes no more."""
    voice_s: float = 0.0
    voice_complete: bool = False
    resampler: VoiceResampler | None = None
    """Brings the voice to the playout's rate; None before the first of it."""
    marks: list[SpokenMark] = field(default_factory=list)
    """Where words of the text end in the voice, in order."""
    words: list[WordTime] = field(default_factory=list)
    """Those whose text and times are both known."""
    played_s: float = 0.0
    rests: bool = False
    """All of its voice is played, and what goes on waits for a tool or behind a block: the face is
    not to freeze."""
    warnings: list[WarningEvent] = field(default_factory=list)
    """What was asked for and cannot be done."""
    stage_seconds: dict[str, dict[str, float]] = field(default_factory=dict)
    """What each stage says of its own time."""
    told: TurnEvent | None = None
    """What listeners were told last of its life; None: they do not know of it."""
    latency: LatencyEvent | None = None
    """Where its time went, as listeners were told last."""
    lost: dict[str, str] = field(default_factory=dict)
    """Stages that it needs and whose replica has gone, each with what was said of it."""
    _sources_told: bool = False
    _captions: CaptionText = field(default_factory=CaptionText)
    _blocks_at: list[int] = field(default_factory=list)
    """Where in `tagged` each block stands."""
    _round: tuple[int, int] = (0, 0)
    """What it had as it went on behind the results of tools last: characters said, and blocks."""
    _at_samples: int = 0
    """Of its voice at the playout's rate, as it came last."""
    _followed_samples: int = 0
    """Of it, what those have who follow the session."""
    _stopped_in: Phase = Phase.THINKING
    _marks_worded: int = 0
    """So many of the marks have become words."""

    # ------------------------------------------------------------ what becomes of it

    def confirm(self, now: float) -> None:
        """The visitor has asked for it."""
        self.phase, self.progress_at_s, self.asked_at_s = Phase.THINKING, now, now

    def start_speaking(self) -> bool:
        """Its first sample leaves; False where one has left before."""
        if self.has_begun:
            return False
        if self.phase is Phase.STOPPED:
            self._stopped_in = Phase.SPEAKING
        else:
            self.phase = Phase.SPEAKING
        return True

    def stand_still(self) -> None:
        """Wait, until it is known what whoever speaks over it wants."""
        if self.phase is not Phase.STOPPED:
            self._stopped_in, self.phase = self.phase, Phase.STOPPED

    def go_on(self, now: float) -> None:
        """Undo `stand_still`, if it was stopped."""
        if self.phase is Phase.STOPPED:
            self.phase, self._stopped_in = self._stopped_in, Phase.THINKING
        self.rests = False
        self.progress_at_s = now

    def end(self) -> None:
        """It is over: what only a turn under way needs is let go of."""
        self.phase = Phase.CLOSED
        self.resampler = None
        self.messages = ()
        self.marks.clear()

    def take_text(self, text: str, *, last: bool, now: float) -> str:
        """A piece of the answer, style tags and all; what of it can be shown now."""
        self.progress_at_s = now
        self.text_complete = last
        self.shows = self.shows and not (text.strip() or last)
        shown = self._captions.feed(text, last=last)
        self.text += shown
        self.tagged += text
        return shown

    def take_shown(self, block: int, language: str, text: str, now: float) -> ShownEvent:
        """A piece of what is shown and not said, as listeners are told of it."""
        self.shown_at_s, self.shows = now, True
        piece = ShownEvent(
            turn=self.number, block=block, language=language, text=text, chars=len(self.text)
        )
        blocks = len(self.shown)
        add_shown(self.shown, piece)
        if len(self.shown) > blocks:
            self._blocks_at.append(len(self.tagged))
        return piece.model_copy(update={"chars": self.shown[-1].chars})

    def take_voice(
        self, seconds: float, marks: Sequence[SpokenMark], *, last: bool, now: float
    ) -> None:
        """A piece of the voice, and where words end in it."""
        self.progress_at_s = now
        self.voice_s += seconds
        self.voice_complete = self.voice_complete or last
        self.marks += marks

    def take_words(self) -> list[WordTime]:
        """Those that have become known since this was last asked."""
        before = len(self.words)
        for mark in self.marks[self._marks_worded :]:
            if mark.chars > len(self.text):
                break  # its text is still on the way
            start = self.marks[self._marks_worded - 1] if self._marks_worded else SpokenMark(0, 0)
            self._marks_worded += 1
            text = self.text[start.chars : mark.chars].strip()
            known = self.words[-1].chars if self.words else 0
            if text and mark.chars > known:  # another voice may say it again
                times = {"start_ms": round(1000 * start.at_s), "end_ms": round(1000 * mark.at_s)}
                self.words.append(WordTime(text=text, chars=mark.chars, **times))
        return self.words[before:]

    def new_to_followers(
        self, pcm: NDArray[np.int16], marks: Sequence[SpokenMark]
    ) -> tuple[NDArray[np.int16], list[SpokenMark]]:
        """Of a piece of the voice at the playout's rate, and of its marks, what those who follow
        have not had.
        """
        known = self._followed_samples - self._at_samples
        self._at_samples += len(pcm)
        if known <= 0:
            self._followed_samples = self._at_samples
            return pcm, list(marks)
        known_s = self._followed_samples / RATE_HZ
        self._followed_samples = max(self._followed_samples, self._at_samples)
        return pcm[known:], [mark for mark in marks if mark.at_s > known_s]

    # ------------------------------------------------------------ a stage is lost

    def go_on_speaking(self) -> list[Action]:
        """Have the voice go on with it, be it another one: at the last pause that is not heard so
        soon, else behind the last word that there is. What there is behind it is void.
        """
        soon_s = self.played_s + VOICE_MADE_IN_S
        chars = min(self.marks[-1].chars, len(self.text)) if self.marks else 0
        end = SpokenMark(chars, self.voice_s)
        pauses = (m for m in reversed(self.marks) if m.pause and m.at_s > soon_s)
        at = next((mark for mark in pauses if mark.chars <= len(self.text)), end)
        if at is not end or self.voice_complete:
            self.marks = [mark for mark in self.marks if mark.at_s <= at.at_s]
            self._marks_worded = min(self._marks_worded, len(self.marks))
            self.voice_s, self._at_samples = at.at_s, round(at.at_s * RATE_HZ)
            if self.resampler is not None:
                rate_hz = self.resampler.sample_rate_hz
                self.resampler = VoiceResampler(rate_hz, round(at.at_s * rate_hz))
        self.voice_complete = False
        return [ResumeVoice(self.number, self.voice_run.begin_anew(), at.chars, at.at_s)]

    @property
    def begun(self) -> Begun | None:
        """What another gateway needs to go on with it; None: there is nothing yet, or more than can
        be told in a few words.
        """
        if self.phase is Phase.HELD or not self.text or self.shown or self.tools.used:
            return None
        if self.source not in ("llm", "cache"):
            return None
        heard = (m.chars for m in reversed(self.marks) if m.pause and m.at_s <= self.played_s)
        return Begun(self.number, self.tagged, self.text_complete, next(heard, 0))

    def take_up(self, begun: Begun, now: float) -> None:
        """Another gateway has begun it, and what is heard of it there is not said again."""
        self.source = "llm"
        self.take_text(begun.text, last=begun.complete, now=now)
        self.marks.append(SpokenMark(begun.chars, 0.0, pause=True))
        self._marks_worded = 1

    def go_on_writing(self) -> list[Action]:
        """Have the language model go on with it from what is here, be it another one, once the
        tools of the lost one are done; and the voice, which may have more.
        """
        run = self.text_run.begin_anew()
        if self.source in (None, "cache"):
            return [BeginAnswer(self.number, self.messages, run), *self.go_on_speaking()]
        messages = (*self.messages, *self.tools.messages())
        chars, blocks = self._round
        so_far, last = self._since_round(), self.tools.exhausted
        writing = ResumeAnswer(self.number, messages, run, so_far, chars, blocks, last)
        return [writing, *self.go_on_speaking()]

    def _since_round(self) -> str:
        """As the language model has written it, blocks in their places."""
        parts, (at, before) = [], self._round
        for block, begins in zip(self.shown[before:], self._blocks_at[before:], strict=True):
            goes_on = block is self.shown[-1] and self.shows
            parts += [self.tagged[at:begins], block.as_begun if goes_on else block.as_markdown]
            at = begins
        return "".join([*parts, self.tagged[at:]])

    def tell(
        self,
        event: Life,
        reason: str | None = None,
        heard: str | None = None,
        *,
        media_ms: float | None = None,
    ) -> TurnEvent:
        """What listeners are told of its life."""
        over = event not in ("opened", "speaking")
        self.told = TurnEvent(
            turn=self.number,
            event=event,
            reason=reason,
            heard=heard,
            media_ms=media_ms,
            played_ms=round(1000 * self.played_s) if over else None,
        )
        return self.told

    def opened(self) -> list[ServerEvent]:
        """Tell listeners of it, with what they have missed while it was held."""
        said = TranscriptEvent(
            utterance=self.utterance, text=self.question, final=True, turn=self.number
        )
        events: list[ServerEvent] = [said, self.tell("opened")]
        events += self.sources()
        whole = self.text_complete and not self.shown  # blocks come before the last piece
        if self.text or whole:
            events.append(AnswerEvent(turn=self.number, text=self.text, final=whole))
        events += self.shown
        if self.text_complete and not whole:
            events.append(AnswerEvent(turn=self.number, text="", final=True))
        if self.words:
            events.append(WordsEvent(turn=self.number, words=list(self.words)))
        return events

    def sources(self) -> list[ServerEvent]:
        """Where what it is given stands, told once."""
        if not self.known or self._sources_told:
            return []
        self._sources_told = True
        told = dict.fromkeys((passage.file, passage.heading) for passage in self.known)
        sources = [TextSource(file=file, heading=heading) for file, heading in told]
        return [SourcesEvent(turn=self.number, sources=sources)]

    # ------------------------------------------------------------ what tools do for it

    def call_tools(self, now: float) -> list[Action]:
        """Have done what it has called."""
        calls = self.tools.begin(now)
        return [CallTool(self.number, call) for call in calls] or self.after_tools()

    def after_tools(self) -> list[Action]:
        """It goes on once all results are there."""
        if self.tools.waits:
            return []
        self._round = (len(self.tagged), len(self.shown))
        if self.lost.pop("llm", None):
            return self.go_on_writing()
        messages = (*self.messages, *self.tools.messages())
        return [ContinueAnswer(self.number, messages, self.tools.exhausted)]

    def while_it_waits(self, now: float) -> list[Action]:
        """What is said and seen while tools or a block are worked at; what is over its time."""
        if not (self.tools.waits or self.shows):
            return []
        if self.tools.waits and self.tools.expire(now):
            self.progress_at_s = now
            return self.after_tools()
        if self._has_run_dry(now):
            self.rests = True
            return [PauseTurn(self.number, rests=True)]
        wordless = self.phase is Phase.THINKING and not self.text
        if wordless and self.tools.waits and self.tools.take_filler(now):
            return [SayMeanwhile(self.number)]
        return []

    def _has_run_dry(self, now: float) -> bool:
        """Whether all of its voice so far is played."""
        dry = self.voice_s - self.played_s < _DRY_S and now - self.progress_at_s > _DRY_FOR_S
        return self.phase is Phase.SPEAKING and not self.rests and dry

    # ------------------------------------------------------------ what is known of it

    def written(self, said: str) -> str:
        """`said`, a beginning of its text, with its blocks: those behind it were seen, too."""
        parts, at = [], 0
        for block in self.shown:
            parts += [said[at : block.chars], block.as_markdown]
            at = block.chars
        return "".join([*parts, said[at:]]).strip()

    @property
    def has_begun(self) -> bool:
        """Whether a sample of it has left, of one that is open."""
        return Phase.SPEAKING in (self.phase, self._stopped_in)

    def may_go_on(self, now: float) -> bool:
        """Whether a visitor who begins to speak now may be going on with the question.

        It was spoken, a moment ago, and no word of the answer can have made him speak. What a tool
        has done for the answer cannot be forgotten: then it is an interruption.
        """
        if not self.utterance or self.phase in (Phase.HELD, Phase.CLOSED):
            return False
        if self.tools.begun:
            return False
        return now - self.asked_at_s <= GOES_ON_WITHIN_S and not self.heard(REACTION_S)

    def heard(self, before_s: float = 0.0) -> str:
        """What was audible of the answer so far, or up to `before_s` seconds ago."""
        known = self.text_complete and self.voice_complete
        return heard_text(
            self.text,
            played_s=self.played_s - before_s,
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
        if not self.text_complete:
            return "llm"
        if self.voice_complete:
            return None
        return "speech" if self.source == "brought" else "tts"

    @property
    def may_be_completed(self) -> bool:
        """Whether what is missing of its text can be written again, if anything is: not what was
        brought from outside, nor what was said before calls that are being done.
        """
        if self.tools.waits or self.tools.pending:
            here = "".join(self.tagged[self._round[0] :].split())
            return here.startswith("".join(self.tools.said.split()))
        return self.text_complete or self.needs("llm")

    def needs(self, stage: str) -> bool:
        """Whether there is work left in it for `stage`."""
        if stage == "llm":
            return self.source in (None, "llm", "cache") and not self.text_complete
        speaks = stage == "tts" and self.source != "brought"
        return stage == "face" or (speaks and not self.voice_complete)


@dataclass(slots=True)
class Continuation:
    """An utterance that may go on with the question of a turn, until it is over."""

    utterance: int
    of: Turn
    shown_apart: bool = False
    """Captions show words of it that seemed to be nothing."""

    @property
    def taken_up(self) -> bool:
        """It does: another turn stands for that one."""
        return self.of.phase is Phase.CLOSED

    def question(self, words: str) -> str:
        """All that is asked, with `words` of this utterance."""
        return joined(self.of.question, words)


class Turns:
    """Keeps the last turns of a session, and the last that were prepared for nothing."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, Turn] = OrderedDict()
        self._discarded: deque[Turn] = deque(maxlen=_KEPT_DISCARDED)

    def add(self, turn: Turn) -> None:
        """A turn has opened; the oldest may be forgotten for it."""
        self._kept[turn.number] = turn
        while len(self._kept) > KEPT_TURNS:
            self._kept.popitem(last=False)

    def discard(self, turn: Turn) -> None:
        """It was prepared for nothing, or another stands for it: nobody is told of it any more."""
        self._kept.pop(turn.number, None)
        self._discarded.append(turn)

    def find(self, number: int) -> Turn | None:
        """One that was told of, or is held."""
        return self._kept.get(number)

    def call_ids(self) -> set[str]:
        """Of what their answers have called."""
        turns = (*self._kept.values(), *self._discarded)
        return {call_id for turn in turns for call_id in turn.tools.ids}

    def generated(self, number: int, tokens: int) -> int:
        """The language model has written `tokens` and writes no more: how many for nothing."""
        if any(turn.number == number for turn in self._discarded):
            return tokens
        if (turn := self.find(number)) is not None:
            turn.tokens = tokens
        return 0

    def told(self) -> list[Turn]:
        """Those that listeners know of, oldest first."""
        return [turn for turn in self._kept.values() if turn.told is not None]
