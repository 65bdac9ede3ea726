"""Log-mel spectrogram as Whisper defines it (Radford et al. 2022, arXiv:2212.04356).

16 kHz, 25 ms periodic Hann window every 10 ms, power spectrum, triangular
filters on Slaney's mel scale (Auditory Toolbox, 1998) of equal area, log10
floored 8 below the loudest value, then (x + 4) / 4.
"""

from functools import cache

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from visavis.mel import SLANEY, triangles

SAMPLE_RATE_HZ = 16_000
HOP_SAMPLES = 160
WINDOW_SAMPLES = 400
N_MELS = 80

_FLOOR = 1e-10
_RANGE = 8.0
# BLAS spreads larger products over threads, which costs more than it saves here
# and takes cores from others.
_BLOCK_FRAMES = 16
# What is made of them on the way stays in the caches, and needs no fresh pages.
_PART_FRAMES = 8 * _BLOCK_FRAMES


@cache
def mel_filters(n_mels: int = N_MELS) -> NDArray[np.float32]:
    """[n_mels, WINDOW_SAMPLES / 2 + 1] float32: power bins -> mel bands."""
    edges_hz = SLANEY.edges_hz(n_mels, 0.0, SAMPLE_RATE_HZ / 2)
    weights = triangles(edges_hz, SAMPLE_RATE_HZ, WINDOW_SAMPLES, equal_area=True)
    return weights.astype(np.float32)


@cache
def _window() -> NDArray[np.float32]:
    return np.hanning(WINDOW_SAMPLES + 1)[:-1].astype(np.float32)


def _bands(frames: NDArray[np.float32], n_mels: int) -> NDArray[np.float32]:
    """frames: [T, WINDOW_SAMPLES] -> power in each band, [T, n_mels]."""
    spectrum = np.fft.rfft(frames * _window(), axis=-1)
    power = (spectrum.real**2 + spectrum.imag**2).astype(np.float32)
    n_frames, n_bins = power.shape
    padded = np.pad(power, ((0, -n_frames % _BLOCK_FRAMES), (0, 0)))
    blocks = padded.reshape(-1, _BLOCK_FRAMES, n_bins) @ mel_filters(n_mels).T
    return blocks.reshape(-1, n_mels)[:n_frames]


def log_mel(
    pcm: NDArray[np.float32], n_mels: int = N_MELS, *, even_samples: int = 0
) -> NDArray[np.float32]:
    """pcm: [N] float32 in -1..1 at 16 kHz -> [n_mels, N // HOP_SAMPLES] float32.

    even_samples: so many at the beginning are all the same: frames in which there is nothing else
    are computed once. Raises ValueError for another rank, or fewer samples than the window needs.
    """
    if pcm.ndim != 1:
        raise ValueError(f"log_mel takes [N] samples, got shape {pcm.shape}")
    if len(pcm) < WINDOW_SAMPLES:
        raise ValueError(f"log_mel takes at least {WINDOW_SAMPLES} samples, got {len(pcm)}")
    padded = np.pad(pcm.astype(np.float32), WINDOW_SAMPLES // 2, mode="reflect")
    frames = sliding_window_view(padded, WINDOW_SAMPLES)[::HOP_SAMPLES][: len(pcm) // HOP_SAMPLES]
    alike = max(0, min(even_samples - WINDOW_SAMPLES // 2, len(pcm) - HOP_SAMPLES) // HOP_SAMPLES)
    frames = frames[alike:]
    parts = [
        _bands(frames[first : first + _PART_FRAMES], n_mels)
        for first in range(0, len(frames), _PART_FRAMES)
    ]
    bands = np.ascontiguousarray(np.concatenate(parts).T)
    mel = np.log10(np.maximum(bands, _FLOOR))
    if alike:
        mel = np.concatenate([np.repeat(mel[:, :1], alike, axis=1), mel], axis=1)
    loud = np.maximum(mel, mel.max() - _RANGE)
    scaled: NDArray[np.float32] = ((loud + 4.0) / 4.0).astype(np.float32)
    return scaled
