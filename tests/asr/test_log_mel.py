"""The log-mel spectrogram against values known from Whisper's definition."""

import numpy as np
import pytest

from services.asr.hearing.log_mel import (
    HOP_SAMPLES,
    N_MELS,
    log_mel,
    mel_filters,
)
from visavis.mel import SLANEY


def tone(frequency_hz: float, seconds: float = 1.0, level: float = 0.5) -> np.ndarray:
    t = np.arange(int(16_000 * seconds)) / 16_000
    return (level * np.sin(2 * np.pi * frequency_hz * t)).astype(np.float32)


def test_filters_have_equal_area_and_known_corners() -> None:
    filters = mel_filters()
    assert filters.shape == (N_MELS, 201)
    # The first bands as published with Whisper.
    assert filters[0, :3] == pytest.approx([0.0, 0.02486259, 0.0], abs=1e-6)
    assert filters[1, :3] == pytest.approx([0.0, 0.00199082, 0.02287177], abs=1e-6)
    assert filters[-20:].sum(axis=1) * 40 == pytest.approx(1.0, rel=0.03)


def test_a_tone_is_loudest_in_its_band() -> None:
    bands = SLANEY.edges_hz(N_MELS, 0, 8000)[1:-1]
    for frequency_hz in (300.0, 1000.0, 3000.0):
        mel = log_mel(tone(frequency_hz))
        loudest = bands[mel[:, 50].argmax()]
        assert loudest == pytest.approx(frequency_hz, rel=0.06)


def test_the_window_is_periodic_so_a_tone_does_not_leak() -> None:
    mel = log_mel(tone(1000.0))[:, 50]
    near = abs(int(mel.argmax()) - np.arange(N_MELS)) <= 2
    assert mel[~near] == pytest.approx(mel.max() - 2.0)


def test_silence_is_flat_at_the_floor() -> None:
    mel = log_mel(np.zeros(1600, np.float32))
    assert mel == pytest.approx((-10.0 + 4.0) / 4.0)


def test_nothing_lies_more_than_eight_below_the_peak() -> None:
    mel = log_mel(np.concatenate([tone(440), np.zeros(16_000, np.float32)]))
    assert mel.max() - mel.min() == pytest.approx(2.0, abs=1e-5)


@pytest.mark.parametrize("n_samples", [400, 1599, 16_001])
def test_one_frame_per_hop(n_samples: int) -> None:
    mel = log_mel(np.zeros(n_samples, np.float32))
    assert mel.shape == (N_MELS, n_samples // HOP_SAMPLES)
    assert mel.dtype == np.float32


@pytest.mark.parametrize("even", [0, 199, 361, 16_000])
def test_what_is_the_same_at_the_beginning_is_computed_once_and_comes_out_the_same(
    even: int,
) -> None:
    sound = np.random.default_rng(3).normal(size=16_000).astype(np.float32)
    sound[:even] = 0.3
    assert log_mel(sound, even_samples=even) == pytest.approx(log_mel(sound), abs=1e-5)


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="shape"):
        log_mel(np.zeros((1, 1600), np.float32))
    with pytest.raises(ValueError, match="400"):
        log_mel(np.zeros(10, np.float32))
