"""What a lane has in hand, for an engine that computes elsewhere and has to tell others.

How urgent it is, until when, and whether anybody still waits: an engine in this process needs none
of it, for its run ends when it ends. A request that is on its way to a server carries the first two
along, and is taken back when nobody waits any more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from visavis.engine.queueing import Urgency


class InHand:
    """One run of a lane, from its thread's side. Safe for use from any thread."""

    def __init__(self, urgency: Urgency, *, waiting: int, left_s: float | None = None) -> None:
        """waiting: how many wait for its answers; left_s: time until the first one is needed, None
        where that is at once.
        """
        self.urgency = urgency
        self.left_s = left_s
        self._waiting = waiting
        self._give_up: Callable[[], object] | None = None
        self._lock = threading.Lock()

    def leave(self) -> None:
        """One of those who waited does so no more; after the last one the run is given up."""
        with self._lock:
            self._waiting -= 1
            give_up = self._give_up if self._waiting <= 0 else None
        if give_up is not None:
            give_up()

    @contextmanager
    def given_up_by(self, give_up: Callable[[], object]) -> Iterator[None]:
        """Meanwhile `give_up` is called, from any thread, as soon as nobody waits any more."""
        with self._lock:
            gone = self._waiting <= 0
            self._give_up = give_up
        if gone:
            give_up()
        try:
            yield
        finally:
            with self._lock:
                self._give_up = None


_CURRENT: ContextVar[InHand | None] = ContextVar("in_hand", default=None)


def in_hand() -> InHand | None:
    """What the lane whose thread this is works on; None on any other thread."""
    return _CURRENT.get()


@contextmanager
def taken_in(hand: InHand) -> Iterator[None]:
    """Meanwhile `in_hand` gives `hand` on this thread."""
    token = _CURRENT.set(hand)
    try:
        yield
    finally:
        _CURRENT.reset(token)
