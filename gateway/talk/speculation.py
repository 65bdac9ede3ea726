"""Answers prepared ahead on words that may yet change: how many may be, and what they cost.

Each is a bet. A lost one costs the machine and nobody else; where too many are lost, none are
made until they would have been won again.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from gateway import metrics
from gateway.talk.actions import Action, AnnounceTurn, CloseTurn, ConfirmTurn


@dataclass(frozen=True, slots=True)
class SpeculationLimits:
    """How much may be prepared for nothing.

    above: probability of having finished from which an answer is prepared.

    per_utterance: answers prepared for one utterance.
    discarded_share: of the last `window` bets at most so many may be lost, 0 to 1; counted once
    half of the window is known.
    """

    above: float = 0.2
    per_utterance: int = 4
    discarded_share: float = 0.8
    window: int = 20


class Speculation:
    """Says whether an answer is worth preparing, by how earlier bets came out. Pure."""

    def __init__(self, limits: SpeculationLimits | None = None) -> None:
        self._limits = limits or SpeculationLimits()
        self._lost: deque[bool] = deque(maxlen=self._limits.window)
        self._utterance = 0
        self._opened = 0
        self._forgone = ""

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
        case AnnounceTurn(held=True):
            metrics.speculation_opened.inc()
        case ConfirmTurn():
            metrics.speculation_confirmed.inc()
        case CloseTurn(outcome="discarded"):
            metrics.speculation_discarded.inc()
    if isinstance(action, CloseTurn) and action.outcome in ("discarded", "replaced"):
        metrics.speculation_wasted_voice_seconds.inc(action.voice_s)
        metrics.speculation_wasted_tokens.inc(action.tokens)
