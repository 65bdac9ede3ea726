"""Somebody speaks over an answer: echo, cough or interruption? What says so, and when.

A cough or a knock that the VAD took for a voice is over within a fifth of a second; speech goes
on. So the answer gets quieter at once, and stops only where the sound lasts (`BargeIn`). The words
that are understood later decide whether it goes on (`Doubts`).

Loudspeakers leak into cheap microphones, and where the browser's echo cancellation fails the
avatar would interrupt itself. What was played a moment ago is compared with what is heard, band
by band (`EchoGuard`): an echo is a delayed, coloured, weaker copy. Somebody who speaks over it
makes the microphone louder than the copy explains (double talk; compare Duttweiler, "A
twelve-channel digital echo canceler", IEEE Trans. Comm. 26, 1978, whose detector also compares
levels).

Pure: sound, words and time come as arguments, times in seconds of any clock.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace
from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray

from gateway.playout.sound import Recall
from gateway.talk.turn import Turn
from gateway.talk.words import (
    asks,
    is_backchannel,
    is_echo,
    is_too_short_to_tell,
    without_echo,
)

# What sounds like a voice and holds no word for so long is none.
WORDLESS_S = 2.0
# The longest that our own voice takes out of the loudspeaker and back into the microphone.
ECHO_TAIL_S = 1.0

# A stop consonant is a silence of up to so long in the middle of speech.
_CLOSURE_S = 0.08
# Of the loudest that was heard since the sound began: -12 dB.
_STILL_THERE = 0.25
# Of 10 ms each: longer than a sound is judged.
_REMEMBERED_CHUNKS = 512
# How often, and on how much sound, a voice is looked for in an echo.
_ECHO_EVERY_S = 0.06
_NEWEST_S = 0.2
_LOOKS = 2


class Verdict(Enum):
    """What to make of a sound over the answer, and then of its words."""

    OPEN = auto()
    """Too early to say, or it has gone: go on, quieter."""
    VOICE = auto()
    """It lasts, or somebody wants something: fall silent."""
    ECHO = auto()
    """It is our own voice."""
    ASSENT = auto()
    """A listener's word: go on."""


# ------------------------------------------------------------ what the sound says


@dataclass(slots=True)
class _Sound:
    """The sound that is being judged."""

    onset_s: float
    """When its first sample reached us."""
    judged_at_s: float = float("-inf")
    echo: bool = False
    doubts: int = 0
    too_early: bool = False
    """The answer began a moment ago: what there is of it cannot be known again."""

    def judged(self, likeness: Likeness | None) -> None:
        """What our own voice is in is an echo until several looks in a row find more in it."""
        self.doubts = 0 if likeness is not None and likeness.is_echo else self.doubts + 1
        alike = self.echo or (likeness is not None and likeness.is_alike)
        self.echo = alike and self.doubts < _LOOKS


