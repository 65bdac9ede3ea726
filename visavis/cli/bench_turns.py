"""`visavis bench turns`: whether the end of a turn is found, how soon, and what partials cost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import grpc.aio
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from visavis.bench.report import check_target, report, rows_of
from visavis.bench.statistics import summarise
from visavis.bench.turn_clips import RATE_HZ, TurnClip, load_turn_clips
from visavis.bench.turn_taking import FIGURES, TurnOutcome, counts_of, outcome_of
from visavis.cli.bench_options import Json, Picture, Profile
from visavis.cli.bench_tables import Steps, hand_out
from visavis.cli.weights import pull_profile
from visavis.errors import VisavisError
from visavis.media import TranscriptChunk
from visavis.stack.location import log_dir
from visavis.stack.plain_service import plain_service
from visavis.v1 import asr_pb2, asr_pb2_grpc

_CHUNK_SAMPLES = RATE_HZ // 50
_NOTES = (
    "Faster than real time: every answer of the networks is awaited before more is heard, and "
    "delays are in time of the sound. *_with_compute adds the networks' measured time.",
)


def turns(
    folder: Annotated[
        Path, typer.Argument(help="Labelled set: labels.jsonl and the clips that it names.")
    ] = Path("tests/turns"),
    language: Annotated[str, typer.Option(help="Only clips of this language (en, zh).")] = "",
    half: Annotated[
        str, typer.Option(help='Only "tune", on which rules were chosen, or "test".')
    ] = "",
    address: Annotated[
        str, typer.Option(help="host:port of an asr service to measure; without it one is started.")
    ] = "",
    profile: Profile = "default",
    json_path: Json = None,
    picture: Picture = None,
) -> None:
    """Measure turn-taking on a labelled set: speakers cut off, silence waited for, partials.

    The asr service hears each clip through its gRPC API (StreamingRecognize with `recorded`),
    with the endpointing of live sound, faster than it was spoken. What is told as a delay does
    not depend on how fast this machine is; what is told as compute does.
    """
    check_target(json_path, ".json")
    check_target(picture, ".svg")
    console = Console(highlight=False)
    clips = load_turn_clips(folder, language, half)

    async def run() -> list[TurnOutcome]:
        async with _service(address, profile, console) as asr:
            with Steps(console, len(clips), "loading") as steps:
                done: list[TurnOutcome] = []
                for clip in clips:
                    done.append(outcome_of(clip, await _heard(asr, clip)))
                    steps.done(_line(done[-1]))
                return done

    done = asyncio.run(run())
    rows = rows_of([{name: getattr(turn, name) for name in FIGURES} for turn in done], FIGURES)
    settings = {"folder": folder.name, "language": language, "half": half, "profile": profile}
    result = report(
        "turns",
        rows,
        counts=counts_of(done),
        turns=[turn.to_dict() for turn in done],
        settings=settings,
        notes=_NOTES,
    )
    console.print(_by_category(done))
    hand_out(console, f"Turn-taking, {len(done)} clips", rows, result, json_path, picture)
    for turn in done:
        if turn.cut_offs:
            cut = " | ".join(turn.cut_offs)
            console.print(Text(f"cut off: {turn.clip.path.stem} ({turn.clip.half}): {cut}"))


@asynccontextmanager
async def _service(address: str, profile: str, console: Console) -> AsyncIterator[grpc.aio.Channel]:
    if address:
        async with grpc.aio.insecure_channel(address) as channel:
            yield channel
        return
    pull_profile(profile, console)
    async with plain_service("asr", ["--profile", profile], log_dir() / "bench") as channel:
        yield channel


async def _heard(channel: grpc.aio.Channel, clip: TurnClip) -> list[TranscriptChunk]:
    """The events of one clip. Raises VisavisError with what the service says."""
    sound = await asyncio.to_thread(clip.sound)

    async def requests() -> AsyncIterator[asr_pb2.StreamingRecognizeRequest]:
        config = asr_pb2.RecognitionConfig(
            sample_rate_hz=RATE_HZ, language=clip.language, interim_results=True, recorded=True
        )
        yield asr_pb2.StreamingRecognizeRequest(config=config)
        for start in range(0, len(sound), _CHUNK_SAMPLES):
            piece = sound[start : start + _CHUNK_SAMPLES].astype("<i2").tobytes()
            yield asr_pb2.StreamingRecognizeRequest(pcm_s16le=piece)

    stub = asr_pb2_grpc.SpeechRecognitionStub(channel)
    try:
        return [
            TranscriptChunk.of(answer.transcript)
            async for answer in stub.StreamingRecognize(requests())
        ]
    except grpc.aio.AioRpcError as error:
        raise VisavisError(f"{clip.path.name}: {error.details() or error.code().name}") from None


def _line(turn: TurnOutcome) -> str:
    if turn.cut_offs:
        return f"{turn.clip.path.stem}: cut off"
    if turn.end_of_turn_s is None:
        return f"{turn.clip.path.stem}: no end"
    return f"{turn.clip.path.stem}: over after {turn.end_of_turn_s:.3f} s"


def _by_category(done: Sequence[TurnOutcome]) -> Table:
    """Cut off, and seconds from the end of speech, for each kind of turn."""
    table = Table("", "turns", "half", title="By category", title_justify="left")
    for column in ("n", "cut off", "end P50", "P90", "max", "paused"):
        table.add_column(column, justify="right")
    keys = sorted({(t.clip.language, t.clip.category, t.clip.half) for t in done})
    for key in keys:
        turns = [t for t in done if (t.clip.language, t.clip.category, t.clip.half) == key]
        cut = sum(bool(turn.cut_offs) for turn in turns)
        end = summarise(turn.end_of_turn_s for turn in turns)
        paused = summarise(turn.paused_s for turn in turns)
        spread = [f"{v:.3f}" for v in (end.p50, end.p90, end.max)] if end else ["-"] * 3
        told = f"{paused.p50:.3f}" if paused else "-"
        table.add_row(*key, str(len(turns)), str(cut), *spread, told)
    return table
