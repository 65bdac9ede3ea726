"""Places in a queue, first come first served, and how one stands. Pure: the time is an argument."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

Wish = TypeVar("Wish")


class Phase(StrEnum):
    """How a place stands."""

    WAITING = "waiting"
    ADMITTED = "admitted"
    """The session is there, under the place's id."""
    REFUSED = "refused"
    """What was asked for cannot be, or the gateway ends: no waiting here would help."""
    LEFT = "left"
    """The visitor has left, or has not been heard of for too long."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How a place stands. position: 1 is next; 0: it waits no more. None: cannot be told."""

    id: str
    phase: Phase
    position: int
    expected_wait_s: float | None
    why: str = ""
    again: bool = False


@dataclass(slots=True, eq=False)
class Place(Generic[Wish]):
    """One visitor who waits. id: of the session that he will have."""

    id: str
    wish: Wish
    """What the session is to be."""
    joined_s: float
    seen_s: float
    """When he last asked how his place stands."""
    phase: Phase = Phase.WAITING
    told_wait_s: float | None = None
    """What he was told as he joined."""
    told: bool = False
    """He has asked since he waits no more."""
    why: str = ""
    again: bool = False
    """Of REFUSED: why, and whether another gateway may let him in."""


class Line(Generic[Wish]):
    """At most `limit` places; one that nobody asks for during `patience_s` is given up."""

    def __init__(self, limit: int, patience_s: float) -> None:
        self._limit = limit
        self._patience_s = patience_s
        self._places: list[Place[Wish]] = []

    def __len__(self) -> int:
        return len(self._places)

    @property
    def full(self) -> bool:
        """Whether nobody more may join."""
        return len(self._places) >= self._limit

    @property
    def head(self) -> Place[Wish] | None:
        """Whose turn it is."""
        return self._places[0] if self._places else None

    def places(self) -> list[Place[Wish]]:
        """All who wait, in their order."""
        return list(self._places)

    def join(self, name: str, wish: Wish, now_s: float) -> Place[Wish]:
        """A place at the end. Look at `full` before."""
        place = Place(name, wish, now_s, now_s)
        self._places.append(place)
        return place

    def find(self, name: str) -> Place[Wish] | None:
        """The place of this id, if it still waits."""
        return next((place for place in self._places if place.id == name), None)

    def position(self, place: Place[Wish]) -> int:
        """1: it is his turn; 0: he does not wait any more."""
        return self._places.index(place) + 1 if place in self._places else 0

    def end(self, place: Place[Wish], phase: Phase) -> None:
        """It waits no more. Nothing if it did not."""
        if place in self._places:
            self._places.remove(place)
            place.phase = phase

    def expire(self, now_s: float) -> list[Place[Wish]]:
        """Give up the places that nobody has asked for; these."""
        gone = [p for p in self._places if now_s - p.seen_s > self._patience_s]
        for place in gone:
            self.end(place, Phase.LEFT)
        return gone
