"""The benchmarks' visitor against a real gateway: what it notes is what happened."""

from __future__ import annotations

import numpy as np
import pytest

from tests.gateway.conftest import RunningGateway
from tests.gateway.doubles import Doubles
from tests.gateway.media import tone
from visavis.bench.clips import RATE_HZ, Clip
from visavis.bench.latency import LatencyBench, LatencyPlan
from visavis.bench.processes import find_processes
from visavis.bench.speech_span import SpeechSpan
from visavis.bench.turn_figures import TurnFigures
from visavis.client import GatewayClient

pytestmark = pytest.mark.asyncio(loop_scope="module")


def spoken(speech_s: float = 0.3) -> Clip:
    pcm = np.concatenate(
        [np.zeros(1600, np.int16), tone(round(speech_s * RATE_HZ), rate_hz=RATE_HZ)]
    )
    return Clip("tone", pcm, SpeechSpan(1600, len(pcm), "label"), "Hello", "en")


async def test_an_answer_is_measured_from_the_end_of_the_question(
    client: GatewayClient, gateway: RunningGateway, doubles: Doubles
) -> None:
    doubles.script.hears = "Hello?"
    doubles.script.voice_s = 0.6
    seen: list[TurnFigures | None] = []
    bench = LatencyBench(client, find_processes(gateway.url, []), LatencyPlan(), seen.append)
    run = await bench.run([spoken()])
    assert seen[0] is None, "the first turn warms up"
    (turn,) = run.turns
    assert turn.counted, turn.note
    assert (turn.transcript, turn.answer) == ("Hello?", doubles.script.answer)
    assert turn.answer_s == pytest.approx(0.6, abs=0.06)
    figures = turn.figures
    assert figures["voice_to_voice"] is not None and figures["server_voice_to_voice"] is not None
    # The double waits for 100 ms of silence; the mp4 adds some.
    assert 0.1 <= figures["server_voice_to_voice"] <= figures["voice_to_voice"] + 0.02
    assert figures["first_frame"] is not None and figures["first_frame"] > 0.1
    assert figures["cpu_s"] is not None and figures["cpu_s"] > 0
    assert run.counters["gateway_turns_total{outcome=finished}"] == 1
