"""The compiled plans of a bundle's model, for engines: out of the cache, or compiled first."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from visavis.bundles.compile.build_progress import Progress
from visavis.bundles.compile.builder import PlanBuilder
from visavis.bundles.compile.plans.cache import CachedPlan, PlanCache
from visavis.bundles.compile.plans.freshness import PlanRequest
from visavis.bundles.compile.targets import PORTABLE, is_rtx, resolve_target
from visavis.bundles.store import recipes_of
from visavis.bundles.store.lookup import bundle_of, kept_on_cpu
from visavis.bundles.store.recipe import PlanRecipe, Precision
from visavis.engine.tensorrt.bindings.device import DeviceInfo
from visavis.engine.tensorrt.source import PlanSource
from visavis.serving.errors import EngineLoadError, ModelStoreError, UnknownNameError
from visavis.serving.lifetime.starting import busy_with

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BundlePlan:
    """A plan of a bundle's recipe, out of the cache; compiled first where it is not there."""

    request: PlanRequest
    cache: PlanCache

    @property
    def name(self) -> str:
        """Bundle, plan and precision."""
        return str(self.request)

    def read(self, trt: Any, device: DeviceInfo) -> bytes:
        """The cached plan, or what is compiled now. Raises PlanError."""
        own = resolve_target(trt, device=f"cuda:{device.index}")
        # A portable plan of TensorRT-RTX, made ahead on another machine, will do as well.
        for target in (own, PORTABLE) if is_rtx(trt) else (own,):
            cached = PlanBuilder(trt, target, self.cache).cached(self.request)
            if cached is not None:
                return cached.read()
        log.warning(
            "%s: compiling for %s, which can take minutes; `visavis engine build` does it ahead",
            self.request,
            device,
        )
        return self._built(PlanBuilder(trt, own, self.cache)).read()

    def _built(self, builder: PlanBuilder) -> CachedPlan:
        def tell(progress: Progress) -> None:
            # Whoever started this process waits only as long as it gets on.
            busy_with(f"compiling {self.request} (once): {progress.fraction:.0%}")

        busy_with(f"compiling {self.request} (once)")
        return builder.build(self.request, on_progress=tell).cached


def bundle_plans(
    model: Path,
    *,
    precision: Literal["auto", "fp32", "fp16", "int8"] = "auto",
    recipes: Sequence[PlanRecipe] = (),
) -> dict[str, PlanSource]:
    """Plans of `model` by their recipe's name; several where it is compiled in parts.

    auto: 16 bits where the recipe offers them. recipes: of a model that is in no bundle.
    Raises EngineLoadError where nothing says how to compile it, or not in that precision.
    """
    bundle = bundle_of(model)
    if reason := kept_on_cpu(model):
        raise EngineLoadError(f"{model.name} is never compiled: {reason}")
    recipes = [r for r in (recipes or _recipes(bundle, model)) if r.graph == model.name]
    if not recipes:
        raise EngineLoadError(
            f"{model.name}: no recipe says how to compile it: add a [[plans]] table to the "
            f"manifest of the bundle {bundle}"
        )
    cache = PlanCache()
    return {
        recipe.name: BundlePlan(
            PlanRequest(bundle, model.parent, recipe, _precision(recipe, precision)), cache
        )
        for recipe in recipes
    }


def _recipes(bundle: str, model: Path) -> Sequence[PlanRecipe]:
    try:
        return recipes_of(bundle, model.parent.parent)
    except (ModelStoreError, UnknownNameError):
        return ()


def _precision(recipe: PlanRecipe, wanted: Literal["auto", "fp32", "fp16", "int8"]) -> Precision:
    if wanted == "auto":
        return "fp16" if "fp16" in recipe.precisions else "fp32"
    if wanted not in recipe.precisions:
        raise EngineLoadError(
            f"precision: plan {recipe.name} is made in {', '.join(recipe.precisions)}, "
            f"not in {wanted}"
        )
    return wanted
