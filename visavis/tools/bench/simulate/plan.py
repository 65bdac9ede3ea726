"""What a simulation is made of: stage times, their batch curve, replicas, dilation."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Self


@dataclass(frozen=True, slots=True)
class StageTimes:
    """How long the devices take, seconds, each for one request alone."""

    asr_s_per_s: float = 0.068
    """A second of sound, understood."""
    token_s: float = 0.042
    """A token; the first one holds the reading of the prompt."""
    phrase_s: float = 0.018
    """A phrase, spoken."""
    frame_s: float = 0.005
    """A picture, drawn and encoded."""
    batches: tuple[tuple[int, float], ...] = ((1, 0.280), (4, 0.320), (8, 0.350))
    """Requests in a run, and how long it takes: of all stages the relation counts."""


@dataclass(frozen=True, slots=True)
class SimulationPlan:
    """What every process of a simulated stack must know."""

    dilation: float = 1.0
    """How many of the world's seconds a simulated second takes."""
    times: StageTimes = field(default_factory=StageTimes)
    answer_words: int = 12
    """Words of an answer, on average."""

    def to_line(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_line(cls, line: str) -> Self:
        told = json.loads(line)
        times = told.pop("times")
        batches = tuple((int(size), float(seconds)) for size, seconds in times.pop("batches"))
        return cls(times=StageTimes(batches=batches, **times), **told)
