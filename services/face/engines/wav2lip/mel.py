"""Sound -> the mel spectrogram that Wav2Lip was trained on, and its window for every frame.

16 kHz, pre-emphasis 0.97, windows of 800 samples every 200, magnitudes (not powers) through 80
filters of unit area on Slaney's mel scale from 55 to 7600 Hz, decibels below 20 dB scaled to
-4 .. 4: the settings that were published with the network.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import soxr
from numpy.typing import NDArray

from visavis.mel import SLANEY, triangles
from visavis.serving.errors import InvalidInputError
from visavis.wire.media import check_sample_rate

SAMPLE_RATE_HZ = 16_000
HOP_SAMPLES = 200
WINDOW_SAMPLES = 800
N_MELS = 80
WINDOW_HOPS = 16
"""Hops that one picture is drawn from: 200 ms."""
SILENCE = -4.0
_LOW_HZ, _HIGH_HZ = 55.0, 7600.0
_PRE_EMPHASIS = 0.97
_FLOOR = 1e-5
_REFERENCE_DB, _RANGE_DB, _LARGEST = 20.0, 100.0, 4.0
_HOP_RATE_HZ = SAMPLE_RATE_HZ / HOP_SAMPLES
_FRAMES_BEFORE = 1
"""The window of a frame begins one frame earlier: so the network was trained."""
_KEPT_HOPS = 200


@cache
def _filters() -> NDArray[np.float32]:
    """Over the magnitudes: [bins, N_MELS]."""
    edges_hz = SLANEY.edges_hz(N_MELS, _LOW_HZ, _HIGH_HZ)
    weights = triangles(edges_hz, SAMPLE_RATE_HZ, WINDOW_SAMPLES, equal_area=True)
    return weights.T.astype(np.float32)


@cache
def _window() -> NDArray[np.float32]:
    return (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW_SAMPLES) / WINDOW_SAMPLES)).astype(
        np.float32
    )


def mel_hops(emphasised: NDArray[np.float32]) -> NDArray[np.float32]:
    """Sound [N] after pre-emphasis -> [T, N_MELS] for the T windows that fit into it, float32."""
    if len(emphasised) < WINDOW_SAMPLES:
        return np.zeros((0, N_MELS), np.float32)
    views = np.lib.stride_tricks.sliding_window_view(emphasised, WINDOW_SAMPLES)[::HOP_SAMPLES]
    magnitudes = np.abs(np.fft.rfft(views * _window()))
    decibels = 20 * np.log10(np.maximum(_FLOOR, magnitudes @ _filters())) - _REFERENCE_DB
    scaled = 2 * _LARGEST * (decibels + _RANGE_DB) / _RANGE_DB - _LARGEST
    return np.asarray(np.clip(scaled, -_LARGEST, _LARGEST), np.float32)


def silent_window() -> NDArray[np.float32]:
    """What the network gets while nobody speaks: [N_MELS, WINDOW_HOPS] float32."""
    return np.full((N_MELS, WINDOW_HOPS), SILENCE, np.float32)


class MelTrack:
    """Holds the spectrogram of one turn as it becomes known; a SoundTrack."""

    def __init__(self, fps: int) -> None:
        self._fps = fps
        self._first = 0
        self._hops = np.zeros((0, N_MELS), np.float32)
        self._complete = False

    @property
    def known_s(self) -> float:
        """Below 0 while not even the first frame has its sound."""
        if self._complete:
            return math.inf
        hops = self._first + len(self._hops) - WINDOW_HOPS
        return hops / _HOP_RATE_HZ + _FRAMES_BEFORE / self._fps

    def add(self, hops: NDArray[np.float32], *, last: bool) -> None:
        """Append hops [K, N_MELS] float32; after `last`, silence follows."""
        self._hops = np.concatenate([self._hops, hops])
        self._complete = last

    def window(self, index: int) -> NDArray[np.float32] | None:
        """[N_MELS, WINDOW_HOPS] float32 around frame `index`; None as `SoundTrack` has it."""
        start = math.floor((index - _FRAMES_BEFORE) * _HOP_RATE_HZ / self._fps)
        self._forget(start - _KEPT_HOPS)
        end = start + WINDOW_HOPS
        known = self._first + len(self._hops)
        over = self._complete and index * _HOP_RATE_HZ / self._fps > known
        if over or (end > known and not self._complete) or (0 < self._first > start):
            return None
        window = silent_window()
        low, high = max(start, 0), min(end, known)
        if low < high:
            window[:, low - start : high - start] = self._hops[
                low - self._first : high - self._first
            ].T
        return window

    def _forget(self, before: int) -> None:
        spare = before - self._first
        if spare > _KEPT_HOPS:
            self._hops, self._first = self._hops[spare:], self._first + spare


class MelEar:
    """Hears one turn: sound in pieces of any length and rate; an Ear."""

    def __init__(self, sample_rate_hz: int, fps: int) -> None:
        """Raises InvalidInputError for a rate outside 8000 to 48000."""
        self.track = MelTrack(fps)
        self._resampler = None
        if check_sample_rate(sample_rate_hz) != SAMPLE_RATE_HZ:
            self._resampler = soxr.ResampleStream(
                sample_rate_hz, SAMPLE_RATE_HZ, 1, dtype="float32", quality="MQ"
            )
        # The first window is centred on the first sample: silence stands before it.
        self._sound = np.zeros(WINDOW_SAMPLES // 2, np.float32)
        self._before = np.float32(0)

    def features(self, pcm: NDArray[np.int16], *, last: bool) -> NDArray[np.float32]:
        """pcm [N] int16 -> hops [K, N_MELS] float32. Raises InvalidInputError for another rank or
        dtype."""
        if pcm.ndim != 1 or pcm.dtype != np.int16:
            raise InvalidInputError(f"pcm: {pcm.dtype} of rank {pcm.ndim}, not int16 of rank 1")
        sound = pcm.astype(np.float32) / 32768.0
        if self._resampler is not None:
            sound = np.asarray(self._resampler.resample_chunk(sound, last=last), np.float32)
        after = np.zeros(WINDOW_SAMPLES // 2 if last else 0, np.float32)
        self._sound = np.concatenate([self._sound, self._emphasised(sound), after])
        hops = mel_hops(self._sound)
        self._sound = self._sound[len(hops) * HOP_SAMPLES :]
        return hops

    def add(self, features: NDArray[np.float32], *, last: bool) -> None:
        """features: hops [K, N_MELS] float32."""
        self.track.add(features, last=last)

    def _emphasised(self, sound: NDArray[np.float32]) -> NDArray[np.float32]:
        joined = np.concatenate([[self._before], sound]).astype(np.float32)
        self._before = joined[-1]
        return joined[1:] - np.float32(_PRE_EMPHASIS) * joined[:-1]
