"""Plans of a made bundle through NVIDIA's compiler; nothing is executed."""

from __future__ import annotations

from pathlib import Path

from tests.bundles.compile.compiling import rtx
from visavis.bundles.compile.builder import PlanBuilder
from visavis.bundles.compile.plans.cache import PlanCache
from visavis.bundles.compile.survey import check_plans, requests_of
from visavis.bundles.compile.targets import PORTABLE
from visavis.bundles.store.recipe import Precision


def compile_plans(
    bundle: str, model_dir: Path, precision: Precision, plans: tuple[str, ...] = ()
) -> dict[str, int]:
    """Bytes of each plan by name (without `plans`: of all); fails with what the compiler says."""
    requests = requests_of(bundle, plans=plans, precisions=[precision], model_dir=model_dir)
    builder = PlanBuilder(rtx(), PORTABLE, PlanCache(model_dir.parent / "plans"))
    found = list(check_plans(builder, requests))
    problems = [f"{check.request}: {check.problem}" for check in found if check.problem]
    assert not problems, problems
    return {c.request.recipe.name: c.size_bytes for c in found}
