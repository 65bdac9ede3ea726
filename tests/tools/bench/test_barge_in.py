"""What a sound did to an answer, from the trace of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.tools.bench.test_turn_figures import sound
from visavis.serving.errors import VisavisError
from visavis.tools.bench.barge_in import counted, judge, paused, simulated_coughs
from visavis.tools.bench.visitor.trace import Trace

INTERRUPTED = {"state": "interrupted", "reason": "speech", "heard": "Once upon"}
COUNTERS = {"barge_in_to_silence_seconds_sum": 0.02, "barge_in_to_silence_seconds_count": 1.0}


def trace(until_s: float, *events: tuple[float, dict[str, Any]], gap_s: float = 0.0) -> Trace:
    """An answer heard from 8 s to `until_s`, spoken into from 10 s to 11 s, silent for `gap_s`
    from 10.5 s on."""
    times = [t for t in np.arange(8, until_s + 0.001, 0.02) if not 10.5 < t < 10.5 + gap_s]
    return Trace(10.0, 11.0, list(events), [sound(float(t), float(t), 0) for t in times])


def turn(number: int, event: str) -> dict[str, Any]:
    return {"type": "turn", "turn": number, "event": event}


def test_silence_is_the_last_audible_packet_of_the_old_answer() -> None:
    noted = trace(10.2, (10.15, turn(1, "interrupted")), (11.4, turn(2, "speaking")))
    noted.sounds.append(sound(11.45, 20.0, 0))  # the next answer
    for text in ("Sto", "Stop it.", ""):
        event = {"type": "transcript", "utterance": 2, "text": text, "final": text == ""}
        noted.events.append((10.8, event))
    outcome = judge("stop", "interruption", 1, noted, INTERRUPTED, COUNTERS)
    assert outcome.stopped
    assert outcome.silence_s == pytest.approx(0.2, abs=0.001)
    assert outcome.detected_s == pytest.approx(0.15)
    assert outcome.server_silence_s == pytest.approx(0.02)
    assert outcome.heard == "Once upon"
    assert outcome.understood == "Stop it."


@pytest.mark.parametrize("gap_s", [0.0, 0.8])
def test_an_answer_that_goes_on_was_not_stopped_and_paused_where_it_fell_silent(
    gap_s: float,
) -> None:
    outcome = judge("cough", "cough", 1, trace(13.0, gap_s=gap_s), {"state": "speaking"}, {})
    assert not outcome.stopped and outcome.silence_s is None
    assert outcome.longest_gap_s == pytest.approx(gap_s, abs=0.03)
    assert paused(outcome) == (gap_s > 0)


def test_an_answer_that_ended_by_itself_is_not_counted() -> None:
    noted = trace(10.4, (10.5, turn(1, "finished")))
    outcome = judge("stop", "interruption", 1, noted, {"state": "finished"}, {})
    assert outcome.note
    with pytest.raises(VisavisError, match="by itself"):
        counted([outcome], "interruption")
    assert counted([outcome], "cough") == []


def test_coughs_are_the_same_every_time_and_say_that_they_are_simulated() -> None:
    first, again = simulated_coughs(2), simulated_coughs(2)
    assert all(np.array_equal(a.pcm, b.pcm) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0].pcm, first[1].pcm)
    assert all("simulated" in clip.name and clip.speech_s < 0.5 for clip in first)
