"""Which request an engine's thread takes next, and which others share its run.

Pure bookkeeping: no I/O, no threads, and the time is an argument.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from visavis.engine.batching import Sharing, company_s, run_size
from visavis.serving.errors import AtCapacityError

Item = TypeVar("Item")

_ACCOUNTS = 256
"""So many owners are kept account of before those who do not wait are forgotten."""


@dataclass(frozen=True, slots=True)
class Urgency:
    """Says what a request may overtake: by its class first, then by when it is needed."""

    priority: int = 0
    """The class; smaller ones go first, whatever their deadlines. Each service numbers its own."""
    deadline_s: float | None = None
    """When the answer is needed, on the lane's clock; None: `within_s` after it is asked for."""
    within_s: float = 0.0
    """0: at once, so that those who ask so are served in the order in which they ask."""
    key: Hashable | None = None
    """Under which a newer request may supersede it while it waits; None: it always counts."""
    supersedes: Hashable | None = None
    """What waits under this key leaves the queue."""
    owner: Hashable | None = None
    """Whose it is. Where several of a class are late, whoever has had least time goes first. It is
    kept for a while: an id or a bare object, not what holds a session's memory."""


_ALONE = Sharing(largest=1)


@dataclass(slots=True, eq=False)
class Waiting(Generic[Item]):
    """A request in the queue: `DeadlineQueue.add` makes it, and `drop` takes it back."""

    item: Item
    urgency: Urgency
    since_s: float
    sharing: Sharing
    length: float
    deadline_s: float
    arrival: int
    """Number of arrival: no two are equal."""
    left: bool = field(default=False)
    """Taken, dropped or superseded."""

    @property
    def rank(self) -> tuple[int, float, int]:
        """Class, deadline, number of arrival."""
        return self.urgency.priority, self.deadline_s, self.arrival


