"""The work of `visavis engine inspect`."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from visavis.cli.engine_build import (
    build_allowed,
    chosen_compiler,
    chosen_requests,
    stoppable,
)
from visavis.cli.engine_choice import EngineChoice
from visavis.cli.engine_progress import BuildBar
from visavis.cli.engine_tables import kinds_table, layers_table, megabytes, tensors_table
from visavis.plans.builder import PlanBuilder
from visavis.plans.cache import PlanCache
from visavis.plans.freshness import PlanRequest
from visavis.plans.loaded import loaded_facts
from visavis.plans.plan_facts import LayerInfo
from visavis.plans.plan_record import PlanRecord


def inspect(bundle: str, choice: EngineChoice, *, layers: bool) -> None:
    """Print what is known of each chosen plan."""
    console = Console()
    requests = chosen_requests(bundle, choice)
    trt, target = chosen_compiler(choice)
    builder = PlanBuilder(trt, target, PlanCache(choice.plan_dir))
    for request in requests:
        with BuildBar(console) as bar:
            built = build_allowed(builder, request, choice, bar)
            if built is None:
                continue
            cached, found = built.cached, _layers(builder, request, bar) if layers else []
        console.rule(Text(str(request)))
        _show(console, cached.record)
        if found:
            console.print(layers_table(found))
        if target.device is not None:
            console.print(Text(loaded_facts(trt, target, cached)), soft_wrap=True)


def _layers(builder: PlanBuilder, request: PlanRequest, bar: BuildBar) -> list[LayerInfo]:
    bar.begin(f"{request} layers")
    return stoppable(lambda stop: builder.layers(builder.graph(request, stop)), bar)


def _show(console: Console, record: PlanRecord) -> None:
    console.print(tensors_table(record))
    console.print(kinds_table(record))
    memory = record.memory
    rows = (
        f"compiled by {record.key.compiler} for {record.key.target} in {record.build_s:.1f} s",
        f"plan {megabytes(record.size_bytes)} MB",
        "on the GPU, as the compiler expects: weights "
        f"{megabytes(memory.weights_bytes)} MB, activations at the largest shapes "
        f"{megabytes(memory.activation_bytes)} MB, of that scratch memory of one step "
        f"{megabytes(memory.scratch_bytes)} MB",
    )
    for row in rows:
        console.print(Text(row), soft_wrap=True)
    for warning in record.warnings:
        console.print(Text(warning, "yellow"), soft_wrap=True)
