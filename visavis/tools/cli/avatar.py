"""`visavis avatar`: make an avatar from one portrait, add a head, list and delete avatars."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import io
import json
import os
import zipfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar
from urllib.parse import quote

import httpx
import typer
from rich.console import Console
from rich.text import Text

from visavis.bundles.store import profile
from visavis.client import GatewayError
from visavis.serving.errors import InvalidInputError
from visavis.tools.cli.models import pull_missing
from visavis.tools.cli.running_gateway import ApiKey, gateway_at
from visavis.tools.shown import Table, output_console
from visavis.tools.speech import service_errors
from visavis.tools.stack.plain_service import plain_service
from visavis.tools.stack.process import log_dir
from visavis.v1 import face_pb2, face_pb2_grpc

T = TypeVar("T")

Url: TypeAlias = Annotated[
    str,
    typer.Option(help="Gateway whose avatars are meant; empty: this machine's own, on its disk."),
]

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
    url: Url = "",
    api_key: ApiKey = "",
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
    told = {}
    if likeness or consent:
        told = {
            "likeness": likeness,
            "agreed_to": consent,
            "stated_by": _user(),
            "stated_via": "command line",
        }
    _make(name or _name_of(photo), image, told, url, api_key, "Looking for the face …")


def _name_of(path: Path) -> str:
    """Blanks are for people; in addresses a name has none."""
    whole = Path(os.path.abspath(path))  # a folder may be given as "."
    return "-".join((whole.name if path.is_dir() else whole.stem).split())


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's, which has a number alone
        return f"user {os.getuid()}"


def _make(
    name: str, image: bytes, told: dict[str, str], url: str, api_key: str, doing: str
) -> None:
    console = output_console()
    with console.status(doing):
        if url:
            form = {"data": {"name": name, **told}, "files": {"photo": image}}
            made = _ask(url, api_key, "POST", "/v1/avatars", **form).json()
        else:
            consent = face_pb2.Consent(**told) if told else None
            request = face_pb2.CreateAvatarRequest(name=name, image=image, consent=consent)
            avatar = _call(lambda stub: stub.CreateAvatar(request))
            made = {"name": avatar.name, "width": avatar.width, "height": avatar.height}
            made["left_out"] = list(avatar.left_out)
    console.print("Avatar [bold]{name}[/bold] is ready ({width} x {height}).".format(**made))
    for sentence in made.get("left_out", ()):
        console.print(Text(sentence))


@avatar_app.command()
def add(
    bundle: Annotated[
        Path,
        typer.Argument(
            metavar="BUNDLE",
            help="Head bundle: a folder with a head.toml, or a zip of it; or a .glb or .vrm.",
        ),
    ],
    name: Annotated[
        str, typer.Option(help="Name of the avatar: letters, digits, - and _; default: the file's.")
    ] = "",
    licence: Annotated[
        str, typer.Option(help="Of a .glb or .vrm alone: under which the head may be used.")
    ] = "",
    url: Url = "",
    api_key: ApiKey = "",
) -> None:
    """Add the head of BUNDLE, which is drawn from triangles. A running stack sees it at once.

    What of its GLB is not drawn is told; docs/heads-from-elsewhere.md has all that is. A .glb or
    .vrm alone is given a camera before its eyes, a wall and the light of a studio.

    Example: `visavis avatar add eve.glb --licence "CC BY 4.0"`
    """
    try:
        packed = _zipped(bundle) if bundle.is_dir() else bundle.read_bytes()
    except OSError as error:
        raise InvalidInputError(f"{bundle}: cannot be read: {error.strerror}") from error
    if packed.startswith(b"glTF"):
        packed = _bundle_of(packed, _name_of(bundle), licence)
    elif not packed.startswith(b"PK\x03\x04"):  # an empty zip begins otherwise
        raise InvalidInputError(
            f"{bundle}: neither a head bundle's folder nor a zip of it, nor a .glb or .vrm; "
            "`visavis avatar create` takes a photo"
        )
    _make(name or _name_of(bundle), packed, {}, url, api_key, "Reading the head …")


def _bundle_of(glb: bytes, title: str, licence: str) -> bytes:
    """The least that a head bundle is: the rest of it is made where it is added."""
    if not licence:
        raise InvalidInputError(
            f"{title}: --licence: say under which it may be used, as whoever made it has it"
        )
    # What JSON writes of words, TOML reads.
    said = [json.dumps(words, ensure_ascii=False) for words in (title, licence)]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("head.toml", "title = {}\nlicence = {}\n".format(*said))
        archive.writestr("head.glb", glb)
    return packed.getvalue()


def _zipped(folder: Path) -> bytes:
    packed = io.BytesIO()
    # Files of a build that can be repeated are dated 1970, which a zip cannot say.
    with zipfile.ZipFile(packed, "w", strict_timestamps=False) as archive:
        for file in sorted(folder.iterdir()):
            if file.is_file():
                archive.write(file, file.name)
    return packed.getvalue()


@avatar_app.command("list")
def list_avatars(url: Url = "", api_key: ApiKey = "") -> None:
    """List the avatars of this machine, or of a gateway."""
    table = Table("avatar", box=None)
    table.add_column("size", no_wrap=True)
    for name in ("drawn by", "licence", "", "consent"):
        table.add_column(name)
    for avatar in _listed_there(url, api_key) if url else _listed_here():
        origin = "ships with visavis" if avatar["builtin"] else "yours"
        size = f"{avatar['width']} x {avatar['height']}"
        # As it was stated: what stands in brackets is no style of rich's.
        licence, consent = Text(avatar["licence"]), Text(_consent(avatar))
        table.add_row(avatar["name"], size, avatar["engine"], licence, origin, consent)
    output_console().print(table)


def _listed_here() -> list[dict[str, Any]]:
    """As the gateway's API tells of them, and what was agreed to."""
    answer = _call(lambda stub: stub.ListAvatars(face_pb2.ListAvatarsRequest()))
    shown = ("name", "width", "height", "builtin", "engine", "licence")
    stated = ("likeness", "agreed_to", "stated_by", "stated_via", "stated_at")
    return [
        {name: getattr(avatar, name) for name in shown}
        | (
            {"consent": {name: getattr(avatar.consent, name) for name in stated}}
            if avatar.HasField("consent")
            else {}
        )
        for avatar in answer.avatars
    ]


