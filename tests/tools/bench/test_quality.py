"""Lips at p, b, m; words spoken and heard; the table of both."""

from __future__ import annotations

import numpy as np
import pytest
from rich.console import Console

from tests.tools.bench.test_turn_figures import sound
from visavis.tools.bench.figures.lips import Closure, Lips, closure, is_open, lip_gap
from visavis.tools.bench.figures.word_errors import WordErrors
from visavis.tools.bench.quality import quality_table, values_of, voice_of
from visavis.tools.bench.visitor.trace import Trace
from visavis.wire.media import PhonemeSpan

RATE_HZ, FPS = 24_000, 25


def span(symbol: str, start_ms: int, length_ms: int) -> PhonemeSpan:
    return PhonemeSpan(symbol, start_ms * RATE_HZ // 1000, length_ms * RATE_HZ // 1000)


def test_the_gap_is_what_the_jaw_opens_and_the_lips_do_not_take_back() -> None:
    weights = np.array([[0.5, 0.5], [0.5, 0.1], [0.0, 0.2]], np.float32)
    assert lip_gap(weights, ["jawOpen", "mouthClose"]).tolist() == pytest.approx([0.0, 0.4, 0.0])


def test_lips_count_as_closed_if_any_picture_of_the_phoneme_shows_them_so() -> None:
    gaps = np.array([0.3, 0.02, 0.3, 0.3, 0.3, 0.6], np.float32)
    spans = [span("M", 20, 60), span("P", 100, 40), span("AA1", 190, 50), span("S", 0, 20)]
    found = closure(spans, gaps, FPS, RATE_HZ)
    # M is shown by picture 1 (40 ms), P by picture 3 (120 ms), AA1 by picture 5 (200 ms).
    assert found.bilabial_gaps == pytest.approx((0.02, 0.3))
    assert found.open_gaps == pytest.approx((0.6,))
    assert found.closed == 1


def test_a_short_phoneme_is_held_against_the_nearest_picture_and_one_behind_the_last_left_out() -> (
    None
):
    gaps = np.array([0.5, 0.5, 0.01, 0.5], np.float32)
    assert closure([span("b", 85, 10)], gaps, FPS, RATE_HZ).closed == 1
    assert closure([span("b", 900, 40)], gaps, FPS, RATE_HZ) == Closure((), ())


def test_open_vowels_of_both_languages() -> None:
    assert is_open("AA1") and is_open("ang4") and is_open("ia3")
    assert not is_open("IY0") and not is_open("i1") and not is_open("sil")


def test_the_voice_is_what_was_received_between_its_first_and_last_sound() -> None:
    sounds = [sound(i * 0.02, i * 0.02, 0 if 20 <= i < 60 else None) for i in range(100)]
    pcm = np.frombuffer(voice_of(Trace(sounds=sounds)), "<i2")
    assert len(pcm) / 16_000 == pytest.approx(0.02 * (40 + 10), abs=0.01)
    assert voice_of(Trace()) == b""


def test_the_table_shows_quality_beside_latency() -> None:
    lips = Lips()
    lips.add(Closure((0.0, 0.5), (0.4,)))
    values = values_of(WordErrors(1, 20), WordErrors(0, 0), {"durations": lips})
    latency = {"voice_to_voice": {"count": 4, "p50": 0.3, "p90": 0.4}}
    console = Console(width=140)
    with console.capture() as capture:
        console.print(quality_table(values, latency))
    text = capture.get()
    assert "5.0%" in text and "50.0%" in text
    assert "0.300 s / 0.400 s" in text
