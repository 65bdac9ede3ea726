"""A device that computes nothing and takes its time: a queue, one run after the other, batches.

Pure: it starts no timer and reads no clock. Asleep in parallel, requests would never wait for each
other; here each run occupies the device, and what comes meanwhile waits for its end, to share the
next run with others of its kind. Times are exact whoever looks late: a run begins at the moment at
which the one before ended, or its first request came.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from visavis.serving.errors import AtCapacityError

_MOST_WAITING = 1024


@dataclass(frozen=True, slots=True)
class BatchCurve:
    """How much longer a run of several requests takes than a run of one.

    points: (requests in the run, its seconds), from one request upwards; between two of them the
    time is interpolated, and no run is larger than the last.
    """

    points: tuple[tuple[int, float], ...] = ((1, 1.0),)

    def __post_init__(self) -> None:
        sizes = [size for size, _ in self.points]
        times = [seconds for _, seconds in self.points]
        if not sizes or sizes[0] != 1 or times[0] <= 0:
            raise ValueError("a batch curve begins with one request, which takes time")
        if any(b <= a for a, b in pairwise(sizes)) or any(b < a for a, b in pairwise(times)):
            raise ValueError("along a batch curve sizes grow, and times do not shrink")

    @property
    def largest(self) -> int:
        return self.points[-1][0]

    def factor(self, size: int) -> float:
        """Length of a run of `size` requests, 1 to `largest`, over that of one."""
        alone_s = self.points[0][1]
        for (low, low_s), (high, high_s) in pairwise(self.points):
            if low <= size <= high:
                share = (size - low) / (high - low)
                return (low_s + share * (high_s - low_s)) / alone_s
        return 1.0


@dataclass(frozen=True, slots=True)
class Progress:
    """What became of a request at a moment that is past. steps: done so far; 0: it was begun."""

    ticket: int
    at_s: float
    steps: int
    over: bool


@dataclass(slots=True)
class _Request:
    ticket: int
    kind: str
    step_s: float
    left: int
    """Steps to come."""
    done: int = 0
    begun: bool = False


@dataclass(slots=True)
class VirtualDevice:
    """One replica's device, as its requests see it: who is at work, who waits, what is done.

    A request of several steps (the tokens of an answer) waits anew before each, behind the others:
    so a run always holds as many sequences as there are, up to the curve's largest.
    """

    curve: BatchCurve
    most_waiting: int = _MOST_WAITING
    busy_s: float = 0.0
    """Occupied so far, whatever the size of the runs."""
    runs: int = 0
    steps: int = 0
    _tickets: int = 0
    _waiting: list[_Request] = field(default_factory=list)
    _running: list[_Request] = field(default_factory=list)
    _until_s: float = 0.0
    _told: list[Progress] = field(default_factory=list)

    @property
    def next_s(self) -> float | None:
        """When the present run ends; None: there is none."""
        return self._until_s if self._running else None

    def ask(self, kind: str, step_s: float, now_s: float, *, steps: int = 1) -> int:
        """A ticket for `steps` steps, each of `step_s` alone on the device.

        Requests of one kind share runs. Raises AtCapacityError where too many wait.
        """
        self._go_on(now_s)
        if len(self._waiting) >= self.most_waiting:
            raise AtCapacityError(f"{len(self._waiting)} requests wait for the device already")
        self._tickets += 1
        self._waiting.append(_Request(self._tickets, kind, step_s, max(1, steps)))
        if not self._running:
            self._begin(now_s)
        return self._tickets

    def drop(self, ticket: int) -> None:
        """Nobody waits for it any more; a run that it is in goes on to its end."""
        self._waiting = [request for request in self._waiting if request.ticket != ticket]
        for request in self._running:
            if request.ticket == ticket:
                request.left = 0

    def advance(self, now_s: float) -> Sequence[Progress]:
        """What has happened up to `now_s` and was not told yet, in its order."""
        self._go_on(now_s)
        told, self._told = self._told, []
        return told

    def _go_on(self, now_s: float) -> None:
        while self._running and self._until_s <= now_s:
            ended_s, run = self._until_s, self._running
            self._running = []
            for request in run:
                if not request.left:
                    continue  # dropped
                request.left -= 1
                request.done += 1
                self._told.append(Progress(request.ticket, ended_s, request.done, not request.left))
                if request.left:
                    self._waiting.append(request)
            self._begin(ended_s)

    def _begin(self, at_s: float) -> None:
        if not self._waiting:
            return
        kind = self._waiting[0].kind
        alike = [request for request in self._waiting if request.kind == kind]
        self._running = alike[: self.curve.largest]
        self._waiting = [request for request in self._waiting if request not in self._running]
        for request in self._running:
            if not request.begun:
                request.begun = True
                self._told.append(Progress(request.ticket, at_s, 0, False))
        length_s = max(request.step_s for request in self._running)
        length_s *= self.curve.factor(len(self._running))
        self._until_s = at_s + length_s
        self.busy_s += length_s
        self.runs += 1
        self.steps += len(self._running)
