"""Where an engine's plan comes from: a `.plan` file, or the cache of compiled bundles."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from visavis.bundles.compile.build_progress import Progress
from visavis.bundles.compile.builder import PlanBuilder
from visavis.bundles.compile.cache import CachedPlan, PlanCache
from visavis.bundles.compile.freshness import PlanRequest
from visavis.bundles.compile.targets import PORTABLE, is_rtx, resolve_target
from visavis.bundles.store.recipe import PlanRecipe, Precision, recipes_of
from visavis.engine.base import EngineOptions
from visavis.engine.bundles import bundle_of, kept_on_cpu
from visavis.engine.tensorrt.device import DeviceInfo
from visavis.serving.errors import EngineLoadError, ModelStoreError, UnknownNameError
from visavis.serving.starting import busy_with

log = logging.getLogger(__name__)


class PlanSource(Protocol):
    """Gives one serialised plan."""

    @property
    def name(self) -> str: ...

    def read(self, trt: Any, device: DeviceInfo) -> bytes:
        """The plan for this module and device. Raises EngineLoadError."""
        ...


@dataclass(frozen=True)
class PlanFile:
    """A plan that somebody compiled; TensorRT itself refuses one of another version or GPU."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    def read(self, trt: Any, device: DeviceInfo) -> bytes:
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise EngineLoadError(f"{self.path}: cannot be read: {error.strerror}") from error


@dataclass(frozen=True)
class BundlePlan:
    """A plan of a bundle's recipe, out of the cache; compiled first where it is not there."""

    request: PlanRequest
    cache: PlanCache

    @property
    def name(self) -> str:
        return str(self.request)

    def read(self, trt: Any, device: DeviceInfo) -> bytes:
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


def sources_of(model: Path, options: EngineOptions) -> dict[str, PlanSource]:
    """Plans of `model` by their recipe's name; several where it is compiled in parts.

    Raises EngineLoadError where nothing says how to compile it.
    """
    if not model.is_file():
        raise EngineLoadError(f"{model}: no such model; run `visavis models pull`")
    if model.suffix == ".plan":
        return {"": PlanFile(model)}
    bundle = bundle_of(model)
    if reason := kept_on_cpu(model):
        raise EngineLoadError(f"{model.name} is never compiled: {reason}")
    recipes = [r for r in (options.recipes or _recipes(bundle, model)) if r.graph == model.name]
    if not recipes:
        raise EngineLoadError(
            f"{model.name}: no recipe says how to compile it: add a [[plans]] table to the "
            f"manifest of the bundle {bundle}"
        )
    cache = PlanCache()
    return {
        recipe.name: BundlePlan(
            PlanRequest(bundle, model.parent, recipe, _precision(recipe, options)),
            cache,
        )
        for recipe in recipes
    }


def _recipes(bundle: str, model: Path) -> Sequence[PlanRecipe]:
    try:
        return recipes_of(bundle, model.parent.parent)
    except (ModelStoreError, UnknownNameError):
        return ()


def _precision(recipe: PlanRecipe, options: EngineOptions) -> Precision:
    if options.precision == "auto":
        return "fp16" if "fp16" in recipe.precisions else "fp32"
    if options.precision not in recipe.precisions:
        raise EngineLoadError(
            f"precision: plan {recipe.name} is made in {', '.join(recipe.precisions)}, "
            f"not in {options.precision}"
        )
    return options.precision
