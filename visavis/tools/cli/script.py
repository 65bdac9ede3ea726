"""`visavis script`: a whole script to one video, resumable."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn

from visavis.client.errors import GatewayError
from visavis.serving.errors import InvalidInputError, VisavisError
from visavis.serving.settings import SERVICES
from visavis.tools.cli.models import pull_profile
from visavis.tools.cli.running_gateway import ApiKey, gateway_at
from visavis.tools.lecture import (
    FPS,
    SAMPLE_RATE_HZ,
    LectureOptions,
    PartStore,
    part_key,
    render_part,
    split_script,
)
from visavis.tools.output import check_output, write_output
from visavis.tools.shown import Progress, output_console
from visavis.tools.stack.plain_service import plain_service
from visavis.tools.stack.process import log_dir

_MAX_CHARACTERS = 1_000_000
_SIZE_PIXELS = 512
_COLUMNS = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f} %"))


def script(
    text_file: Annotated[
        Path,
        typer.Argument(metavar="TEXT_FILE", help="Text in UTF-8; blank lines part paragraphs."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Video to write (mp4).")],
    language: Annotated[str, typer.Option(help="en or zh, where the script does not tell.")] = "en",
    voice: Annotated[str, typer.Option(help="Voice; empty: the language's best.")] = "",
    avatar: Annotated[str, typer.Option(help="Avatar; empty: the default one.")] = "",
    speed: Annotated[float, typer.Option(min=0.5, max=2.0, help="1 is natural.")] = 1.0,
    seed: Annotated[int, typer.Option(min=1, help="Of blinks, gaze and sway.")] = 1,
    profile: Annotated[
        str, typer.Option(help="Set of weights: edge, tiny, default or better.")
    ] = "default",
    url: Annotated[
        str,
        typer.Option(
            help="Gateway that speaks it, at the pace of speech; empty: services of this command's "
            "own, as fast as they can. --seed and --profile are theirs."
        ),
    ] = "",
    api_key: ApiKey = "",
) -> None:
    """Let the avatar speak the whole of TEXT_FILE and write the video.

    Parts that are done are kept beside the video: after an interruption the same
    command goes on where it stopped. With --url it begins anew.
    """
    parts = split_script(_read(text_file))
    if not parts:
        raise InvalidInputError(f"{text_file}: there is no text in it")
    check_output(output, ".mp4")
    console = output_console()
    if url:
        wanted = {"language": language, "voice": voice, "avatar": avatar, "speed": speed}
        film, said, ended = asyncio.run(_have_said(parts, wanted, url, api_key, console))
        write_output(output, film)
        if ended:
            raise VisavisError(f"{output}: ends with part {said} of {len(parts)}: {ended}")
        console.print(f"{output}: {_parts_said(parts)}.", markup=False)
        return
    options = LectureOptions(language, voice, avatar, speed, seed)
    store = PartStore(output.with_name(output.name + ".parts"))
    with store.held():
        pull_profile(profile, console)
        try:
            frames = asyncio.run(_render(parts, options, output, store, profile, console))
        except OSError as error:
            reason = error.strerror or error
            raise InvalidInputError(f"{output}: cannot be written: {reason}") from error
    told = f"{output}: {frames / FPS:.1f} s of video, {_parts_said(parts)}."
    console.print(told, markup=False)


def _parts_said(parts: list[str]) -> str:
    return "1 part" if len(parts) == 1 else f"{len(parts)} parts"


async def _have_said(
    parts: list[str], options: dict[str, Any], url: str, api_key: str, console: Console
) -> tuple[bytes, int, str]:
    """The recording of a session at `url` that says all parts. Raises VisavisError.

    With the part it ends with, and why that is not the last; empty: it is.
    """
    said, ended = 0, ""
    async with (
        gateway_at(url, api_key, SERVICES) as client,
        client.session(**options) as session,
    ):
        with Progress(*_COLUMNS, TimeRemainingColumn(), console=console) as progress:
            bar = progress.add_task("Saying", total=sum(map(len, parts)))
            await session.start_recording()
            path = f"/v1/sessions/{session.id}/recording"
            while said < len(parts) and not ended:
                text = parts[said]
                said += 1
                progress.update(bar, description=f"Part {said} of {len(parts)}")
                try:
                    await session.hear_out(text)
                    ended = (await client.call("GET", path)).json()["error"]
                except GatewayError as error:
                    ended = str(error)
                progress.advance(bar, len(text))
            try:
                await session.stop_recording()
                return await session.recording(), said, ended
            except GatewayError as error:  # as where it has gone with its session
                why = f"part {said} of {len(parts)}: {ended}; " if ended else ""
                raise VisavisError(f"{why}the recording cannot be had: {error}") from error


def _read(text_file: Path) -> str:
    try:
        text = text_file.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidInputError(f"{text_file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise InvalidInputError(f"{text_file}: not UTF-8 text") from None
    if len(text) > _MAX_CHARACTERS:
        raise InvalidInputError(
            f"{text_file}: {len(text)} characters; at most {_MAX_CHARACTERS} make one video"
        )
    return text


async def _render(
    parts: list[str],
    options: LectureOptions,
    output: Path,
    store: PartStore,
    profile: str,
    console: Console,
) -> int:
    # FFmpeg comes with the services; `visavis doctor` must start without it.
    from visavis.mp4 import Mp4Writer

    flags = ["--profile", profile]
    with (
        Mp4Writer(
            output,
            fps=FPS,
            width=_SIZE_PIXELS,
            height=_SIZE_PIXELS,
            sample_rate_hz=SAMPLE_RATE_HZ,
        ) as video,
        Progress(*_COLUMNS, TimeRemainingColumn(), console=console) as progress,
    ):
        bar = progress.add_task("Starting voice and face", total=sum(map(len, parts)))
        async with (
            plain_service("tts", flags, log_dir() / "script") as tts,
            plain_service("face", flags, log_dir() / "script") as face,
        ):
            for index, text in enumerate(parts):
                progress.update(bar, description=f"Part {index + 1} of {len(parts)}")
                key = part_key(text, index, video.frames, options)
                part = store.load(key)
                if part is None:
                    part = await render_part(text, video.frames, options, tts, face)
                    store.save(key, part)
                for picture in part.pictures:
                    video.add_picture(picture.payload, keyframe=picture.keyframe)
                video.add_sound(part.pcm)
                progress.advance(bar, len(text))
        frames = video.frames
    store.clear()
    return frames
