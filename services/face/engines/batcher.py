"""Which asks go into a network together: pure bookkeeping, without I/O, the time passed in."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Generic, TypeVar

Ask = TypeVar("Ask")


@dataclass(frozen=True, slots=True)
class _Waiting(Generic[Ask]):
    ask: Ask
    since_s: float


class Batcher(Generic[Ask]):
    """Collects what several owners ask for. A batch is due when it is full, or its oldest ask has
    waited long enough for others to join.

    Owners take turns, each giving its oldest: one that asks for much ahead of time does not hold
    up the others.
    """

    def __init__(self, *, largest: int, gather_s: float) -> None:
        """`largest`: asks in one batch; `gather_s`: how long an ask may wait for company."""
        self._largest = largest
        self._gather_s = gather_s
        self._queues: OrderedDict[int, deque[_Waiting[Ask]]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def add(self, owner: int, ask: Ask, now_s: float) -> None:
        """Queue behind what the owner has asked before."""
        self._queues.setdefault(owner, deque()).append(_Waiting(ask, now_s))

    def drop(self, owner: int) -> list[Ask]:
        """Forget what the owner still waits for, and give it back."""
        return [waiting.ask for waiting in self._queues.pop(owner, ())]

    def due_in_s(self, now_s: float) -> float | None:
        """How long until a batch is due; 0: it is; None: nobody waits."""
        if not self._queues:
            return None
        if len(self) >= self._largest:
            return 0.0
        oldest_s = min(queue[0].since_s for queue in self._queues.values())
        return max(0.0, oldest_s + self._gather_s - now_s)

    def take(self, now_s: float) -> list[Ask]:
        """The batch that is due, or nothing."""
        if self.due_in_s(now_s) != 0.0:
            return []
        batch: list[Ask] = []
        while self._queues and len(batch) < self._largest:
            owner, queue = next(iter(self._queues.items()))
            batch.append(queue.popleft().ask)
            if queue:
                self._queues.move_to_end(owner)
            else:
                del self._queues[owner]
        return batch
