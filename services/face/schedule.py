"""Which pictures are made next: one tick for all faces of a process.

Pure: it does no I/O and gets the time as an argument. What is to be shown by now is made by itself,
at once. What is spoken is made ahead of its time; so it waits for the next tick, where all that may
be made goes in one pass, a few pictures of each face in a row: the second picture in a row costs
little more than half of the first, for which code and textures have to come into the processor's
caches.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from services.face.draw.pose import Frame

TICK_S = 0.16
"""Four pictures of each face, made ahead by at most a second less this."""
AT_ONCE_S = 0.02
"""What is to be shown within this time waits for no tick: half a picture's length."""
_SOON_S = AT_ONCE_S + 1e-6  # a timer that was set for that instant may be a rounding early
LARGEST_PASS = 8
"""Pictures in a pass: they are sent together, so the first waits for the last."""
_PICTURE_S = 0.01
"""What a picture may take: a pass is no longer than its first picture has time."""


class Timeline(Protocol):
    """What there is to draw of one face, and when: as an `Animator` says it."""

    def due_s(self, now_s: float) -> float | None: ...

    def next_frame(self, now_s: float) -> Frame | None: ...

    def delay_s(self, now_s: float) -> float | None: ...

    def wants(self, frame: Frame) -> bool: ...


FaceT = TypeVar("FaceT", bound=Timeline)


@dataclass(slots=True, eq=False)
class Seat(Generic[FaceT]):
    """One face's place in the schedule. `Schedule.add` makes it."""

    face: FaceT
    in_a_row: bool
    number: int
    due_s: float | None = None
    """When its next frame is to be shown, where that may be made."""
    again_s: float | None = None
    """When to look at it again, where none may be made."""
    tick_s: float = math.inf
    """When what it has to draw goes if it has time; all faces' ticks are the same instants."""
    out: int = 0
    """Jobs that are taken and neither given back nor done: no more of it are until they are."""
    waiting: deque[Job[FaceT]] = field(default_factory=deque)
    """Jobs that were given back."""
    served: int = 0
    """How many jobs of all faces had been taken when one of it was: of those that are due at the
    same time, who has waited longest goes first.
    """

    @property
    def next_s(self) -> float | None:
        """When what it has to draw is to be shown."""
        if self.out:
            return None
        if not self.waiting:
            return self.due_s
        job = self.waiting[0]
        # What an interruption left behind costs nothing, and must not keep back what follows it.
        return job.due_s if self.face.wants(job.frame) else job.taken_s

    def goes_s(self, now_s: float) -> float | None:
        """When what it has to draw may be taken, now at the earliest; None: it has nothing."""
        due_s = self.next_s
        if due_s is None or self.waiting or not self.in_a_row or due_s - now_s <= _SOON_S:
            return None if due_s is None else now_s
        return max(now_s, min(self.tick_s, due_s - AT_ONCE_S))


@dataclass(slots=True, eq=False)
class Job(Generic[FaceT]):
    """A frame that was taken out of its timeline: it is drawn, or nothing comes of it."""

    seat: Seat[FaceT]
    frame: Frame
    due_s: float
    taken_s: float


