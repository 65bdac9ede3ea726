"""Spans of several processes under one trace, in a file that all of them append to."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from visavis.serving.errors import SettingsError
from visavis.serving.interceptor import ErrorInterceptor
from visavis.serving.telemetry import traces, tracing
from visavis.serving.telemetry.opentelemetry_spans import open_tracer
from visavis.serving.telemetry.stages import StageTraces, Work
from visavis.wire.clock import monotonic_ns

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    """Of spans; whoever traces in this process stops at the end."""
    yield tmp_path / "traces.jsonl"
    traces.use_tracer(None)


def all_spans(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def spans(file: Path) -> dict[str, Any]:
    """By name."""
    return {span["name"]: span for span in all_spans(file)}


def test_a_service_works_under_the_span_of_the_gateway(file: Path) -> None:
    gateway, llm = (open_tracer(name, f"{name}-1", str(file)) for name in ("gateway", "llm"))
    began_ns = monotonic_ns()
    turn = gateway.begin("turn", began_ns)
    stage = StageTraces(llm, "the-session")
    stage.began(3)  # the request came before the announcement
    stage.announced(3, turn.traceparent)
    stage.announced(4, "")
    about = {"gen_ai.usage.output_tokens": 7}
    stage.ended(3, Work("chat tiny", about, "client"), {"visavis.produced": 7})
    turn.part("recognition", began_ns + 1_000_000, began_ns + 3_000_000, {})
    turn.end(began_ns + 9_000_000, {"visavis.outcome": "finished"}, error="the turn failed")
    for tracer in (gateway, llm):
        tracer.close()
    found = spans(file)
    assert {span["context"]["trace_id"] for span in found.values()} == {f"0x{turn.trace_id}"}
    root, chat, part = found["turn"], found["chat tiny"], found["recognition"]
    assert root["parent_id"] is None
    assert {chat["parent_id"], part["parent_id"]} == {root["context"]["span_id"]}
    assert chat["kind"] == "SpanKind.CLIENT" and chat["attributes"]["visavis.turn"] == 3
    assert chat["resource"]["attributes"]["service.name"] == "visavis-llm"
    assert chat["resource"]["attributes"]["service.instance.id"] == "llm-1"
    assert root["status"] == {"status_code": "ERROR", "description": "the turn failed"}
    assert root["start_time"] < part["start_time"] < part["end_time"] < root["end_time"]


def test_what_the_gateway_does_not_trace_leaves_nothing(file: Path) -> None:
    tracer = open_tracer("tts", "tts-1", str(file))
    stage = StageTraces(tracer, "s")
    stage.began(1)
    stage.ended(1, Work("speak"), {})
    stage.announced(2, "not a traceparent")
    stage.ended(2, Work("speak"), {})
    tracer.close()
    assert spans(file) == {}


def test_sampling_is_what_the_first_process_decided(file: Path) -> None:
    tracer = open_tracer("gateway", "gateway-1", str(file))
    left_out = tracer.begin("turn", monotonic_ns(), CALLER[:-1] + "0")
    assert left_out.trace_id == "" and left_out.traceparent.endswith("-00")
    left_out.end(monotonic_ns(), {})
    tracer.close()
    assert spans(file) == {}


async def test_a_call_belongs_to_the_trace_that_its_metadata_names(file: Path) -> None:
    tracer = open_tracer("asr", "asr-1", str(file))
    traces.use_tracer(tracer)
    server = grpc.aio.server(interceptors=[ErrorInterceptor()])
    health_pb2_grpc.add_HealthServicer_to_server(health.aio.HealthServicer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        request = health_pb2.HealthCheckRequest()
        await stub.Check(request)
        await stub.Check(request, metadata=((traces.HEADER, CALLER),))
    await server.stop(None)
    tracer.close()
    (span,) = all_spans(file)
    assert span["name"] == "grpc.health.v1.Health/Check" and span["kind"] == "SpanKind.SERVER"
    assert span["context"]["trace_id"] == "0x0af7651916cd43dd8448eb211c80319c"
    assert span["parent_id"] == "0xb7ad6b7169203331"


@pytest.mark.parametrize(
    ("environment", "traced"),
    [
        ({}, False),
        ({"VISAVIS_TRACES_FILE": "x"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, False),
        ({"OTEL_SDK_DISABLED": "true", "VISAVIS_TRACES_FILE": "x"}, False),
    ],
)
def test_who_traces(environment: dict[str, str], traced: bool) -> None:
    assert tracing.wanted(environment) is traced


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="VISAVIS_TRACES_FILE"):
        open_tracer("asr", "asr-1", str(tmp_path / "none" / "traces.jsonl"))


def test_who_does_not_trace_imports_nothing_for_it() -> None:
    program = (
        "import sys; from visavis.serving import runtime; runtime.start_tracing('asr', 'asr-1');"
        "sys.exit('opentelemetry.sdk' in sys.modules or 'pynvml' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env={})
