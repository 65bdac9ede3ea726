"""`visavis avatar`: make an avatar from one portrait, add a head, list and delete avatars."""

from __future__ import annotations

import asyncio
import getpass
import io
import zipfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Console
from rich.table import Table

from visavis.bundles.store import profile
from visavis.serving.errors import InvalidInputError
from visavis.tools.cli.models import pull_missing
from visavis.tools.speech import service_errors
from visavis.tools.stack.plain_service import plain_service
from visavis.tools.stack.process import log_dir
from visavis.v1 import face_pb2, face_pb2_grpc

T = TypeVar("T")

avatar_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Make an avatar from one portrait, add a head; list and delete avatars.",
)


@avatar_app.command()
def create(
    photo: Annotated[
        Path,
        typer.Argument(metavar="PHOTO", help="Portrait: JPEG, PNG or WebP with one face."),
    ],
    name: Annotated[
        str, typer.Option(help="Name of the avatar: letters, digits, - and _; default: the file's.")
    ] = "",
    likeness: Annotated[str, typer.Option(help="Who is shown: that person's name.")] = "",
    consent: Annotated[
        str, typer.Option(help="What that person has agreed to, as you have been told.")
    ] = "",
) -> None:
    """Make an avatar from PHOTO. A running stack sees it at once.

    The face should look into the camera, mouth closed, eyes open, at least 80 pixels
    from chin to brow. Whoever is shown must have agreed to it: --likeness and --consent
    say so, and are kept with the avatar (docs/consent.md).

    Example: `visavis avatar create ann.jpg --likeness "Ann Lee" --consent "to greet our visitors
    on the screen in the hall"`
    """
    try:
        image = photo.read_bytes()
    except OSError as error:
        raise InvalidInputError(f"{photo}: cannot be read: {error.strerror}") from error
    told = None
    if likeness or consent:
        told = face_pb2.Consent(
            likeness=likeness,
            agreed_to=consent,
            stated_by=getpass.getuser(),
            stated_via="command line",
        )
    request = face_pb2.CreateAvatarRequest(name=name or photo.stem, image=image, consent=told)
    console = Console()
    with console.status("Looking for the face …"):
        avatar = _call(lambda stub: stub.CreateAvatar(request))
    console.print(f"Avatar [bold]{avatar.name}[/bold] is ready ({avatar.width} x {avatar.height}).")


@avatar_app.command()
def add(
    bundle: Annotated[
        Path,
        typer.Argument(
            metavar="BUNDLE", help="Head bundle: a folder, or a zip of it, with a head.toml."
        ),
    ],
    name: Annotated[
        str, typer.Option(help="Name of the avatar: letters, digits, - and _; default: the file's.")
    ] = "",
) -> None:
    """Add the head of BUNDLE, which is drawn from triangles. A running stack sees it at once."""
    try:
        packed = _zipped(bundle) if bundle.is_dir() else bundle.read_bytes()
    except OSError as error:
        raise InvalidInputError(f"{bundle}: cannot be read: {error.strerror}") from error
    if not packed.startswith(b"PK"):
        raise InvalidInputError(
            f"{bundle}: neither a folder nor a zip; `visavis avatar create` takes a photo"
        )
    request = face_pb2.CreateAvatarRequest(name=name or bundle.stem, image=packed)
    console = Console()
    with console.status("Reading the head …"):
        avatar = _call(lambda stub: stub.CreateAvatar(request))
    console.print(f"Avatar [bold]{avatar.name}[/bold] is ready ({avatar.width} x {avatar.height}).")


def _zipped(folder: Path) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for file in sorted(folder.iterdir()):
            if file.is_file():
                archive.write(file, file.name)
    return packed.getvalue()


@avatar_app.command("list")
def list_avatars() -> None:
    """List the avatars of this machine."""
    answer = _call(lambda stub: stub.ListAvatars(face_pb2.ListAvatarsRequest()))
    table = Table("avatar", "size", "drawn by", "licence", "", "consent", box=None)
    for avatar in answer.avatars:
        origin = "ships with visavis" if avatar.builtin else "yours"
        size = f"{avatar.width} x {avatar.height}"
        consent = _consent(avatar)
        table.add_row(avatar.name, size, avatar.engine, avatar.licence, origin, consent)
    Console().print(table)


@avatar_app.command()
def delete(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name, as `visavis avatar list` shows it.")
    ],
) -> None:
    """Delete an avatar of yours."""
    _call(lambda stub: stub.DeleteAvatar(face_pb2.DeleteAvatarRequest(name=name)))
    Console().print(f"Avatar {name} is deleted.")


def _consent(avatar: face_pb2.Avatar) -> str:
    """What was stated, in a line."""
    if not avatar.HasField("consent"):
        return "" if avatar.builtin else "none was stated"
    told = avatar.consent
    by = f"{told.stated_by}, {told.stated_via}, {told.stated_at[:10]}"
    return f"{told.likeness}: {told.agreed_to} ({by})"


def _call(work: Callable[[face_pb2_grpc.FaceAnimationStub], Awaitable[T]]) -> T:
    """One call to a face service of our own; avatars live on disk, so any will do."""
    pull_missing(profile("default")["face"], Console(stderr=True))

    async def run() -> T:
        async with plain_service("face", [], log_dir()) as channel:
            with service_errors():
                return await work(face_pb2_grpc.FaceAnimationStub(channel))

    return asyncio.run(run())
