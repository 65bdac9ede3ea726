"""Lets a session in, or says why not: a replica's meter, its neighbours and its promise together.

Pure: what the machine says is told to it, once a second. Between two of these `refusal` knows of
every session that has come meanwhile, so that no two share the last place.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from visavis.serving.admission.meter import DUTY, Assumed, Measured, Meter
from visavis.serving.admission.prediction import (
    Machine,
    Prediction,
    Promise,
    alone_p95_s,
    first_p95_s,
    predict,
    room,
)
from visavis.serving.admission.probes import Usage
from visavis.wire.clock import Clock

FRESH_S = 3.0
"""A neighbour that has told nothing for so long is gone."""
_SMOOTHED_S = 5.0
"""Over so long what the machine says is averaged."""
_OTHERS_S = 60.0
"""Over so long the work of others is, from none: who is let in stays for minutes, and what loads as
a stack starts, or as visitors' own programs do, ends before he has asked anything."""
_MOST_WAITED = 0.99
_LEAST_SESSION_BYTES = 8 * 2**20
_FREE_MEMORY_BYTES = 256 * 2**20
"""What has to be left beside the sessions."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another process on this machine, as it told last; of another machine's only `duty` counts."""

    service: str
    sessions: int
    session_cores: float
    used_cores: float
    at_s: float
    duty: float = 0.0
    """Of a gateway's sessions, the share of time in which they are at work; 0: it does not know."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a process has to give, and what is asked of it."""

    sessions: int = 0
    free_slots: int = 0
    refusal: str = ""
    unit_cost_s: float = 0.0
    units_per_s: float = 0.0
    late_p95_s: float = 0.0
    predicted_p95_s: float = 0.0
    alone_p95_s: float = 0.0
    slack: float = 1.0
    session_cores: float = 0.0
    used_cores: float = 0.0
    run_queue_share: float = 0.0
    memory_bytes: int = 0
    free_memory_bytes: int = 0
    duty: float = 0.0


