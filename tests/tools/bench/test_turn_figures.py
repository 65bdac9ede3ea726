"""Figures out of what a visitor noted: each by its definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from visavis.tools.bench.figures.counters import parse_counters, rise
from visavis.tools.bench.figures.turn_figures import measure
from visavis.tools.bench.latency import answered, ended, sessions_of
from visavis.tools.bench.visitor.clips import RATE_HZ, Clip, SpeechSpan
from visavis.tools.bench.visitor.media import HeardSound, SeenPicture
from visavis.tools.bench.visitor.trace import Trace

RECORD: dict[str, Any] = {
    "turn": 3,
    "state": "finished",
    "transcript": "How are you?",
    "answer": " Fine.",
    "voice_to_voice_ms": 300.0,
    "stages": [
        {"name": "asr", "start_ms": 0.0, "end_ms": 200.0},
        {"name": "playout", "start_ms": 280.0, "end_ms": 300.0},
    ],
    "timeline": {
        "overhead_ms": 4.0,
        "spans": [
            {"stage": stage, "kind": kind, "chunk": chunk, "start_ms": 10.0, "end_ms": end_ms}
            for stage, kind, chunk, end_ms in (
                ("asr", "compute", "first", 60.0),
                ("llm", "transfer", "first", 11.0),
                ("llm", "queue", "first", 12.0),
                ("tts", "transfer", "first", 11.5),
                ("face", "queue", "first", 99.0),
                ("tts", "queue", "last", 99.0),
            )
        ],
    },
    "stage_seconds": {
        "llm": {"first_token": 0.08},
        "tts": {"first_phrase": 0.1, "first_voice": 0.13},
    },
}


def clip(name: str = "one", language: str = "en") -> Clip:
    return Clip(name, np.zeros(RATE_HZ, np.int16), SpeechSpan(0, RATE_HZ, "label"), "", language)


def sound(at_s: float, media_s: float, loud_from: int | None) -> HeardSound:
    """20 ms that arrived at `at_s`; audible from sample `loud_from` on."""
    pcm = np.zeros(960, np.int16)
    if loud_from is not None:
        pcm[loud_from:] = 4000
    return HeardSound(at_s, media_s, pcm, 48_000)


def trace(sounds: list[HeardSound]) -> Trace:
    """Speech from 10 s to 12 s of the client's clock."""
    events = [
        (12.2, {"type": "turn", "turn": 3, "event": "opened"}),
        (12.29, {"type": "turn", "turn": 3, "event": "speaking"}),
    ]
    pictures = [SeenPicture(12.30, 50.00), SeenPicture(12.34, 50.04), SeenPicture(12.38, 50.08)]
    return Trace(10.0, 12.0, list(events), sounds, pictures)


def answer(first_s: float, count: int = 40) -> list[HeardSound]:
    """Silence, then a voice whose first packet arrives at `first_s`."""
    quiet = sound(first_s - 0.02, 50.03, None)
    return [quiet, *(sound(first_s + 0.02 * i, 50.05 + 0.02 * i, 0) for i in range(count))]


def test_each_figure_is_taken_from_the_end_of_speech() -> None:
    turn = measure(clip(), trace(answer(12.31)), RECORD, {})
    assert turn.counted, turn.note
    expected = {
        "voice_to_voice": 0.31,
        "first_sample_leaves": 0.29,
        # The picture of media time 50.04 is on show when the sound of 50.05 is heard.
        "first_frame": 0.34,
        "server_voice_to_voice": 0.3,
        "end_of_turn": 0.2,
        "endpoint_wait": 0.2,
        "first_token": 0.08,
        "first_phrase": 0.1,
        "synthesis": 0.03,
        "playout_wait": 0.02,
        "overhead": 0.004,
        "recognition": 0.05,
        "transfer": 0.0025,
        "queue": 0.002,
    }
    assert {name: turn.figures[name] for name in expected} == pytest.approx(expected)
    assert turn.answer_s == pytest.approx(0.8)
    assert turn.answer == "Fine."


