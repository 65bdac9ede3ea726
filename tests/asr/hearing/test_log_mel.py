"""The log-mel spectrogram against Whisper's definition."""

import numpy as np
import pytest

from services.asr.hearing.log_mel import HOP_SAMPLES, N_MELS, log_mel, mel_filters


def as_defined(pcm: np.ndarray) -> np.ndarray:
    """In float64, one frame for each hop: windows are periodic, so that a tone does not leak."""
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 400)
    padded = np.pad(pcm.astype(float), 200, mode="reflect")
    starts = range(0, len(pcm) // HOP_SAMPLES * HOP_SAMPLES, HOP_SAMPLES)
    spectra = [np.fft.rfft(padded[start : start + 400] * window) for start in starts]
    mel = np.log10(np.maximum(mel_filters() @ np.abs(np.array(spectra).T) ** 2, 1e-10))
    return np.asarray((np.maximum(mel, mel.max() - 8.0) + 4.0) / 4.0)


def test_filters_have_equal_area_and_known_corners() -> None:
    filters = mel_filters()
    assert filters.shape == (N_MELS, 201)
    # The first bands as published with Whisper.
    assert filters[0, :3] == pytest.approx([0.0, 0.02486259, 0.0], abs=1e-6)
    assert filters[1, :3] == pytest.approx([0.0, 0.00199082, 0.02287177], abs=1e-6)
    assert filters[-20:].sum(axis=1) * 40 == pytest.approx(1.0, rel=0.03)


@pytest.mark.parametrize("n_samples", [400, 1599, 16_001])
@pytest.mark.parametrize("heard", ["nothing", "a tone", "noise, and then nothing"])
def test_it_is_as_whisper_defines_it(heard: str, n_samples: int) -> None:
    t = np.arange(n_samples)
    sound = {
        "nothing": np.zeros(n_samples),
        "a tone": 0.5 * np.sin(2 * np.pi * 1000 * t / 16_000),
        "noise, and then nothing": np.random.default_rng(1).normal(size=n_samples) * (t < 8000),
    }[heard].astype(np.float32)
    mel = log_mel(sound)
    assert mel.shape == (N_MELS, n_samples // HOP_SAMPLES) and mel.dtype == np.float32
    np.testing.assert_allclose(mel, as_defined(sound), atol=1e-4)


@pytest.mark.parametrize("even", [0, 199, 361, 16_000])
def test_what_is_even_at_the_beginning_comes_out_the_same(even: int) -> None:
    sound = np.random.default_rng(3).normal(size=16_000).astype(np.float32)
    sound[:even] = 0.3
    assert log_mel(sound, even_samples=even) == pytest.approx(log_mel(sound), abs=1e-5)


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="shape"):
        log_mel(np.zeros((1, 1600), np.float32))
    with pytest.raises(ValueError, match="400"):
        log_mel(np.zeros(10, np.float32))
