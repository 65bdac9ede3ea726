"""The work of `visavis engine bench`."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.text import Text

from visavis.bundles.compile.build_progress import Cancelled
from visavis.bundles.compile.builder import PlanBuilder
from visavis.bundles.compile.float_graphs import float_graph
from visavis.bundles.compile.plans.cache import PlanCache
from visavis.bundles.compile.plans.freshness import PlanRequest
from visavis.bundles.compile.sources import BundlePlan
from visavis.bundles.compile.targets import Target
from visavis.bundles.store import load_manifest
from visavis.engine.base import Engine
from visavis.engine.onnxruntime import OnnxRuntimeEngine
from visavis.engine.tensorrt.bindings.selection import (
    NoDeviceError,
    find_device,
    list_devices,
    open_binding,
)
from visavis.engine.tensorrt.engine import TensorRTEngine
from visavis.serving.errors import PlanError
from visavis.tools.bench.figures.report import machine
from visavis.tools.charts import draw_plan_bench
from visavis.tools.cli.engine.build import (
    build_allowed,
    chosen_compiler,
    chosen_requests,
    stoppable,
)
from visavis.tools.cli.engine.output import BuildBar, EngineChoice, bench_table
from visavis.tools.output import check_output, write_json, write_output
from visavis.tools.plan.measured import Measured
from visavis.tools.plan_bench import BATCHES, BenchRow, bench_engine
from visavis.tools.shown import output_console
from visavis.wire.clock import MonotonicClock


@dataclass(frozen=True)
class _Runs:
    """At which batch sizes each engine is measured, and for how long."""

    sizes: Sequence[int]
    seconds: float

    def of(
        self,
        label: str,
        engine: Engine,
        request: PlanRequest,
        cancelled: Cancelled,
        *,
        within_profile: bool,
    ) -> list[BenchRow]:
        """One row for each size, as `bench_engine` makes them."""
        rows = bench_engine(
            label,
            engine,
            request.recipe,
            self.sizes,
            seconds=self.seconds,
            clock=MonotonicClock(),
            within_profile=within_profile,
            cancelled=cancelled,
        )
        return list(rows)


def bench(
    bundle: str,
    choice: EngineChoice,
    *,
    batches: Sequence[int] | None,
    seconds: float,
    threads: int,
    picture: Path | None,
    json_path: Path | None = None,
) -> None:
    """Measure every chosen plan and its fallback; print a table, draw a picture, write figures."""
    console = output_console()
    check_output(picture, ".svg")
    check_output(json_path, ".json")
    requests = chosen_requests(bundle, choice)
    compiler, why_none = _gpu(choice)
    if why_none:
        console.print(Text(f"No plan is measured, only the fallback: {why_none}", "yellow"))
    runs = _Runs(sorted(set(batches or BATCHES)), seconds)
    rows: list[BenchRow] = []
    measured: list[tuple[str, BenchRow]] = []
    for plan in dict.fromkeys(request.recipe.name for request in requests):
        alike = [request for request in requests if request.recipe.name == plan]
        with BuildBar(console) as bar:
            found = _fallback(alike[0], runs, threads, bar)
            if compiler is not None:
                for request in alike:
                    found += _on_gpu(request, compiler, choice, runs, bar)
        console.print(bench_table(f"{bundle} {plan}", found))
        # In one picture the lines of several plans need their names.
        rows += [replace(row, engine=f"{plan}: {row.engine}") for row in found]
        measured += [(plan, row) for row in found]
    if picture is not None:
        title = f"{bundle}, {threads} thread(s) for ONNX Runtime"
        write_output(picture, draw_plan_bench(title, rows))
        console.print(Text(f"Drawn into {picture}"))
    if json_path is not None:
        manifest = load_manifest(bundle, choice.model_dir)
        told = Measured(
            bundle,
            manifest.task,
            measured,
            all=not choice.plans,
            machine=_machine(compiler, threads),
            date=datetime.now(UTC).date().isoformat(),
        ).told()
        write_json(json_path, told)
        console.print(Text(f"Figures: {json_path}"))


def _machine(compiler: tuple[Any, Target] | None, threads: int) -> dict[str, Any]:
    """What the figures depend on; no name that identifies the machine."""
    told = {**machine(), "threads": f"{threads} thread(s) of ONNX Runtime"}
    if compiler is not None and compiler[1].device is not None:
        gpu = find_device(compiler[1].device, list_devices(open_binding()))
        told["gpu"] = gpu.name
    return told


def _gpu(choice: EngineChoice) -> tuple[tuple[Any, Target] | None, str]:
    """(compiler and target, "") or (None, why nothing can run here)."""
    try:
        return chosen_compiler(choice), ""
    except NoDeviceError as error:
        return None, str(error)
    except PlanError as error:
        if choice.flavour is not None:
            raise
        return None, str(error)


def _fallback(request: PlanRequest, runs: _Runs, threads: int, bar: BuildBar) -> list[BenchRow]:
    """ONNX Runtime on the CPU, with the graph of the plan in 32 bits."""
    label = "onnxruntime cpu fp32"
    bar.begin_plan(f"{request.recipe.name} {label}")

    def work(cancelled: Cancelled) -> list[BenchRow]:
        with tempfile.TemporaryDirectory(prefix="visavis-bench-") as folder:
            path = Path(folder) / f"{request.recipe.name}.onnx"
            graph = float_graph(request.folder, request.recipe, cancelled)
            path.write_bytes(graph.SerializeToString())
            with OnnxRuntimeEngine(path, device="cpu", threads=threads) as engine:
                return runs.of(label, engine, request, cancelled, within_profile=False)

    return stoppable(work, bar)


def _on_gpu(
    request: PlanRequest,
    compiler: tuple[Any, Target],
    choice: EngineChoice,
    runs: _Runs,
    bar: BuildBar,
) -> list[BenchRow]:
    trt, target = compiler
    cache = PlanCache(choice.plan_dir)
    if build_allowed(PlanBuilder(trt, target, cache), request, choice, bar) is None:
        return []
    label = f"{trt.__name__} {request.precision}"

    def work(cancelled: Cancelled) -> list[BenchRow]:
        engine = TensorRTEngine(
            request.folder / request.recipe.graph,
            device=target.device or "cuda:0",
            source=BundlePlan(request, cache),
            backend=trt.__name__,
            trt=trt,
        )
        with engine:
            return runs.of(label, engine, request, cancelled, within_profile=True)

    return stoppable(work, bar)
