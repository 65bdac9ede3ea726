"""What is kept of a session's last turns, for `GET /v1/sessions/{id}/turns/{n}`."""

from __future__ import annotations

from collections import OrderedDict
from typing import Literal

from pydantic import BaseModel, Field

from gateway.events import (
    AnswerEvent,
    ErrorEvent,
    LatencyEvent,
    ServerEvent,
    StageTime,
    TranscriptEvent,
    TurnEvent,
)

KEPT_TURNS = 100


class TurnRecord(BaseModel):
    """One exchange."""

    turn: int
    state: Literal["opened", "speaking", "finished", "interrupted", "failed"] = "opened"
    transcript: str = Field(default="", description="What the visitor said or typed")
    answer: str = Field(default="", description="The whole answer as far as it was made")
    answer_complete: bool = False
    heard: str | None = Field(default=None, description="What was audible, where cut off")
    reason: str | None = Field(default=None, description="Why it was interrupted or failed")
    stages: list[StageTime] = Field(
        default_factory=list,
        description="Milliseconds from the end of the visitor's speech or the text's arrival",
    )
    voice_to_voice_ms: float | None = None
    stage_seconds: dict[str, dict[str, float]] = Field(
        default_factory=dict, description="What each stage says of its own time"
    )


class Records:
    """Follows a session's events and keeps the last turns."""

    def __init__(self) -> None:
        self._turns: OrderedDict[int, TurnRecord] = OrderedDict()

    def get(self, turn: int) -> TurnRecord | None:
        return self._turns.get(turn)

    def all(self) -> list[TurnRecord]:
        return list(self._turns.values())

    def observe(self, event: ServerEvent) -> None:
        """Note what `event` says about its turn."""
        if isinstance(event, ErrorEvent) or not isinstance(
            event, TranscriptEvent | AnswerEvent | TurnEvent | LatencyEvent
        ):
            return
        if event.turn is None:
            return
        record = self._turns.setdefault(event.turn, TurnRecord(turn=event.turn))
        while len(self._turns) > KEPT_TURNS:
            self._turns.popitem(last=False)
        if isinstance(event, TranscriptEvent):
            record.transcript = event.text
        elif isinstance(event, AnswerEvent):
            record.answer += event.text
            record.answer_complete = event.final
        elif isinstance(event, TurnEvent):
            record.state = event.event
            record.reason, record.heard = event.reason, event.heard
        else:
            record.stages, record.voice_to_voice_ms = event.stages, event.voice_to_voice_ms
