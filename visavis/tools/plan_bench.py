"""Latency and throughput of a plan by batch size, beside the fallback on the same input."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visavis.bundles.store.recipe import PlanRecipe, ProfileSpec
from visavis.engine.base import Engine, TensorSpec
from visavis.serving.errors import InvalidInputError, VisavisError
from visavis.wire.clock import Clock

BATCHES = (1, 2, 4, 8, 16, 32)
_WARM_UP_RUNS = 2
_FEWEST_RUNS = 3

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class BenchRow:
    """One engine at one batch size."""

    engine: str
    batch: int
    median_ms: float = 0.0
    p95_ms: float = 0.0
    runs: int = 0
    problem: str = ""
    """Why it was not measured; "" where it was."""

    @property
    def per_second(self) -> float:
        """Items per second."""
        return self.batch / self.median_ms * 1e3 if self.median_ms else 0.0


def bench_engine(
    label: str,
    engine: Engine,
    recipe: PlanRecipe,
    batches: Sequence[int],
    *,
    seconds: float,
    clock: Clock,
    within_profile: bool,
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[BenchRow]:
    """Run the loaded `engine` at each batch size for about `seconds`.

    The shapes are the best ones of the recipe's first profile, the batch in front.
    `within_profile`: refuse what no profile takes, as a plan does. A failing batch size becomes
    a row that says why; once `cancelled`, no further one is begun.
    """
    profile = recipe.profiles[0]
    for batch in batches:
        if cancelled():
            return
        try:
            shapes = batched_shapes(engine.inputs, profile, batch)
            if within_profile:
                recipe.check(shapes)
            inputs = dummy_inputs(engine.inputs, shapes)
            times_s = _run(engine, inputs, seconds, clock)
        except VisavisError as error:
            yield BenchRow(label, batch, problem=str(error))
            continue
        median, p95 = np.percentile(np.array(times_s) * 1e3, [50, 95])
        yield BenchRow(label, batch, float(median), float(p95), len(times_s))


def batched_shapes(inputs: Mapping[str, TensorSpec], profile: ProfileSpec, batch: int) -> Shapes:
    """The profile's best shapes with `batch` items in the first dimension.

    Raises InvalidInputError if the first dimension is fixed or is no batch.
    """
    shapes: Shapes = {}
    for name, spec in inputs.items():
        fixed = tuple(1 if size is None else size for size in spec.shape)
        best = profile.shapes[name].opt if name in profile.shapes else fixed
        if batch == 1:
            shapes[name] = best
        elif best and spec.shape[0] is None and best[0] == 1:
            shapes[name] = (batch, *best[1:])
        elif name in profile.shapes:
            raise InvalidInputError(f"{name} {_written(spec)} takes one item at a time")
        else:
            shapes[name] = best
    return shapes


def dummy_inputs(
    inputs: Mapping[str, TensorSpec], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, NDArray[Any]]:
    """Arrays of `shapes` and of the dtypes of `inputs`: noise for numbers, ones for masks, zeros
    for indices, which are in range for every vocabulary.
    """
    noise = np.random.default_rng(0)
    made: dict[str, NDArray[Any]] = {}
    for name, spec in inputs.items():
        if np.issubdtype(spec.dtype, np.floating):
            made[name] = (0.1 * noise.standard_normal(shapes[name])).astype(spec.dtype)
        elif spec.dtype == np.bool_:
            made[name] = np.ones(shapes[name], spec.dtype)
        else:
            made[name] = np.zeros(shapes[name], spec.dtype)
    return made


def _run(
    engine: Engine, inputs: Mapping[str, NDArray[Any]], seconds: float, clock: Clock
) -> list[float]:
    for _ in range(_WARM_UP_RUNS):
        engine.infer(inputs)
    times_s: list[float] = []
    until = clock.now() + seconds
    while len(times_s) < _FEWEST_RUNS or clock.now() < until:
        started = clock.now()
        engine.infer(inputs)
        times_s.append(clock.now() - started)
    return times_s


def _written(spec: TensorSpec) -> str:
    return f"[{', '.join('?' if size is None else str(size) for size in spec.shape)}]"
