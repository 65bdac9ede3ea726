"""Answers prepared ahead on words that may yet change: how many may be, and what they cost.

Each is a bet. A lost one costs the machine and nobody else. In a pause the odds are good: where too
many are lost all the same, none are made until they would have been won again. While the visitor
speaks they are not: a bet is made there where what it saves, by the chance that it is won, is more
than what it costs by the chance that it is lost.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from gateway import metrics
from gateway.talk.actions import Action, AnnounceTurn, CloseTurn, ConfirmTurn
from gateway.talk.words import same_question


@dataclass(frozen=True, slots=True)
class SpeculationLimits:
    """How much may be prepared for nothing.

    above: probability of having finished from which an answer is prepared.

    per_utterance: answers prepared for one utterance.
    discarded_share: of the last `window` bets at most so many may be lost, 0 to 1; counted once
    half of the window is known.
    """

    above: float = 0.34
    per_utterance: int = 4
    discarded_share: float = 0.8
    window: int = 20
    before_pause: bool = True
    """Answers are prepared while the visitor still speaks, too, where asr foresees the end."""


# A second of the visitor's waiting is worth so many of work in vain.
_WORTH = 3.0
# So much sooner than in the pause an answer can begin at best: what a look at the words is ahead of
# the pause, and the pause's own look.
_MOST_GAIN_S = 0.25
# Until this machine has shown how long it takes, and how long a pause hides of it.
_PREPARING_S, _HIDDEN_S = 0.3, 0.13
# Each of the visitor's utterances counts for this much of what is known of him.
_LEARNT = 0.3
_LONGEST_SHIFT = 2.0
# In one utterance so many bets are left for its pauses.
_KEPT_FOR_PAUSES = 2
_MOST_FORESEEN = 16
_SUREST = 0.99


class Foreseeing:
    """Whether an answer is prepared before the visitor pauses. Pure.

    The recogniser tells how likely the words so far are all; how right that is for this visitor is
    learnt, as log odds. What an early beginning gains is what the pause does not hide of the time
    that preparing takes; where others have the machine, that time is longer, and bets are fewer.
    """

    def __init__(self) -> None:
        self._preparing_s = _PREPARING_S
        self._hidden_s = _HIDDEN_S
        self._shift = 0.0
        self._told: dict[str, float] = {}
        """Words of this utterance, and how likely they were to be all."""
        self._paused_at_s: float | None = None

    @property
    def gain_s(self) -> float:
        """So much sooner the voice comes where an answer is begun before the pause."""
        return min(_MOST_GAIN_S, max(0.0, self._preparing_s - self._hidden_s))

    def worth(self, text: str, probability: float) -> bool:
        """Whether to prepare an answer to words that are all with this probability."""
        if not text or not probability:
            return False
        if len(self._told) < _MOST_FORESEEN:
            self._told[text] = max(probability, self._told.get(text, 0.0))
        sure = self._known(probability)
        return sure * self.gain_s * _WORTH > (1 - sure) * self._preparing_s

    def paused(self, now: float) -> None:
        """The visitor pauses, and an answer would be begun now."""
        self._paused_at_s = now

    def resumed(self) -> None:
        """The visitor goes on: what hides an answer's beginning is a later pause."""
        self._paused_at_s = None

    def prepared(self, seconds: float) -> None:
        """So long it took from an answer's beginning to its first sound."""
        self._preparing_s += _LEARNT * (seconds - self._preparing_s)

    def ended(self, text: str, now: float) -> None:
        """The visitor has finished, with `text`; "" where that tells nothing."""
        if text and self._paused_at_s is not None:
            self._hidden_s += _LEARNT * (now - self._paused_at_s - self._hidden_s)
        for words, probability in self._told.items():
            error = same_question(words, text) - self._known(probability)
            shift = self._shift + _LEARNT * error
            self._shift = max(-_LONGEST_SHIFT, min(_LONGEST_SHIFT, shift)) if text else self._shift
        self._told.clear()
        self._paused_at_s = None

    def _known(self, probability: float) -> float:
        """With what is known of this visitor."""
        sure = max(1 - _SUREST, min(_SUREST, probability))
        return 1 / (1 + math.exp(-(math.log(sure / (1 - sure)) + self._shift)))


class Speculation:
    """Says whether an answer is worth preparing, by how earlier bets came out. Pure."""

    def __init__(self, limits: SpeculationLimits | None = None) -> None:
        self._limits = limits or SpeculationLimits()
        self._lost: deque[bool] = deque(maxlen=self._limits.window)
        self._utterance = 0
        self._opened = 0
        self._forgone = ""
        self.foreseeing = Foreseeing()

    @property
    def discarded_share(self) -> float:
        """Of the last bets; those that were not made count as they would have come out."""
        return sum(self._lost) / len(self._lost) if self._lost else 0.0

    def allows(self, utterance: int, text: str, probability: float) -> bool:
        """Whether to prepare an answer to `text`. What is forbidden is watched instead."""
        if not text or probability < self._limits.above:
            return False
        opened = self._opened if utterance == self._utterance else 0
        known = 2 * len(self._lost) >= self._limits.window
        losing = known and self.discarded_share > self._limits.discarded_share
        if opened < self._limits.per_utterance and not losing:
            return True
        self._forgone = text if losing else ""
        return False

    def foresees(self, utterance: int, text: str, probability: float) -> bool:
        """Whether to prepare an answer to `text` while the visitor still speaks.

        probability: that it is all of what is said.
        """
        worth = self.foreseeing.worth(text, probability)
        opened = self._opened if utterance == self._utterance else 0
        left = self._limits.per_utterance - opened > _KEPT_FOR_PAUSES
        return worth and left and self._limits.before_pause

    def opened(self, utterance: int) -> None:
        """An answer is being prepared."""
        self._opened = self._opened + 1 if utterance == self._utterance else 1
        self._utterance = utterance

    def decided(self, *, won: bool) -> None:
        """The prepared answer was confirmed, or thrown away."""
        self._lost.append(not won)

    def take_forgone(self) -> str:
        """The words of a bet that was forbidden and is now decided; "" where there is none."""
        forgone, self._forgone = self._forgone, ""
        return forgone


def count(action: Action) -> None:
    """Count what was decided about an answer that was prepared, or asked for, too early."""
    match action:
        case AnnounceTurn(held=True, foreseen=foreseen):
            metrics.speculation_opened.inc()
            metrics.speculation_foreseen.inc(foreseen)
        case ConfirmTurn(lead_s=lead_s):
            metrics.speculation_confirmed.inc()
            if lead_s is not None:
                metrics.speculation_lead_seconds.observe(lead_s)
        case CloseTurn(outcome="discarded"):
            metrics.speculation_discarded.inc()
    if isinstance(action, CloseTurn) and action.outcome in ("discarded", "replaced"):
        metrics.speculation_wasted_voice_seconds.inc(action.voice_s)
        metrics.speculation_wasted_tokens.inc(action.tokens)