class Admission:
    """Weighs one replica's sessions. service: its own, as neighbours name theirs."""

    def __init__(
        self,
        service: str,
        clock: Clock,
        assumed: Assumed,
        promise: Promise | None,
        *,
        slots: int,
        predicts: bool = True,
        cores: float = 1.0,
        foreign_cores: float = 0.0,
    ) -> None:
        """promise: None where nothing is to be held here, and the process only is a neighbour.

        slots: sessions that may be attached at most. predicts: False where they alone decide.
        foreign_cores: of the machine, beside `cores`, that others alone may use.
        """
        self.meter = Meter(clock, assumed, lanes=promise.lanes if promise else 1)
        self._service = service
        self._clock = clock
        self._promise = promise
        self.slots = slots
        """Sessions that may be attached at most."""
        self._predicts = predicts and promise is not None
        self._cores = cores
        self._neighbours: dict[str, Neighbour] = {}
        self._usage: Usage | None = None
        self._usage_at_s = 0.0
        self._foreign_cores = foreign_cores
        self._used_cores = self._waited_cores = self._machine_cores = 0.0
        self._others_cores = 0.0
        """Of those that this process may use, at work for nobody who has told of it."""
        self._memory_bytes = self._free_memory_bytes = 0
        self._bare_memory_bytes = 0
        """Of the process with no session."""

    # What is told to it

    def hear(self, instance: str, neighbour: Neighbour) -> None:
        """What a process on this machine says of itself."""
        self._neighbours[instance] = neighbour

    def look(self, usage: Usage, memory_bytes: int, free_memory_bytes: int) -> None:
        """What the machine says of this process now."""
        now_s = self._clock.now()
        if self._usage is not None and now_s > self._usage_at_s:
            passed_s = now_s - self._usage_at_s
            new = 1.0 - math.exp(-passed_s / _SMOOTHED_S)
            used_s = max(0.0, usage.cpu_s - self._usage.cpu_s)
            waited_s = max(0.0, usage.waited_s - self._usage.waited_s)
            self._used_cores += new * (used_s / passed_s - self._used_cores)
            self._waited_cores += new * (waited_s / passed_s - self._waited_cores)
            machine_s = max(0.0, usage.machine_s - self._usage.machine_s)
            self._machine_cores += new * (machine_s / passed_s - self._machine_cores)
            known = self._used_cores + sum(process.used_cores for process in self._fresh())
            others = self._machine_cores - known - self._foreign_cores
            newest = 1.0 - math.exp(-passed_s / _OTHERS_S)
            self._others_cores += newest * (others - self._others_cores)
            self.meter.used(used_s)
        self._usage, self._usage_at_s = usage, now_s
        self._memory_bytes, self._free_memory_bytes = memory_bytes, free_memory_bytes
        if not self.meter.sessions:
            self._bare_memory_bytes = memory_bytes
        now = self.meter.measured()
        machine = self._machine(now)
        # No more than threads here did wait for a core, and no more than a crowd would explain: one
        # visitor's own stages wait for each other, too.
        waited = 1.0 / (1.0 - self._run_queue_share())
        stretch = machine.stretch()
        self.meter.stretch = min(waited, stretch)
        if self._promise is not None and not self._promise.pace_hz:
            alone_s = alone_p95_s(now, self._promise, machine)
            crowded_s = first_p95_s(now, self._promise, now.sessions, stretch)
            self.meter.expect(alone_s, crowded_s)

    # What it says

    @property
    def idle_cores(self) -> float:
        """Of those that this process may use, as far as the kernel tells; a mean of seconds."""
        return self._cores - max(0.0, self._machine_cores - self._foreign_cores)

    def refusal(self) -> str:
        """Why one session more is not let in now; empty: it is."""
        return self._refusal(self.meter.measured())

    def capacity(self) -> Capacity:
        """As it stands now."""
        now = self.meter.measured()
        machine, refusal = self._machine(now), self._refusal(now)
        prediction = self._predict(now, machine)
        # Where slots alone decide, nobody is to weigh what would have been predicted.
        told = prediction if self._predicts else Prediction(0.0, "")
        return Capacity(
            now.sessions,
            0 if refusal else self._room(now, machine),
            refusal,
            now.unit_cost_s,
            now.units_per_s,
            now.late_p95_s,
            told.first_p95_s,
            told.alone_p95_s,
            prediction.slack,
            now.cores,
            self._used_cores,
            self._run_queue_share(),
            self._memory_bytes,
            self._free_memory_bytes,
            now.duty if self._promise is None else 0.0,
        )

    def _run_queue_share(self) -> float:
        wanted = self._used_cores + self._waited_cores
        return min(_MOST_WAITED, self._waited_cores / wanted) if wanted > 0.0 else 0.0

    def _refusal(self, now: Measured) -> str:
        if now.sessions >= self.slots:
            return f"all {self.slots} slots are taken"
        if not self._predicts or not now.sessions:
            return ""
        if self._memory_room(now) <= 0:
            return f"{self._free_memory_bytes >> 20} MB of memory are left"
        prediction = self._predict(now, self._machine(now))
        return prediction.why if prediction.slack < 0 else ""

    def _predict(self, now: Measured, machine: Machine) -> Prediction:
        if self._promise is None:
            return Prediction(0.0, "")
        return predict(now, self._promise, machine)

    def _room(self, now: Measured, machine: Machine) -> int:
        free = self.slots - now.sessions
        if not self._predicts or self._promise is None:
            return free
        free = min(free, max(0 if now.sessions else 1, self._memory_room(now)))
        return room(now, self._promise, machine, free)

    def _memory_room(self, now: Measured) -> int:
        if not self._free_memory_bytes:
            return self.slots
        grown = self._memory_bytes - self._bare_memory_bytes
        each = max(_LEAST_SESSION_BYTES, grown // max(1, now.sessions))
        return max(0, self._free_memory_bytes - _FREE_MEMORY_BYTES) // each

    def _machine(self, now: Measured) -> Machine:
        own = Neighbour(self._service, now.sessions, now.cores, self._used_cores, 0.0)
        here = [own, *self._fresh()]
        of_service: dict[str, list[float]] = {}
        for process in here:
            of_service.setdefault(process.service, []).append(process.session_cores)
        session_cores = sum(sum(each) / len(each) for each in of_service.values())
        load = sum(process.sessions * process.session_cores for process in here)
        told = [process for process in here if process.duty]
        asked = sum(process.sessions for process in told)
        duty = sum(p.sessions * p.duty for p in told) / asked if asked else DUTY
        # Those that came since the neighbours last told ask all of them.
        sessions = max(load / session_cores, float(now.sessions)) if session_cores else 0.0
        foreign = max(0.0, self._others_cores)
        return Machine(self._cores, sessions, session_cores, foreign, duty)

    def _fresh(self) -> Iterable[Neighbour]:
        oldest_s = self._clock.now() - FRESH_S
        gone = [name for name, process in self._neighbours.items() if process.at_s < oldest_s]
        for name in gone:
            del self._neighbours[name]
        return self._neighbours.values()
