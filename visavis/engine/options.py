"""How engines are to be run, beyond the device: what the services' settings say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from visavis.plans.recipe import PlanRecipe


@dataclass(frozen=True)
class EngineOptions:
    """Of compiled plans, but for `require_device`."""

    require_device: bool = False
    """Fail rather than step down from the GPU to the CPU."""
    precision: Literal["auto", "fp32", "fp16", "int8"] = "auto"
    """auto: 16 bits where the recipe offers them."""
    cuda_graphs: bool = True
    idle_unload_s: float = 0.0
    """Unused for so long, a plan leaves the GPU until it is needed again; 0: it stays."""
    recipes: Sequence[PlanRecipe] = ()
    """Of a model that is in no bundle."""
