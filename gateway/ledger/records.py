"""What is kept of a session's last turns, for `GET /v1/sessions/{id}/turns/{n}`."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, Field

from gateway.api.events import Origin, ShownEvent, Span, StageTime, WordTime
from gateway.api.schemas import Told
from gateway.talk.turn import Life, Source, Turn, Turns


class ShownBlock(BaseModel):
    """A block of code, or a table, as far as it was written."""

    block: int = Field(description="Which of the answer's blocks, from 1")
    language: str = Field(description="Of the code; of a table `markdown`; empty: not known")
    text: str
    chars: int = Field(description="Where it stands in the answer's text, in code points")

    @classmethod
    def of(cls, event: ShownEvent) -> ShownBlock:
        """What listeners were told of it, piece by piece."""
        return cls.model_validate(event.model_dump(exclude={"type", "turn"}))


class TurnRecord(Told):
    """What was asked and answered in one turn, and how it ended."""

    turn: int
    state: Life = "opened"
    transcript: str = Field(default="", description="What the visitor said or typed")
    answer: str = Field(default="", description="The whole answer as far as it was made")
    answer_complete: bool = False
    shown: list[ShownBlock] = Field(
        default_factory=list, description="Its blocks of code and tables, which are not said"
    )
    answered_by: Source = Field(
        default="llm",
        description="cache: the answer was known before; welcome, say, brought: nobody asked",
    )
    words: list[WordTime] = Field(
        default_factory=list, description="When each is said, as far as the voice was made"
    )
    heard: str | None = Field(default=None, description="What was audible, where cut off")
    reason: str | None = Field(default=None, description="Why it was interrupted or failed")
    warnings: list[str] = Field(
        default_factory=list, description="What was asked for and could not be done"
    )
    stages: list[StageTime] = Field(
        default_factory=list,
        description="Milliseconds from the end of the visitor's speech or the text's arrival",
    )
    voice_to_voice_ms: float | None = None
    stage_seconds: dict[str, dict[str, float]] = Field(
        default_factory=dict, description="What each stage says of its own time"
    )


class Timeline(BaseModel):
    """Where a turn's time went, span by span.

    All times in milliseconds from the end of the visitor's speech or the text's arrival; what
    was prepared while the visitor might still have gone on begins before zero.
    """

    session: str
    turn: int
    origin: Origin
    voice_to_voice_ms: float | None = Field(description="To the first sample that leaves")
    first_frame_ms: float | None = Field(description="To the first lip-synced picture that leaves")
    overhead_ms: float | None = Field(
        description="voice_to_voice without the wait for the end of speech and without the models' "
        "work on the critical path; null where a stage tells no times"
    )
    underruns: int = Field(description="Gaps in the voice")
    clock_error_ms: float = Field(
        description="How far spans of stages on other machines may be misplaced; 0: all on one"
    )
    spans: list[Span] = Field(
        description="By stage, first chunks before last ones. transfer: the chunk travels to the "
        "stage; wait: for what is not made yet, or for the visitor; queue: all is there, the "
        "engine is busy; compute: the engine works"
    )


def record_of(turn: Turn) -> TurnRecord:
    """Of a turn that listeners know of."""
    told, latency = turn.told, turn.latency
    return TurnRecord(
        turn=turn.number,
        state=told.event if told else "opened",
        transcript=turn.question,
        answer=turn.text,
        answer_complete=turn.text_complete,
        shown=[ShownBlock.of(block) for block in turn.shown],
        answered_by=turn.source or "llm",
        words=turn.words,
        heard=told.heard if told else None,
        reason=told.reason if told else None,
        warnings=[warning.message for warning in turn.warnings],
        stages=latency.stages if latency else [],
        voice_to_voice_ms=latency.voice_to_voice_ms if latency else None,
        stage_seconds=turn.stage_seconds,
    )


class Records:
    """Shows clients a session's last turns."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._before: dict[int, TurnRecord] = {}
        self._timelines_before: dict[int, Timeline] = {}

    def carry_on(self, turns: Sequence[TurnRecord], timelines: Sequence[Timeline]) -> None:
        """The session was another gateway's before: what that one had kept."""
        self._before = {turn.turn: turn for turn in turns}
        self._timelines_before = {timeline.turn: timeline for timeline in timelines}

    def get(self, number: int) -> TurnRecord | None:
        """None for a turn that nobody was told of, or that is forgotten."""
        turn = self._turns.find(number)
        if turn is None:
            return self._before.get(number)
        return None if turn.told is None else record_of(turn)

    def timeline(self, session: str, number: int) -> Timeline | None:
        """None before the turn's sound has started, or where nothing is known of it any more."""
        turn = self._turns.find(number)
        if turn is None:
            return self._timelines_before.get(number)
        if turn.latency is None:
            return None
        return Timeline(session=session, **turn.latency.model_dump(exclude={"type", "stages"}))

    def all(self) -> list[TurnRecord]:
        """Oldest first."""
        return [*self._before.values(), *(record_of(turn) for turn in self._turns.told())]
