"""Networks that several sessions share run by run, row by row.

A piece of work that comes to such a network yields a `RowAsk` and is sent the answer: alone it is
answered at once (`alone`), on a lane in a run with what others ask (`EngineLane.stream`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from visavis.engine.base import Engine
from visavis.engine.batching import RunCurve

T = TypeVar("T")

MOST_ROWS = 8
"""In a run: what plans are compiled for."""


def most_rows(engine: Engine, *inputs: str) -> int:
    """How many rows a loaded network takes in one run.

    inputs: those that have a row for each. One, where the graph was exported with that size, or
    where several runs are taken at once: batches are formed there. Raises EngineError before it is
    loaded.
    """
    if engine.at_once > 1:
        return 1
    fixed = [size for name in inputs if (size := engine.inputs[name].shape[0]) is not None]
    return min(fixed, default=MOST_ROWS)


@dataclass(frozen=True, slots=True, eq=False)
class RowNetwork:
    """A network and how its rows are put together and taken apart."""

    run: Callable[[Sequence[Any]], Sequence[Any]]
    """Answers rows in their order. Raises EngineError."""
    largest: int
    """Rows in one run."""
    length: Callable[[Any], float]
    """Of a row, above 0: a run costs by its longest."""
    curve: RunCurve = field(default_factory=RunCurve)
    """What its runs were measured to take."""


@dataclass(frozen=True, slots=True, eq=False)
class RowAsk:
    """One row for a network, yielded by the work that needs its answer."""

    network: RowNetwork
    row: Any


def step_of(steps: Generator[T, Any, None], answer: Any = None) -> T | None:
    """What the work yields next, sent the answer to what it asked last; None: it is done."""
    try:
        return steps.send(answer)
    except StopIteration:
        return None


def alone(steps: Generator[T | RowAsk, Any, None]) -> Iterator[T]:
    """What the work yields but for its asks, each of which gets a run of its own."""
    answer: Any = None
    try:
        while (step := step_of(steps, answer)) is not None:
            answer = None
            if isinstance(step, RowAsk):
                (answer,) = step.network.run([step.row])
            else:
                yield step
    finally:
        steps.close()


def result_of(work: Generator[RowAsk, Any, T]) -> T:
    """What the work returns; each of its asks gets a run of its own."""
    answer: Any = None
    try:
        while True:
            ask = work.send(answer)
            (answer,) = ask.network.run([ask.row])
    except StopIteration as end:
        result: T = end.value
        return result
