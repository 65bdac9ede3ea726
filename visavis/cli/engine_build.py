"""The work of `visavis engine build` and `visavis engine list`."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, TypeVar

import typer
from rich.console import Console
from rich.text import Text

from visavis.cli.engine_choice import EngineChoice
from visavis.cli.engine_progress import BuildBar, run_cancellable
from visavis.cli.engine_tables import megabytes, plans_table
from visavis.errors import ModelStoreError, PlanCancelledError, PlanError, PlanRefusedError
from visavis.plans.build_progress import Cancelled
from visavis.plans.builder import Built, PlanBuilder
from visavis.plans.cache import PlanCache, PlanEntry
from visavis.plans.freshness import PlanRequest, state_of
from visavis.plans.requests import requests_of
from visavis.plans.targets import (
    FLAVOURS,
    Target,
    default_flavour,
    flavour_of,
    load_flavour,
    resolve_target,
)

T = TypeVar("T")


def build(bundle: str, choice: EngineChoice, *, force: bool) -> None:
    """Build what is chosen of `bundle`, and print a line for each plan."""
    console = Console()
    requests = chosen_requests(bundle, choice)
    trt, target = chosen_compiler(choice)
    builder = PlanBuilder(trt, target, PlanCache(choice.plan_dir))
    console.print(Text(f"{flavour_of(trt)} for {target.name}"))
    with BuildBar(console) as bar:
        for request in requests:
            built = build_allowed(builder, request, choice, bar, force=force)
            if built is not None:
                bar.say(_built_line(request, built))


def build_one(
    builder: PlanBuilder, request: PlanRequest, bar: BuildBar, *, force: bool = False
) -> Built:
    """Build one plan with a bar; Ctrl-C ends it and the command."""
    bar.begin(str(request))

    def work(cancelled: Cancelled) -> Built:
        return builder.build(request, on_progress=bar.report, cancelled=cancelled, force=force)

    return stoppable(work, bar)


def build_allowed(
    builder: PlanBuilder,
    request: PlanRequest,
    choice: EngineChoice,
    bar: BuildBar,
    *,
    force: bool = False,
) -> Built | None:
    """As build_one; None, with a line that tells why, where a quality gate refuses the precision.

    Raises PlanRefusedError if the precision was asked for by name.
    """
    try:
        return build_one(builder, request, bar, force=force)
    except PlanRefusedError as error:
        if choice.precisions:
            raise
        bar.say(Text(f"left out: {error}", "yellow"))
        return None


def stoppable(work: Callable[[Cancelled], T], bar: BuildBar) -> T:
    """Run `work`; Ctrl-C cancels it and ends the command with status 130."""
    try:
        return run_cancellable(
            work, lambda: bar.say("Stopping … (Ctrl-C again: at once)"), bar.stop
        )
    except PlanCancelledError as error:
        bar.say("Stopped. Plans that were finished are kept; of the unfinished nothing is left.")
        raise typer.Exit(130) from error


def list_plans(choice: EngineChoice) -> None:
    """Print every plan of the cache with its state."""
    cache, console = PlanCache(choice.plan_dir), Console()
    compilers = _installed_compilers()
    with console.status("Reading …"):
        entries = [
            (entry, *state_of(entry, compilers, _asked_for(entry, choice)))
            for entry in cache.entries()
        ]
    if not entries:
        console.print(Text(f"No plan in {cache.folder}. `visavis engine build` makes them."))
        return
    console.print(Text(str(cache.folder)), soft_wrap=True)
    for made_by in dict.fromkeys(_made_by(entry) for entry, _, _ in entries):
        alike = [(entry, state) for entry, state, _ in entries if _made_by(entry) == made_by]
        console.print(plans_table(alike, made_by))
    for why in dict.fromkeys(why for _, _, why in entries if why):
        names = [str(entry) for entry, _, reason in entries if reason == why]
        console.print(Text(f"{why}: {', '.join(names)}", "yellow"), soft_wrap=True)


def chosen_compiler(choice: EngineChoice) -> tuple[Any, Target]:
    """(module, target) of the options."""
    trt = load_flavour(choice.flavour or default_flavour())
    return trt, resolve_target(trt, device=choice.device, target=choice.target)


def chosen_requests(bundle: str, choice: EngineChoice) -> list[PlanRequest]:
    """The plans of `bundle` that the options name."""
    return requests_of(
        bundle,
        plans=choice.plans,
        precisions=choice.precisions,
        workspace_bytes=choice.workspace_bytes,
        model_dir=choice.model_dir,
    )


def _built_line(request: PlanRequest, built: Built) -> Text:
    record = built.cached.record
    took = f"compiled in {record.build_s:.1f} s" if built.compiled else "was here"
    return Text.assemble((str(request), "bold"), f"  {megabytes(record.size_bytes)} MB  {took}")


def _made_by(entry: PlanEntry) -> str:
    if entry.record is None:
        return "by whom cannot be read"
    return f"by {entry.record.key.compiler} for {entry.record.key.target}"


def _installed_compilers() -> dict[str, str]:
    found = {}
    for name, (module, _) in FLAVOURS.items():
        if find_spec(module) is not None:
            found[module] = flavour_of(load_flavour(name))
    return found


def _asked_for(entry: PlanEntry, choice: EngineChoice) -> PlanRequest | None:
    if (record := entry.record) is None:
        return None
    try:
        return requests_of(
            record.bundle,
            plans=[record.plan],
            precisions=[record.precision],
            workspace_bytes=record.key.workspace_bytes,
            model_dir=choice.model_dir,
        )[0]
    except (ModelStoreError, PlanError):
        return None
