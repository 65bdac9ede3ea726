"""Which plans there are to build: bundles, their recipes and precisions, narrowed by name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from visavis.errors import ModelStoreError, PlanError
from visavis.models import bundle_path, default_catalog, load_manifest
from visavis.plans.freshness import PlanRequest
from visavis.plans.recipe import PlanRecipe, Precision


def requests_of(
    bundle: str,
    *,
    plans: Sequence[str] = (),
    precisions: Sequence[Precision] = (),
    workspace_bytes: int | None = None,
    model_dir: Path | None = None,
) -> list[PlanRequest]:
    """The requests of a pulled bundle; without `plans` or `precisions` all that it offers.

    Raises ModelStoreError if the bundle is unknown or not pulled, PlanError if it offers
    nothing, no such plan, or a named plan not in a named precision.
    """
    manifest = load_manifest(bundle, model_dir)
    if not manifest.plans:
        raise PlanError(f"bundle {bundle} has nothing to compile{_why(manifest.cpu_only)}")
    chosen = [recipe for recipe in manifest.plans if not plans or recipe.name in plans]
    for name in plans:
        if name not in {recipe.name for recipe in manifest.plans}:
            raise PlanError(_unknown_plan(bundle, name, manifest.plans))
    folder = bundle_path(bundle, model_dir)
    made = [
        PlanRequest(bundle, folder, recipe, precision, workspace_bytes)
        for recipe in chosen
        for precision in _offered(recipe, precisions)
    ]
    if not made:
        offers = "; ".join(f"{recipe.name}: {', '.join(recipe.precisions)}" for recipe in chosen)
        raise PlanError(f"bundle {bundle} offers no plan in {', '.join(precisions)} ({offers})")
    return made


def every_request(
    *,
    plans: Sequence[str] = (),
    precisions: Sequence[Precision] = (),
    workspace_bytes: int | None = None,
    model_dir: Path | None = None,
) -> tuple[list[PlanRequest], list[str]]:
    """(the requests of every pulled bundle, why other networks of the catalogue are left out)."""
    requests: list[PlanRequest] = []
    left_out: list[str] = []
    for name in default_catalog(model_dir).names:
        manifest = load_manifest(name, model_dir)
        left_out += [f"{name} {path}: {why}" for path, why in manifest.cpu_only.items()]
        if not manifest.plans:
            continue
        try:
            requests += requests_of(
                name,
                plans=plans,
                precisions=precisions,
                workspace_bytes=workspace_bytes,
                model_dir=model_dir,
            )
        except (ModelStoreError, PlanError) as error:
            left_out.append(str(error))
    return requests, left_out


def _offered(recipe: PlanRecipe, precisions: Sequence[Precision]) -> Iterator[Precision]:
    return (name for name in recipe.precisions if not precisions or name in precisions)


def _why(cpu_only: dict[str, str]) -> str:
    if not cpu_only:
        return ""
    return ": " + "; ".join(f"{path}: {reason}" for path, reason in cpu_only.items())


def _unknown_plan(bundle: str, name: str, recipes: Iterable[PlanRecipe]) -> str:
    known = [recipe.name for recipe in recipes]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(known)}"
    return f"bundle {bundle} has no plan {name!r}; {hint}"