def _listed_there(url: str, api_key: str) -> list[dict[str, Any]]:
    async def run() -> list[dict[str, Any]]:
        async with gateway_at(url, api_key, ["face"]) as client:
            found: list[dict[str, Any]] = (await client.call("GET", "/v1/avatars")).json()[
                "avatars"
            ]
            for avatar in found:
                if avatar["builtin"]:
                    continue
                with contextlib.suppress(GatewayError):  # none was stated, or it is not for us
                    path = f"/v1/avatars/{avatar['name']}/consent"
                    avatar["consent"] = (await client.call("GET", path)).json()
            return found

    return asyncio.run(run())


@avatar_app.command()
def delete(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name, as `visavis avatar list` shows it.")
    ],
    url: Url = "",
    api_key: ApiKey = "",
) -> None:
    """Delete an avatar of yours."""
    if url:
        _ask(url, api_key, "DELETE", f"/v1/avatars/{quote(name, safe='')}")
    else:
        _call(lambda stub: stub.DeleteAvatar(face_pb2.DeleteAvatarRequest(name=name)))
    output_console().print(f"Avatar {name} is deleted.")


def _consent(avatar: dict[str, Any]) -> str:
    """What was stated, in a line."""
    told = avatar.get("consent")
    if told is None:
        return "" if avatar["builtin"] else "none was stated"
    by = f"{told['stated_by']}, {told['stated_via']}, {told['stated_at'][:10]}"
    return f"{told['likeness']}: {told['agreed_to']} ({by})"


def _ask(url: str, api_key: str, method: str, path: str, **arguments: Any) -> httpx.Response:
    """One request to a gateway."""

    async def run() -> httpx.Response:
        async with gateway_at(url, api_key, ["face"]) as client:
            return await client.call(method, path, **arguments)

    return asyncio.run(run())


def _call(work: Callable[[face_pb2_grpc.FaceAnimationStub], Awaitable[T]]) -> T:
    """One call to a face service of our own; avatars live on disk, so any will do."""
    pull_missing(profile("default")["face"], Console(stderr=True))

    async def run() -> T:
        async with plain_service("face", [], log_dir()) as channel:
            with service_errors():
                return await work(face_pb2_grpc.FaceAnimationStub(channel))

    return asyncio.run(run())
