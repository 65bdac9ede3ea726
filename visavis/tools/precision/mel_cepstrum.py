"""Mel-cepstral distortion: how far apart two voices saying the same are, in decibels.

Kubichek 1993, "Mel-cepstral distance measure for objective speech quality assessment":
10 / ln 10 * sqrt(2 * sum over d of (c_d - c'_d)^2), without c_0, the loudness; here the mean over
the frames in which the reference speaks, with 24 coefficients as is usual for synthesis (Kominek,
Schultz & Black 2008). The cepstrum is the cosine transform of the logarithmic mel amplitudes, so
that the figure is the root mean square difference of the smoothed spectra.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from visavis.mel import HTK, triangles
from visavis.serving.errors import InvalidInputError

COEFFICIENTS = 24
_BANDS = 80
_WINDOW_S, _HOP_S = 0.025, 0.005
_SPEECH_DB = 40.0
"""Frames this much below the loudest one are pauses; a quantised pause is no quantised voice."""
_FLOOR = 1e-10


def distortion_db(
    reference: NDArray[np.float32], other: NDArray[np.float32], sample_rate_hz: int
) -> float:
    """Mel-cepstral distortion of two sounds, [N] and [M] float32 in -1..1, in dB.

    Sounds of one length are compared frame by frame; of different lengths along the path of
    dynamic time warping. Raises InvalidInputError for sounds without a frame or without speech.
    """
    first, loudness = mel_cepstrum(reference, sample_rate_hz)
    second, _ = mel_cepstrum(other, sample_rate_hz)
    speaks = loudness > loudness.max() - _SPEECH_DB
    if loudness.max() <= 10 * np.log10(_FLOOR) + 1:
        raise InvalidInputError("the reference is silent")
    if len(first) == len(second):
        here = there = np.arange(len(first))
    else:
        here, there = warped(first, second)
    kept = speaks[here]
    apart = first[here[kept]] - second[there[kept]]
    return float(np.mean(10 / np.log(10) * np.sqrt(2 * np.sum(apart**2, axis=1))))


def mel_cepstrum(
    pcm: NDArray[np.float32], sample_rate_hz: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """pcm [N] float32 -> cepstra [T, COEFFICIENTS] from c_1 on, loudness [T] in dB, both float64.

    Raises InvalidInputError for sound of another rank or without a whole frame.
    """
    window, hop = round(_WINDOW_S * sample_rate_hz), round(_HOP_S * sample_rate_hz)
    if pcm.ndim != 1 or len(pcm) < window:
        raise InvalidInputError(f"sound of shape {list(pcm.shape)}, less than {window} samples")
    frames = np.lib.stride_tricks.sliding_window_view(pcm, window)[::hop]
    size = 1 << (window - 1).bit_length()
    power = np.abs(np.fft.rfft(frames * np.hanning(window), size)) ** 2 / size
    amplitude = 0.5 * np.log(power @ _filters(size, sample_rate_hz).T + _FLOOR)
    order = np.arange(1, COEFFICIENTS + 1)[None, :]
    angle = np.pi * (np.arange(_BANDS)[:, None] + 0.5) / _BANDS
    loudness = 10 * np.log10(power.sum(axis=1) + _FLOOR)
    return amplitude @ np.cos(order * angle) * (2 / _BANDS), loudness


def _filters(size: int, sample_rate_hz: int) -> NDArray[np.float64]:
    """Triangles of equal width on the mel scale and of sum 1."""
    edges_hz = HTK.edges_hz(_BANDS, 0.0, sample_rate_hz / 2)
    weights = triangles(edges_hz, sample_rate_hz, size)
    # The lowest ones are narrower than a bin: they take the nearest.
    empty = np.flatnonzero(weights.sum(axis=1) == 0)
    weights[empty, np.rint(edges_hz[1:-1][empty] / sample_rate_hz * size).astype(int)] = 1.0
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def warped(
    first: NDArray[np.float64], second: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Dynamic time warping (Sakoe & Chiba 1978): the pairs of frames of the cheapest path.

    first: [T, C], second: [U, C], both float64 -> two times [pairs] int64. Steps go one frame
    forward in either or both; the cost is the Euclidean distance.
    """
    squares = (first**2).sum(1)[:, None] + (second**2).sum(1)[None, :] - 2 * first @ second.T
    cost = np.sqrt(np.maximum(squares, 0))
    total = np.full((len(first) + 1, len(second) + 1), np.inf)
    total[0, 0] = 0.0
    for i in range(1, len(first) + 1):
        above = np.minimum(total[i - 1, 1:], total[i - 1, :-1])
        row = total[i]
        for j in range(1, len(second) + 1):
            row[j] = cost[i - 1, j - 1] + min(above[j - 1], row[j - 1])
    i, j = len(first), len(second)
    path = []
    while i > 0 and j > 0:
        path.append((i - 1, j - 1))
        best = min((total[i - 1, j - 1], 0), (total[i - 1, j], 1), (total[i, j - 1], 2))[1]
        i, j = i - (best != 2), j - (best != 1)
    here, there = np.array(path[::-1], np.int64).T
    return here, there
