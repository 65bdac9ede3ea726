"""The work of `visavis engine check`."""

from __future__ import annotations

from collections.abc import Sequence

import typer
from rich.console import Console
from rich.text import Text

from visavis.cli.engine_build import chosen_compiler, chosen_requests, stoppable
from visavis.cli.engine_choice import EngineChoice
from visavis.cli.engine_progress import BuildBar
from visavis.cli.engine_tables import check_line, checks_table
from visavis.plans.build_progress import Cancelled
from visavis.plans.builder import PlanBuilder
from visavis.plans.cache import PlanCache
from visavis.plans.freshness import PlanRequest
from visavis.plans.requests import every_request
from visavis.plans.survey import Checked, check_plans
from visavis.plans.targets import flavour_of


def check(bundles: Sequence[str], choice: EngineChoice) -> None:
    """Compile all that is chosen, print a table, end with status 1 if something failed."""
    console = Console()
    trt, target = chosen_compiler(choice)
    requests, left_out = _requests(bundles, choice)
    builder = PlanBuilder(trt, target, PlanCache(choice.plan_dir))
    checks: list[Checked] = []
    try:
        with BuildBar(console) as bar:

            def work(cancelled: Cancelled) -> None:
                for request in requests:
                    bar.begin(str(request))
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
    if failures or not checks:
        raise typer.Exit(1)


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
