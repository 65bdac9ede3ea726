"""Is it our own voice that the microphone hears?

Loudspeakers leak into cheap microphones, and where the browser's echo cancellation fails the
avatar would interrupt itself. What was played a moment ago is compared with what is heard, band by
band: an echo is a delayed, coloured, weaker copy. Somebody who speaks over it makes the microphone
louder than the copy explains (double talk; compare Duttweiler, "A twelve-channel digital echo
canceler", IEEE Trans. Comm. 26, 1978, whose detector also compares levels).

Pure: sound in, opinion out. Time is counted in frames of 10 ms.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gateway.recall import Recall

FRAME_S = 0.01
MIC_FRAME_SAMPLES = 160
"""At 16 kHz; the playout's is three times as long. Both have spectral lines each 100 Hz."""
_BAND_EDGES_HZ = (200, 400, 600, 900, 1200, 1600, 2100, 2800, 3800)
_LINE_HZ = 100
WINDOW_FRAMES = 100
LONGEST_DELAY_FRAMES = 70
_SMOOTH_FRAMES = 3
# Sound that is played for less than this cannot be recognised.
_FEWEST_FRAMES = 25
_FEWEST_BEFORE = 10
# Of independent speech 1 % is as alike at the best delay, of echoes at -6 to -20 dB 98 to 93 %.
_SIMILAR = 0.6
_LOUDER_DB = 6.0
# A quiet sound in the playout, of full scale: below it there is nothing to echo.
_AUDIBLE = 30.0


@dataclass(frozen=True, slots=True)
class Likeness:
    """How far the microphone's sound is explained by what was played.

    similarity: correlation of the two at the best delay, -1 to 1.
    excess_db: level of the newest sound above that of the copy.
    """

    similarity: float
    excess_db: float
    delay_s: float

    @property
    def is_echo(self) -> bool:
        """Nothing but our own voice."""
        return self.similarity >= _SIMILAR and self.excess_db <= _LOUDER_DB


class EchoGuard:
    """One session's ears for its own voice. Sound is only kept until somebody asks."""

    def __init__(self) -> None:
        mic = (WINDOW_FRAMES + _SMOOTH_FRAMES) * MIC_FRAME_SAMPLES
        self._heard = Recall(mic)
        self._played = Recall(3 * (mic + LONGEST_DELAY_FRAMES * MIC_FRAME_SAMPLES))

    def play(self, pcm: NDArray[np.int16]) -> None:
        """What leaves now. pcm: [N] int16 at 48 kHz."""
        self._played.add(pcm)

    def hear(self, pcm: NDArray[np.int16]) -> None:
        """What the microphone brings now. pcm: [N] int16 at 16 kHz."""
        self._heard.add(pcm)

    def likeness(self, newest_s: float) -> Likeness | None:
        """Of the last second; excess_db of the last `newest_s`. None: too little was played.

        Takes about a millisecond.
        """
        heard_pcm, played_pcm = self._heard.whole(), self._played.whole()
        if heard_pcm is None or played_pcm is None:
            return None
        heard = _smooth(_bands(heard_pcm.reshape(-1, MIC_FRAME_SAMPLES)))
        played = _smooth(_bands(played_pcm.reshape(-1, 3 * MIC_FRAME_SAMPLES)))
        if np.count_nonzero(played.max(axis=1) > _AUDIBLE) < _FEWEST_FRAMES:
            return None
        similarity, delay = _best_delay(heard, played)
        start = LONGEST_DELAY_FRAMES - delay
        copy = played[start : start + WINDOW_FRAMES]
        newest = max(1, round(newest_s / FRAME_S))
        return Likeness(similarity, _excess_db(heard, copy, newest), delay * FRAME_S)


def _bands(frames: NDArray[np.int16]) -> NDArray[np.float32]:
    """Amplitude in each band: [T, N] int16 -> [T, 8] float32."""
    window = np.hanning(frames.shape[1]).astype(np.float32)
    lines = _BAND_EDGES_HZ[-1] // _LINE_HZ
    spectrum = np.abs(np.fft.rfft(frames * window, axis=1)[:, :lines]) / window.sum()
    starts = [edge // _LINE_HZ for edge in _BAND_EDGES_HZ[:-1]]
    return np.sqrt(np.add.reduceat(np.square(spectrum), starts, axis=1)).astype(np.float32)


def _smooth(bands: NDArray[np.float32]) -> NDArray[np.float32]:
    """The two are never cut into frames at the same instants: look at 30 ms at a time."""
    summed = np.cumsum(bands, axis=0)
    return np.asarray((summed[_SMOOTH_FRAMES:] - summed[:-_SMOOTH_FRAMES]) / _SMOOTH_FRAMES)


def _best_delay(heard: NDArray[np.float32], played: NDArray[np.float32]) -> tuple[float, int]:
    """Correlation at the best delay, and that delay in frames.

    Amplitudes without their means, each band in units of its own deviation: the colour of the
    room does not count. heard: [T, 8]; played: [T + longest delay, 8].
    """
    centred = heard - heard.mean(axis=0)
    standard = centred / (centred.std(axis=0) + 1.0)
    copies = np.lib.stride_tricks.sliding_window_view(played, WINDOW_FRAMES, axis=0)
    products = np.einsum("dbt,tb->db", copies, standard)
    sums, squares = (
        np.pad(np.cumsum(x, axis=0, dtype=np.float64), ((1, 0), (0, 0)))
        for x in (played, np.square(played))
    )
    means = (sums[WINDOW_FRAMES:] - sums[:-WINDOW_FRAMES]) / WINDOW_FRAMES
    variances = (squares[WINDOW_FRAMES:] - squares[:-WINDOW_FRAMES]) / WINDOW_FRAMES - means**2
    scores = (products / (np.sqrt(np.maximum(variances, 0.0)) + 1.0)).sum(axis=1) / heard.size
    best = int(np.argmax(scores))
    return float(scores[best]), LONGEST_DELAY_FRAMES - best


def _excess_db(heard: NDArray[np.float32], copy: NDArray[np.float32], newest: int) -> float:
    """Level of the newest frames above that of the copy, whose gain in each band is the median."""
    gains = np.zeros(copy.shape[1], np.float32)
    for band in range(copy.shape[1]):
        loud = copy[:, band] > max(_AUDIBLE, float(np.median(copy[:, band])))
        if np.count_nonzero(loud[:-newest]) >= _FEWEST_BEFORE:
            loud[-newest:] = False  # a visitor's voice is no measure of the room
        if loud.any():
            gains[band] = np.median(heard[loud, band] / copy[loud, band])
    expected = float(np.sum(np.square(copy[-newest:] * gains)))
    found = float(np.sum(np.square(heard[-newest:])))
    return float(10 * np.log10((found + 1.0) / (expected + 1.0)))
