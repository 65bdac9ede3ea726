"""Texts that are to be said as they stand, one after the other. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from gateway.talk.actions import Manner
from visavis.serving.errors import AtCapacityError

MOST_WAITING = 32


class SayingsFullError(AtCapacityError):
    """So many texts wait to be said already that no other is taken."""


@dataclass(frozen=True, slots=True)
class Saying:
    """A text to be said. number: counts those of the session, from 1."""

    number: int
    text: str
    manner: Manner


class Sayings:
    """Keeps the texts that a session is still to say, in the order in which they came."""

    def __init__(self) -> None:
        self.newest = 0
        """Number of the last one that came."""
        self._waiting: deque[Saying] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, text: str, manner: Manner) -> Saying:
        """One more, behind the others. Raises SayingsFullError."""
        if len(self._waiting) >= MOST_WAITING:
            raise SayingsFullError(
                f"say: {MOST_WAITING} texts wait already, the most that may; try again when one "
                "of them has been said"
            )
        self.newest += 1
        saying = Saying(self.newest, text, manner)
        self._waiting.append(saying)
        return saying

    def take(self) -> Saying | None:
        """The one that is to be said now; None: nothing waits."""
        return self._waiting.popleft() if self._waiting else None

    def drop(self) -> list[Saying]:
        """None of them will be said."""
        dropped = list(self._waiting)
        self._waiting.clear()
        return dropped
