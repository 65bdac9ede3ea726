"""`visavis bench latency`: from the end of a question to the first sound of its answer."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import typer

from visavis.bench.clips import Clip
from visavis.bench.latency import LatencyBench, LatencyPlan, LatencyRun
from visavis.bench.processes import find_processes
from visavis.bench.report import check_target, report, rows_of
from visavis.bench.turn_figures import TurnFigures
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
    Transport,
    Url,
)
from visavis.cli.bench_questions import chosen_clips
from visavis.cli.bench_tables import Steps, hand_out, wide_console
from visavis.cli.running_gateway import running_gateway

FIGURES = {
    "voice_to_voice": "s",
    "first_sample_leaves": "s",
    "server_voice_to_voice": "s",
    "first_frame": "s",
    "server_first_frame": "s",
    "overhead": "s",
    "end_of_turn": "s",
    "endpoint_wait": "s",
    "recognition": "s",
    "recognition_late": "s",
    "first_token": "s",
    "first_phrase": "s",
    "synthesis": "s",
    "playout_wait": "s",
    "queue": "s",
    "transfer": "s",
    "cpu_s": "CPU s",
    "memory_bytes": "MB",
}
"""Figure -> unit; docs/benchmarks.md defines them."""

OPENER_FIGURES = {
    "voice_to_voice_opener": "s",
    "server_voice_to_voice_opener": "s",
    "first_frame_opener": "s",
    "answer_proper": "s",
    "server_answer_proper": "s",
}
"""Of turns that began with an opener, which the figures of the first sound leave out."""
_OPENED = ("voice_to_voice_opener", "answer_proper")

SPECULATION = {
    "answers_prepared_in_pauses": "speculation_opened_total",
    "of_them_spoken": "speculation_confirmed_total",
    "of_them_thrown_away": "speculation_discarded_total",
    "wasted_tokens": "speculation_wasted_tokens_total",
    "wasted_voice_s": "speculation_wasted_voice_seconds_total",
}
"""Count -> metric: what speculation cost."""


def latency(
    clips: Clips = None,
    language: Language = "",
    count: Count = 0,
    turns_per_session: Annotated[
        int, typer.Option(min=0, help="Then a new session begins; 0: one for each language.")
    ] = 10,
    listen_s: Annotated[
        float, typer.Option(min=0, help="Interrupt an answer after so long; 0: hear it out.")
    ] = 4.0,
    transport: Transport = "webrtc",
    url: Url = DEFAULT_URL,
    api_key: ApiKey = "",
    profile: Profile = "default",
    config: Config = None,
    json_path: Json = None,
    picture: Picture = None,
) -> None:
    """Ask question after question aloud, in real time, and measure each answer.

    Each session begins with a turn that is not counted. Not counted either, but told: answers
    shorter than 0.4 s, and answers that began before the question's end.
    """
    check_target(json_path, ".json")
    check_target(picture, ".svg")
    console = wide_console()
    chosen = chosen_clips(clips, language, count, profile, console)
    plan = LatencyPlan(turns_per_session, listen_s, transport)

    async def run() -> LatencyRun:
        gateway = running_gateway(url, api_key, profile, console, command="bench", config=config)
        async with gateway as client:
            services = (await client.call("GET", "/v1/services")).json()["services"]
            processes = find_processes(client.url, [s["address"] for s in services])
            with Steps(console, len(chosen), "warm-up") as steps:

                def on_turn(turn: TurnFigures | None) -> None:
                    if turn is not None:
                        steps.done(_line(turn))

                return await LatencyBench(client, processes, plan, on_turn).run(chosen)

    outcome = asyncio.run(run())
    settings = {"clips": len(chosen), "turns_per_session": turns_per_session, "listen_s": listen_s}
    counted = [turn for turn in outcome.turns if turn.counted]
    figures = FIGURES | (OPENER_FIGURES if any(turn.opener for turn in counted) else {})
    rows = rows_of([turn.figures for turn in counted], figures)
    result = report(
        "latency",
        rows,
        counts=counts_of(outcome),
        turns=[turn.to_dict() for turn in outcome.turns],
        settings=settings | {"transport": transport, "speech_end": methods(chosen)},
        notes=outcome.notes,
    )
    hand_out(console, f"Latency over {len(counted)} answers", rows, result, json_path, picture)


def counts_of(outcome: LatencyRun) -> dict[str, float]:
    """What happened how often."""
    turns = outcome.turns
    counts: dict[str, float] = {
        "asked": len(turns),
        "counted": sum(turn.counted for turn in turns),
        "spoke_over_the_visitor": sum(turn.spoke_over for turn in turns),
        "underruns": sum(turn.underruns for turn in turns),
        "answered_from_the_cache": sum(turn.answered_by == "cache" for turn in turns),
        "began_with_an_opener": sum(bool(turn.opener) for turn in turns if turn.counted),
    }
    for note, number in Counter(turn.note for turn in turns if turn.note).items():
        counts[f"not counted: {note}"] = number
    for outcome_name in ("finished", "interrupted", "discarded", "failed"):
        value = outcome.counters.get(f"gateway_turns_total{{outcome={outcome_name}}}", 0)
        counts[f"turns_{outcome_name}"] = value
    for name, metric in SPECULATION.items():
        counts[name] = round(outcome.counters.get(metric, 0), 2)
    if outcome.others_share is not None:
        counts["share_of_the_machine_for_other_work"] = outcome.others_share
    return counts


def methods(clips: Sequence[Clip]) -> dict[str, int]:
    """How the end of speech is known, and of how many clips."""
    return dict(Counter(clip.span.method for clip in clips))


def _line(turn: TurnFigures) -> str:
    if turn.opener and not turn.note:
        first_s, answer_s = (turn.figures[name] or 0 for name in _OPENED)
        return f"{turn.clip}: {first_s:.3f} s {turn.opener!r}, the answer {answer_s:.3f} s"
    seconds = turn.figures.get("voice_to_voice")
    return f"{turn.clip}: {turn.note or f'{seconds or 0:.3f} s'}"
