"""What each visitor of a load asks, and when: written down before the first question.

Pure. The schedule is open-loop: it knows nothing of the server and does not wait for it. The same
seed gives a visitor the same questions at the same times, however many others there are and
however long the run is. Where all ask together, they all keep one visitor's schedule.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from visavis.tools.bench.visitor.visitor import Transport

Arrivals: TypeAlias = Literal["poisson", "even", "together"]

LONG_ANSWERS = (
    "Can you tell me what the weather is usually like in spring?",
    "How do I bake a simple loaf of bread?",
    "Could you please explain how a bicycle stays upright?",
    "I would like to learn to swim, how should I start?",
    "How does a microwave oven heat my food?",
    "Please tell me a short story about a dragon.",
    "What is the difference between a crocodile and an alligator?",
    "请给我讲一个关于龙的小故事。",
    "怎么样才能学好英语？",
)
"""Questions of the question set whose answers are long. The others ask for a fact."""

# Coprime to any deck that is not a multiple of it: neighbours are not asking the same.
_STRIDE = 7


@dataclass(frozen=True, slots=True)
class Habits:
    """How the visitors of a load behave. Shares are 0 to 1."""

    duty: float = 0.4
    """Share of the time in which a visitor asks or is answered."""
    turn_s: float = 10.0
    """How long a question and its answer are taken to last; with `duty` it gives the interval."""
    arrivals: Arrivals = "poisson"
    spoken_share: float = 0.7
    """Of the questions; the others are typed."""
    long_share: float = 0.25
    """Of the questions, those whose answers are long."""
    interrupt_share: float = 0.3
    """Of the questions that are due while an answer is being spoken; the others wait for its
    end."""
    seed: int = 0

    @property
    def interval_s(self) -> float:
        """Mean time from one visitor's question to his next."""
        return self.turn_s / self.duty


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """How a load is made, whatever the number of visitors."""

    habits: Habits
    clips: str
    """The folder of what is spoken."""
    language: str = "en"
    idle_watchers: int = 0
    warmup_s: float = 10.0
    """Questions of a step that are due before are asked and not counted."""
    duration_s: float = 60.0
    """How long a step is counted, at least."""
    questions: int = 20
    """A step is counted longer where its visitors would ask fewer."""
    drain_s: float = 60.0
    """How long after a step questions may still wait and answers be heard."""
    visitors_per_client: int = 8
    visit_s: float = 0.0
    """Visitors leave after about so long, and others come in their place, through the queue where
    there is no room; 0: all are there from the first to the last."""
    transport: Transport = "websocket"
    avatars: Sequence[str] = ()
    """Whom the visitors see, by turns; none: the default avatar."""
    kill: Sequence[str] = ()
    """While a step is counted a process of each of these kinds is killed, in turn."""
    kill_every_s: float = 9.0

    def avatar_of(self, visitor: int) -> str:
        """Whom this visitor or watcher sees; "": the default avatar."""
        return self.avatars[visitor % len(self.avatars)] if self.avatars else ""

    def kill_times_s(self, from_s: float, until_s: float) -> list[float]:
        """When one is, in a step that is counted between the two moments."""
        count = int((until_s - from_s) / self.kill_every_s) if self.kill else 0
        times_s = [from_s + (k + 1) * self.kill_every_s for k in range(count)]
        return [time_s for time_s in times_s if time_s < until_s]

    def length_s(self, visitors: int) -> float:
        """How long a step is counted: `duration_s`, or longer where so few visitors would ask
        fewer than `questions` in that time, by expectation."""
        return max(self.duration_s, self.questions * self.habits.interval_s / max(1, visitors))


@dataclass(frozen=True, slots=True)
class Planned:
    """One question of a visitor's schedule."""

    number: int
    """Of this visitor's questions, from 0."""
    due_s: float
    """When it is to be asked, from the run's start."""
    spoken: bool
    long: bool
    interrupts: bool
    """Where an answer is being spoken then, it is asked into it."""
    draw: int
    """Which question of its kind: an index that goes round, see `dealt`."""


def planned(habits: Habits, visitor: int, length_s: float) -> list[Planned]:
    """All that `visitor` is to ask in a run of `length_s`, in order of time."""
    return [question for question in _until(habits, visitor, length_s)]


def _until(habits: Habits, visitor: int, length_s: float) -> Iterator[Planned]:
    if habits.arrivals == "together":
        visitor = 0  # all ask the same at the same time, so that their questions end together
    random = np.random.default_rng([habits.seed, visitor])
    due_s, number = 0.0, 0
    while True:
        # As many draws for each question, whatever they are used for: a longer run, or another
        # share, changes nothing of what is drawn for the rest.
        wait, spoken, long, interrupts = random.random(4)
        if habits.arrivals == "poisson":
            due_s -= habits.interval_s * float(np.log1p(-wait))
        else:
            due_s += habits.interval_s * (float(wait) if number == 0 else 1.0)
        if due_s >= length_s:
            return
        yield Planned(
            number,
            due_s,
            bool(spoken < habits.spoken_share),
            bool(long < habits.long_share),
            bool(interrupts < habits.interrupt_share),
            visitor * _STRIDE + number,
        )
        number += 1


def visit_lengths(plan: LoadPlan, visitor: int) -> Iterator[float]:
    """How long the visits are that follow one another in a visitor's place: lognormal, with a
    standard deviation of 0.4 of the logarithm."""
    random = np.random.default_rng([plan.habits.seed, visitor, 1])
    while True:
        yield plan.visit_s * float(np.exp(0.4 * random.standard_normal() - 0.08))


def dealt(deck: Sequence[str], draw: int, seed: int) -> str:
    """The question of the shuffled deck that a draw means; visitors draw from one shuffled deck,
    each from a place of his own."""
    order = np.random.default_rng(seed).permutation(len(deck))
    return deck[int(order[draw % len(deck)])]
