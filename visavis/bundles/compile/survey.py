"""Which plans there are to build, and all of them compiled as a check that loads none.

Bundles, their recipes and precisions, narrowed by name; `visavis engine check` shows the survey.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from visavis.bundles.compile.build_progress import Cancelled, OnProgress, Progress
from visavis.bundles.compile.plans.freshness import PlanRequest
from visavis.bundles.store import bundle_path, default_catalog, load_manifest
from visavis.bundles.store.recipe import PlanRecipe, Precision, ProfileSpec
from visavis.serving.errors import ModelStoreError, PlanCancelledError, PlanError, VisavisError

if TYPE_CHECKING:  # The builder needs onnx; who only lists plans does not.
    from visavis.bundles.compile.builder import PlanBuilder


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
        try:
            manifest = load_manifest(name, model_dir)
            left_out += [f"{name} {path}: {why}" for path, why in manifest.cpu_only.items()]
            if not manifest.plans:
                continue
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


@dataclass(frozen=True)
class Checked:
    """One compilation: of one profile, or of all of them in one plan."""

    request: PlanRequest
    profile: str
    size_bytes: int = 0
    build_s: float = 0.0
    layers: int = 0
    problem: str = ""
    """Why it was not compiled; "" where it was."""
    refused: str = ""
    """Why it is not built for use although it compiles: its precision was measured."""


def check_plans(
    builder: PlanBuilder,
    requests: Iterable[PlanRequest],
    *,
    on_progress: OnProgress | None = None,
    cancelled: Cancelled | None = None,
) -> Iterator[Checked]:
    """Compile each request anew, profile by profile; nothing is kept.

    A plan of several profiles is compiled for each alone, so that a failure names the profile,
    and once with all of them: that is the one which is served. Raises PlanCancelledError.
    """
    for request in requests:
        if on_progress is not None:
            on_progress(Progress("making the graph", 0.0))
        try:
            graph = builder.graph(request, cancelled)
        except PlanCancelledError:
            raise
        except VisavisError as error:
            yield Checked(request, "", problem=str(error).removeprefix(f"{request}: "))
            continue
        for label, profiles in _rounds(request.recipe.profiles):
            try:
                plan = builder.compile(
                    graph, request, profiles=profiles, on_progress=on_progress, cancelled=cancelled
                )
            except PlanCancelledError:
                raise
            except VisavisError as error:
                yield Checked(request, label, problem=str(error))
                continue
            yield Checked(
                request,
                label,
                size_bytes=len(plan.content),
                build_s=plan.build_s,
                layers=len(plan.layers),
                refused=builder.refusal(request, graph),
            )


def _rounds(profiles: tuple[ProfileSpec, ...]) -> Iterator[tuple[str, tuple[ProfileSpec, ...]]]:
    for profile in profiles:
        yield profile.name, (profile,)
    if len(profiles) > 1:
        yield f"all {len(profiles)}", profiles
