"""Compile every plan there is, load none: what `visavis engine check` shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from visavis.errors import PlanCancelledError, VisavisError
from visavis.plans.build_progress import Cancelled, OnProgress, Progress
from visavis.plans.builder import PlanBuilder
from visavis.plans.freshness import PlanRequest
from visavis.plans.recipe import ProfileSpec


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
