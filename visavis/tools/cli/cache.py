"""`visavis cache`: what the avatar can say without thinking, listed, made ready, cleared."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from visavis.client import GatewayClient
from visavis.serving.errors import VisavisError
from visavis.tools.cli.running_gateway import ApiKey, gateway_at
from visavis.tools.shown import Progress, Table, output_console

cache_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Answers to frequent questions and welcome phrases, of a gateway that runs.\n\n"
    "They come from the file that `visavis up --answers FILE` names. Their voice is made ready "
    "in the background, so that they are spoken at once.",
)

Url = Annotated[str, typer.Option(help="Gateway to talk to.")]
_URL = "http://127.0.0.1:8080"
_SHOWN_CHARACTERS = 60


@cache_app.command("list")
def list_(
    url: Url = _URL,
    api_key: ApiKey = "",
    as_json: Annotated[bool, typer.Option("--json", help="All of it, for programs.")] = False,
) -> None:
    """Show known questions and answers, how often each was used, and what is prerendered."""

    async def run() -> Any:
        async with gateway_at(url, api_key) as client:
            return (await client.call("GET", "/v1/cache")).json()

    shown = asyncio.run(run())
    console = output_console(highlight=False)
    if as_json:
        console.print_json(json.dumps(shown))
        return
    if shown["configured"] or shown["learned"]:
        console.print(_answers(shown))
    else:
        console.print("No answer is known yet.")
    for language, phrases in shown["welcome"].items():
        for phrase in phrases:
            console.print(f"Welcome ({language}): {phrase}", markup=False)
    console.print(_phrases(shown["phrases"]))
    counts = shown["lookups"]
    hits = sum(counts.values()) - counts["miss"]
    console.print(
        f"Questions looked up: {hits} known ({counts['exact']} word for word, "
        f"{counts['normalised']} alike, {counts['learned']} learned), {counts['miss']} not."
    )
    if not shown["file"]:
        console.print("No file of answers: start the gateway with --answers FILE.")


@cache_app.command()
def warm(
    url: Url = _URL,
    api_key: ApiKey = "",
    language: Annotated[str, typer.Option(help="Only this one, en or zh; empty: all.")] = "",
    voice: Annotated[str, typer.Option(help="Voice; empty: the language's best.")] = "",
    speed: Annotated[float, typer.Option(min=0.5, max=2.0, help="Speed of the voice.")] = 1.0,
    style: Annotated[str, typer.Option(help="Style of the session, such as happy.")] = "",
) -> None:
    """Read the file of answers anew, and make the voice of all its texts ready.

    The default voice is made ready by itself when a gateway starts; this is for a file that
    has changed, after `visavis cache clear`, and for sessions with another voice or speed.
    """
    wanted = {"language": language, "voice": voice, "speed": speed, "style": style}
    console = output_console(highlight=False)
    ready, errors, evicted, phrases = 0, [], 0, 0
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )

    async def run(progress: Progress) -> None:
        nonlocal ready, evicted, phrases
        task = progress.add_task("Reading the answers …", total=None)
        async with gateway_at(url, api_key, ["tts"]) as client:
            async for line in _warming(client, wanted):
                progress.update(
                    task,
                    completed=line["done"],
                    total=line["total"],
                    description=_short(line["text"], 40),
                )
                if line["error"]:
                    errors.append(f"{line['replica']}: {line['error']}")
                ready += not line["error"]
                evicted += line["evicted"]
                phrases += line["made"]

    with Progress(*columns, console=console) as progress:
        asyncio.run(run(progress))
    texts = "1 text is ready" if ready == 1 else f"{ready} texts are ready"
    console.print(f"{texts}; phrases made anew: {phrases}.")
    if evicted:
        console.print(
            f"There is not room for all: {evicted} phrases made room for others. Give the tts "
            "service more (phrase_cache_mb), or warm fewer."
        )
    if errors:
        raise VisavisError(f"{len(errors)} could not be made; the first: {errors[0]}")


@cache_app.command()
def clear(
    url: Url = _URL,
    api_key: ApiKey = "",
    learned: Annotated[
        bool, typer.Option("--learned", help="Only answers that were learned.")
    ] = False,
    phrases: Annotated[bool, typer.Option("--phrases", help="Only prerendered sound.")] = False,
) -> None:
    """Forget learned answers and prerendered sound.

    The file of answers is not touched: its questions are answered from it still, with the
    voice made when they are asked, until `visavis cache warm`.
    """
    what = "all" if learned == phrases else "learned" if learned else "phrases"

    async def run() -> Any:
        async with gateway_at(url, api_key) as client:
            return (await client.call("DELETE", "/v1/cache", params={"what": what})).json()

    gone = asyncio.run(run())
    output_console(highlight=False).print(
        f"Forgot {gone['learned']} learned answers and the sound of {gone['phrases']} phrases."
    )


async def _warming(client: GatewayClient, wanted: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    """The gateway's lines, each as it comes."""
    async for line in client.lines("POST", "/v1/cache/warm", json=wanted):
        yield json.loads(line)


def _answers(shown: dict[str, Any]) -> Table:
    table = Table("from", "language", "question", "answer", box=None)
    table.add_column("uses", justify="right")
    for entry in shown["configured"]:
        more = f" (+{len(entry['questions']) - 1})" if len(entry["questions"]) > 1 else ""
        table.add_row(
            "file",
            entry["language"],
            Text(_short(entry["questions"][0]) + more),
            Text(_short(entry["answer"])),
            str(entry["hits"]),
        )
    for entry in shown["learned"]:
        table.add_row(
            "learned",
            entry["language"],
            Text(_short(entry["question"])),
            Text(_short(entry["answer"])),
            str(entry["hits"]),
        )
    return table


def _phrases(replicas: list[dict[str, Any]]) -> Table:
    table = Table("voices", box=None)
    for name in ("phrases ready", "speech", "memory", "used", "not ready"):
        table.add_column(name, justify="right")
    for replica in replicas:
        table.add_row(
            replica["replica"],
            str(replica["entries"]),
            f"{replica['seconds']:.0f} s",
            f"{replica['bytes'] / 1e6:.1f} of {replica['limit_bytes'] / 1e6:.0f} MB",
            str(replica["hits"]),
            str(replica["misses"]),
        )
    return table


def _short(text: str, limit: int = _SHOWN_CHARACTERS) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
