"""Sound of the turn-taking clips: levels, where speech begins and ends, pauses put in."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

SAMPLE_RATE_HZ = 16_000
_HOP_SAMPLES = SAMPLE_RATE_HZ // 100
# A hop this far below the loud ones holds no speech.
_SPEECH_RANGE_DB = 30.0
_SMOOTH_HOPS = 3
_FLOOR_MARGIN_DB = 9.0
_SHORTEST_PAUSE_HOPS = 15
# Digital silence never comes out of a microphone.
_ROOM_NOISE = 10 ** (-62 / 20)
_LOUDNESS_RMS = 10 ** (-23 / 20)
_FADE_SAMPLES = SAMPLE_RATE_HZ // 200


@dataclass(frozen=True, slots=True)
class Spoken:
    """pcm: [N] float32 at 16 kHz; `pauses` within it as (first, end) in samples."""

    pcm: NDArray[np.float32]
    pauses: tuple[tuple[int, int], ...] = ()


def levels_db(pcm: NDArray[np.float32]) -> NDArray[np.float64]:
    """RMS of every 10 ms of pcm [N] float32, [hops] float64 in dB."""
    n_hops = len(pcm) // _HOP_SAMPLES
    hops = pcm[: n_hops * _HOP_SAMPLES].reshape(n_hops, _HOP_SAMPLES).astype(np.float64)
    return np.asarray(20 * np.log10(np.sqrt((hops**2).mean(axis=1)) + 1e-7))


def speech_hops(pcm: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Which hops of 10 ms of pcm [N] float32 hold speech, by level alone: [hops] bool."""
    padded = np.pad(levels_db(pcm), _SMOOTH_HOPS // 2, mode="edge")
    level = np.convolve(padded, np.full(_SMOOTH_HOPS, 1 / _SMOOTH_HOPS), "valid")
    loud = float(np.percentile(level, 97))
    floor = float(np.percentile(level, 3)) + _FLOOR_MARGIN_DB
    return np.asarray(level > max(loud - _SPEECH_RANGE_DB, min(floor, loud - 15.0)))


def trimmed(pcm: NDArray[np.float32]) -> NDArray[np.float32]:
    """pcm [N] float32 from the first hop of speech to the last."""
    found = np.flatnonzero(speech_hops(pcm))
    return pcm[found[0] * _HOP_SAMPLES : (found[-1] + 1) * _HOP_SAMPLES]


def natural_pauses(pcm: NDArray[np.float32]) -> tuple[tuple[int, int], ...]:
    """Silences of 150 ms and more between the speech of pcm [N] float32, in samples."""
    speech = speech_hops(pcm)
    edges = np.flatnonzero(np.diff(np.concatenate([[1], speech.astype(np.int8), [1]])))
    spans = zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
    return tuple(
        (first * _HOP_SAMPLES, end * _HOP_SAMPLES)
        for first, end in spans
        if end - first >= _SHORTEST_PAUSE_HOPS and first > 0 and end < len(speech)
    )


def with_pause(spoken: Spoken, at: int, length: int) -> Spoken:
    """`length` samples of silence put in at `at`, where the speaker may have paused already."""
    before, after = faded_out(spoken.pcm[:at]), faded_out(spoken.pcm[at:][::-1])[::-1]
    gap = np.zeros(length, np.float32)
    moved = {(at, at + length)}
    for first, end in spoken.pauses:
        if first <= at < end:
            moved = {(first, end + length)} | (moved - {(at, at + length)})
        else:
            moved.add((first + length, end + length) if first > at else (first, end))
    pauses = tuple(sorted(moved))
    return replace(spoken, pcm=np.concatenate([before, gap, after]), pauses=pauses)


def joined(parts: list[NDArray[np.float32]], gaps: list[int]) -> Spoken:
    """Parts, [N] float32 each, with len(parts) - 1 silences of `gaps` samples in between."""
    pcm, pauses = parts[0], list[tuple[int, int]]()
    for gap, part in zip(gaps, parts[1:], strict=True):
        pauses.append((len(pcm), len(pcm) + gap))
        pcm = np.concatenate([pcm, np.zeros(gap, np.float32), part])
    return Spoken(pcm.astype(np.float32), tuple(pauses))


def faded_out(pcm: NDArray[np.float32]) -> NDArray[np.float32]:
    """pcm [N] float32 with an end that does not click."""
    n = min(_FADE_SAMPLES, len(pcm))
    fade = np.linspace(1.0, 0.0, n, dtype=np.float32)
    return np.concatenate([pcm[: len(pcm) - n], pcm[len(pcm) - n :] * fade])


def in_a_room(spoken: Spoken, margin: int, seed: int) -> Spoken:
    """At one loudness, with `margin` samples around it and quiet noise under all of it."""
    rms = float(np.sqrt((spoken.pcm[np.abs(spoken.pcm) > 1e-3] ** 2).mean()))
    pcm = np.pad(spoken.pcm * (_LOUDNESS_RMS / rms), margin)
    noise = np.random.default_rng(seed).normal(size=len(pcm)) * _ROOM_NOISE
    level = np.clip(pcm + noise, -1, 1).astype(np.float32)
    pauses = tuple((first + margin, end + margin) for first, end in spoken.pauses)
    return Spoken(level, pauses)
