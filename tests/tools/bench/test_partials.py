"""Partial transcripts: errors, what is taken back, cost by length."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from visavis.tools.bench.partials import (
    Understood,
    cost_per_second,
    joined,
    measure_partials,
    taken_back,
)
from visavis.tools.bench.visitor.clips import RATE_HZ, Clip, SpeechSpan
from visavis.tools.bench.visitor.trace import Trace


def clip(text: str = "", start: int = 1600, end: int = 16_000) -> Clip:
    pcm = np.zeros(end + 800, np.int16)
    pcm[start:end] = 1000
    return Clip("one", pcm, SpeechSpan(start, end, "label"), text, "en")


def heard(at_s: float, text: str, *, final: bool = False, utterance: int = 1) -> Any:
    event = {"type": "transcript", "utterance": utterance, "text": text, "final": final}
    return (at_s, event)


def test_first_partial_errors_and_what_was_taken_back() -> None:
    trace = Trace(10.0, 12.0)
    trace.events = [
        heard(10.6, "What his"),
        heard(11.0, "What is the"),
        heard(11.4, "What is the cap"),
        heard(12.3, "What is the capital?", final=True),
    ]
    found = measure_partials(clip("What is the capital"), trace)
    assert found.partials == 3
    assert found.first_partial_s == pytest.approx(0.6)
    assert found.interval_s == pytest.approx(0.4)
    # "his" and "cap" of nine words.
    assert found.error_against_final == pytest.approx(2 / 9, abs=0.001)
    assert found.error_against_text == 0
    assert (found.retracted_words, found.retracted_last_words) == (0, 2)


def test_a_word_inside_that_changes_is_taken_back() -> None:
    assert taken_back(["a", "b", "c"], ["a", "x", "c", "d"]) == (1, 1)
    assert taken_back(["a", "b"], ["a", "b", "c"]) == (0, 0)
    assert taken_back(["a", "b"], []) == (1, 1)


def test_an_utterance_cut_in_two_is_two_finals() -> None:
    trace = Trace(10.0, 12.0)
    trace.events = [
        heard(10.5, "One day", final=True),
        heard(11.0, "in", utterance=2),
        heard(12.3, "in London", final=True, utterance=2),
    ]
    found = measure_partials(clip("One day in London"), trace)
    assert found.finals == ["One day", "in London"]
    assert found.error_against_text == 0
    assert found.retracted_words == 0


def test_nothing_understood_is_told_as_such() -> None:
    found = measure_partials(clip("Hello"), Trace(10.0, 12.0))
    assert (found.partials, found.first_partial_s, found.error_against_final) == (0, None, None)


def test_cost_by_length() -> None:
    done = [Understood("x", length, cost_s=0.010 + 0.002 * length) for length in (1.0, 3.0, 9.0)]
    assert cost_per_second(done) == pytest.approx(0.002)
    assert cost_per_second(done[:2]) is None


def test_joined_clips_have_no_pause() -> None:
    (both,) = joined([clip("a"), clip("b")], counts=(2, 4))
    speech = 2 * (16_000 - 1600)
    assert both.text == "a b"
    assert both.speech_s == pytest.approx(speech / RATE_HZ + 0.08)
    assert both.span.end_samples == len(both.pcm)
