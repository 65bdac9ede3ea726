"""Somebody speaks over an answer: echo, cough or interruption, and what is done about it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray

from gateway import metrics
from gateway.playout.pacing import RATE_HZ
from gateway.playout.playout import Playout
from gateway.playout.recent_sound import Recall
from gateway.talk.actions import Action, DuckTurn, PauseTurn, Reason, ResumeTurn
from gateway.talk.conversation import Conversation

# ------------------------------------------------------------ echo
# Is it our own voice that the microphone hears?
#
# Loudspeakers leak into cheap microphones, and where the browser's echo cancellation fails the
# avatar would interrupt itself. What was played a moment ago is compared with what is heard, band
# by band: an echo is a delayed, coloured, weaker copy. Somebody who speaks over it makes the
# microphone louder than the copy explains (double talk; compare Duttweiler, "A twelve-channel
# digital echo canceler", IEEE Trans. Comm. 26, 1978, whose detector also compares levels).
#
# Pure: sound in, opinion out. Time is counted in frames of 10 ms.

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


# ------------------------------------------------------------ barge in
# Is somebody speaking over the answer? What the microphone's level says before any word is known.
#
# A cough or a knock that the VAD took for a voice is over within a fifth of a second; speech goes
# on. So the answer gets quieter at once, and stops only where the sound lasts. The words that are
# understood later decide whether it goes on.
#
# Pure: time comes as an argument.

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


@dataclass(slots=True)
class _Sound:
    """The sound that is being judged."""

    onset_s: float
    """When its first sample reached us."""
    judged_at_s: float = float("-inf")
    echo: bool = False
    doubts: int = 0

    def judged(self, *, echo: bool) -> None:
        """What was heard as an echo stays one until several looks in a row find more in it."""
        self.doubts = 0 if echo else self.doubts + 1
        self.echo = echo or (self.echo and self.doubts < _LOOKS)


class BargeIn:
    """One session's judge. after_s: how long a sound lasts before it stops the answer."""

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

    def begin(self, onset_s: float) -> None:
        """The VAD marks speech over the answer, whose first sample reached us at `onset_s`."""
        self._sound = _Sound(onset_s)

    def end(self) -> None:
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
            sound.judged(echo=likeness is not None and likeness.is_echo)
        if sound.echo:
            return Verdict.ECHO
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


# ------------------------------------------------------------ interruption
# Speech over an answer: quieter, silent, or on again; and how long the silence took to come.
#
# Carries out on the playout what the turn state machine decides, and tells it what the judge of the
# microphone's sound finds. Time comes as an argument.

# Speech that began longer ago than this was told about late, and not judged late.
_OLDEST_ONSET_S = 1.0


class Interruption:
    """One session's."""

    def __init__(self, session: str, playout: Playout, judge: BargeIn) -> None:
        """session: the name that exemplars bear."""
        self._session = session
        self._playout = playout
        self._judge = judge
        self._echoed = 0
        """The newest utterance that was our own voice."""
        self._onset_s: float | None = None
        self._decided_s: float | None = None
        self._silent_s: float | None = None
        self._void: tuple[int, Reason] | None = None
        """Set once the turn is void: the measurement counts."""

    def hear(self, pcm: NDArray[np.int16], now: float) -> None:
        """Sound of the microphone. pcm: [N] int16, N > 0."""
        self._judge.hear(pcm, now)

    def begin(self, onset_s: float | None, now: float) -> None:
        """Speech has been detected, whose first sample reached us at `onset_s`."""
        self._onset_s = now if onset_s is None else max(onset_s, now - _OLDEST_ONSET_S)
        self._judge.begin(self._onset_s)

    def tick(
        self, pcm: NDArray[np.int16], conversation: Conversation, now: float
    ) -> Sequence[Action]:
        """20 ms have left, pcm [960] int16: what follows from what was heard meanwhile."""
        self._judge.play(pcm)
        self._note_silence(now)
        return self.judge(conversation, now)

    def judge(self, conversation: Conversation, now: float) -> Sequence[Action]:
        """What follows from the sound over the answer, if there is any."""
        doubt = conversation.doubt
        if doubt is None:
            self._judge.end()
            return ()
        verdict = self._judge.verdict(now)
        if doubt.echo and doubt.utterance != self._echoed:
            self._echoed = doubt.utterance
            metrics.echo_suppressed.inc()
        if verdict is Verdict.ECHO:
            return conversation.dismiss(now, echo=True)
        return conversation.voice_persists() if verdict is Verdict.VOICE else ()

    def carry_out(self, action: DuckTurn | PauseTurn | ResumeTurn, now: float) -> None:
        """What becomes of the voice."""
        match action:
            case DuckTurn():
                self._playout.duck(action.turn)
            case PauseTurn():
                if self._playout.playing:
                    self._decided_s = now
                self._playout.pause(action.turn)
            case ResumeTurn():
                given = "paused" if self._playout.paused else "ducked"
                metrics.false_interruptions.labels(given).inc()
                self._playout.resume(action.turn, round(action.at_s * RATE_HZ))
                self._decided_s = self._silent_s = None

    def void(self, reason: Reason, now: float) -> None:
        """The turn that plays is about to be void, for good."""
        if not self._playout.playing:
            return
        if self._decided_s is None:
            self._decided_s = now
        self._void = (self._playout.turn, reason)

    def _note_silence(self, now: float) -> None:
        """The tick that has just left holds the end of the voice, if a silence was decided."""
        if self._decided_s is None:
            return
        if self._silent_s is None:
            self._silent_s = now
        if self._void is not None:
            (turn, origin), self._void = self._void, None
            exemplar = metrics.exemplar(self._session, turn)
            took_s = self._silent_s - self._decided_s
            metrics.barge_in_decided_seconds.labels(origin).observe(took_s, exemplar)
            if origin == "speech" and self._onset_s is not None:
                whole_s = self._silent_s - self._onset_s
                metrics.barge_in_to_silence_seconds.observe(whole_s, exemplar)
            self._decided_s = self._silent_s = None
