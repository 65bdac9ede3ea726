"""`visavis bench sync`: whether lips and voice leave and arrive together."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from visavis.bench.question_texts import ENGLISH, MANDARIN
from visavis.bench.report import Row, check_target, report
from visavis.bench.statistics import summarise
from visavis.bench.sync import SyncBench, SyncRun
from visavis.cli.bench_options import (
    DEFAULT_URL,
    ApiKey,
    Config,
    Json,
    Picture,
    Profile,
    Url,
)
from visavis.cli.bench_tables import Steps, hand_out, wide_console
from visavis.cli.running_gateway import running_gateway


def sync(
    answers: Annotated[int, typer.Option(min=1, help="So many answers are watched.")] = 10,
    url: Url = DEFAULT_URL,
    api_key: ApiKey = "",
    profile: Profile = "default",
    config: Config = None,
    json_path: Json = None,
    picture: Picture = None,
) -> None:
    """Watch typed questions being answered to the end: skew at release and on arrival."""
    check_target(json_path, ".json")
    check_target(picture, ".svg")
    console = wide_console()
    known = [("en", text) for text in ENGLISH] + [("zh", text) for text in MANDARIN]
    questions = [known[i * len(known) // answers] for i in range(min(answers, len(known)))]

    async def run() -> SyncRun:
        gateway = running_gateway(url, api_key, profile, console, command="bench", config=config)
        async with gateway as client:
            with Steps(console, len(questions), "an answer begins") as steps:
                watcher = SyncBench(client, lambda: steps.done("watched"))
                return await watcher.run(questions)

    outcome = asyncio.run(run())
    rows = [Row("picture_behind_its_sound", summarise(outcome.behind_s))]
    result = report(
        "sync",
        rows,
        counts=counts_of(outcome),
        turns=[],
        settings={"answers": len(questions)},
        notes=["skew and late ticks are upper bounds: they come from a histogram's buckets"],
    )
    hand_out(console, f"In step, {len(questions)} answers", rows, result, json_path, picture)


def counts_of(outcome: SyncRun) -> dict[str, float]:
    counts: dict[str, float] = {"pictures_with_voice": outcome.pictures}
    if outcome.within_15_ms is not None:
        counts["share_within_15_ms"] = round(outcome.within_15_ms, 5)
    counts |= {f"skew_s_{name}_at_most": bound for name, bound in outcome.skew.items()}
    counts |= {f"tick_late_s_{name}_at_most": bound for name, bound in outcome.late_ticks_s.items()}
    return counts | outcome.counts
