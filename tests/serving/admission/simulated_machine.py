"""A machine with four stages and their visitors, in simulated time: predictions are held to it.

Cores are shared by all lanes that have work (processor sharing); each lane serves first come, first
served. Nothing here knows of the predictions.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

PICTURES_HZ = 25.0
_PAUSED_S = 1.0
"""Of a question, between two pauses."""
_CHUNK_S = 0.2
"""Pictures are simulated in bunches of so much speech."""


@dataclass(frozen=True)
class Costs:
    """Work on an idle machine, seconds; what visitors ask."""

    hear_s: float = 0.05
    read_s: float = 0.15
    write_s: float = 0.35
    speak_s: float = 0.12
    picture_s: float = 0.0037
    uncomputed_s: float = 0.1
    """Of each answer, what is no work: the pause is noticed, the tick, the way to the ear."""
    send_share: float = 0.05
    """Of a core, while an answer is being played."""
    phrases: int = 3
    llm_threads: float = 1.0
    """Cores that the language model takes while it works."""
    drafts: int = 2
    """Of each question: heard while it pauses, and answered in vain."""
    answer_s: float = 5.0
    interval_s: float = 20.0
    """From the end of an answer to the next question, on average."""


@dataclass(eq=False)
class Job:
    lane: str
    left_s: float
    done: Callable[[], None]
    makes_way: bool
    threads: float


@dataclass
class World:
    """The simulated time, the cores, and the lanes."""

    cores: float
    now_s: float = 0.0
    _lanes: dict[str, deque[Job]] = field(default_factory=dict)
    _later: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _order: Iterator[int] = field(default_factory=itertools.count)
    used_s: dict[str, float] = field(default_factory=dict)
    """Of each lane, time on a core."""
    waited_s: dict[str, float] = field(default_factory=dict)
    """Of each lane, time in which it had work and no core."""

    def now(self) -> float:
        return self.now_s

    def after(self, delay_s: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._later, (self.now_s + delay_s, next(self._order), act))

    def ask(
        self,
        lane: str,
        work_s: float,
        done: Callable[[], None],
        *,
        makes_way: bool = False,
        threads: float = 1.0,
    ) -> None:
        """makes_way: it rests while the lane has work that does not. work_s: on that many cores."""
        jobs = self._lanes.setdefault(lane, deque())
        before = len(jobs) if makes_way else sum(not job.makes_way for job in jobs)
        jobs.insert(before, Job(lane, work_s, done, makes_way, threads))

    def run(self, until_s: float) -> None:
        while self.now_s < until_s:
            heads = [jobs[0] for jobs in self._lanes.values() if jobs]
            pace = min(1.0, self.cores / max(1.0, sum(job.threads for job in heads)))
            next_s = min(self._later[0][0] if self._later else math.inf, until_s)
            shortest = min((job.left_s for job in heads), default=math.inf)
            step_s = min(next_s - self.now_s, shortest / pace)
            self.now_s += step_s
            for job in heads:
                job.left_s -= step_s * pace
                used_s, waited_s = self.used_s.get(job.lane, 0.0), self.waited_s.get(job.lane, 0.0)
                self.used_s[job.lane] = used_s + step_s * pace * job.threads
                self.waited_s[job.lane] = waited_s + step_s * (1.0 - pace) * job.threads
            for job in heads:
                if job.left_s <= 1e-9:
                    self._lanes[job.lane].remove(job)
                    job.done()
            while self._later and self._later[0][0] <= self.now_s + 1e-12:
                heapq.heappop(self._later)[2]()


class Unit:
    """A piece of work."""

    def first(self) -> None:
        """It is what the visitor waited for."""


class Meters:
    """Who is told of the work; this one forgets it."""

    def begin(self, stage: str) -> Unit:
        return Unit()

    def end(self, stage: str) -> None:
        pass


class Visitor:
    """Asks, is answered, waits, asks again, until he has left."""

    def __init__(self, world: World, costs: Costs, seed: int, meters: Meters) -> None:
        self.first_s: list[tuple[float, float]] = []
        """When it was asked, and how long the first sound took."""
        self.late = self.chunks = 0
        self.here, self.at_work = True, False
        self._world, self._costs, self._meters = world, costs, meters
        self._random = random.Random(seed)
        self._lane = f"face-{seed % 2}"
        world.after(self._random.expovariate(1 / costs.interval_s), self._speak)

    def _work(self, stage: str, work_s: float, then: Callable[[], None], first: bool) -> None:
        work_s *= self._random.uniform(0.6, 1.4)
        unit = self._meters.begin(stage)

        def done() -> None:
            if first:
                unit.first()
            self._meters.end(stage)
            then()

        lane = self._lane if stage == "face" else stage
        threads = self._costs.llm_threads if stage == "llm" else 1.0
        self._world.ask(lane, work_s, done, threads=threads)

    def _speak(self) -> None:
        if not self.here:
            return
        self.at_work = True
        for pause in range(self._costs.drafts):
            self._world.after(pause * _PAUSED_S, self._draft)
        self._world.after(self._costs.drafts * _PAUSED_S, self._ask)

    def _draft(self) -> None:
        def heard() -> None:
            c = self._costs
            self._world.ask("llm", c.read_s, lambda: None, makes_way=True, threads=c.llm_threads)

        self._work("asr", self._costs.hear_s, heard, False)

    def _ask(self) -> None:
        asked_s, c = self._world.now_s, self._costs

        def spoken() -> None:
            took_s = self._world.now_s - asked_s + c.uncomputed_s
            self.first_s.append((asked_s, took_s))
            self._show(self._world.now_s, 0)
            for phrase in range(1, c.phrases):
                delay_s = phrase * c.answer_s / c.phrases * 0.5
                self._world.after(
                    delay_s, lambda: self._work("tts", c.speak_s * 1.5, lambda: None, False)
                )

        def read() -> None:
            self._work("llm", c.write_s, lambda: None, False)
            self._work("tts", c.speak_s, spoken, True)

        def heard() -> None:
            self._work("llm", c.read_s, read, True)

        self._work("asr", c.hear_s, heard, True)

    def _show(self, began_s: float, chunk: int) -> None:
        c, due_s = self._costs, began_s + (chunk + 1) * _CHUNK_S
        if chunk * _CHUNK_S >= c.answer_s:
            self.at_work = False
            self._world.after(self._random.expovariate(1 / c.interval_s), self._speak)
            return

        def shown() -> None:
            self.chunks += 1
            self.late += self._world.now_s > due_s + 0.04

        self._work("face", c.picture_s * PICTURES_HZ * _CHUNK_S, shown, False)
        self._world.ask("gateway", c.send_share * _CHUNK_S, lambda: None)
        self._world.after(_CHUNK_S, lambda: self._show(began_s, chunk + 1))


def knee(cores: float, costs: Costs, *, length_s: float, most: int = 64) -> tuple[int, float]:
    """By brute force: the most visitors whose P95 is at most 1.5 times a lone one's; that P95."""

    def tried(count: int) -> Outcome:
        world = World(cores)
        visitors = [Visitor(world, costs, seed, Meters()) for seed in range(count)]
        world.run(length_s * max(1, 8 // count))
        return outcome(visitors, 30.0)

    lone, best = tried(1), (1, 0.0)
    for count in range(1, most):
        found = tried(count)
        if found.p95_s > 1.5 * lone.p95_s or found.late_share > 0.01:
            break
        best = (count, found.p95_s)
    return best


@dataclass(frozen=True)
class Outcome:
    """What visitors had: P95 from question to sound, and the share of pictures that were late."""

    p95_s: float
    late_share: float


def outcome(visitors: list[Visitor], from_s: float) -> Outcome:
    times = sorted(t for v in visitors for at_s, t in v.first_s if at_s >= from_s)
    chunks = sum(v.chunks for v in visitors)
    late = sum(v.late for v in visitors) / max(1, chunks)
    return Outcome(times[int(0.95 * len(times))], late)
