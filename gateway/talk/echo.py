"""Is what the microphone hears our own voice, out of a loudspeaker?

Loudspeakers leak into cheap microphones, and where the browser's echo cancellation fails the
avatar would interrupt itself. What was played a moment ago is compared with what is heard, band
by band (`EchoGuard`): an echo is a delayed, coloured, weaker copy. Somebody who speaks over it
makes the microphone louder than the copy explains (double talk; compare Duttweiler, "A
twelve-channel digital echo canceler", IEEE Trans. Comm. 26, 1978, whose detector also compares
levels). How loud the copy is in each band is learned over the session (`EchoPath`), so that a
first word behind a silence is known as well. An answer that has just begun and a visitor who has
are alike in that both have begun: they are told apart by how little of earlier answers came back.

Pure: sound comes as an argument.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gateway.playout.sound import Recall

FRAME_S = 0.01
# At 16 kHz; the playout's is three times as long. Both have spectral lines each 100 Hz.
MIC_FRAME_SAMPLES = 160
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
# A voice need not be louder on the whole: it has other bands than what is played just then.
_OTHER_BANDS, _OTHER_BAND_DB = 2, 9.0
_HARDLY_A_SOUND = 100.0
# A quiet sound in the playout, of full scale: below it there is nothing to echo.
_AUDIBLE = 30.0
# So alike is nothing but an echo: the way that it came can be learned from it.
_TEACHES = 0.8
_FEWEST_LESSONS, _MOST_LESSONS = 5, 60
# Of the last 1.7 s so much has to be played before two that have begun are not alike by that.
_ENOUGH_FRAMES = 90
_EARLIEST_FRAMES = 20
# What is heard beside an answer, between its own noise and what it leaves, is seldom louder.
_LOUDEST_PERCENT = 95
# Of a second so much is between words, where only the room is heard.
_QUIETEST_PERCENT = 20
# What a room keeps of an amplitude for 10 ms: 60 dB are gone in half a second.
_LINGERS = 0.87


@dataclass(frozen=True, slots=True)
class Likeness:
    """How far the microphone's sound is explained by what was played.

    similarity: correlation of the two at the best delay, -1 to 1.
    excess_db: level of the newest sound above that of the copy.
    other_bands: how many are far above what they are known to leave of what was played.
    """

    similarity: float
    excess_db: float
    delay_s: float
    other_bands: int = 0

    @property
    def is_alike(self) -> bool:
        """Our own voice is in it."""
        return self.similarity >= _SIMILAR

    @property
    def is_echo(self) -> bool:
        """Nothing but our own voice."""
        quiet = self.excess_db <= _LOUDER_DB and self.other_bands < _OTHER_BANDS
        return self.is_alike and quiet


class EchoPath:
    """What the loudspeaker, the room and the microphone leave of each band, learned from echoes.

    Behind a silence the last second holds too little to know it by; it stays the same, though,
    while nobody moves the computer or its volume.
    """

    def __init__(self) -> None:
        self._gains: deque[NDArray[np.float32]] = deque(maxlen=_MOST_LESSONS)
        self._most: NDArray[np.float32] | None = None
        """Gains that no echo has passed lately, [8]; None: there was one since, or no answer."""

    @property
    def known(self) -> bool:
        """Whether there were echoes enough."""
        return len(self._gains) >= _FEWEST_LESSONS

    def learn(self, heard: NDArray[np.float32], played: NDArray[np.float32], delay: int) -> None:
        """This was an echo. heard: [T, 8]; played: [T + longest delay, 8]; delay in frames."""
        self._gains.append(_gains(heard, _delayed(_lingering(played), delay), 0))
        self._most = None

    def bound(self, heard: NDArray[np.float32], played: NDArray[np.float32]) -> None:
        """Nobody spoke, and this is no echo: none is louder. Both as in `learn`."""
        most = np.percentile(heard, _LOUDEST_PERCENT, axis=0)
        for band, loud in enumerate(played.T > _AUDIBLE):
            most[band] /= np.median(played[loud, band]) if loud.any() else np.inf
        self._most = np.asarray(most, np.float32)

    def most(self, played: NDArray[np.float32]) -> NDArray[np.float32] | None:
        """The loudest echo that there may be of it, whatever its delay: [T, 8]; None: any."""
        if self._most is None:
            return None
        lasting = np.lib.stride_tricks.sliding_window_view(played, LONGEST_DELAY_FRAMES + 1, axis=0)
        return np.asarray(lasting.max(axis=-1) * self._most, np.float32)

    def predict(self, played: NDArray[np.float32], delay: int) -> NDArray[np.float32]:
        """What will be heard of it, if the way is known: [T + longest delay, 8] -> [T, 8]."""
        learned = [band[band > 0] for band in np.array(self._gains).T]
        gains = np.array([np.median(band) if len(band) else 0.0 for band in learned])
        return np.asarray(_delayed(_lingering(played), delay) * gains, np.float32)


class EchoGuard:
    """Says how far what the microphone hears is a copy of what was played in the last second.

    Sound is only kept until somebody asks.
    """

    def __init__(self) -> None:
        self._path = EchoPath()
        mic = (WINDOW_FRAMES + _SMOOTH_FRAMES) * MIC_FRAME_SAMPLES
        self._heard = Recall(mic)
        self._played = Recall(3 * (mic + LONGEST_DELAY_FRAMES * MIC_FRAME_SAMPLES))

    def play(self, pcm: NDArray[np.int16]) -> None:
        """What leaves now. pcm: [N] int16 at 48 kHz."""
        self._played.add(pcm)

    def hear(self, pcm: NDArray[np.int16]) -> None:
        """What the microphone brings now. pcm: [N] int16 at 16 kHz."""
        self._heard.add(pcm)

    def has_just_begun(self) -> bool:
        """Whether something is played, and less of it than an echo could be known by."""
        played = _bands_of(self._played, 3 * MIC_FRAME_SAMPLES)
        return played is not None and 0 < _audible_frames(played) < _FEWEST_FRAMES

    def nobody_speaks(self) -> None:
        """What the last second holds of an answer is all that comes back of it, and is learned.

        Takes about a millisecond.
        """
        if (both := self._both()) is None:
            return
        heard, played = both
        answer = played[-WINDOW_FRAMES:]
        # Before the answer it was the visitor who was heard.
        if not _audible_frames(answer[:_EARLIEST_FRAMES]):
            return
        if _audible_frames(answer) < _ENOUGH_FRAMES // 2:
            return
        similarity, delay = _best_delay(heard, played)
        if similarity < _SIMILAR:
            self._path.bound(heard, played)
        elif similarity >= _TEACHES:
            self._path.learn(heard, played, delay)  # too soft to be taken for speech

    def likeness(self, newest_s: float) -> Likeness | None:
        """Of the last second; excess_db of the last `newest_s`. None: too little was played.

        Takes about a millisecond.
        """
        if (both := self._both()) is None:
            return None
        heard, played = both
        newest = max(1, round(newest_s / FRAME_S))
        audible = _audible_frames(played)
        most = self._path.most(played) if 0 < audible < _ENOUGH_FRAMES else None
        if most is not None:
            excess_db = _excess(heard, most, newest).level_db()
            if excess_db > _LOUDER_DB:
                return Likeness(0.0, excess_db, 0.0)
        if audible < _FEWEST_FRAMES:
            return None
        similarity, delay = _best_delay(heard, played)
        copy = _delayed(played, delay)
        excess = _excess(heard, copy * _gains(heard, copy, newest), newest)
        plain = Likeness(similarity, excess.level_db(), delay * FRAME_S)
        found = plain
        if self._path.known:
            excess = _excess(heard, self._path.predict(played, delay), newest)
            others = int(np.count_nonzero(excess.bands_db() > _OTHER_BAND_DB))
            found = replace(plain, excess_db=excess.level_db(), other_bands=others)
        # By this second alone: who turns the volume up is not an unknown voice for good.
        if similarity >= _TEACHES and plain.is_echo:
            self._path.learn(heard, played, delay)
        return found

    def _both(self) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
        """What was heard, [T, 8], and played, [T + longest delay, 8]; None: there is less yet."""
        heard = _bands_of(self._heard, MIC_FRAME_SAMPLES)
        played = _bands_of(self._played, 3 * MIC_FRAME_SAMPLES)
        return None if heard is None or played is None else (heard, played)


def _bands_of(sound: Recall, frame_samples: int) -> NDArray[np.float32] | None:
    """Of all that is kept, [T, 8]; None: there is less yet."""
    pcm = sound.whole()
    return None if pcm is None else _smooth(_bands(pcm.reshape(-1, frame_samples)))


def _audible_frames(played: NDArray[np.float32]) -> int:
    return int(np.count_nonzero(played.max(axis=1) > _AUDIBLE))


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


def _delayed(played: NDArray[np.float32], delay: int) -> NDArray[np.float32]:
    """[T + longest delay, 8] -> [T, 8], as it would arrive `delay` frames later."""
    start = LONGEST_DELAY_FRAMES - delay
    return played[start : start + WINDOW_FRAMES]


def _lingering(played: NDArray[np.float32]) -> NDArray[np.float32]:
    """What a room makes of it: amplitudes that fall no faster than `_LINGERS`. [T, 8]."""
    fallen = np.float32(_LINGERS) ** np.arange(len(played), dtype=np.float32)[:, None]
    return np.asarray(np.maximum.accumulate(played / fallen, axis=0) * fallen)


def _gains(
    heard: NDArray[np.float32], copy: NDArray[np.float32], newest: int
) -> NDArray[np.float32]:
    """Of each band, the median where the copy is loud; 0: it never is. Both [T, 8] -> [8].

    The newest frames count only where there are too few others.
    """
    gains = np.zeros(copy.shape[1], np.float32)
    for band in range(copy.shape[1]):
        loud = copy[:, band] > max(_AUDIBLE, float(np.median(copy[:, band])))
        before = len(loud) - newest
        if np.count_nonzero(loud[:before]) >= _FEWEST_BEFORE:
            loud[before:] = False  # a visitor's voice is no measure of the room
        if loud.any():
            gains[band] = np.median(heard[loud, band] / copy[loud, band])
    return gains


@dataclass(frozen=True, slots=True)
class _Excess:
    """Energy of each band, [8]: what was found, and what the room and the copy make."""

    found: NDArray[np.float32]
    known: NDArray[np.float32]

    def level_db(self) -> float:
        return float(10 * np.log10((self.found.sum() + 1.0) / (self.known.sum() + 1.0)))

    def bands_db(self) -> NDArray[np.float32]:
        """Where there is hardly a sound, 0. [8]"""
        heard = _HARDLY_A_SOUND
        return np.asarray(10 * np.log10((self.found + heard) / (self.known + heard)), np.float32)


def _excess(heard: NDArray[np.float32], expected: NDArray[np.float32], newest: int) -> _Excess:
    """Of the newest frames, against `expected` and what is heard between words. Both [T, 8]."""
    room = np.percentile(heard, _QUIETEST_PERCENT, axis=0)
    found = np.sum(np.square(heard[-newest:]), axis=0)
    return _Excess(found, np.sum(np.square(expected[-newest:]) + np.square(room), axis=0))
