"""Voices and avatars."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine
from dataclasses import asdict
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Header, Query, Request, Response
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser

from gateway.api.choices import AnyLanguage
from gateway.api.problems import TooLargeError, responses
from gateway.api.schemas import AvatarInfo, AvatarList, VoiceInfo, VoiceList
from gateway.api.state import TheGateway
from visavis.serving.errors import InvalidInputError

router = APIRouter(prefix="/v1", tags=["voices and avatars"])

T = TypeVar("T")

UPLOAD_TIMEOUT_S = 120.0
_CLIENT_LEFT = 499
"""Nobody reads it; nginx logs it so, too."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_FORM: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["name", "photo"],
                    "properties": {
                        "name": {"type": "string", "pattern": f"^{_NAME.pattern}$"},
                        "photo": {
                            "type": "string",
                            "format": "binary",
                            "description": "JPEG, PNG or WebP with one face",
                        },
                    },
                }
            }
        },
    }
}


@router.get("/voices", responses=responses(404, 503))
async def voices(
    gateway: TheGateway,
    language: Annotated[AnyLanguage, Query(description="BCP 47; empty: all")] = "",
) -> VoiceList:
    """Voices to choose from."""
    known = await gateway.catalog.voices(language)
    return VoiceList(voices=[VoiceInfo(**asdict(voice)) for voice in known])


@router.get("/avatars", responses=responses(503))
async def avatars(gateway: TheGateway) -> AvatarList:
    """Avatars to choose from; the first one is the default."""
    known = await gateway.catalog.avatars()
    return AvatarList(avatars=[AvatarInfo(**asdict(avatar)) for avatar in known])


@router.post(
    "/avatars",
    status_code=201,
    responses=responses(400, 409, 413, 422, 503),
    openapi_extra=_FORM,
)
async def create_avatar(request: Request, gateway: TheGateway) -> AvatarInfo:
    """Make an avatar from a portrait.

    422 says why a picture will not do: no face, several faces, too small a face, not an
    image; 503 that no more avatars are kept, or made at once. It can be used as soon as this
    call returns; who leaves before has made none.
    """
    limit_bytes = round(gateway.settings.upload_limit_mb * 1e6)
    with gateway.catalog.uploads.hold():
        name, image = await _upload(request, limit_bytes)
        if len(image) > limit_bytes:
            raise TooLargeError(f"photo: larger than {limit_bytes / 1e6:g} MB")
        if not image:
            raise InvalidInputError("photo: the file is empty")
        avatar = await _while_wanted(request, gateway.catalog.create_avatar(name, image))
        return AvatarInfo(**asdict(avatar))


class _InMemory(MultiPartParser):
    """Writes no file: the limits bound what comes, and a full disk is no reason to refuse it."""

    spool_max_size = 32_000_000


async def _upload(request: Request, limit_bytes: int) -> tuple[str, bytes]:
    """Name and photo of the form, of the latter no more than one byte above the limit."""
    if not request.headers.get("Content-Type", "").startswith("multipart/form-data"):
        raise InvalidInputError("body: a form is wanted (multipart/form-data), of name and photo")
    parser = _InMemory(request.headers, request.stream(), max_files=1, max_fields=4)
    try:
        async with asyncio.timeout(UPLOAD_TIMEOUT_S):
            form = await parser.parse()
    except MultiPartException as error:
        raise HTTPException(400, error.message) from None
    except TimeoutError:
        raise InvalidInputError(
            f"photo: it has not arrived within {UPLOAD_TIMEOUT_S:.0f} s"
        ) from None
    try:
        name, photo = form.get("name"), form.get("photo")
        if not isinstance(name, str) or not name:
            raise InvalidInputError("name: the form has no such field")
        if not _NAME.fullmatch(name):
            raise InvalidInputError(
                f"name: {name[:64]!r} is not 1 to 64 characters of A-Z, a-z, 0-9, _ and -"
            )
        if not isinstance(photo, UploadFile):
            raise InvalidInputError("photo: the form has no such file")
        return name, await photo.read(limit_bytes + 1)
    finally:
        await form.close()


async def _while_wanted(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is cancelled as soon as the client has left."""
    working = asyncio.create_task(work)
    leaving = asyncio.create_task(_left(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise HTTPException(_CLIENT_LEFT, "the client has left")
        return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


@router.get(
    "/avatars/{name}/portrait.jpg",
    response_class=Response,
    responses={200: {"content": {"image/jpeg": {}}}, **responses(404, 503)},
)
async def portrait(name: str, gateway: TheGateway) -> Response:
    """The avatar's neutral face."""
    image = await gateway.catalog.portrait(name)
    return Response(image, media_type="image/jpeg", headers={"Cache-Control": "max-age=60"})


@router.get(
    "/avatars/{name}/head.glb",
    response_class=Response,
    responses={
        200: {"content": {"model/gltf-binary": {}}},
        304: {"description": "It is the one of `If-None-Match`"},
        **responses(404, 503),
    },
)
async def head(
    name: str, gateway: TheGateway, if_none_match: Annotated[str, Header()] = ""
) -> Response:
    """The avatar as a head that clients draw themselves: glTF with the 52 blendshapes.

    404 where it has none: a photograph is drawn by the server alone.
    """
    found = await gateway.catalog.head(name, if_none_match.removeprefix("W/").strip('"')[:64])
    kept = {"Cache-Control": "max-age=60", "ETag": f'"{found.sha256}"'}
    if not found.glb:
        return Response(status_code=304, headers=kept)
    return Response(found.glb, media_type="model/gltf-binary", headers=kept)


@router.delete("/avatars/{name}", status_code=204, responses=responses(404, 409, 422, 503))
async def delete_avatar(name: str, gateway: TheGateway) -> Response:
    """Delete an avatar that was made here; sessions that show it keep it."""
    await gateway.catalog.delete_avatar(name)
    return Response(status_code=204)
