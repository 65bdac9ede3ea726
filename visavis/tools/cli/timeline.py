"""`visavis timeline`: where the time of one turn went, as a table and as a picture."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from visavis.client import GatewayClient
from visavis.serving.errors import InvalidInputError, UnknownNameError, VisavisError
from visavis.tools.charts import STAGES, draw_timeline
from visavis.tools.cli.ask import converse, spoken_question
from visavis.tools.cli.running_gateway import ApiKey, gateway_at, running_gateway
from visavis.tools.output import check_output, write_output
from visavis.tools.shown import Table, output_console


def timeline(
    question: Annotated[
        str,
        typer.Argument(
            metavar="QUESTION",
            help="Text, or a sound file with a question, to ask first. Without one, a turn of a "
            "session that is open in the gateway is shown.",
        ),
    ] = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the picture (svg).")
    ] = None,
    session: Annotated[
        str, typer.Option(help="Session whose turn is shown; empty: the newest one.")
    ] = "",
    turn: Annotated[int, typer.Option(min=0, help="Turn; 0: the last one that was heard.")] = 0,
    language: Annotated[str, typer.Option(help="Of the question: en or zh.")] = "en",
    url: Annotated[
        str,
        typer.Option(help="Gateway. If a question is given and none answers, a stack is started."),
    ] = "http://127.0.0.1:8080",
    api_key: ApiKey = "",
    profile: Annotated[str, typer.Option(help="Weights of a stack that is started.")] = "default",
) -> None:
    """Show where the time of a turn went: what each stage waited for, queued for and computed.

    Times count from the end of the visitor's speech, or from the text's arrival. What was done
    before it, while the visitor might still have gone on, has negative times.

    `visavis timeline "Why is the sky blue?" -o turn.svg` asks and draws. While somebody talks
    on the page, `visavis timeline` shows their last turn.
    """
    check_output(output, ".svg")
    if question and (session or turn):
        raise InvalidInputError("question: asked in a session of its own; no --session or --turn")
    console = output_console()
    if question:
        asked = _ask(question, language, url, api_key, profile, console)
    else:
        asked = _look_up(session, turn, url, api_key)
    known = asyncio.run(asked)
    _print(known, console)
    if output is not None:
        write_output(output, draw_timeline(known))
        console.print(f"Picture: {output}", markup=False)


async def _ask(
    question: str, language: str, url: str, api_key: str, profile: str, console: Console
) -> dict[str, Any]:
    spoken = spoken_question(question)
    async with running_gateway(url, api_key, profile, console, command="timeline") as client:
        async with client.session(language=language) as session:
            exchange, _ = await converse(session, question, spoken, record=False)
            return await _timeline(client, session.id, exchange.turn)


async def _look_up(session: str, turn: int, url: str, api_key: str) -> dict[str, Any]:
    async with gateway_at(url, api_key) as client:
        if not session:
            found = (await client.call("GET", "/v1/sessions")).json()["sessions"]
            if not found:
                raise UnknownNameError(
                    "session: none is open. Talk on the page first, or give a question: "
                    'visavis timeline "Why is the sky blue?"'
                )
            session = found[-1]["id"]
        if not turn:
            turns = (await client.call("GET", f"/v1/sessions/{session}/turns")).json()
            heard = [t["turn"] for t in turns if t["voice_to_voice_ms"] is not None]
            if not heard:
                raise VisavisError(f"session {session}: nothing has been answered in it yet")
            turn = heard[-1]
        return await _timeline(client, session, turn)


async def _timeline(client: GatewayClient, session: str, turn: int) -> dict[str, Any]:
    path = f"/v1/sessions/{session}/turns/{turn}/timeline"
    known: dict[str, Any] = (await client.call("GET", path)).json()
    return known


def _print(known: dict[str, Any], console: Console) -> None:
    table = Table("stage", "chunk", "what", box=None)
    for name in ("from (ms)", "to (ms)", "took (ms)"):
        table.add_column(name, justify="right")
    order = {name: index for index, name in enumerate(STAGES)}
    spans = sorted(known["spans"], key=lambda s: (s["chunk"] != "first", order[s["stage"]]))
    for span in spans:
        start_ms, end_ms = span["start_ms"], span["end_ms"]
        figures = (f"{value:.1f}" for value in (start_ms, end_ms, end_ms - start_ms))
        table.add_row(span["stage"], span["chunk"], span["kind"], *figures)
    console.print(table)
    for name, label in (
        ("voice_to_voice_ms", "First sound"),
        ("first_frame_ms", "First picture"),
        ("overhead_ms", "Overhead"),
    ):
        if known.get(name) is not None:
            console.print(f"{label}: {known[name]:.1f} ms")
    console.print(f"Gaps in the voice: {known['underruns']}")
