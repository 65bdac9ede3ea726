"""`visavis ask`: one question, one answer, as a video if wanted."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding

from visavis.client import MIC_RATE_HZ, GatewayError, GatewaySession
from visavis.serving.errors import InvalidInputError, VisavisError
from visavis.styles import STYLES
from visavis.tools.bench.visitor.clips import read_mono
from visavis.tools.cli.running_gateway import ApiKey, running_gateway
from visavis.tools.output import check_output, write_output
from visavis.tools.shown import Table, output_console

_SOUND_SUFFIXES = {".wav", ".flac", ".mp3", ".ogg", ".opus", ".m4a", ".webm"}
# After the sound has ended: pauses are judged, the answer thought and spoken.
_PATIENCE_S = 120.0


@dataclass
class Exchange:
    """What came of one question."""

    turn: int = 0
    transcript: str = ""
    answer: str = ""
    shown: dict[int, str] = field(default_factory=dict)
    """Of the answer's code and tables, which are not said."""
    stages: list[dict[str, Any]] = field(default_factory=list)
    voice_to_voice_ms: float | None = None
    warnings: list[str] = field(default_factory=list)


def ask(
    question: Annotated[
        str, typer.Argument(metavar="QUESTION", help="Text, or a sound file with the question.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the answer as a video (mp4).")
    ] = None,
    language: Annotated[str, typer.Option(help="en or zh.")] = "en",
    avatar: Annotated[str, typer.Option(help="Avatar; empty: the default one.")] = "",
    voice: Annotated[str, typer.Option(help="Voice; empty: the language's best.")] = "",
    style: Annotated[
        str, typer.Option(help=f"How it is said by voice and face: {', '.join(STYLES)}.")
    ] = "",
    url: Annotated[
        str, typer.Option(help="Gateway to ask. If none answers there, a stack is started.")
    ] = "http://127.0.0.1:8080",
    api_key: ApiKey = "",
    profile: Annotated[str, typer.Option(help="Weights of a stack that is started.")] = "default",
) -> None:
    """Ask the avatar QUESTION; print transcript, answer and where the time went.

    With -o the answer is recorded: the pictures and the sound that a visitor gets.
    """
    check_output(output, ".mp4")
    spoken = spoken_question(question)
    console = output_console()

    async def run() -> tuple[Exchange, bytes | None]:
        async with running_gateway(url, api_key, profile, console, command="ask") as client:
            asked = client.session(language=language, avatar=avatar, voice=voice, style=style)
            async with asked as session:
                return await converse(session, question, spoken, record=output is not None)

    exchange, video = asyncio.run(run())
    _print(exchange, console)
    if output is not None and video is not None:
        write_output(output, video)
        console.print(f"Video: {output}", markup=False)


def spoken_question(question: str) -> NDArray[np.int16] | None:
    """Sound, [N] int16 at 16 kHz, if `question` names a sound file, else None.

    Raises InvalidInputError where it is empty, a file that is not there, or one of another kind.
    """
    path = Path(question)
    if path.suffix.lower() not in _SOUND_SUFFIXES:
        if not question.strip():
            raise InvalidInputError("question: it is empty")
        if os.path.isfile(question):  # a long question is no path that could be looked at
            known = ", ".join(sorted(_SOUND_SUFFIXES))
            raise InvalidInputError(
                f"{question}: not a sound file by its name, which ends in {known}"
            )
        return None
    if not path.is_file():
        raise InvalidInputError(f"{question}: no such file")
    return read_mono(path, MIC_RATE_HZ)


async def converse(
    session: GatewaySession, question: str, spoken: NDArray[np.int16] | None, *, record: bool
) -> tuple[Exchange, bytes | None]:
    """Ask and listen to the end; the recording, where one was wanted. Raises VisavisError.

    spoken: the question as [N] int16 at 16 kHz, None where it is typed.
    """
    if record:
        await session.record_turn()
    stop = asyncio.Event()
    patience_s = _PATIENCE_S + (0.0 if spoken is None else len(spoken) / MIC_RATE_HZ)
    exchange = Exchange()
    if spoken is None:
        exchange.turn = await session.ask(question)
    following = asyncio.create_task(_follow(session, exchange))
    tasks = {following}
    if spoken is not None:
        tasks.add(asyncio.create_task(session.talk(spoken, stop)))
    try:
        async with asyncio.timeout(patience_s):
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if not (following.done() or exchange.turn):
                for microphone in tasks - {following}:
                    microphone.result()  # why nobody hears the question
            await following
    except TimeoutError:
        raise VisavisError(f"no answer within {patience_s:.0f} s; was there speech?") from None
    finally:
        stop.set()
        following.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return exchange, await session.recording() if record else None


async def _follow(session: GatewaySession, exchange: Exchange) -> None:
    """Note what happens until the answer has been heard. A pause may open a turn that a
    later one replaces: the last one counts."""
    async for event in session.events():
        kind = event["type"]
        if kind == "transcript" and event["final"]:
            exchange.transcript = event["text"]
        elif kind == "error" and event["code"] == "stage_away":
            exchange.warnings.append(event["message"])  # the turn waits for it
        elif kind == "error":
            raise GatewayError(event["code"], event["message"])
        elif kind == "warning":
            exchange.warnings.append(event["message"])
        elif event.get("turn", 0) < exchange.turn:
            continue
        elif kind == "turn" and event["event"] == "opened":
            exchange.turn, exchange.answer = event["turn"], ""
            exchange.shown.clear()
        elif kind == "answer":
            exchange.answer += event["text"]
        elif kind == "answer.shown":
            before = exchange.shown.get(event["block"], "")
            exchange.shown[event["block"]] = before + event["text"]
        elif kind == "latency":
            exchange.stages = event["stages"]
            exchange.voice_to_voice_ms = event.get("voice_to_voice_ms")
        elif kind == "turn" and event["event"] == "failed":
            raise VisavisError(f"the turn failed: {event.get('reason')}")
        elif kind == "turn" and event["event"] == "finished":
            return
    raise VisavisError("the gateway closed the session before the answer was complete")


def _print(exchange: Exchange, console: Console) -> None:
    if exchange.transcript:
        console.print(f"[bold]You:[/bold] {escape(exchange.transcript)}", highlight=False)
    console.print(f"[bold]Avatar:[/bold] {escape(exchange.answer.strip())}", highlight=False)
    for block in exchange.shown.values():
        console.print(Padding(escape(block.strip()), (1, 2)), highlight=False)
    for warning in exchange.warnings:
        console.print(f"[yellow]Note:[/yellow] {escape(warning)}", highlight=False)
    table = Table("stage", box=None)
    for name in ("from (ms)", "to (ms)"):
        table.add_column(name, justify="right")
    for stage in exchange.stages:
        table.add_row(stage["name"], f"{stage['start_ms']:.0f}", f"{stage['end_ms']:.0f}")
    console.print(table)
    if exchange.voice_to_voice_ms is not None:
        console.print(f"First sound {exchange.voice_to_voice_ms:.0f} ms after the question's end.")
