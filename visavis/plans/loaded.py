"""What TensorRT made of a plan: only a GPU can tell, because the plan is loaded for it."""

from __future__ import annotations

from typing import Any

from visavis.errors import PlanError
from visavis.plans.builder_api import Runtime
from visavis.plans.cache import CachedPlan
from visavis.plans.compiler_log import collecting, shared_logger
from visavis.plans.network import told
from visavis.plans.targets import Target


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
