"""A session's turns as traces: what the ledger knows of each, as spans under that of the turn."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.api.events import Span
from gateway.ledger.ledger import Ledger, Mark
from gateway.ledger.spans import overhead_s, spans_of
from visavis.serving.telemetry import traces
from visavis.serving.telemetry.traces import Attributes, Tracer

# What a stage's work on a turn's first chunk comes to; other spans are called by stage and kind.
_NAMES = {
    ("asr", "wait"): "end of speech",
    ("asr", "compute"): "recognition",
    ("llm", "compute"): "first token",
    ("tts", "wait"): "first phrase",
    ("tts", "compute"): "synthesis",
    ("face", "compute"): "face",
    ("encoder", "compute"): "encoding",
}


@dataclass(frozen=True, slots=True)
class _Open:
    ledger: Ledger
    span: traces.Span


class TurnTraces:
    """Begins a span with each turn of one session, and fills it once the turn is over."""

    def __init__(self, tracer: Tracer, session: str) -> None:
        self._tracer = tracer
        self._session = session
        self._open: dict[int, _Open] = {}

    def opened(self, ledger: Ledger, cause: str) -> str:
        """A turn begins; what its stages are told of it. cause: the utterance's traceparent."""
        for turn in list(self._open)[:-1]:  # the one before is closed in a moment
            self.closed(turn, "discarded")
        begin_s = ledger.marks[Mark.ASKED]
        span = self._tracer.begin("turn", _ns(begin_s), cause)
        self._open[ledger.turn] = _Open(ledger, span)
        return span.traceparent

    def trace_id(self, turn: int) -> str:
        """Of a turn that is open; "" where it is not traced."""
        return self._open[turn].span.trace_id if turn in self._open else ""

    def closed(self, turn: int, outcome: str) -> None:
        """The turn is over, and its spans leave."""
        if turn not in self._open:
            return
        ledger, span = (opened := self._open.pop(turn)).ledger, opened.span
        zero = ledger.marks[Mark.ASKED]
        for part in spans_of(ledger):
            begin_s, end_s = zero + part.start_ms / 1000, zero + part.end_ms / 1000
            span.part(_name(part), _ns(begin_s), _ns(end_s), _about(part))
        started, ended = ledger.at(Mark.STARTED), ledger.at(Mark.ENDED)
        if started is not None and ended is not None:
            span.part("playout", _ns(started), _ns(ended), {"visavis.stage": "playout"})
        over_s = max(ledger.marks.values()) if ended is None else ended
        failed = "the turn failed" if outcome == "failed" else ""
        span.end(_ns(over_s), self._of_turn(ledger, outcome), error=failed)

    def _of_turn(self, ledger: Ledger, outcome: str) -> Attributes:
        told: dict[str, str | int | float] = {
            "visavis.session": self._session,
            "visavis.turn": ledger.turn,
            "visavis.origin": ledger.origin,
            "visavis.outcome": outcome,
            "visavis.underruns": ledger.underruns,
            "visavis.clock_error_s": ledger.clock_error_s,
        }
        seconds = {
            "voice_to_voice": ledger.since_asked(Mark.STARTED),
            "first_frame": ledger.since_asked(Mark.FIRST_PICTURE_SHOWN),
            "overhead": overhead_s(ledger),
        }
        known = {f"visavis.{name}_s": s for name, s in seconds.items() if s is not None}
        return {**told, **known}


def turn_traces(session: str) -> TurnTraces | None:
    """For one session; None where the gateway does not trace."""
    tracer = traces.tracer()
    return None if tracer is None else TurnTraces(tracer, session)


def _name(part: Span) -> str:
    named = _NAMES.get((part.stage, part.kind)) if part.chunk == "first" else None
    return named or f"{part.stage} {part.kind}, {part.chunk} chunk"


def _about(part: Span) -> Attributes:
    return {
        "visavis.stage": part.stage,
        "visavis.kind": part.kind,
        "visavis.chunk": part.chunk,
    }


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)
