"""Levels, log-mel, spans: the arithmetic that both voices share."""

from __future__ import annotations

import numpy as np
import pytest

from services.tts.sound import (
    HOP_SAMPLES,
    MEL_MARGIN_SAMPLES,
    SAMPLE_RATE_HZ,
    Span,
    cut_spans,
    limit,
    log_mel,
    log_mel_padded,
    place_spans,
    silence,
    spoken_hops,
    to_pcm,
)
from services.tts.text.english import arpabet_spans
from services.tts.text.mandarin import pinyin_spans


def tone(hz: float, hops: int) -> np.ndarray:
    time = np.arange(hops * HOP_SAMPLES) / SAMPLE_RATE_HZ
    return np.sin(2 * np.pi * hz * time).astype(np.float32) * np.float32(0.5)


def test_log_mel_has_a_frame_per_hop_and_its_peak_at_the_tone() -> None:
    low, high = log_mel(tone(300, 10)), log_mel(tone(3000, 10))
    assert low.shape == (10, 80)
    assert low.dtype == np.float32
    assert low[5].argmax() < high[5].argmax()


def test_log_mel_of_a_piece_with_surroundings_is_that_of_the_whole() -> None:
    voice = np.random.default_rng(1).standard_normal(20 * HOP_SAMPLES).astype(np.float32)
    start, end = 5 * HOP_SAMPLES, 12 * HOP_SAMPLES
    piece = log_mel_padded(voice[start - MEL_MARGIN_SAMPLES : end + MEL_MARGIN_SAMPLES])
    np.testing.assert_allclose(piece, log_mel(voice)[5:12], atol=1e-4)


def test_silence_is_the_floor_of_log_mel() -> None:
    quiet = silence(4)
    np.testing.assert_allclose(quiet.mel, log_mel(quiet.voice))
    assert [(span.symbol, span.hops) for span in quiet.spans] == [("sil", 4)]


def test_limit_leaves_speech_alone_and_keeps_peaks_below_one() -> None:
    loud = np.array([0.1, -0.79, 0.95, -3.0], np.float32)
    limited = limit(loud)
    np.testing.assert_array_equal(limited[:2], loud[:2])
    assert np.abs(limited).max() <= 1.0
    assert np.abs(to_pcm(limited)).max() <= 32767
    assert limit(np.zeros(0, np.float32)).size == 0


def test_spoken_hops_finds_the_sound() -> None:
    voice = np.concatenate([np.zeros(5 * HOP_SAMPLES, np.float32), tone(200, 4), np.zeros(1800)])
    assert spoken_hops(voice.astype(np.float32), margin_hops=1) == (4, 10)
    assert spoken_hops(np.zeros(900, np.float32)) == (0, 0)


def test_cut_and_place_spans() -> None:
    spans = [Span("a", 3), Span("b", 4), Span("c", 2)]
    assert cut_spans(spans, 2, 8) == [Span("a", 1), Span("b", 4), Span("c", 1)]
    placed = place_spans(spans, 3, 8)
    assert [(span.symbol, span.start_hops, span.hops) for span in placed] == [
        ("b", 0, 4),
        ("c", 4, 2),
    ]


def test_english_letters_become_arpabet_without_losing_time() -> None:
    letters = ["", *"həlˈO wˈɜɹld.", ""]
    hops = [4, 2, 2, 2, 3, 5, 2, 2, 3, 2, 2, 2, 2, 6, 1]
    spans = arpabet_spans(letters, hops)
    assert sum(span.hops for span in spans) == sum(hops)
    assert [span.symbol for span in spans] == [
        "sil", "HH", "AH0", "L", "OW1", "W", "ER1", "L", "D", "sil",
    ]  # fmt: skip


@pytest.mark.parametrize("letters", ["ˈ", " ˈ ", "ː", ",.", "xˈ"])
def test_odd_letters_keep_their_time(letters: str) -> None:
    hops = [3] * len(letters)
    assert sum(span.hops for span in arpabet_spans(list(letters), hops)) == sum(hops)


def test_pinyin_marks_go_to_their_neighbours() -> None:
    symbols = ["sil", "n", "i2", "#0", "^", "uo3", "#3", "h", "ao3", "sil", "eos"]
    hops = [4, 3, 6, 2, 1, 7, 9, 3, 8, 5, 2]
    spans = pinyin_spans(symbols, hops)
    assert sum(span.hops for span in spans) == sum(hops)
    assert [(span.symbol, span.hops) for span in spans] == [
        ("sil", 4), ("n", 3), ("i2", 8), ("uo3", 8), ("sil", 9), ("h", 3), ("ao3", 8), ("sil", 7),
    ]  # fmt: skip
