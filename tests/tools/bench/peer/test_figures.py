"""Pipecat's marks become the same figures as ours."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tools.bench.peer.figures import compared, interruption_of, paired, ratio, turn_of

MARKS = [
    ("llm_asked", 9.0), ("token", 9.1), ("tts_begins", 9.2), ("tts_sound", 9.3),  # cut off
    ("vad_started", 10.3), ("vad_stopped", 12.24), ("stt_begins", 12.241), ("stt_ends", 12.29),
    ("turn_ended", 12.291), ("llm_asked", 12.292), ("token", 12.35), ("token", 12.36),
    ("tts_begins", 12.47), ("tts_sound", 12.50), ("tts_begins", 13.0), ("tts_sound", 13.1),
]  # fmt: skip


def told(first_s: float, pieces: int = 30, **more: Any) -> dict[str, Any]:
    """A question spoken from 10 s to 12 s, answered from `first_s` on in pieces of 40 ms."""
    sounds = [(first_s + 0.04 * i, 0, 960) for i in range(pieces)]
    return {
        "kind": "question", "clip": "one", "speech_start_s": 10.0, "speech_end_s": 12.0,
        "marks": MARKS, "sounds": sounds, "rate_hz": 24_000, "transcript": "Hi", "answer": "Hello.",
        "cpu_s": 1.0, "memory_bytes": 5e8, **more,
    }  # fmt: skip


def test_each_stage_is_told_apart_and_the_rest_is_overhead() -> None:
    turn = turn_of(told(12.502))
    assert turn.counted
    figures = {name: round(value or 0, 4) for name, value in turn.figures.items()}
    assert figures["voice_to_voice"] == 0.502
    assert figures["end_of_turn"] == 0.291
    assert figures["recognition"] == 0.049
    assert figures["first_token"] == 0.058
    assert figures["first_phrase"] == 0.12
    assert figures["synthesis"] == 0.03
    assert figures["overhead"] == 0.004


def test_what_does_not_count_for_us_does_not_count_for_them() -> None:
    assert turn_of(told(11.0)).spoke_over
    assert "shorter" in turn_of(told(12.5, pieces=5)).note
    assert "heard" in turn_of(told(12.5, pieces=0)).note


def test_an_answer_to_a_part_that_nobody_heard_is_taken_back_and_a_heard_one_splits() -> None:
    twice = [("turn_ended", 11.0), ("turn_ended", 11.001), *MARKS]
    assert turn_of(told(12.502, marks=[*MARKS, ("turn_ended", 12.292)])).turns == 1
    taken_back = turn_of(told(12.502, marks=twice))
    assert (taken_back.turns, taken_back.taken_back, taken_back.counted) == (2, 1, True)
    late = [*MARKS, ("turn_ended", 12.6)]
    # What was heard between the end of speech and the last end of a turn answered a part.
    split = turn_of(told(12.502, marks=late))
    assert (split.turns, split.taken_back, split.counted) == (2, 0, False)
    assert split.note == "split into 2 turns"


def test_a_ratio_is_of_the_questions_that_count_on_both_sides() -> None:
    theirs = [turn_of(told(12.5 + 0.1 * n, clip=str(n))) for n in range(8)]
    ours = [turn_of(told(12.25 + 0.05 * n, clip=str(n))) for n in range(8)]
    ours[7].counted = False
    theirs[7].figures["voice_to_voice"] = 100.0
    found = paired(ours, theirs, "voice_to_voice", 50)
    assert found is not None and found.questions == 7
    assert found.value == pytest.approx(0.5) and found.within == pytest.approx((0.5, 0.5))
    few = paired(ours[:3], theirs, "voice_to_voice", 50)
    assert few is not None and few.within is None
    assert paired([], theirs, "voice_to_voice", 50) is None


def test_interruption_ends_with_the_last_audible_piece_of_the_old_answer() -> None:
    marks = [("interrupted", 10.3), ("tts_sound", 12.4)]
    cut = told(9.0, pieces=34, marks=marks)
    cut["sounds"].append((12.5, 0, 960))  # the next answer
    outcome = interruption_of(cut)
    assert outcome.stopped
    assert outcome.silence_s == pytest.approx(0.32, abs=0.001)
    assert outcome.detected_s == pytest.approx(0.3)
    assert not interruption_of(told(9.0, marks=[])).stopped
    assert interruption_of(told(11.0, marks=marks)).note


def test_ratios_are_ours_by_theirs() -> None:
    ours = compared([turn_of(told(12.251))], [])
    theirs = compared([turn_of(told(12.502))], [])
    found = ratio(ours["voice_to_voice"], theirs["voice_to_voice"], "p50")
    assert found == pytest.approx(0.5, abs=0.001)
    assert ratio(None, theirs["voice_to_voice"], "p50") is None
