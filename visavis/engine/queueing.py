"""Which request an engine's thread takes next, and which others share its run.

Pure bookkeeping: no I/O, no threads, and the time is an argument.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from visavis.serving.errors import AtCapacityError

Item = TypeVar("Item")

GATHER_S = 0.004
"""How long a request waits for company in its run: a tenth of a picture."""


@dataclass(frozen=True, slots=True)
class Urgency:
    """Says what a request may overtake: by its class first, then by when it is needed."""

    priority: int = 0
    """The class; smaller ones go first, whatever their deadlines. Each service numbers its own."""
    deadline_s: float | None = None
    """When the answer is needed, on the lane's clock; None: at once, so that those who ask so are
    served in the order in which they ask."""
    key: Hashable | None = None
    """Under which a newer request may supersede it while it waits; None: it always counts."""
    supersedes: Hashable | None = None
    """What waits under this key leaves the queue."""


@dataclass(frozen=True, slots=True, eq=False)
class Sharing:
    """Requests that name the same one may go into a run together."""

    largest: int
    """Requests in one run."""
    gather_s: float = GATHER_S
    """How long a request may wait for company."""


_ALONE = Sharing(largest=1, gather_s=0.0)


@dataclass(slots=True, eq=False)
class Waiting(Generic[Item]):
    """A request in the queue: `DeadlineQueue.add` makes it, and `drop` takes it back."""

    item: Item
    urgency: Urgency
    since_s: float
    sharing: Sharing
    rank: tuple[int, float, int]
    """Class, deadline, number of arrival: no two are equal."""
    left: bool = field(default=False)
    """Taken, dropped or superseded."""


class DeadlineQueue(Generic[Item]):
    """Serves by class, then by the earliest deadline, then first come first served.

    What waits longest for company decides when a shared run is due; until then nothing less urgent
    may begin, as it would hold the run up. It takes no more than `limit` requests.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: list[Waiting[Item]] = []
        self._arrivals = itertools.count()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(
        self,
        item: Item,
        urgency: Urgency,
        now_s: float,
        *,
        sharing: Sharing | None = None,
        always: bool = False,
    ) -> Waiting[Item]:
        """Queue a request; what it supersedes is taken out by `supersede`, before.

        `always`: take it even where the queue is full. Raises AtCapacityError where it is.
        """
        if len(self._waiting) >= self._limit and not always:
            raise AtCapacityError(
                f"{len(self._waiting)} requests wait for this engine already; try again later"
            )
        deadline_s = now_s if urgency.deadline_s is None else urgency.deadline_s
        rank = (urgency.priority, deadline_s, next(self._arrivals))
        waiting = Waiting(item, urgency, now_s, sharing or _ALONE, rank)
        bisect.insort(self._waiting, waiting, key=_rank)
        return waiting

    def supersede(self, key: Hashable) -> list[Waiting[Item]]:
        """Take out what waits under this key, and give it back."""
        found = [waiting for waiting in self._waiting if waiting.urgency.key == key]
        for waiting in found:
            self.drop(waiting)
        return found

    def drop(self, waiting: Waiting[Item]) -> bool:
        """Its answer is no longer wanted. Says whether it still waited."""
        if waiting.left:
            return False
        self._remove(bisect.bisect_left(self._waiting, waiting.rank, key=_rank))
        return True

    def due_in_s(self, now_s: float) -> float | None:
        """How long until `take` gives something; 0: now; None: nobody waits."""
        if not self._waiting:
            return None
        places, sharing = self._next_run(), self._waiting[0].sharing
        if len(places) >= sharing.largest:
            return 0.0
        oldest_s = min(self._waiting[place].since_s for place in places)
        return max(0.0, oldest_s + sharing.gather_s - now_s)

    def take(self, now_s: float) -> list[Waiting[Item]]:
        """The next run, its most urgent request first; nothing while none is due."""
        if self.due_in_s(now_s) != 0.0:
            return []
        places = self._next_run()
        run = [self._waiting[place] for place in places]
        for place in reversed(places):
            self._remove(place)
        return run

    def clear(self) -> list[Waiting[Item]]:
        """Take everything out."""
        left = list(self._waiting)
        while self._waiting:
            self._remove(-1)
        return left

    def _next_run(self) -> list[int]:
        """Places of the most urgent request and of those that go along."""
        sharing = self._waiting[0].sharing
        if sharing.largest == 1:
            return [0]
        alike = (i for i, waiting in enumerate(self._waiting) if waiting.sharing is sharing)
        return list(itertools.islice(alike, sharing.largest))

    def _remove(self, place: int) -> None:
        self._waiting.pop(place).left = True


def _rank(waiting: Waiting[Item]) -> tuple[int, float, int]:
    return waiting.rank