class Schedule(Generic[FaceT]):
    """Says which frames of which faces go into the next pass: the earliest due go first.

    Frames of one face are never in two passes. One is taken out of its timeline as late as can be,
    so that an interruption finds it there, and what came too late by then is left out by it.
    """

    def __init__(self) -> None:
        self._seats: dict[int, Seat[FaceT]] = {}
        self._numbers, self._served = itertools.count(), itertools.count(1)

    def add(self, face: FaceT, now_s: float, *, in_a_row: bool) -> Seat[FaceT]:
        """in_a_row: its frames may be drawn one after the other; else each waits for a network,
        which takes its time: one by one then, and none waits for a tick.
        """
        seat = Seat(face, in_a_row, next(self._numbers))
        self._seats[seat.number] = seat
        self.look(seat, now_s)
        return seat

    def remove(self, seat: Seat[FaceT]) -> None:
        """Nothing of this face is taken any more. Idempotent."""
        self._seats.pop(seat.number, None)

    def look(self, seat: Seat[FaceT], now_s: float) -> None:
        """Something about a face has changed."""
        seat.due_s = seat.face.due_s(now_s)
        seat.again_s = None
        if seat.due_s is None:
            delay_s = seat.face.delay_s(now_s)
            seat.again_s = None if delay_s is None else now_s + delay_s
            seat.tick_s = math.inf
        elif seat.tick_s == math.inf:
            seat.tick_s = (math.floor(now_s / TICK_S) + 1) * TICK_S

    @property
    def faces(self) -> Iterator[FaceT]:
        """All that are drawn."""
        return (seat.face for seat in self._seats.values())

    def urgent(self, now_s: float) -> bool:
        """Whether anything that is not yet taken is to be shown by now."""
        return any(_within(seat.next_s, now_s + _SOON_S) for seat in self._seats.values())

    def next_s(self, now_s: float) -> float | None:
        """When `take` gives something if nothing changes; None: it does not."""
        times = (self._time_s(seat, now_s) for seat in self._seats.values())
        return min((time_s for time_s in times if time_s is not None), default=None)

    def take(self, now_s: float) -> list[Job[FaceT]]:
        """The next pass, the earliest due first; empty while nothing is to be drawn."""
        for seat in self._seats.values():
            if not seat.out and seat.again_s is not None and seat.again_s <= now_s:
                self.look(seat, now_s)
        urgent = self.urgent(now_s)
        until_s = now_s + _SOON_S if urgent else math.inf
        seats = self._seats.values()
        ready = [
            seat for seat in seats if _within(seat.next_s, until_s) and seat.goes_s(now_s) == now_s
        ]
        jobs = self._pass(ready, until_s, now_s)
        if urgent:
            for job in jobs:
                # What follows the beginning of a turn is wanted soon, too.
                job.seat.tick_s = now_s
        return jobs

    def give_back(self, jobs: Iterable[Job[FaceT]]) -> None:
        """Not done, and to be taken again before anything else of their faces: a pass was ended
        early, or a network had to run first.
        """
        for job in jobs:
            job.seat.out -= 1
            job.seat.waiting.append(job)

    def done(self, seat: Seat[FaceT], count: int, now_s: float) -> None:
        """So many jobs of a face have come to their end."""
        seat.out -= count
        if seat.number in self._seats:
            self.look(seat, now_s)

    def _time_s(self, seat: Seat[FaceT], now_s: float) -> float | None:
        """When something of a face may be taken."""
        goes_s = seat.goes_s(now_s)
        return seat.again_s if goes_s is None and not seat.out else goes_s

    def _pass(self, ready: list[Seat[FaceT]], until_s: float, now_s: float) -> list[Job[FaceT]]:
        heap = [(seat.next_s or 0.0, seat.served, seat.number, seat) for seat in ready]
        heapq.heapify(heap)
        jobs: list[Job[FaceT]] = []
        largest = LARGEST_PASS
        if heap and until_s == math.inf:
            largest = min(largest, max(1, int((heap[0][0] - now_s) / _PICTURE_S)))
        while heap and len(jobs) < largest:
            due_s, _, number, seat = heapq.heappop(heap)
            job = self._next_job(seat, due_s, now_s)
            if job is None:
                continue
            jobs.append(job)
            seat.served = next(self._served)
            following_s = seat.next_s
            if _within(following_s, until_s) and seat.in_a_row:
                heapq.heappush(heap, (following_s or 0.0, seat.served, number, seat))
        for job in jobs:
            job.seat.out += 1
        return jobs

    def _next_job(self, seat: Seat[FaceT], due_s: float, now_s: float) -> Job[FaceT] | None:
        if seat.waiting:
            return seat.waiting.popleft()
        frame = seat.face.next_frame(now_s)
        self.look(seat, now_s)
        return None if frame is None else Job(seat, frame, due_s, now_s)


def _within(due_s: float | None, until_s: float) -> bool:
    return due_s is not None and due_s <= until_s
