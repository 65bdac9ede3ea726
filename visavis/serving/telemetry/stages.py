"""The turns of one session at one service, as spans under those of the gateway."""

from __future__ import annotations

from dataclasses import dataclass, field

from visavis.serving.telemetry import traces
from visavis.serving.telemetry.traces import Attributes, Kind, Tracer
from visavis.wire.clock import monotonic_ns


@dataclass(frozen=True, slots=True)
class Work:
    """What a service calls its work on a turn, and what it says of it."""

    name: str
    attributes: Attributes = field(default_factory=dict)
    kind: Kind = "internal"


class StageTraces:
    """Which of the gateway's spans the work on each turn belongs to, and when it began."""

    def __init__(self, tracer: Tracer, session: str) -> None:
        self._tracer = tracer
        self._session = session
        self._parents: dict[int, str] = {}
        self._begun: dict[int, int] = {}

    def announced(self, turn: int, traceparent: str) -> None:
        """The gateway has opened a turn, as part of this trace if it is traced there."""
        if traceparent:
            # Of the one before, too: it ends as this one is announced.
            self._parents = {n: p for n, p in self._parents.items() if n >= turn - 1}
            self._parents[turn] = traceparent

    def began(self, turn: int) -> None:
        """Its work begins here."""
        # Of the one before, too, which may still be ending.
        self._begun = {n: at_ns for n, at_ns in self._begun.items() if n >= turn - 1}
        self._begun[turn] = monotonic_ns()

    def ended(self, turn: int, work: Work, attributes: Attributes, *, error: str = "") -> None:
        """Its work is over; what the gateway does not trace leaves nothing."""
        begun_ns, parent = self._begun.pop(turn, None), self._parents.pop(turn, "")
        if begun_ns is None or not parent:
            return
        span = self._tracer.begin(work.name, begun_ns, parent, kind=work.kind)
        whose: Attributes = {"visavis.session": self._session, "visavis.turn": turn}
        span.end(monotonic_ns(), {**whose, **attributes, **work.attributes}, error=error)


def stage_traces(session: str) -> StageTraces | None:
    """For one session; None where this process does not trace."""
    tracer = traces.tracer()
    return None if tracer is None else StageTraces(tracer, session)
