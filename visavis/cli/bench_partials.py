"""`visavis bench partials`: what is understood while the visitor still speaks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

import typer

from visavis.bench.partials import PartialsBench, Understood, cost_per_second, joined
from visavis.bench.report import check_target, report, rows_of
from visavis.cli.bench_options import (
    DEFAULT_URL,
    ApiKey,
    Clips,
    Config,
    Count,
    Json,
    Language,
    Picture,
    Profile,
    Url,
)
from visavis.cli.bench_questions import chosen_clips
from visavis.cli.bench_tables import Steps, hand_out, wide_console
from visavis.cli.running_gateway import running_gateway

FIGURES = {
    "first_partial_s": "s",
    "interval_s": "s",
    "cost_s": "s",
    "error_against_final": "%",
    "error_against_text": "%",
}


def partials(
    clips: Clips = None,
    language: Language = "",
    count: Count = 0,
    long: Annotated[
        bool, typer.Option(help="Also join clips into utterances of up to half a minute.")
    ] = True,
    url: Url = DEFAULT_URL,
    api_key: ApiKey = "",
    profile: Profile = "default",
    config: Config = None,
    json_path: Json = None,
    picture: Picture = None,
) -> None:
    """Measure partial transcripts: the first one, errors, what is taken back, cost by length."""
    check_target(json_path, ".json")
    check_target(picture, ".svg")
    console = wide_console()
    chosen = chosen_clips(clips, language, count, profile, console)
    chosen += joined(chosen) if long else []

    async def run() -> list[Understood]:
        gateway = running_gateway(url, api_key, profile, console, command="bench", config=config)
        async with gateway as client:
            with Steps(console, len(chosen), "warm-up") as steps:

                def on_clip(done: Understood | None) -> None:
                    if done is not None:
                        steps.done(_line(done))

                return await PartialsBench(client, on_clip).run(chosen)

    done = asyncio.run(run())
    rows = rows_of([{name: getattr(clip, name) for name in FIGURES} for clip in done], FIGURES)
    result = report(
        "partials",
        rows,
        counts=counts_of(done),
        turns=[clip.to_dict() for clip in done],
        settings={"clips": len(chosen)},
    )
    hand_out(console, f"Partial transcripts, {len(done)} clips", rows, result, json_path, picture)


def counts_of(done: Sequence[Understood]) -> dict[str, float]:
    counts: dict[str, float] = {
        "clips": len(done),
        "clips_without_partials": sum(not clip.partials for clip in done),
        "clips_cut_in_two": sum(len(clip.finals) > 1 for clip in done),
        "partials": sum(clip.partials for clip in done),
        "words_taken_back": sum(clip.retracted_words for clip in done),
        "last_words_taken_back": sum(clip.retracted_last_words for clip in done),
        "longest_clip_s": max((clip.speech_s for clip in done), default=0.0),
    }
    slope = cost_per_second(done)
    if slope is not None:
        counts["more_ms_of_compute_a_partial_for_each_second_of_speech"] = round(slope * 1000, 3)
    return counts


def _line(done: Understood) -> str:
    if done.first_partial_s is None:
        return f"{done.clip}: no partial"
    return f"{done.clip}: {done.partials} partials, the first after {done.first_partial_s:.3f} s"