class BargeIn:
    """Judges a sound over an answer before a word of it is known: is it a voice, and does it last?

    after_s: how long a sound lasts before it stops the answer.
    """

    def __init__(self, after_s: float = 0.2) -> None:
        self._after_s = after_s
        self._levels: deque[tuple[float, float]] = deque(maxlen=_REMEMBERED_CHUNKS)
        self._echo = EchoGuard()
        self._sound: _Sound | None = None

    def hear(self, pcm: NDArray[np.int16], now: float) -> None:
        """Sound of the microphone has come in. pcm: [N] int16, N > 0."""
        self._echo.hear(pcm)
        # Each packet of the microphone comes by here: one product, no passes over temporaries.
        sound = pcm.astype(np.float32)
        self._levels.append((now, math.sqrt(float(sound @ sound) / len(sound))))

    def play(self, pcm: NDArray[np.int16]) -> None:
        """What leaves now. pcm: [N] int16 at 48 kHz."""
        self._echo.play(pcm)

    def speech_began(self, onset_s: float) -> None:
        """The VAD marks speech over the answer, whose first sample reached us at `onset_s`."""
        self._sound = _Sound(onset_s)

    def speech_known(self) -> None:
        """It is known what the sound was."""
        self._sound = None

    def verdict(self, now: float) -> Verdict:
        """On the sound that has begun, as far as it goes."""
        sound = self._sound
        if sound is None:
            return Verdict.OPEN
        if now - sound.judged_at_s >= _ECHO_EVERY_S:
            sound.judged_at_s = now
            likeness = self._echo.likeness(min(_NEWEST_S, now - sound.onset_s))
            sound.judged(likeness)
            sound.too_early = likeness is None and self._echo.has_just_begun()
        if sound.echo:
            return Verdict.ECHO
        if sound.too_early:
            return Verdict.OPEN
        enough_s = sound.onset_s + self._after_s
        if now < enough_s - 1e-6:
            return Verdict.OPEN
        # Where the VAD told late, a short word may be over by now: what was there in time counts.
        lasts = self._lasts(sound.onset_s, enough_s) or self._lasts(sound.onset_s, now)
        return Verdict.VOICE if lasts else Verdict.OPEN

    def _lasts(self, onset_s: float, now: float) -> bool:
        """Whether the sound is still there at `now`, which may be past."""
        since = [(at_s, level) for at_s, level in self._levels if onset_s <= at_s <= now + 1e-6]
        newest = [level for at_s, level in since if at_s > now - _CLOSURE_S]
        if not newest:
            # The microphone says nothing at all: believe the VAD.
            return True
        return max(newest) >= _STILL_THERE * max(level for _, level in since)


# ------------------------------------------------------------ what the words say


class DoubtPhase(Enum):
    """What an utterance over an answer is, so far as is known."""

    OPEN = auto()
    """Nobody can say yet."""
    AFTER = auto()
    """The answer was over before it began: only its echo can be nothing."""
    DISMISSED = auto()
    """Only words can still make it an interruption."""
    ENDED = auto()
    """Its words have ended the answer; more of them may come."""


class Whose(Enum):
    """Whose voice it sounds like."""

    THEIRS = auto()
    MIXED = auto()
    """It began as our own; a visitor's is heard over it."""
    OURS = auto()


@dataclass(slots=True)
class Doubt:
    """An utterance that began while an answer was heard, or just after it: what is it?"""

    utterance: int
    since_s: float
    said: str = ""
    """The answer, where it is over."""
    phase: DoubtPhase = DoubtPhase.OPEN
    whose: Whose = Whose.THEIRS
    worded: bool = False
    """Something was understood of it."""

    @property
    def echo(self) -> bool:
        """What is heard of it is our own voice."""
        return self.whose is Whose.OURS

    @property
    def over_answer(self) -> bool:
        """It began while the answer was still heard."""
        return self.phase is not DoubtPhase.AFTER

    def sounds_like_us(self) -> None:
        """It is our own voice; a visitor's may be heard over it later on."""
        self.whose = Whose.OURS

    def sounds_like_a_voice(self) -> None:
        """Somebody speaks, if only into our own voice."""
        self.whose = Whose.MIXED if self.echo else self.whose

    def judge(self, text: str, turn: Turn | None, *, complete: bool) -> Verdict:
        """What its words amount to, as far as they go. turn: the answer, if it is not over."""
        said = turn.heard() if turn is not None else self.said
        if self.whose is Whose.MIXED and not text:
            return Verdict.OPEN  # words come later than the sound: so far it is ours
        if self.over_answer and is_backchannel(text, complete=complete, asked=asks(said)):
            # A hum that is made of an echo tells nothing of who speaks over it later.
            return Verdict.ECHO if self.echo else Verdict.ASSENT
        if is_echo(text, self.said_by(turn), sounds_like_it=self.echo, complete=complete):
            return Verdict.ECHO
        if self.echo and not complete:
            return Verdict.OPEN  # of an echo a recogniser may write anything until a pause
        spoken = turn is not None and self.over_answer and said
        if spoken and not complete and is_too_short_to_tell(text):
            return Verdict.OPEN  # the voice is silent by now: nothing is lost by more words
        return Verdict.VOICE

    def words_of_visitor(self, text: str, turn: Turn | None) -> str:
        """`text` without our own words, where the visitor spoke into our echo."""
        return without_echo(text, self.said_by(turn)) if self.whose is Whose.MIXED else text

    def said_by(self, turn: Turn | None) -> str:
        """What we have said, and are about to: the clock of the voice is that of its leaving."""
        if turn is None:
            return self.said
        heard = turn.heard()
        return " ".join((heard, *turn.text[len(heard) :].split()[:2]))


