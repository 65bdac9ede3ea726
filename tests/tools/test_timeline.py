"""The picture of a turn, and the command that draws it."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

import visavis.client.gateway
from visavis.serving.errors import InvalidInputError, UnknownNameError, VisavisError
from visavis.tools.charts import draw_timeline
from visavis.tools.cli.main import app

SVG = "{http://www.w3.org/2000/svg}"
TIMELINE: dict[str, Any] = {
    "session": "abc<&>", "turn": 3, "origin": "speech", "voice_to_voice_ms": 300.0,
    "first_frame_ms": 304.0, "overhead_ms": 4.2, "underruns": 0, "clock_error_ms": 0.0,
    "spans": [
        {"stage": stage, "kind": kind, "chunk": chunk, "start_ms": start, "end_ms": end}
        for stage, kind, chunk, start, end in [
            ("asr", "wait", "first", 0.0, 200.0),
            ("llm", "compute", "first", -100.0, 50.0),
            ("playout", "queue", "first", 290.0, 300.0),
            ("llm", "compute", "last", 50.0, 2500.0),
        ]
    ],
}  # fmt: skip


def bars(svg: str) -> list[ET.Element]:
    return [r for r in ET.fromstring(svg).iter(f"{SVG}rect") if r.find(f"{SVG}title") is not None]


def test_a_span_is_as_long_as_it_took() -> None:
    wait, work, queue = bars(draw_timeline({**TIMELINE, "spans": TIMELINE["spans"][:3]}))[:3]
    length = {span: float(span.attrib["width"]) for span in (wait, work, queue)}
    assert length[wait] / length[work] == pytest.approx(200 / 150, rel=0.01)
    assert float(work.attrib["x"]) < float(wait.attrib["x"]) < float(queue.attrib["x"])
    assert queue.attrib["fill"] == "url(#queue-playout)"


def test_first_and_last_chunks_have_panels_of_their_own_and_no_name_breaks_the_picture() -> None:
    drawn = draw_timeline(TIMELINE)
    assert "Up to the first sound" in drawn and "Up to the end" in drawn
    assert "Up to the end" not in draw_timeline({**TIMELINE, "spans": TIMELINE["spans"][:3]})
    texts = [text.text or "" for text in ET.fromstring(drawn).iter(f"{SVG}text")]
    assert any("abc<&>" in text for text in texts)
    assert texts[0] == "Turn 3: first sound 300 ms after the words"
    unknown = {"voice_to_voice_ms": None, "first_frame_ms": None, "overhead_ms": None}
    ET.fromstring(draw_timeline({**TIMELINE, **unknown, "spans": []}))


# ------------------------------------------------------------ the command


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a gateway answers, by path."""
    known: dict[str, Any] = {
        "/healthz": {"status": "ok"},
        "/v1/sessions": {"sessions": [{"id": "old"}, {"id": "new"}]},
        "/v1/sessions/new/turns": [
            {"turn": 2, "voice_to_voice_ms": 1.0}, {"turn": 3, "voice_to_voice_ms": 2.0},
            {"turn": 4, "voice_to_voice_ms": None},
        ],
        "/v1/sessions/new/turns/3/timeline": TIMELINE,
    }  # fmt: skip

    def respond(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json=known[request.url.path])

    def client(**options: Any) -> httpx.AsyncClient:
        return real(transport=httpx.MockTransport(respond), base_url=options["base_url"])

    real = httpx.AsyncClient
    monkeypatch.setattr(visavis.client.gateway.httpx, "AsyncClient", client)
    return known


def test_the_newest_turn_that_was_heard_is_shown(answers: dict[str, Any], tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["timeline", "-o", str(tmp_path / "turn.svg")])
    assert result.exit_code == 0, result.output
    assert re.search(r"llm +first +compute +-100\.0 +50\.0 +150\.0", result.output)
    assert "Overhead: 4.2 ms" in result.output
    ET.fromstring((tmp_path / "turn.svg").read_text("utf-8"))


def test_it_says_what_is_missing(answers: dict[str, Any], tmp_path: Path) -> None:
    answers["/v1/sessions/new/turns"] = []
    result = CliRunner().invoke(app, ["timeline"])
    assert isinstance(result.exception, VisavisError)
    assert "nothing has been answered" in str(result.exception)
    answers["/v1/sessions"] = {"sessions": []}
    assert isinstance(CliRunner().invoke(app, ["timeline"]).exception, UnknownNameError)
    wrong = CliRunner().invoke(app, ["timeline", "-o", str(tmp_path / "turn.png")])
    assert isinstance(wrong.exception, InvalidInputError) and "svg" in str(wrong.exception)


@pytest.mark.parametrize("named", [["--session", "abc"], ["--turn", "3"]])
def test_a_question_is_not_asked_in_a_session_that_is_named(named: list[str]) -> None:
    done = CliRunner().invoke(app, ["timeline", "Why?", *named, "--url", "http://127.0.0.1:1"])
    assert isinstance(done.exception, InvalidInputError) and named[0] in str(done.exception)
