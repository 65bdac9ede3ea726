"""Where speech begins and ends in a recording: the zero of every latency figure.

Best is a label beside the sound (`clip.json` with `speech_start_s` and `speech_end_s`, as
`visavis bench questions` writes it: what we made ourselves we know to the sample). Without
one the energy decides: see `span_by_energy`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visavis.errors import InvalidInputError

FRAME_S = 0.010
BELOW_LOUD_DB = 30.0
ABOVE_NOISE_DB = 9.0
SHORTEST_SPEECH_S = 0.05
# Synthetic speech lies on perfect silence: what is louder than this is voice.
SYNTHETIC_FLOOR = 10 ** (-50 / 20)
ENERGY_METHOD = (
    "energy: first and last 10 ms frame, in runs of at least 50 ms, that is within 30 dB of "
    "the loud frames (95th percentile) and 9 dB above the noise (10th percentile)"
)


@dataclass(frozen=True, slots=True)
class SpeechSpan:
    """Speech from `start_samples` up to `end_samples`, and how that is known."""

    start_samples: int
    end_samples: int
    method: str


def span_by_energy(pcm: NDArray[np.int16], sample_rate_hz: int) -> SpeechSpan:
    """The span of the speech in pcm [N], exact to 10 ms.

    A final consonant more than 30 dB below the vowels is not seen: the end may lie some
    tens of ms too early (20 ms by the median of our labelled questions), which makes
    latencies longer. Noise that swells after the speech, such as applause, is taken for
    speech: such a recording needs a label. Raises InvalidInputError where nothing rises
    above the noise.
    """
    size = round(FRAME_S * sample_rate_hz)
    levels = frame_levels_db(pcm, size)
    if not len(levels) or not np.any(pcm):
        raise InvalidInputError("there is no speech in it")
    loud, noise = np.percentile(levels, [95, 10])
    # In a recording without pauses the quietest tenth is speech, not noise.
    floor = min(noise + ABOVE_NOISE_DB, loud - 12.0)
    voiced = levels > max(loud - BELOW_LOUD_DB, floor)
    voiced &= _in_long_runs(voiced, round(SHORTEST_SPEECH_S / FRAME_S))
    where = np.flatnonzero(voiced)
    if not len(where):
        raise InvalidInputError("there is no speech in it that stands out from the noise")
    end = min(len(pcm), int(where[-1] + 1) * size)
    return SpeechSpan(int(where[0]) * size, end, ENERGY_METHOD)


def span_of_synthetic(pcm: NDArray[np.int16]) -> SpeechSpan:
    """First and last sample above -50 dB of full scale. pcm: [N], a voice on silence."""
    where = np.flatnonzero(np.abs(pcm.astype(np.int32)) > SYNTHETIC_FLOOR * 32768)
    if not len(where):
        raise InvalidInputError("there is no speech in it")
    return SpeechSpan(int(where[0]), int(where[-1]) + 1, "label: synthetic, known to the sample")


def frame_levels_db(pcm: NDArray[np.int16], frame_samples: int) -> NDArray[np.float64]:
    """RMS of each whole frame in dB of full scale, at least -100."""
    count = len(pcm) // frame_samples
    frames = pcm[: count * frame_samples].reshape(count, frame_samples) / 32768.0
    power = np.mean(np.square(frames), axis=1) if count else np.zeros(0)
    levels: NDArray[np.float64] = 10 * np.log10(np.maximum(power, 1e-10))
    return levels


def _in_long_runs(voiced: NDArray[np.bool_], shortest: int) -> NDArray[np.bool_]:
    """True where a frame belongs to a run of at least `shortest` true ones: not to a click."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], voiced, [False]])))
    kept = np.zeros(len(voiced), np.bool_)
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        kept[start:end] = end - start >= shortest
    return kept
