"""What is kept of a session's last turns, for `GET /v1/sessions/{id}/turns/{n}`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, Field

from gateway.api.events import (
    AnswerEvent,
    ErrorEvent,
    LatencyEvent,
    Origin,
    ServerEvent,
    Span,
    StageTime,
    TranscriptEvent,
    TurnEvent,
    WarningEvent,
)

KEPT_TURNS = 100


class TurnRecord(BaseModel):
    """One exchange."""

    turn: int
    state: Literal["opened", "speaking", "finished", "interrupted", "failed"] = "opened"
    transcript: str = Field(default="", description="What the visitor said or typed")
    answer: str = Field(default="", description="The whole answer as far as it was made")
    answer_complete: bool = False
    answered_by: Literal["llm", "cache", "welcome"] = Field(
        default="llm", description="cache: the answer was known before; welcome: nobody asked"
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


class Records:
    """Follows a session's events and keeps the last turns."""

    def __init__(self) -> None:
        self._turns: OrderedDict[int, TurnRecord] = OrderedDict()
        self._latencies: dict[int, LatencyEvent] = {}
        self._reported: OrderedDict[int, dict[str, dict[str, float]]] = OrderedDict()

    def get(self, turn: int) -> TurnRecord | None:
        return self._turns.get(turn)

    def timeline(self, session: str, turn: int) -> Timeline | None:
        """None before the turn's sound has started, or where nothing is known of it any more."""
        known = self._latencies.get(turn)
        if known is None:
            return None
        return Timeline(session=session, **known.model_dump(exclude={"type", "stages"}))

    def reported(self, turn: int, service: str, seconds: Mapping[str, float]) -> None:
        """A stage says where its time went, maybe before anybody else may know of the turn."""
        self._reported.setdefault(turn, {})[service] = dict(seconds)
        while len(self._reported) > KEPT_TURNS:
            self._reported.popitem(last=False)
        if turn in self._turns:
            self._turns[turn].stage_seconds = self._reported[turn]

    def all(self) -> list[TurnRecord]:
        return list(self._turns.values())

    def observe(self, event: ServerEvent) -> None:
        """Note what `event` says about its turn."""
        if isinstance(event, ErrorEvent) or not isinstance(
            event, TranscriptEvent | AnswerEvent | TurnEvent | LatencyEvent | WarningEvent
        ):
            return
        if event.turn is None:
            return
        record = self._turns.setdefault(event.turn, TurnRecord(turn=event.turn))
        record.stage_seconds = self._reported.get(event.turn, record.stage_seconds)
        while len(self._turns) > KEPT_TURNS:
            forgotten, _ = self._turns.popitem(last=False)
            self._latencies.pop(forgotten, None)
        if isinstance(event, TranscriptEvent):
            record.transcript = event.text
        elif isinstance(event, AnswerEvent):
            record.answer += event.text
            record.answer_complete = event.final
        elif isinstance(event, TurnEvent):
            record.state = event.event
            record.reason, record.heard = event.reason, event.heard
        elif isinstance(event, WarningEvent):
            record.warnings.append(event.message)
        else:
            self._latencies[event.turn] = event
            record.stages, record.voice_to_voice_ms = event.stages, event.voice_to_voice_ms
