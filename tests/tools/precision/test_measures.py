"""Mel-cepstral distortion, against figures that are known beforehand."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from visavis.serving.errors import InvalidInputError
from visavis.tools.precision.mel_cepstrum import distortion_db, mel_cepstrum, warped

RATE_HZ = 16_000


def noise(seconds: float = 0.5, seed: int = 0) -> NDArray[np.float32]:
    samples = np.random.default_rng(seed).normal(0, 0.1, int(seconds * RATE_HZ))
    return samples.astype(np.float32)


def filtered(pcm: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.convolve(pcm, [1.0, 0.9], "same").astype(np.float32)


def test_the_same_sound_has_no_distortion_however_loud_it_is() -> None:
    assert distortion_db(noise(), noise(), RATE_HZ) == 0.0
    assert distortion_db(noise(), noise() * 2, RATE_HZ) < 0.01


def test_it_is_the_difference_of_the_smoothed_spectra_in_db() -> None:
    """Two sounds whose log spectra differ by a cosine of 3 dB: its mean square root is 3 / √2."""
    pcm = noise(2.0)
    cepstra, _ = mel_cepstrum(pcm, RATE_HZ)
    spectrum = np.fft.rfft(pcm)
    hz = np.fft.rfftfreq(len(pcm), 1 / RATE_HZ)
    top = 2595 * np.log10(1 + RATE_HZ / 2 / 700)
    wave = np.cos(3 * np.pi * 2595 * np.log10(1 + hz / 700) / top)
    other = np.fft.irfft(spectrum * 10 ** (3.0 * wave / 20), len(pcm)).astype(np.float32)
    shifted, _ = mel_cepstrum(other, RATE_HZ)
    moved = (shifted - cepstra).mean(axis=0) * 20 / np.log(10)
    assert moved[2] == pytest.approx(3.0, abs=0.15)
    assert np.abs(np.delete(moved, 2)).max() < 0.2
    assert distortion_db(pcm, other, RATE_HZ) == pytest.approx(3 / np.sqrt(2), abs=0.25)


def test_pauses_do_not_count() -> None:
    rest = np.zeros(RATE_HZ // 2, np.float32)
    clean, dirty = np.concatenate([noise(), rest]), np.concatenate([noise(), rest])
    dirty[-RATE_HZ // 4 :] += noise(0.25, seed=3) * 1e-4
    assert distortion_db(clean, dirty, RATE_HZ) < 0.01


def test_sounds_of_different_length_are_warped() -> None:
    stretched = np.concatenate([noise()[:4000], noise()[3600:]])
    assert distortion_db(noise(), stretched, RATE_HZ) < 0.7
    assert distortion_db(noise(), filtered(noise(0.525)), RATE_HZ) > 1.0


def test_the_cheapest_path_is_found() -> None:
    first = np.array([[0.0], [1.0], [2.0]])
    second = np.array([[0.0], [0.0], [1.0], [2.0], [2.0]])
    here, there = warped(first, second)
    assert list(zip(here, there, strict=True)) == [(0, 0), (0, 1), (1, 2), (2, 3), (2, 4)]


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        (np.zeros(100, np.float32), "sound of shape"),
        (np.zeros((2, 900), np.float32), "sound of shape"),
        (np.zeros(RATE_HZ, np.float32), "silent"),
    ],
)
def test_too_little_sound_and_a_silent_reference_are_told(
    reference: NDArray[np.float32], said: str
) -> None:
    with pytest.raises(InvalidInputError, match=said):
        distortion_db(reference, noise(1.0), RATE_HZ)
