"""The work of `visavis engine inspect`: what a plan says of itself once TensorRT has loaded it."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from visavis.bundles.compile.builder import PlanBuilder
from visavis.bundles.compile.builder_api import Runtime
from visavis.bundles.compile.network import told
from visavis.bundles.compile.plans.cache import CachedPlan, PlanCache
from visavis.bundles.compile.plans.freshness import PlanRequest
from visavis.bundles.compile.plans.record import LayerInfo, PlanRecord
from visavis.bundles.compile.targets import Target
from visavis.engine.tensorrt.bindings.messages import collecting, shared_logger
from visavis.serving.errors import PlanError
from visavis.tools.cli.engine.build import (
    build_allowed,
    chosen_compiler,
    chosen_requests,
    stoppable,
)
from visavis.tools.cli.engine.output import (
    BuildBar,
    EngineChoice,
    kinds_table,
    layers_table,
    megabytes,
    tensors_table,
)
from visavis.tools.shown import output_console


def loaded_facts(trt: Any, target: Target, cached: CachedPlan) -> str:
    """The engine inspector's account of the plan, loaded on `target`, layer by layer.

    Raises PlanError with TensorRT's own words if it does not take the plan.
    """
    content = cached.read()
    with target.current(), collecting(trt) as said:
        runtime: Runtime | None = trt.Runtime(shared_logger(trt))
        engine = None if runtime is None else runtime.deserialize_cuda_engine(content)
        if engine is None:
            raise PlanError(told(f"{cached.path.name} cannot be loaded", said.errors))
        inspector = engine.create_engine_inspector()
        if inspector is None:
            raise PlanError(told(f"{cached.path.name} cannot be inspected", said.errors))
        account = inspector.get_engine_information(trt.LayerInformationFormat.ONELINE)
        memory = engine.device_memory_size_v2
        lines = [f"loaded: {engine.num_layers} layers after fusion, {memory / 1e6:,.1f} MB per use"]
        return "\n".join([*lines, account.strip()])


def inspect(bundle: str, choice: EngineChoice, *, layers: bool) -> None:
    """Print what is known of each chosen plan."""
    console = output_console()
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
    bar.begin_plan(f"{request} layers")
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