@pytest.mark.parametrize(
    ("sounds", "record", "why"),
    [
        ([], {}, "no turn came of it"),
        ([], RECORD, "no answer could be heard"),
        ([], {**RECORD, "state": "failed", "reason": "llm: gone"}, "failed: llm: gone"),
        (answer(12.3, count=15), RECORD, "the answer is shorter than"),
        (answer(11.5), RECORD, "spoke over the visitor"),
    ],
)
def test_what_does_not_count_is_told_with_its_reason(
    sounds: list[HeardSound], record: dict[str, Any], why: str
) -> None:
    turn = measure(clip(), trace(sounds), record, {})
    assert not turn.counted and turn.note.startswith(why)
    assert turn.spoke_over == (why == "spoke over the visitor")


def with_events(noted: Trace, *events: tuple[float, int, str]) -> Trace:
    told = [(at_s, {"type": "turn", "turn": n, "event": life}) for at_s, n, life in events]
    noted.events[:0] = told
    return noted


def test_a_sound_counts_if_it_is_of_the_turn_that_answers_all_of_it() -> None:
    # An end was found in mid-sentence; a bit of that answer came after the end of the speech.
    noted = trace([sound(12.05, 50.0, 0), *answer(12.31)])
    with_events(noted, (11.5, 1, "opened"), (12.1, 1, "replaced"))
    turn = measure(clip(), noted, RECORD, {"speculation_discarded_total": 2.0})
    assert (turn.turns, turn.taken_back, turn.discarded) == (2, 1, 2)
    assert turn.counted and turn.figures["voice_to_voice"] == pytest.approx(0.31)
    assert turn.answer_s == pytest.approx(0.8)


def test_an_answer_to_a_part_of_the_question_does_not_count() -> None:
    noted = with_events(trace(answer(12.31)), (11.5, 1, "opened"), (11.7, 1, "interrupted"))
    turn = measure(clip(), noted, RECORD, {})
    assert not turn.counted and turn.note == "split into 2 turns"


def test_the_rest_of_an_older_answer_is_not_speaking_over() -> None:
    turn = measure(clip(), trace([sound(9.9, 40.0, 0), *answer(12.3)]), RECORD, {})
    assert turn.counted and turn.figures["voice_to_voice"] == pytest.approx(0.3)


def test_counters_give_means_and_underruns() -> None:
    counters = {
        "first_frame_seconds_sum": 0.35,
        "first_frame_seconds_count": 1.0,
        "asr_final_seconds_count": 1.0,
        "gateway_voice_underruns_total": 2.0,
    }
    turn = measure(clip(), trace(answer(12.3)), RECORD, counters)
    assert turn.figures["server_first_frame"] == pytest.approx(0.35)
    assert turn.figures["recognition_late"] == 0.0
    assert turn.figures["synthesis_first_audio"] is None
    assert turn.underruns == 2


def test_metrics_pages_are_summed_and_told_by_label() -> None:
    page = (
        "# TYPE turns counter\n"
        'turns_total{outcome="failed"} 1\nturns_total{outcome="finished"} 4\n'
        "# TYPE wait_seconds histogram\n"
        'wait_seconds_bucket{le="+Inf"} 3\nwait_seconds_count 3\nwait_seconds_sum 1.5\n'
    )
    counters = parse_counters(page)
    assert counters["turns_total"] == 5
    assert counters["turns_total{outcome=finished}"] == 4
    assert counters["wait_seconds_sum"] == 1.5
    grown = rise({"turns_total": 3.0, "wait_seconds_sum": 1.5}, counters)
    assert grown["turns_total"] == 2
    assert "wait_seconds_sum" not in grown


def test_a_turn_is_over_when_nothing_is_said_and_nothing_waits() -> None:
    noted = trace(answer(12.3))
    assert not ended(noted)
    noted.events.append((13.0, {"type": "state", "state": "listening"}))
    noted.events.append((13.0, {"type": "turn", "turn": 3, "event": "finished"}))
    assert not ended(noted)
    noted.events.append((13.5, {"type": "state", "state": "idle"}))
    assert ended(noted)


def test_an_answer_is_heard_for_so_long() -> None:
    noted = trace(answer(12.3, count=100))
    assert answered(noted, 1.0)
    assert not answered(noted, 5.0)
    assert not answered(noted, 0.0)


def test_sessions_are_of_one_language_and_no_longer_than_wanted() -> None:
    clips = [clip("a"), clip("b", "zh"), clip("c"), clip("d")]
    assert [[c.name for c in g] for g in sessions_of(clips, 2)] == [["a", "c"], ["d"], ["b"]]
    assert [len(g) for g in sessions_of(clips, 0)] == [3, 1]