class DeadlineQueue(Generic[Item]):
    """Serves by class, then by the earliest deadline, then first come first served.

    Among those of a class who are late already, deadlines say no more who should wait: whoever has
    had least of the engine's time goes first (as in start-time fair queueing, Goyal et al. 1996),
    so that one who asks for more than the engine can do delays himself and not all. It takes no
    more than `limit` requests.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: list[Waiting[Item]] = []
        self._arrivals = itertools.count()
        self._used_s: dict[Hashable, float] = {}
        """Time of the engine that each owner has had, counted from where he last began to wait."""
        self._served_s = 0.0
        """What the owner whose turn it was last had had: who comes anew begins there."""

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def most_urgent(self) -> int | None:
        """The class of what goes first; None: nobody waits."""
        return self._waiting[0].urgency.priority if self._waiting else None

    def add(
        self,
        item: Item,
        urgency: Urgency,
        now_s: float,
        *,
        sharing: Sharing | None = None,
        ask: Any = None,
        always: bool = False,
    ) -> Waiting[Item]:
        """Queue a request; what it supersedes is taken out by `supersede`, before.

        ask: what `sharing` takes the length of. `always`: take it even where the queue is full.
        Raises AtCapacityError where it is.
        """
        if len(self._waiting) >= self._limit and not always:
            raise AtCapacityError(
                f"{len(self._waiting)} requests wait for this engine already; try again later"
            )
        sharing = sharing or _ALONE
        waiting = Waiting(
            item,
            urgency,
            now_s,
            sharing,
            sharing.length(ask),
            _deadline_s(urgency, now_s),
            next(self._arrivals),
        )
        bisect.insort(self._waiting, waiting, key=_rank)
        owner = urgency.owner
        self._used_s[owner] = max(self._used_s.get(owner, 0.0), self._served_s)
        if len(self._used_s) > _ACCOUNTS:
            self._forget_owners()
        return waiting

    def supersede(self, key: Hashable) -> list[Waiting[Item]]:
        """Take out what waits under this key, and give it back."""
        found = [waiting for waiting in self._waiting if waiting.urgency.key == key]
        for waiting in found:
            self.drop(waiting)
        return found

    def hasten(self, key: Hashable, priority: int) -> None:
        """What waits under this key is of this class from now on."""
        for waiting in [w for w in self._waiting if w.urgency.key == key]:
            self._waiting.remove(waiting)
            waiting.urgency = replace(waiting.urgency, priority=priority)
            bisect.insort(self._waiting, waiting, key=_rank)

    def drop(self, waiting: Waiting[Item]) -> bool:
        """Its answer is no longer wanted. Says whether it still waited."""
        if waiting.left:
            return False
        self._remove([waiting])
        return True

    def due_in_s(self, now_s: float) -> float | None:
        """How long until `take` gives something; 0: now; None: nobody waits."""
        if not self._waiting:
            return None
        return self._next_run(now_s)[1]

    def take(self, now_s: float) -> list[Waiting[Item]]:
        """The next run, its most urgent request first; nothing while none is due."""
        if not self._waiting:
            return []
        run, wait_s = self._next_run(now_s)
        if wait_s:
            return []
        self._served_s = max(self._served_s, self._used_s[run[0].urgency.owner])
        self._remove(run)
        return run

    def finished(self, run: Sequence[Waiting[Item]], seconds: float) -> None:
        """A run that `take` gave has taken so long: its owners have had it."""
        for waiting in run:
            owner = waiting.urgency.owner
            # Whoever was forgotten begins anew.
            self._used_s[owner] = self._used_s.get(owner, self._served_s) + seconds / len(run)

    def clear(self) -> list[Waiting[Item]]:
        """Take everything out."""
        left = list(self._waiting)
        self._remove(left)
        return left

    def _next_run(self, now_s: float) -> tuple[list[Waiting[Item]], float]:
        """The most urgent request and those that go along; how long they shall wait for more."""
        if len(self._waiting) > 1:
            order = sorted(self._waiting, key=lambda waiting: self._turn(waiting, now_s))
        else:
            order = self._waiting
        sharing = order[0].sharing
        if sharing.largest == 1:
            return order[:1], 0.0
        alike = [waiting for waiting in order if waiting.sharing is sharing]
        if order[0].deadline_s <= now_s:
            # Others of its class are helped by sharing what is late; nobody of a lower one is to
            # make it later still.
            first = order[0].urgency.priority
            alike = [waiting for waiting in alike if waiting.urgency.priority == first]
        alike = alike[: sharing.largest]
        lengths = [waiting.length for waiting in alike]
        run = alike[: run_size(sharing, lengths, alike[0].deadline_s - now_s, now_s)]
        if len(self._waiting) > len(run):
            return run, 0.0  # there is other work: nobody waits on a thread that stands still
        slack_s = min(waiting.deadline_s for waiting in run) - now_s
        waited_s = now_s - min(waiting.since_s for waiting in run)
        return run, company_s(sharing, lengths, slack_s, waited_s, now_s)

    def _turn(self, waiting: Waiting[Item], now_s: float) -> tuple[int, float, float, float, int]:
        """Sorts by whose turn it is: class; the late ones by what their owners have had, and
        before the others; deadline; arrival."""
        late = waiting.deadline_s <= now_s
        used_s = self._used_s[waiting.urgency.owner] if late else 0.0
        priority, deadline_s, arrival = waiting.rank
        return priority, not late, used_s, deadline_s, arrival

    def _remove(self, gone: Sequence[Waiting[Item]]) -> None:
        for waiting in gone:
            waiting.left = True
        self._waiting = [waiting for waiting in self._waiting if not waiting.left]

    def _forget_owners(self) -> None:
        waiting = {waiting.urgency.owner for waiting in self._waiting}
        self._used_s = {owner: used_s for owner, used_s in self._used_s.items() if owner in waiting}


def _deadline_s(urgency: Urgency, now_s: float) -> float:
    return now_s + urgency.within_s if urgency.deadline_s is None else urgency.deadline_s


def _rank(waiting: Waiting[Any]) -> tuple[int, float, int]:
    return waiting.rank
