"""A turn's ledger as spans under one trace."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from gateway.ledger.stopwatch import Stopwatch
from gateway.playout.playout import Playout, PlayoutEvent, Tick
from gateway.stages.registry import HostClocks
from visavis.serving.telemetry import traces, tracing
from visavis.serving.telemetry.opentelemetry_spans import open_tracer
from visavis.wire.media import Place, Stamp, TokenChunk, TranscriptChunk, TranscriptEvent

OURS = 7


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    """Of the spans of this process, which traces."""
    file = tmp_path / "traces.jsonl"
    traces.use_tracer(open_tracer("gateway", "gateway-1", str(file)))
    yield file
    tracing.stop_tracing()


def spans(file: Path) -> list[dict[str, object]]:
    tracing.stop_tracing()
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def stamp(name: str, at_s: float) -> Stamp:
    return Stamp(name, round(at_s * 1e9), OURS)


def test_a_turn_is_a_part_of_its_utterance_and_has_its_ledger_as_parts(file: Path) -> None:
    asr = traces.tracer()
    assert asr is not None
    utterance = asr.begin("utterance", 9_000_000_000)
    watch = Stopwatch("s", HostClocks(OURS))
    watch.caused_by(utterance.traceparent)
    place = Place("s", 0, 0, 0, stamps=(stamp("asr.started", 10.1), stamp("asr.finished", 10.2)))
    watch.heard(TranscriptChunk(place, TranscriptEvent.FINAL, 1, "Hello?"), 10.0)
    watch.opened(3, "speech", 10.3, held=False)
    assert watch.traceparent.split("-")[1] == utterance.trace_id
    stamps = (stamp("llm.first_started", 10.4), stamp("llm.first_finished", 10.5))
    watch.token(TokenChunk(Place("s", 3, 0, 0, stamps=stamps), "Hi"), 10.6)
    watch.tick(Tick(0, np.zeros(960, np.int16), (), ((PlayoutEvent.STARTED, 3),)), Playout(), 10.7)
    watch.ended(3, 12.0)
    watch.closed(3, "finished")
    utterance.end(10_300_000_000, {})
    found = {str(span["name"]): span for span in spans(file)}
    assert {"utterance", "turn", "recognition", "first token", "playout"} <= set(found)
    turn = found["turn"]
    assert turn["parent_id"] == found["utterance"]["context"]["span_id"]  # type: ignore[index]
    about = turn["attributes"]
    assert isinstance(about, dict)
    assert about["visavis.outcome"] == "finished" and about["visavis.turn"] == 3
    assert about["visavis.voice_to_voice_s"] == pytest.approx(0.7)


def test_an_answer_that_is_prepared_while_somebody_types_is_no_part_of_what_was_said_before(
    file: Path,
) -> None:
    watch = Stopwatch("s", HostClocks(OURS))
    watch.caused_by("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    watch.heard(TranscriptChunk(Place("s", 0, 0, 0), TranscriptEvent.FINAL, 1, "Hello?"), 400.0)
    watch.opened(1, "text", 1000.0, held=True)
    watch.asked(1001.0)
    watch.confirmed(1001.0)
    watch.ended(1, 1005.0)
    watch.closed(1, "finished")
    turn = next(span for span in spans(file) if span["name"] == "turn")
    began, ended = (datetime.fromisoformat(str(turn[at])) for at in ("start_time", "end_time"))
    assert (turn["parent_id"], (ended - began).total_seconds()) == (None, pytest.approx(5.0))


def test_a_turn_that_is_overtaken_is_closed_under_its_own_number(file: Path) -> None:
    watch = Stopwatch("s", HostClocks(OURS))
    for turn in (1, 2):
        watch.asked(float(turn))
        watch.opened(turn, "text", float(turn), held=False)
    watch.closed(1, "interrupted")
    watch.closed(2, "finished")
    watch.closed(2, "finished")
    told = [span["attributes"] for span in spans(file)]
    assert [(a["visavis.turn"], a["visavis.outcome"]) for a in told if isinstance(a, dict)] == [
        (1, "interrupted"),
        (2, "finished"),
    ]


def test_without_a_tracer_a_turn_has_no_traceparent() -> None:
    watch = Stopwatch("s", HostClocks(OURS))
    watch.asked(1.0)
    watch.opened(1, "text", 1.0, held=False)
    watch.closed(1, "finished")
    assert watch.traceparent == ""
