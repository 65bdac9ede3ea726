"""Up to how many visitors all is as well as for a lone one, and which number to try next.

Pure: it sees the results of steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from visavis.tools.bench.load.results import StepResult

JUDGED = ("voice_to_voice_due", "text_to_voice_due")
"""Latencies that must not grow: from when the question's end was due."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a visitor among others may lose against a lone one."""

    latency_factor: float = 1.5
    """P95 of a latency, times that of the lone visitor of the same run."""
    late_share: float = 0.01
    """Of the pictures of voices."""


@dataclass(frozen=True, slots=True)
class Knee:
    """The most visitors at whom, and below whom, every step was within the limits."""

    sessions: int
    """0: not even one."""
    broke_at: int | None
    """The smallest step that was not; None: all were, so the knee lies further up."""
    why: tuple[str, ...] = ()
    """What was wrong there."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def find_knee(steps: Sequence[StepResult], limits: Limits) -> Knee:
    """steps: of one run, a lone visitor's among them, in any order."""
    good = 0
    lone = lone_of(steps)
    for step in sorted(steps, key=lambda s: s.sessions):
        wrong = troubles(step, lone, limits)
        if wrong:
            return Knee(good, step.sessions, tuple(wrong))
        good = step.sessions
    return Knee(good, None)


def lone_of(steps: Sequence[StepResult]) -> StepResult:
    """The step that the others are held against: the fewest visitors."""
    return min(steps, key=lambda step: step.sessions)


def troubles(step: StepResult, lone: StepResult, limits: Limits) -> list[str]:
    """What of a step is beyond the limits, a phrase each; empty: nothing."""
    found = []
    for figure in JUDGED:
        here, alone = step.p95(figure), lone.p95(figure)
        if here is None or alone is None:
            continue
        if here > limits.latency_factor * alone:
            found.append(
                f"{_told(figure)} P95 {here:.2f} s, {here / alone:.1f} times a lone visitor's"
            )
    if step.late_share >= limits.late_share:
        found.append(f"{step.late_share:.1%} of the pictures late or missing")
    if step.underruns:
        found.append(f"{step.underruns} underruns")
    if step.refused:
        found.append(f"{len(step.refused)} refused: {step.refused[0]}")
    if step.lost:
        found.append(f"{len(step.lost)} sessions lost: {step.lost[0]}")
    if step.failed:
        found.append(f"{step.failed} questions failed")
    return found


def not_judged(steps: Sequence[StepResult]) -> list[str]:
    """What no limit could be held against, a phrase for each such step."""
    lone, told = lone_of(steps), list[str]()
    for step in sorted(steps, key=lambda one: one.sessions):
        lacking = [
            _told(figure)
            for figure in JUDGED
            if step.p95(figure) is None or lone.p95(figure) is None
        ]
        if not step.playout.frames:
            lacking.append("late pictures")
        if lacking:
            told.append(f"at {step.sessions}: {', '.join(lacking)} could not be judged")
    return told


def next_sessions(within: Mapping[int, bool], most: int) -> int | None:
    """How many visitors to try next, to find the knee by doubling and then halving the distance.

    within: for each number that was tried, whether it was within the limits. None: the knee is
    found, or all up to `most` is well.
    """
    if not within:
        return 1
    bad = min((tried for tried, well in within.items() if not well), default=None)
    good = max(
        (tried for tried, well in within.items() if well and tried < (bad or most + 1)), default=0
    )
    if bad is None:
        return min(2 * good, most) if good < most else None
    middle = (good + bad) // 2
    return middle if good < middle < bad else None


def _told(figure: str) -> str:
    """What a judged figure is called: "voice to voice"."""
    return figure.removesuffix("_due").replace("_", " ")
