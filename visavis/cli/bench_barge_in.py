"""`visavis bench barge-in`: how soon an interrupted answer is silent, and what must not stop it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

import typer

from visavis.bench.barge_in import (
    BargeInBench,
    Interruption,
    Kind,
    counted,
    paused,
    simulated_coughs,
)
from visavis.bench.clips import Clip, load_clips
from visavis.bench.report import check_target, report, rows_of
from visavis.cli.bench_options import (
    DEFAULT_URL,
    ApiKey,
    Clips,
    Config,
    Json,
    Language,
    Picture,
    Profile,
    Transport,
    Url,
)
from visavis.cli.bench_questions import ready_set
from visavis.cli.bench_tables import Steps, hand_out, wide_console
from visavis.cli.running_gateway import running_gateway

FIGURES = {
    "silence_s": "s",
    "detected_s": "s",
    "server_silence_s": "s",
    "decided_to_silence_s": "s",
}


def barge_in(
    clips: Clips = None,
    language: Language = "",
    times: Annotated[int, typer.Option(min=1, help="Play each interruption so often.")] = 5,
    backchannels: Annotated[
        bool, typer.Option(help="Also play what must not stop an answer: uh-huh, coughs.")
    ] = True,
    transport: Transport = "webrtc",
    url: Url = DEFAULT_URL,
    api_key: ApiKey = "",
    profile: Profile = "default",
    config: Config = None,
    json_path: Json = None,
    picture: Picture = None,
) -> None:
    """Interrupt a long answer in its middle and measure how long it can still be heard.

    --clips: what interrupts (default: four sentences of our own). Coughs are simulated.
    """
    check_target(json_path, ".json")
    check_target(picture, ".svg")
    console = wide_console()
    folder = clips or ready_set("interruptions", profile, console)
    sounds: list[tuple[Kind, Clip]] = [("interruption", c) for c in load_clips(folder, language)]
    sounds *= times
    if backchannels:
        quiet = load_clips(ready_set("backchannels", profile, console))
        sounds += [("backchannel", clip) for clip in quiet]
        sounds += [("cough", clip) for clip in simulated_coughs()]

    async def run() -> list[Interruption]:
        gateway = running_gateway(url, api_key, profile, console, command="bench", config=config)
        async with gateway as client:
            with Steps(console, len(sounds), "an answer begins") as steps:

                def on_done(done: Interruption) -> None:
                    steps.done(_line(done))

                return await BargeInBench(client, on_done, transport).run(sounds)

    done = asyncio.run(run())
    stopped = [sound for sound in counted(done, "interruption") if sound.stopped]
    rows = rows_of([{name: getattr(sound, name) for name in FIGURES} for sound in stopped], FIGURES)
    result = report(
        "barge-in",
        rows,
        counts=counts_of(done),
        turns=[sound.to_dict() for sound in done],
        settings={"times": times, "transport": transport, "clips": len(sounds)},
        notes=["coughs are simulated: bursts of noise"] if backchannels else [],
    )
    title = f"Interruption to silence, {len(stopped)} answers"
    hand_out(console, title, rows, result, json_path, picture)


def counts_of(done: Sequence[Interruption]) -> dict[str, float]:
    """What stopped an answer, and what ought not to have."""
    counts: dict[str, float] = {}
    kinds: tuple[Kind, ...] = ("interruption", "backchannel", "cough")
    for kind in kinds:
        sounds = counted(done, kind)
        if sounds:
            counts[f"{kind}s"] = len(sounds)
            counts[f"{kind}s_that_stopped_the_answer"] = sum(s.stopped for s in sounds)
        if sounds and kind != "interruption":
            counts[f"{kind}s_that_made_it_pause"] = sum(paused(s) for s in sounds)
            counts[f"{kind}s_that_made_it_speak_lower"] = sum(
                s.gave_way == "ducked" for s in sounds
            )
    counts["not_counted"] = sum(bool(sound.note) for sound in done)
    return counts


def _line(done: Interruption) -> str:
    if done.note:
        return f"{done.clip}: {done.note}"
    understood = f' ("{done.understood}")' if done.understood else ""
    if done.silence_s is None:
        return f"{done.clip}: the answer went on{understood}"
    return f"{done.clip}: silent after {done.silence_s:.3f} s{understood}"
