"""The work of `visavis engine build`, `list` and `check`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, TypeVar

import typer
from rich.console import Console
from rich.text import Text

from visavis.bundles.compile.build_progress import Cancelled
from visavis.bundles.compile.builder import Built, PlanBuilder
from visavis.bundles.compile.plans.cache import PlanCache, PlanEntry
from visavis.bundles.compile.plans.freshness import PlanRequest, state_of
from visavis.bundles.compile.survey import Checked, check_plans, every_request, requests_of
from visavis.bundles.compile.targets import (
    FLAVOURS,
    Target,
    default_flavour,
    flavour_of,
    load_flavour,
    resolve_target,
)
from visavis.serving.errors import ModelStoreError, PlanCancelledError, PlanError, PlanRefusedError
from visavis.tools.cli.engine.output import (
    BuildBar,
    EngineChoice,
    check_line,
    checks_table,
    megabytes,
    plans_table,
    run_cancellable,
)
from visavis.tools.cli.leaving import INTERRUPTED
from visavis.tools.shown import output_console

T = TypeVar("T")


def build(bundle: str, choice: EngineChoice, *, force: bool) -> None:
    """Build what is chosen of `bundle`, and print a line for each plan."""
    console = output_console()
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
    bar.begin_plan(str(request))

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
    """Run `work`; Ctrl-C cancels it and ends the command: raises typer.Exit with status 130."""
    try:
        return run_cancellable(
            work, lambda: bar.say("Stopping … (Ctrl-C again: at once)"), bar.stop
        )
    except PlanCancelledError as error:
        bar.say("Stopped. Plans that were finished are kept; of the unfinished nothing is left.")
        raise typer.Exit(INTERRUPTED) from error


def list_plans(choice: EngineChoice) -> None:
    """Print every plan of the cache with its state."""
    cache, console = PlanCache(choice.plan_dir), output_console()
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


def check(bundles: Sequence[str], choice: EngineChoice) -> None:
    """Compile all that is chosen, print a table; raises typer.Exit (1) if something failed."""
    console = output_console()
    trt, target = chosen_compiler(choice)
    requests, left_out = _requests(bundles, choice)
    builder = PlanBuilder(trt, target, PlanCache(choice.plan_dir))
    checks: list[Checked] = []
    try:
        with BuildBar(console) as bar:

            def work(cancelled: Cancelled) -> None:
                for request in requests:
                    bar.begin_plan(str(request))
                    for checked in check_plans(
                        builder, [request], on_progress=bar.report, cancelled=cancelled
                    ):
                        checks.append(checked)
                        if not console.is_terminal:
                            bar.say(check_line(checked))

            stoppable(work, bar)
    finally:
        # After Ctrl-C too: what was compiled until then is known.
        if checks:
            console.print(checks_table(checks, flavour_of(trt), target.name))
    if _tell_troubles(console, checks, left_out) or not checks:
        raise typer.Exit(1)


def _tell_troubles(console: Console, checks: Sequence[Checked], left_out: Sequence[str]) -> int:
    """What a table has no room for, under it; how many failed."""
    failures = [checked for checked in checks if checked.problem]
    for checked in failures:
        told = f"{checked.request} {checked.profile}".strip() + f": {checked.problem}"
        console.print(Text(told, "red"), soft_wrap=True)
    for reason in left_out:
        console.print(Text(f"not compiled: {reason}", "yellow"), soft_wrap=True)
    for reason in dict.fromkeys(checked.refused for checked in checks if checked.refused):
        console.print(Text(f"compiled, but not for use: {reason}", "yellow"), soft_wrap=True)
    took_s = sum(checked.build_s for checked in checks)
    console.print(
        Text(f"{len(checks) - len(failures)} compiled in {took_s:.0f} s, {len(failures)} failed")
    )
    return len(failures)


def _requests(bundles: Sequence[str], choice: EngineChoice) -> tuple[list[PlanRequest], list[str]]:
    """(what to compile, why bundles that nobody named are left out)."""
    if bundles:
        return [request for name in bundles for request in chosen_requests(name, choice)], []
    return every_request(
        plans=choice.plans,
        precisions=choice.precisions,
        workspace_bytes=choice.workspace_bytes,
        model_dir=choice.model_dir,
    )
