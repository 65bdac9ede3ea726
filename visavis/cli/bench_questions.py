"""`visavis bench questions`, and the set for the commands that need it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from visavis.bench.clips import Clip, choose, load_clips
from visavis.bench.questions import SETS, make_set, set_folder
from visavis.cli.bench_options import Profile
from visavis.cli.weights import pull_profile
from visavis.errors import InvalidInputError
from visavis.stack.location import log_dir
from visavis.stack.plain_service import plain_service


def questions(
    profile: Profile = "default",
    anew: Annotated[bool, typer.Option(help="Speak them again even if they are there.")] = False,
) -> None:
    """Speak the question set into the cache: 44 English and 12 Mandarin questions, what
    interrupts an answer, and what does not.

    The benchmarks do this by themselves at first use.
    """
    console = Console(highlight=False)
    for name in SETS:
        folder = ready_set(name, profile, console, anew=anew)
        console.print(f"{name}: {len(SETS[name])} clips in {folder}", soft_wrap=True)


def ready_set(name: str, profile: str, console: Console, *, anew: bool = False) -> Path:
    """The folder of a set, spoken first where it is not there."""
    folder = set_folder(name, profile)
    if folder.is_dir() and anew:
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
    if not folder.is_dir():
        pull_profile(profile, console)
        asyncio.run(_make(name, folder, profile, console))
    return folder


async def _make(name: str, folder: Path, profile: str, console: Console) -> None:
    flags = ["--profile", profile]
    with console.status(f"Speaking the {name} once …") as status:
        async with plain_service("tts", flags, log_dir() / "bench") as tts:
            await make_set(name, folder, tts, lambda text: status.update(f"Speaking: {text}"))


def chosen_clips(
    folder: Path | None, language: str, count: int, profile: str, console: Console
) -> list[Clip]:
    """The clips that the options name. Raises InvalidInputError where there are none."""
    if folder is None:
        made = load_clips(ready_set("questions", profile, console))
        clips = [clip for clip in made if not language or clip.language == language]
    else:
        clips = load_clips(folder, language)
    if not clips:
        raise InvalidInputError(f"language: no clip is in {language!r}")
    return choose(clips, count)