class Doubts:
    """Follows the utterances of a session: which one is in doubt, and what came of it."""

    def __init__(self) -> None:
        self._latest: Doubt | None = None
        self._said = ("", 0.0)
        """The newest answer that was heard to its end, and until when it may echo."""

    @property
    def current(self) -> Doubt | None:
        """The utterance that may be an interruption, until that is known."""
        latest = self._latest
        return None if latest is None or latest.phase is DoubtPhase.ENDED else latest

    def speech_began(self, utterance: int, now: float, turn: Turn | None) -> None:
        """An utterance begins, over the answer `turn` if there is one."""
        said, until_s = self._said
        if turn is not None:
            self._latest = Doubt(utterance, now)
        elif now < until_s:
            self._latest = Doubt(utterance, now, said, DoubtPhase.AFTER)
        else:
            self.resolve()

    def resolve(self) -> None:
        """It is known what the utterance was, or will never be."""
        if self.current is not None:
            self._latest = None

    def answer_over(self, text: str, now: float) -> None:
        """An answer was heard to its end."""
        self._said = (text, now + ECHO_TAIL_S)
        if self.current is not None:
            self.current.said = text

    def turn_ended(self, turn: Turn | None) -> None:
        """An answer ends before its end, if there is one."""
        if self.current is not None:
            self.current.said, self.current.phase = self.current.said_by(turn), DoubtPhase.ENDED

    def own_words(self, utterance: int, text: str, turn: Turn | None) -> str:
        """What of `text` the visitor has said."""
        doubt = self._latest
        if doubt is not None and doubt.utterance == utterance:
            text = doubt.words_of_visitor(text, None if doubt.phase is DoubtPhase.ENDED else turn)
        return text.strip()

    def judge(self, text: str, turn: Turn | None, *, complete: bool) -> Verdict:
        """What words amount to: where nothing is in doubt, somebody wants something."""
        doubt = self.current
        return Verdict.VOICE if doubt is None else doubt.judge(text, turn, complete=complete)

    def understood(self, utterance: int, text: str, verdict: Verdict) -> None:
        """Note what was judged: what else is said in the same breath shows in its words."""
        doubt = self.current
        if doubt is None:
            return
        if doubt.utterance == utterance and text:
            doubt.worded = True
        if verdict is Verdict.ASSENT:
            doubt.phase = DoubtPhase.DISMISSED
        elif verdict is Verdict.ECHO:
            doubt.sounds_like_us()


# ------------------------------------------------------------ whether it is our own voice

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

    @property
    def known(self) -> bool:
        """Whether there were echoes enough."""
        return len(self._gains) >= _FEWEST_LESSONS

    def learn(self, heard: NDArray[np.float32], played: NDArray[np.float32], delay: int) -> None:
        """This was an echo. heard: [T, 8]; played: [T + longest delay, 8]; delay in frames."""
        self._gains.append(_gains(heard, _delayed(_lingering(played), delay), 0))

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
        played_pcm = self._played.whole()
        if played_pcm is None:
            return False
        played = _smooth(_bands(played_pcm.reshape(-1, 3 * MIC_FRAME_SAMPLES)))
        return 0 < _audible_frames(played) < _FEWEST_FRAMES

    def likeness(self, newest_s: float) -> Likeness | None:
        """Of the last second; excess_db of the last `newest_s`. None: too little was played.

        Takes about a millisecond.
        """
        heard_pcm, played_pcm = self._heard.whole(), self._played.whole()
        if heard_pcm is None or played_pcm is None:
            return None
        heard = _smooth(_bands(heard_pcm.reshape(-1, MIC_FRAME_SAMPLES)))
        played = _smooth(_bands(played_pcm.reshape(-1, 3 * MIC_FRAME_SAMPLES)))
        if _audible_frames(played) < _FEWEST_FRAMES:
            return None
        similarity, delay = _best_delay(heard, played)
        newest = max(1, round(newest_s / FRAME_S))
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
