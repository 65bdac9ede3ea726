"""What a span is, and who begins them in this process.

A trace is all that comes of one utterance or text, in every process that works on it. Nothing is
measured for it that is not measured anyway. Who does not trace has no tracer, which is asked once
a turn, and never imports OpenTelemetry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

HEADER = "traceparent"
"""W3C Trace Context: in the headers of NATS messages and in the metadata of gRPC calls."""
FILE_VARIABLE = "VISAVIS_TRACES_FILE"
"""A file that spans are appended to, one JSON object a line, by any number of processes."""

Attributes = Mapping[str, str | int | float | bool | Sequence[str]]
Kind = Literal["internal", "client", "server"]


class Span(Protocol):
    """A piece of work that has begun. All times are nanoseconds of this process's clock."""

    @property
    def traceparent(self) -> str:
        """What others are told, so that their spans come under this one."""

    @property
    def trace_id(self) -> str:
        """32 hexadecimal digits; "" where this trace is left out by sampling."""

    def part(self, name: str, begin_ns: int, end_ns: int, attributes: Attributes) -> None:
        """A piece of it that is over."""

    def end(self, end_ns: int, attributes: Attributes, *, error: str = "") -> None:
        """It is over, and told of. error: why it failed."""


class Tracer(Protocol):
    """Begins spans."""

    def begin(self, name: str, begin_ns: int, parent: str = "", *, kind: Kind = "internal") -> Span:
        """parent: the traceparent of the work that this is a part of; "": it begins a trace."""

    def close(self) -> None:
        """Hand over what is kept. May block for as long as a collector takes."""


_tracer: Tracer | None = None


def tracer() -> Tracer | None:
    """This process's own; None: it does not trace."""
    return _tracer


def use_tracer(tracer: Tracer | None) -> None:
    """Trace with this one from now on; None: not any more."""
    global _tracer
    _tracer = tracer
