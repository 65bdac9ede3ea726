"""Sound -> the log-mel features that the audio-to-face network reads."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from visavis.errors import InvalidInputError

SAMPLE_RATE_HZ = 16_000
HOP_SAMPLES = 160
WINDOW_SAMPLES = 400
N_MELS = 40
_FFT_SIZE = 512
_LOW_HZ, _HIGH_HZ = 60.0, 7600.0
_FLOOR = 1e-6


def mel_from_hz(hz: NDArray[np.floating]) -> NDArray[np.float64]:
    """HTK mel scale (Young et al., The HTK Book)."""
    return np.asarray(2595.0 * np.log10(1.0 + np.asarray(hz, np.float64) / 700.0))


def hz_from_mel(mel: NDArray[np.floating]) -> NDArray[np.float64]:
    return np.asarray(700.0 * (10.0 ** (np.asarray(mel, np.float64) / 2595.0) - 1.0))


@cache
def filter_bank() -> NDArray[np.float32]:
    """Triangular mel filters over the power spectrum: [N_MELS, bins] float32."""
    low, high = mel_from_hz(np.array([_LOW_HZ, _HIGH_HZ]))
    edges_mel = np.linspace(low, high, N_MELS + 2)
    edges = hz_from_mel(edges_mel) / SAMPLE_RATE_HZ * _FFT_SIZE
    bins = np.arange(_FFT_SIZE // 2 + 1)[None, :]
    left, centre, right = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    rising, falling = (bins - left) / (centre - left), (right - bins) / (right - centre)
    return np.clip(np.minimum(rising, falling), 0.0, None).astype(np.float32)


@cache
def _window() -> NDArray[np.float32]:
    return np.hanning(WINDOW_SAMPLES).astype(np.float32)


def log_mel(pcm: NDArray[np.float32]) -> NDArray[np.float32]:
    """Log-mel of whole windows: pcm [N] float32 in -1..1 at 16 kHz -> [T, N_MELS] float32.

    Frame t covers samples t * HOP to t * HOP + WINDOW, so T = (N - WINDOW) // HOP + 1, or 0.
    InvalidInputError for another rank or dtype.
    """
    if pcm.ndim != 1 or pcm.dtype != np.float32:
        raise InvalidInputError(f"pcm: {pcm.dtype} of rank {pcm.ndim} instead of float32 of rank 1")
    if len(pcm) < WINDOW_SAMPLES:
        return np.zeros((0, N_MELS), np.float32)
    frames = np.lib.stride_tricks.sliding_window_view(pcm, WINDOW_SAMPLES)[::HOP_SAMPLES]
    power = np.abs(np.fft.rfft(frames * _window(), _FFT_SIZE)) ** 2
    return np.asarray(np.log(power @ filter_bank().T + _FLOOR), np.float32)
