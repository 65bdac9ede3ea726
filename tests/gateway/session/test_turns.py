"""Whole turns through the public API, with doubles of the services; and what they leave behind for
those who look at them: timelines and metrics.
"""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Iterable
from typing import Any

import httpx
import pytest
import pytest_asyncio
from prometheus_client import REGISTRY, Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from tests.gateway.conftest import Rig, RunningGateway, until
from tests.gateway.doubles import Doubles
from tests.gateway.visiting import collect
from visavis.client import GatewayClient, GatewayError

pytestmark = pytest.mark.asyncio(loop_scope="module")


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [e["type"] for e in events]


async def test_a_typed_question_is_answered(client: GatewayClient, doubles: Doubles) -> None:
    async with client.session() as session:
        turn = await session.ask("How are you?")
        events = await collect(session, "finished")
        assert kinds(events[:2]) == ["session", "state"]
        answer = "".join(e["text"] for e in events if e["type"] == "answer")
        assert answer == doubles.script.answer
        states = [e["state"] for e in events if e["type"] == "state"]
        assert states == ["idle", "thinking", "speaking"]
        assert {e["turn"] for e in events if e["type"] == "turn"} == {turn}
        record = (await client.call("GET", f"/v1/sessions/{session.id}/turns/{turn}")).json()
        assert record["transcript"] == "How are you?"
        assert record["answer"] == doubles.script.answer
        assert record["state"] == "finished"
        assert [s["name"] for s in record["stages"]] == ["llm", "tts", "face", "playout"]
        assert record["voice_to_voice_ms"] > 0
        assert doubles.seen.prompts[0][-1][1] == "How are you?"


async def test_code_is_shown_and_remembered(client: GatewayClient, doubles: Doubles) -> None:
    doubles.script.shown = "x = 1\n"
    async with client.session() as session:
        turn = await session.ask("Assign one to x.")
        events = await collect(session, "finished")
        assert [e["text"] for e in events if e["type"] == "answer.shown"] == ["x =", " 1\n"]
        answer = doubles.script.answer
        assert "".join(e["text"] for e in events if e["type"] == "answer") == answer
        record = (await client.call("GET", f"/v1/sessions/{session.id}/turns/{turn}")).json()
        block = {"block": 1, "language": "python", "text": "x = 1\n", "chars": len(answer)}
        assert (record["answer"], record["shown"]) == (answer, [block])
        await session.ask("And two?")
        await collect(session, "finished")
    assert doubles.seen.prompts[-1][-2][1] == f"{answer}\n```python\nx = 1\n```"


async def test_nothing_is_left_behind(
    gateway: RunningGateway, client: GatewayClient, doubles: Doubles
) -> None:
    before = len(asyncio.all_tasks())
    for _ in range(2):
        async with client.session() as session:
            await session.ask("Hello?")
            await collect(session, "speaking")
    await until(lambda: doubles.leases() == 0)
    await until(lambda: len(asyncio.all_tasks()) <= before + 4)


# ------------------------------------------------------------ timelines and metrics

_OPENMETRICS = "application/openmetrics-text; version=1.0.0"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def one_turn(rig: Rig) -> tuple[str, int, dict[str, Any]]:
    """Session, number and timeline of a turn that has been heard to its end."""
    async with GatewayClient(rig.running.url) as client, client.session() as session:
        turn = await session.ask("How are you?")
        await collect(session, "finished")
        path = f"/v1/sessions/{session.id}/turns/{turn}/timeline"
        return session.id, turn, (await client.call("GET", path)).json()


async def test_a_turn_has_a_timeline(
    one_turn: tuple[str, int, dict[str, Any]], doubles: Doubles
) -> None:
    session, turn, timeline = one_turn
    assert (timeline["session"], timeline["turn"], timeline["origin"]) == (session, turn, "text")
    assert 0 < timeline["voice_to_voice_ms"] <= timeline["first_frame_ms"]
    assert timeline["underruns"] == 0 and timeline["clock_error_ms"] == 0
    spans = {(s["stage"], s["kind"], s["chunk"]): s for s in timeline["spans"]}
    assert {"transfer", "compute"} <= {s["kind"] for s in timeline["spans"]}
    compute = spans["tts", "compute", "first"]
    assert 0 <= compute["start_ms"] <= compute["end_ms"] <= timeline["voice_to_voice_ms"]
    assert 0 <= timeline["overhead_ms"] < timeline["voice_to_voice_ms"]
    # The last of its pieces, of a tenth of a second, has begun.
    assert spans["playout", "wait", "last"]["end_ms"] > 1000 * (doubles.script.voice_s - 0.1)


async def test_a_turn_that_nobody_heard_has_none(client: GatewayClient) -> None:
    async with client.session() as session:
        with pytest.raises(GatewayError, match="there is no timeline of turn 9"):
            await client.call("GET", f"/v1/sessions/{session.id}/turns/9/timeline")


async def test_open_metrics_name_the_turn_behind_a_sample(
    one_turn: tuple[str, int, dict[str, Any]], http: httpx.AsyncClient
) -> None:
    session, turn, _ = one_turn
    answer = await http.get("/metrics", headers={"accept": _OPENMETRICS})
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    families = {f.name: f for f in text_string_to_metric_families(answer.text)}
    for name in ("voice_to_voice_seconds", "first_frame_seconds", "overhead_seconds"):
        found = [s.exemplar for s in families[name].samples if s.exemplar is not None]
        assert {"session": session, "turn": str(turn)} in [e.labels for e in found], name
    queue = {s.labels["stage"] for s in families["turn_span_seconds"].samples}
    assert {"llm", "tts", "playout"} <= queue


class Slow(Collector):
    """Metrics that take until somebody else was answered, or two seconds."""

    def __init__(self) -> None:
        self.begun, self.answered = threading.Event(), threading.Event()
        self.in_time = False

    def collect(self) -> Iterable[Metric]:
        self.begun.set()
        self.in_time = self.answered.wait(2.0)
        return ()


async def test_who_reads_metrics_holds_nobody_up(http: httpx.AsyncClient) -> None:
    slow = Slow()
    slow.answered.set()
    REGISTRY.register(slow)
    slow.begun.clear()
    slow.answered.clear()
    try:
        reading = asyncio.create_task(http.get("/metrics"))
        assert await asyncio.to_thread(slow.begun.wait, 5.0)
        assert (await http.get("/livez")).is_success
        slow.answered.set()
        assert (await reading).is_success
    finally:
        REGISTRY.unregister(slow)
    assert slow.in_time, "nobody was answered while the metrics were read"


@pytest.mark.usefixtures("one_turn")
async def test_others_get_the_text_format(http: httpx.AsyncClient) -> None:
    answer = await http.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    assert " # {" not in answer.text
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool: it comes with Prometheus")
    pipe = asyncio.subprocess.PIPE
    check = await asyncio.create_subprocess_exec(
        promtool, "check", "metrics", stdin=pipe, stdout=pipe, stderr=pipe
    )
    _, complaints = await check.communicate(answer.content)
    assert (check.returncode, complaints.decode()) == (0, "")
