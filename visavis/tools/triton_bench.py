"""A network on a Triton server that several processes share, beside one of its own in each.

Each process has so many askers that ask for one row, await the answer and ask again: latencies are
those of a server that is kept busy, and rows per second are what it can do.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visavis.bundles.store.recipe import PlanRecipe
from visavis.engine import Engine, EngineLane, EngineOptions, TritonOptions, open_engine
from visavis.engine.triton.server import TritonServer

_COMPARED_ROWS = 8


@dataclass(frozen=True)
class Load:
    """What is asked, by how many."""

    model: Path
    shapes: dict[str, tuple[int, ...]]
    """Of one row's inputs, by name, the batch of 1 included; they are float32."""
    processes: int
    askers: int
    """In each process."""
    seconds: float
    triton: TritonOptions | None
    """None: ONNX Runtime, one engine in each process."""


@dataclass(frozen=True)
class LoadRow:
    """What a load has met."""

    engine: str
    rows_per_s: float
    median_ms: float
    p95_ms: float
    client_cpu_ms: float
    """Of the asking processes, for a row: with ONNX Runtime the network is among it."""
    batches: dict[int, int]
    """Runs by batch size, as the server counts them."""


def usual_shapes(recipe: PlanRecipe) -> dict[str, tuple[int, ...]]:
    """Of one row, as the recipe is fastest at."""
    shapes = recipe.profiles[0].shapes
    return {name: (1, *allowed.opt[1:]) for name, allowed in shapes.items()}


def measure(load: Load) -> LoadRow:
    """Run `load` and put its processes' figures together. Raises EngineError."""
    before = _batches(load)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(load.processes, mp_context=spawn) as pool:
        parts = list(pool.map(_work, [load] * load.processes))
    waits_ms = np.concatenate([np.asarray(waits) for waits, _, _ in parts]) * 1e3
    runs = {size: count - before.get(size, 0) for size, count in _batches(load).items()}
    return LoadRow(
        "onnxruntime" if load.triton is None else "triton",
        sum(len(waits) / elapsed_s for waits, elapsed_s, _ in parts),
        float(np.median(waits_ms)),
        float(np.percentile(waits_ms, 95)),
        1e3 * sum(cpu_s for _, _, cpu_s in parts) / len(waits_ms),
        {size: count for size, count in sorted(runs.items()) if count},
    )


def largest_difference(load: Load) -> float:
    """Between Triton's outputs and those of ONNX Runtime in this process, for the same rows.

    They are asked for at the same time, so that they share batches. Raises EngineError.
    """
    rows = [_row(load, seed) for seed in range(_COMPARED_ROWS)]
    with open_engine(load.model, backend="onnxruntime") as own, _engine(load) as shared:
        return asyncio.run(_compared(own, shared, rows))


async def _compared(own: Engine, shared: Engine, rows: Sequence[dict[str, NDArray[Any]]]) -> float:
    lane = EngineLane("triton-bench", at_once=shared.at_once)
    try:
        answers = await asyncio.gather(*(lane.run(shared.infer, row) for row in rows))
    finally:
        lane.close()
    return max(
        float(np.abs(answer[name].astype(np.float64) - array.astype(np.float64)).max())
        for row, answer in zip(rows, answers, strict=True)
        for name, array in own.infer(row).items()
    )


def _batches(load: Load) -> dict[int, int]:
    if load.triton is None:
        return {}
    server = TritonServer(load.triton.url)
    try:
        return server.batches(load.triton.model).runs
    finally:
        server.close()


def _work(load: Load) -> tuple[list[float], float, float]:
    """In a process of its own: seconds that each row took, all of them took, and the CPU had."""
    with _engine(load) as engine:
        engine.infer(_row(load, 0))
        return asyncio.run(_ask(load, engine))


async def _ask(load: Load, engine: Engine) -> tuple[list[float], float, float]:
    lane = EngineLane("triton-bench", at_once=engine.at_once)
    row = _row(load, 1)
    waits: list[float] = []
    began_s, cpu_s = time.perf_counter(), time.process_time()

    async def asker() -> None:
        while (asked_s := time.perf_counter()) - began_s < load.seconds:
            await lane.run(engine.infer, row)
            waits.append(time.perf_counter() - asked_s)

    try:
        async with asyncio.TaskGroup() as askers:
            for _ in range(load.askers):
                askers.create_task(asker())
    finally:
        lane.close()
    return waits, time.perf_counter() - began_s, time.process_time() - cpu_s


def _engine(load: Load) -> Engine:
    if load.triton is None:
        return open_engine(load.model, backend="onnxruntime")
    options = EngineOptions(triton=load.triton)
    return open_engine(load.model, backend="triton", options=options)


def _row(load: Load, seed: int) -> dict[str, NDArray[Any]]:
    generator = np.random.default_rng(seed)
    return {
        name: generator.standard_normal(shape, np.float32) for name, shape in load.shapes.items()
    }
