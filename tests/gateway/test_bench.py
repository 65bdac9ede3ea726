"""The benchmarks' visitor against a real gateway: what it notes is what happened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.gateway.conftest import RunningGateway, until
from tests.gateway.doubles import Doubles
from tests.gateway.media import tone
from visavis.client import GatewayClient, GatewayError
from visavis.tools.bench.figures.counters import Scraper
from visavis.tools.bench.figures.processes import find_named_processes, find_processes
from visavis.tools.bench.figures.turn_figures import TurnFigures
from visavis.tools.bench.latency import LatencyBench, LatencyPlan
from visavis.tools.bench.load.exchange import Exchange
from visavis.tools.bench.load.guest import Deck, Guest, Notes
from visavis.tools.bench.load.killer import find_victims
from visavis.tools.bench.load.ledger import judge
from visavis.tools.bench.load.schedule import Habits, LoadPlan, Planned
from visavis.tools.bench.load.steps import LoadBench
from visavis.tools.bench.questions import write_clip
from visavis.tools.bench.visitor import idle_life
from visavis.tools.bench.visitor.clips import RATE_HZ, Clip, SpeechSpan
from visavis.tools.bench.visitor.visitor import Transport, Visitor, visit
from visavis.wire.clock import MonotonicClock

pytestmark = pytest.mark.asyncio(loop_scope="module")


def spoken(speech_s: float = 0.3, hz: float = 440.0) -> Clip:
    pcm = np.concatenate(
        [
            np.zeros(1600, np.int16),
            tone(round(speech_s * RATE_HZ), rate_hz=RATE_HZ, frequency_hz=hz),
        ]
    )
    return Clip("tone", pcm, SpeechSpan(1600, len(pcm), "label"), "Hello", "en")


async def test_an_answer_is_measured_from_the_end_of_the_question(
    client: GatewayClient, gateway: RunningGateway, doubles: Doubles
) -> None:
    doubles.script.hears = "Hello?"
    doubles.script.voice_s = 0.6
    seen: list[TurnFigures | None] = []
    plan = LatencyPlan(transport="websocket")
    bench = LatencyBench(client, find_processes(gateway.url, []), plan, seen.append)
    run = await bench.run([spoken()])
    assert seen[0] is None, "the first turn warms up"
    (turn,) = run.turns
    assert turn.counted, turn.note
    assert (turn.transcript, turn.answer) == ("Hello?", doubles.script.answer)
    assert turn.answer_s > 0.4
    # How long each took is the machine's business; that each was seen is ours.
    for name in ("voice_to_voice", "first_sample_leaves", "server_voice_to_voice", "first_frame"):
        value = turn.figures[name]
        assert value is not None and value > 0, name
    cpu_s = turn.figures["cpu_s"]
    assert cpu_s is not None and cpu_s > 0
    assert run.counters["gateway_turns_total{outcome=finished}"] == 1


async def test_what_is_drawn_once_is_drawn_before_anything_is_measured(
    client: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest, listens = [10, 10, 10, 300, 300, 900], [900, 900, 2000, 5410]
    told: list[str] = []

    async def read(_: Scraper) -> dict[str, float]:
        left = rest or listens
        return {"face_frames_total{mode=loop}": left.pop(0) if left[1:] else left[0]}

    async def say(visitor: Visitor, clip: Clip) -> None:
        assert len(rest) == 1, "a face listens from memory only once it rests so"
        rest.clear()

    monkeypatch.setattr(idle_life, "_LOOK_S", 0.001)
    monkeypatch.setattr(Scraper, "read", read)
    monkeypatch.setattr(Visitor, "say", say)
    (note,) = await idle_life.draw_idle_life(client, spoken(), "websocket", tell=told.append)
    assert "5400 pictures" in note
    assert told[0].endswith(": 290")
    rest.append(5410)
    assert await idle_life.draw_idle_life(client, spoken(), "websocket", tell=told.append) == []


async def test_visitors_at_once_are_served_and_counted_apart(
    client: GatewayClient, gateway: RunningGateway, doubles: Doubles, tmp_path: Path
) -> None:
    doubles.script.hears = "Who are you?"
    doubles.script.voice_s = 0.3
    # Of another pitch than the answer, whose echo it would be taken for.
    write_clip(tmp_path / "who.wav", spoken(hz=1310.0).pcm)
    (tmp_path / "who.txt").write_text("Who are you?", encoding="utf-8")
    habits = Habits(duty=0.9, turn_s=0.9, arrivals="even", spoken_share=0.5)
    plan = LoadPlan(
        habits,
        str(tmp_path),
        idle_watchers=2,
        warmup_s=0.2,
        duration_s=2.5,
        questions=0,
        avatars=["eve", ""],
    )
    told: list[str] = []
    processes = find_named_processes(gateway.url, [])
    bench = LoadBench(client, processes, plan, tmp_path, told.append)
    step = await bench.step(2)
    assert ["3 are open" in why for why in step.refused] == [True], "there is room for three"
    assert step.failed == 0, step.exchanges
    assert {exchange.visitor for exchange in step.exchanges} == {0, 1}
    for figure in ("voice_to_voice_due", "text_to_voice_due", "first_frame", "llm_compute"):
        summary = step.summaries[figure]
        assert summary is not None and summary.p50 >= 0, figure
    verdict = step.verdict
    assert verdict.faults == []
    assert 0 < verdict.exact == verdict.typed < verdict.questions
    assert 0 < verdict.answers == verdict.finished
    assert step.playout.frames > 0
    worn = {
        first.config.session: first.config.face.avatar
        for first in doubles.seen.of("face", "config")
    }
    assert sorted(worn.values()) == ["", "eve", "eve"], "two visitors and a watcher, by turns"
    # This test's own process is the gateway; the visitors' are others.
    assert set(step.processes) == {"gateway"} and step.processes["gateway"].cores > 0
    assert step.client_cores > 0 and step.client_lag is not None
    assert told[0] == "2 visitors: connecting"


@pytest.mark.parametrize("transport", ["websocket", "webrtc"])
async def test_a_visitor_whose_connections_break_comes_back_until_his_session_is_gone(
    client: GatewayClient, gateway: RunningGateway, doubles: Doubles, transport: Transport
) -> None:
    doubles.script.voice_s = 0.3
    notes, clock, done = Notes(0), MonotonicClock(), list[Exchange]()
    visiting = visit(client, clock, transport=transport, witness=notes, comes_back=True)
    async with visiting as visitor:
        for connection in list(gateway._server.server_state.connections):
            connection.transport.abort()  # as with a gateway that is killed
        await until(lambda: len(notes.breaks) == 2)
        assert {one.what for one in notes.breaks} == {"media", "events"}
        guest = Guest(visitor, notes, Deck([spoken()], (), 0), clock, done.append)
        now_s = clock.now()
        await guest.converse([Planned(0, 0.0, False, False, False, 0)], now_s, now_s + 30.0)
        assert [exchange.outcome for exchange in done] == ["answered"], done
        verdict = judge(notes.lines)
        assert (verdict.faults, verdict.exact, verdict.answers) == ([], 1, 1)
        assert not visitor.lost
        await client.call("DELETE", f"/v1/sessions/{visitor.session.id}")
        await until(lambda: visitor.lost)
    assert not any((await find_victims(client)).values()), "this process is no gateway of its own"


@pytest.mark.parametrize("arrived", [True, False])
async def test_what_is_typed_as_the_gateway_goes_arrives_once(
    client: GatewayClient, doubles: Doubles, monkeypatch: pytest.MonkeyPatch, arrived: bool
) -> None:
    doubles.script.voice_s = 0.3
    async with visit(client, MonotonicClock(), comes_back=True) as visitor:
        call, left = client.call, 1

        async def goes(method: str, path: str, **arguments: Any) -> Any:
            nonlocal left
            if path.endswith("/text") and left:
                left -= 1
                if arrived:
                    await call(method, path, **arguments)
                raise GatewayError("unreachable", "it has gone")
            return await call(method, path, **arguments)

        monkeypatch.setattr(client, "call", goes)
        turn = await visitor.ask("Are you there?")
        told = (await call("GET", f"/v1/sessions/{visitor.session.id}/turns")).json()
        typed = [one["turn"] for one in told if one["transcript"] == "Are you there?"]
        assert typed == [turn]
