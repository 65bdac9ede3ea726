"""What is to be done for an answer that calls tools; `rounds` keeps what it has called. Pure."""

from __future__ import annotations

from gateway.talk.actions import Action, CallTool, ContinueAnswer, PauseTurn, SayMeanwhile
from gateway.talk.turn import Phase, Turn


def begin(turn: Turn, now: float) -> list[Action]:
    """Have done what the answer has called."""
    calls = turn.tools.begin(now)
    return [CallTool(turn.number, call) for call in calls] or go_on(turn)


def go_on(turn: Turn) -> list[Action]:
    """With the answer, once all results are there."""
    if turn.tools.waits:
        return []
    messages = (*turn.messages, *turn.tools.messages())
    return [ContinueAnswer(turn.number, messages, turn.tools.exhausted)]


def look_after(turn: Turn, now: float) -> list[Action]:
    """While tools are at work: what is over its time, and what is said and seen meanwhile."""
    if not turn.tools.waits:
        return []
    if turn.tools.expire(now):
        turn.progress_at_s = now
        return go_on(turn)
    if turn.has_run_dry(now):
        turn.rests = True
        return [PauseTurn(turn.number, rests=True)]
    if turn.phase is Phase.THINKING and not turn.text and turn.tools.take_filler(now):
        return [SayMeanwhile(turn.number)]
    return []
