"""Spans as OpenTelemetry's, and where they go: a collector by OTLP, or a file of JSON lines.

Sampling, batching, the collector's address and its headers are OpenTelemetry's own settings
(OTEL_TRACES_SAMPLER, OTEL_BSP_…, OTEL_EXPORTER_OTLP_…).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.trace import Tracer as OtelTracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from visavis.serving.addresses import is_loopback
from visavis.serving.errors import SettingsError
from visavis.serving.telemetry.traces import FILE_VARIABLE, HEADER, Attributes, Kind
from visavis.serving.way_out import PAST_PROXIES
from visavis.wire.clock import epoch_ns

_KINDS: Mapping[Kind, SpanKind] = {
    "internal": SpanKind.INTERNAL,
    "client": SpanKind.CLIENT,
    "server": SpanKind.SERVER,
}
_PROPAGATOR = TraceContextTextMapPropagator()


class LinesExporter(SpanExporter):
    """Appends each span as one JSON object a line; several processes may share the file."""

    def __init__(self, path: str) -> None:
        """Raises SettingsError where it cannot be written."""
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        except OSError as error:
            raise SettingsError(f"{FILE_VARIABLE}: {path}: {error.strerror}") from error

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        # In one write, which appends it as a whole.
        lines = "".join(f"{span.to_json(indent=None)}\n" for span in spans).encode()
        try:
            whole = os.write(self._file, lines) == len(lines)
        except OSError:
            return SpanExportResult.FAILURE
        return SpanExportResult.SUCCESS if whole else SpanExportResult.FAILURE

    def shutdown(self) -> None:
        os.close(self._file)


class _Span:
    """One of OpenTelemetry's, on the process's clock."""

    def __init__(self, tracer: OtelTracer, span: Span, ahead_ns: int) -> None:
        """ahead_ns: from the process's clock to that of the world."""
        self._tracer = tracer
        self._span = span
        self._ahead_ns = ahead_ns

    @property
    def traceparent(self) -> str:
        context = self._span.get_span_context()
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"

    @property
    def trace_id(self) -> str:
        context = self._span.get_span_context()
        return f"{context.trace_id:032x}" if context.trace_flags.sampled else ""

    def part(self, name: str, begin_ns: int, end_ns: int, attributes: Attributes) -> None:
        within = set_span_in_context(self._span, Context())
        part = self._tracer.start_span(
            name, within, attributes=attributes, start_time=begin_ns + self._ahead_ns
        )
        part.end(end_ns + self._ahead_ns)

    def end(self, end_ns: int, attributes: Attributes, *, error: str = "") -> None:
        self._span.set_attributes(attributes)
        if error:
            self._span.set_status(Status(StatusCode.ERROR, error))
        self._span.end(end_ns + self._ahead_ns)


class _Tracer:
    """Begins spans of one process."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("visavis", version("visavis"))

    def begin(
        self, name: str, begin_ns: int, parent: str = "", *, kind: Kind = "internal"
    ) -> _Span:
        ahead_ns = epoch_ns(begin_ns) - begin_ns
        # One that cannot be read counts as none, as W3C wants it.
        within = _PROPAGATOR.extract({HEADER: parent}, Context()) if parent else Context()
        span = self._tracer.start_span(
            name, within, kind=_KINDS[kind], start_time=begin_ns + ahead_ns
        )
        return _Span(self._tracer, span, ahead_ns)

    def close(self) -> None:
        self._provider.shutdown()


def open_tracer(service: str, instance: str, file: str = "") -> _Tracer:
    """One for this process. file: where spans go; "": to the collector that the environment names.

    Raises SettingsError where the file cannot be written, ImportError without the exporter.
    """
    exporter = LinesExporter(file) if file else _otlp()
    resource = Resource.create(
        {
            "service.namespace": "visavis",
            "service.name": f"visavis-{service}",
            "service.instance.id": instance,
            "service.version": version("visavis"),
        }
    )
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return _Tracer(provider)


def _otlp() -> SpanExporter:
    """By HTTP, or gRPC where the environment says so."""
    protocol = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or os.environ.get(
        "OTEL_EXPORTER_OTLP_PROTOCOL", ""
    )
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (
            OTLPSpanExporter as GrpcExporter,
        )

        # Its type knows of texts alone, gRPC of numbers as well.
        past: Any = (PAST_PROXIES,)
        return GrpcExporter(channel_options=past if _is_here() else None)
    import requests
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    session = requests.Session() if _is_here() else None
    if session is not None:
        session.trust_env = False
    return OTLPSpanExporter(session=session)


def _is_here() -> bool:
    """Whether the collector is on this machine, which no proxy of the environment reaches."""
    named = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or os.environ.get(
        "OTEL_EXPORTER_OTLP_ENDPOINT", ""
    )
    where = urlsplit(named if "//" in named else f"//{named or 'localhost'}")
    return is_loopback(where.hostname or "")
