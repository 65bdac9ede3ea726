"""When an opener is spoken: the visitor has finished, and the answer will not be there in time.

Pure; times in seconds of one monotonic clock.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from gateway.talk.history import spoken_s

_REMEMBERED_ANSWERS = 9
# An opener may outlast the wait by so much: it is no longer than a pause for breath.
_OVERHANG_S = 0.2
# With the pause behind it.
_PAUSE_S = 0.15
_ROUNDING = 1e-6


class Verdict(StrEnum):
    """About one turn; all but WAIT are final."""

    WAIT = "wait"
    SPEAK = "spoken"
    NOT_NEEDED = "not_needed"
    """The answer is there, or known and so as good as there."""
    UNFIT = "unfit"
    """To a greeting or a command nobody says it."""
    RATIONED = "rationed"
    """Enough turns had one, or the only one there is was the last one."""


@dataclass(frozen=True, slots=True)
class OpenerLimits:
    """share: of the turns, at most so many have one, 0 to 1.

    patience_s: an answer that is expected within this time is waited for.
    """

    share: float = 1.0
    patience_s: float = 0.06


class AnswerPace:
    """How long answers take until their voice is there: the median of the last ones."""

    def __init__(self) -> None:
        self._whole_s: deque[float] = deque(maxlen=_REMEMBERED_ANSWERS)
        self._from_token_s: deque[float] = deque(maxlen=_REMEMBERED_ANSWERS)

    def came(self, begun_s: float, token_s: float | None, voice_s: float) -> None:
        """The first voice of an answer came, the language model having been asked at `begun_s`."""
        self._whole_s.append(voice_s - begun_s)
        if token_s is not None:
            self._from_token_s.append(max(0.0, voice_s - token_s))

    def due_s(self, begun_s: float, token_s: float | None) -> float | None:
        """When the voice of an answer is to be expected; None where nothing is known yet."""
        if token_s is not None and self._from_token_s:
            return token_s + median(self._from_token_s)
        return begun_s + median(self._whole_s) if self._whole_s else None


@dataclass(frozen=True, slots=True)
class Sight:
    """What is known of a turn whose visitor has finished. token_s: None: no text yet."""

    fits: bool
    known: bool
    """The answer needs no language model."""
    voice: bool
    """Voice of the answer is there."""
    confirmed_s: float
    begun_s: float
    token_s: float | None = None


class OpenerCue:
    """One session's."""

    def __init__(self, limits: OpenerLimits, pace: AnswerPace, draws: random.Random) -> None:
        self._limits = limits
        self._pace = pace
        self._draws = draws
        self._latest = ""
        self._credit = 0.0

    def judge(self, sight: Sight, phrases: Sequence[str], now: float) -> tuple[Verdict, str]:
        """What to do about a turn now, and what to say. Ask again after WAIT, never otherwise."""
        verdict = self._verdict(sight, now)
        if verdict is Verdict.WAIT:
            return verdict, ""
        self._credit = min(1.0, self._credit + self._limits.share)
        if verdict is not Verdict.SPEAK:
            return verdict, ""
        others = [phrase for phrase in phrases if phrase != self._latest]
        if self._credit < 1.0 - _ROUNDING or not others:
            self._latest = "" if not others else self._latest
            return Verdict.RATIONED, ""
        return verdict, self._draws.choice(self._fitting(others, sight, now))

    def _fitting(self, phrases: list[str], sight: Sight, now: float) -> list[str]:
        """Those that are over by the time the answer is expected, else the shortest."""
        due_s = self._pace.due_s(sight.begun_s, sight.token_s)
        if due_s is None or due_s <= now:
            return phrases
        limit_s = due_s - now + _OVERHANG_S
        short = [phrase for phrase in phrases if spoken_s(phrase) + _PAUSE_S <= limit_s]
        return short or [min(phrases, key=spoken_s)]

    def said(self, phrase: str) -> None:
        """It is being spoken."""
        self._latest = phrase
        self._credit -= 1.0

    def _verdict(self, sight: Sight, now: float) -> Verdict:
        if sight.voice or sight.known:
            return Verdict.NOT_NEEDED
        if not sight.fits:
            return Verdict.UNFIT
        due_s = self._pace.due_s(sight.begun_s, sight.token_s)
        due_s = sight.confirmed_s if due_s is None else max(due_s, sight.confirmed_s)
        patience_s = self._limits.patience_s - _ROUNDING
        # Either it is far away, or it should have been here and nobody knows when it will.
        away = due_s - now > patience_s or now - due_s >= patience_s
        return Verdict.SPEAK if away else Verdict.WAIT
