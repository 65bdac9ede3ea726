"""`visavis bench quality`: what speed must not cost, beside what it is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import grpc.aio
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from visavis.bench.clips import Clip, choose, load_clips
from visavis.bench.quality import Errors, Lips, heard_right, lips_meet, spoken_right
from visavis.bench.question_texts import ENGLISH, MANDARIN
from visavis.bench.report import check_target, report, write_report
from visavis.cli.bench_options import DEFAULT_URL, ApiKey, Config, Json, Profile, Url
from visavis.cli.bench_questions import ready_set
from visavis.cli.bench_tables import Steps, wide_console, written
from visavis.cli.running_gateway import running_gateway
from visavis.client import GatewayClient
from visavis.errors import InvalidInputError, VisavisError
from visavis.runtime import MESSAGE_LIMITS

# Every one has p, b and m in it, at the beginning, in the middle and at the end of words.
SENTENCES = (
    ("en", "Please bring Bob a map of the museum, and maybe a cup of plum jam."),
    ("en", "My problem is simple: the bumpy bus stopped before the bridge."),
    ("en", "Come back home by midnight, or the pumpkin becomes a pumpkin again."),
    ("en", "Pam and Tom compare both maps, but members may prefer a computer."),
    ("zh", "爸爸和妈妈跑步去买面包和苹果。"),
    ("zh", "请不要怕，朋友们明天把旁边的门漆成白色。"),
)

Values = dict[str, tuple[float | None, str, str]]
"""Figure -> value, unit, over what."""


def quality(
    clips: Annotated[
        list[Path] | None,
        typer.Option(
            help="Folder of WAVs with .txt beside them; may be given again. "
            "Default: our question set, which our recogniser hears more easily."
        ),
    ] = None,
    count: Annotated[int, typer.Option(min=0, help="So many clips; 0: all.")] = 0,
    answers: Annotated[int, typer.Option(min=1, help="Answers to be transcribed back.")] = 10,
    beside: Annotated[
        Path | None, typer.Option(help="JSON of `bench latency`: shown in the same table.")
    ] = None,
    url: Url = DEFAULT_URL,
    api_key: ApiKey = "",
    profile: Profile = "default",
    config: Config = None,
    json_path: Json = None,
) -> None:
    """Word errors in what is heard and in what is spoken, and lips at p, b and m.

    The services must be reachable (they are where the stack runs on this machine).
    """
    check_target(json_path, ".json")
    console = wide_console()
    latency = _latency(beside)
    spoken = _clips(clips, count, profile, console)
    known = [("en", text) for text in ENGLISH] + [("zh", text) for text in MANDARIN]
    questions = [known[i * len(known) // answers] for i in range(min(answers, len(known)))]

    async def run() -> tuple[Errors, Errors, dict[str, Lips]]:
        gateway = running_gateway(url, api_key, profile, console, command="bench", config=config)
        async with gateway as client:
            with Steps(console, len(spoken) + len(questions) + len(SENTENCES), "warm-up") as steps:

                def on_step(name: str) -> None:
                    if name != "warm-up":
                        steps.done(name[:60])

                heard = await heard_right(client, spoken, on_step)
                async with await _channel(client, "asr") as asr:
                    said = await spoken_right(client, asr, questions, on_step)
                async with (
                    await _channel(client, "tts") as tts,
                    await _channel(client, "face") as face,
                ):
                    lips = await lips_meet(tts, face, SENTENCES, on_step)
                return heard, said, lips

    heard, said, lips = asyncio.run(run())
    values = values_of(heard, said, lips)
    console.print(quality_table(values, latency))
    console.print(Text(NOTE, "dim"))
    if json_path is not None:
        result = report(
            "quality",
            [],
            counts={
                name: value for name, (value, _unit, _of) in values.items() if value is not None
            },
            turns=[*heard.texts, *said.texts],
            settings={"clips": len(spoken), "answers": len(questions)},
            notes=[NOTE],
        )
        write_report(json_path, result)


NOTE = (
    "Word errors count spelling too: 5 for five is one. Viseme accuracy of the sound's network: "
    "python -m training.audio_to_face.evaluate"
)


def values_of(heard: Errors, said: Errors, lips: Mapping[str, Lips]) -> Values:
    """The quality figures, in the order of the table."""
    values: Values = {
        "words_heard_wrong": (heard.rate, "%", f"{heard.said} words spoken to it"),
        "words_spoken_wrong": (said.rate, "%", f"{said.said} words of answers, transcribed back"),
    }
    for source, found in lips.items():
        over = f"{found.bilabials} of p, b, m; lips from {source}"
        values[f"lips_closed_by_{source}"] = (found.share, "%", over)
        over = f"median of {len(found.open_gaps)} open vowels, 0 shut to 1"
        values[f"open_vowel_gap_by_{source}"] = (found.open_gap, "", over)
    return values


def quality_table(values: Values, latency: Mapping[str, Mapping[str, float]]) -> Table:
    """Quality, and under it the latency that it goes with."""
    table = Table("figure", "value", "of", title="Quality", title_justify="left")
    for name, (value, unit, over) in values.items():
        table.add_row(name, "-" if value is None else written(round(value, 4), unit), over)
    if latency:
        table.add_section()
    for name in ("voice_to_voice", "server_voice_to_voice", "first_frame", "overhead"):
        if name in latency:
            spread = latency[name]
            both = f"{spread['p50']:.3f} s / {spread['p90']:.3f} s"
            table.add_row(name, both, f"P50 / P90 of {spread['count']:g} answers")
    return table


async def _channel(client: GatewayClient, service: str) -> grpc.aio.Channel:
    services = (await client.call("GET", "/v1/services")).json()["services"]
    for known in services:
        if known["service"] == service and known["healthy"]:
            return grpc.aio.insecure_channel(known["address"], MESSAGE_LIMITS)
    raise VisavisError(f"the gateway knows no healthy {service} service")


def _clips(folders: list[Path] | None, count: int, profile: str, console: Console) -> list[Clip]:
    chosen = folders or [ready_set("questions", profile, console)]
    clips = [clip for folder in chosen for clip in load_clips(folder) if clip.text]
    if not clips:
        raise InvalidInputError("clips: none of them has a text beside it")
    return choose(clips, count)


def _latency(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        figures: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["figures"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidInputError(f"{path}: not the JSON of `visavis bench latency`") from error
    return figures
