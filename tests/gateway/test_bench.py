"""The benchmarks' visitor against a real gateway: what it notes is what happened."""

from __future__ import annotations

import numpy as np
import pytest

from tests.gateway.conftest import RunningGateway
from tests.gateway.doubles import Doubles
from tests.gateway.media import tone
from visavis.tools.bench.figures.processes import find_processes
from visavis.tools.bench.figures.turn_figures import TurnFigures
from visavis.tools.bench.latency import LatencyBench, LatencyPlan
from visavis.tools.bench.visitor.clips import RATE_HZ, Clip, SpeechSpan
from visavis.tools.bench.visitor.visitor import Transport
from visavis.tools.client import GatewayClient

pytestmark = pytest.mark.asyncio(loop_scope="module")


def spoken(speech_s: float = 0.3) -> Clip:
    pcm = np.concatenate(
        [np.zeros(1600, np.int16), tone(round(speech_s * RATE_HZ), rate_hz=RATE_HZ)]
    )
    return Clip("tone", pcm, SpeechSpan(1600, len(pcm), "label"), "Hello", "en")


@pytest.mark.parametrize("transport", ["websocket", "webrtc"])
async def test_an_answer_is_measured_from_the_end_of_the_question(
    client: GatewayClient, gateway: RunningGateway, doubles: Doubles, transport: Transport
) -> None:
    doubles.script.hears = "Hello?"
    doubles.script.voice_s = 0.6
    seen: list[TurnFigures | None] = []
    plan = LatencyPlan(transport=transport)
    bench = LatencyBench(client, find_processes(gateway.url, []), plan, seen.append)
    run = await bench.run([spoken()])
    assert seen[0] is None, "the first turn warms up"
    (turn,) = run.turns
    assert turn.counted, turn.note
    assert (turn.transcript, turn.answer) == ("Hello?", doubles.script.answer)
    assert turn.answer_s > 0.4
    # How long each took is the machine's business; that each was seen is ours.
    names = ["voice_to_voice", "first_sample_leaves", "server_voice_to_voice"]
    for name in names + ["first_frame"] * (transport == "websocket"):
        value = turn.figures[name]
        assert value is not None and value > 0, name
    cpu_s = turn.figures["cpu_s"]
    assert cpu_s is not None and cpu_s > 0
    assert run.counters["gateway_turns_total{outcome=finished}"] == 1
