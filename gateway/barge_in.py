"""Is somebody speaking over the answer? What the microphone's level says before any word is known.

A cough or a knock that the VAD took for a voice is over within a fifth of a second; speech goes
on. So the answer gets quieter at once, and stops only where the sound lasts. The words that are
understood later decide whether it goes on.

Pure: time comes as an argument.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray

from gateway.echo import EchoGuard

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
    """What to make of the sound over the answer."""

    OPEN = auto()
    """Too early to say, or it has gone: go on, quieter."""
    VOICE = auto()
    """It lasts: fall silent."""
    ECHO = auto()
    """It is our own voice."""


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
