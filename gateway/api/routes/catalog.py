"""Voices and avatars."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from starlette.datastructures import FormData, UploadFile

from gateway.api.choices import AnyLanguage
from gateway.api.problems import TooLargeError, responses
from gateway.api.schemas import (
    AvatarChange,
    AvatarInfo,
    AvatarList,
    ConsentInfo,
    VoiceInfo,
    VoiceList,
)
from gateway.api.state import TheGateway
from gateway.api.uploads import read_form, while_wanted
from gateway.stages.catalog import Consent, HeadFile
from visavis.serving.errors import InvalidInputError

router = APIRouter(prefix="/v1", tags=["voices and avatars"])

Known = Annotated[str, Header()]
"""If-None-Match."""
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
                        "likeness": {
                            "type": "string",
                            "description": "Who is shown. Required of photographs",
                        },
                        "agreed_to": {
                            "type": "string",
                            "description": "What that person has agreed to; required likewise",
                        },
                        "stated_by": {
                            "type": "string",
                            "description": "Who says so; absent: an operator, by his key",
                        },
                        "stated_via": {"type": "string", "default": "http"},
                    },
                }
            }
        },
    }
}


@router.get("/voices", responses=responses(404, 503))
async def list_voices(
    gateway: TheGateway,
    language: Annotated[AnyLanguage, Query(description="BCP 47; empty: all")] = "",
) -> VoiceList:
    """Voices to choose from."""
    known = await gateway.catalog.voices(language)
    return VoiceList(voices=[VoiceInfo(**asdict(voice)) for voice in known])


@router.get("/avatars", responses=responses(503))
async def list_avatars(gateway: TheGateway) -> AvatarList:
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

    Of a photograph `likeness` and `agreed_to` say that whoever is shown has agreed to it: what was
    stated is kept with the avatar, and goes where it goes.

    422 says why a picture will not do: no face, several faces, too small a face, not an
    image, nothing stated; 503 that no more avatars are kept, or made at once. It can be used as
    soon as this call returns; who leaves before has made none.
    """
    limit_bytes = round(gateway.settings.upload_limit_mb * 1e6)
    with gateway.catalog.uploads.hold():
        upload = await read_upload(request, limit_bytes)
        if len(upload.image) > limit_bytes:
            raise TooLargeError(f"photo: larger than {limit_bytes / 1e6:g} MB")
        if not upload.image:
            raise InvalidInputError("photo: the file is empty")
        making = gateway.catalog.create_avatar(upload.name, upload.image, upload.consent)
        return AvatarInfo(**asdict(await while_wanted(request, making)))


@dataclass(frozen=True, slots=True)
class Upload:
    """What the form brings."""

    name: str
    image: bytes
    consent: Consent | None


async def read_upload(request: Request, limit_bytes: int) -> Upload:
    """The form, of its photo no more than one byte above the limit. Raises InvalidInputError."""
    form = await read_form(request, "photo", "name and photo", max_fields=8)
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
        return Upload(name, await photo.read(limit_bytes + 1), _consent(form))
    finally:
        await form.close()


def _consent(form: FormData) -> Consent | None:
    """None: nothing is stated. What is missing of a statement the face service says."""

    def told(field: str) -> str:
        text = form.get(field)
        return text if isinstance(text, str) else ""

    if not (told("likeness") or told("agreed_to")):
        return None
    return Consent(
        likeness=told("likeness"),
        agreed_to=told("agreed_to"),
        stated_by=told("stated_by") or "an operator",
        stated_via=told("stated_via") or "http",
    )


@router.get(
    "/avatars/{name}/portrait.jpg",
    response_class=Response,
    responses={200: {"content": {"image/jpeg": {}}}, **responses(404, 503)},
)
async def get_portrait(name: str, gateway: TheGateway) -> Response:
    """The avatar's neutral face."""
    image = await gateway.catalog.portrait(name)
    # No browser is to keep a face that may be deleted meanwhile.
    return Response(image, media_type="image/jpeg", headers={"Cache-Control": "no-store"})


@router.get("/avatars/{name}/consent", responses=responses(404, 503))
async def get_consent(name: str, gateway: TheGateway) -> ConsentInfo:
    """What was stated of the person in the photograph as the avatar was made. For operators.

    404 where there is no such avatar, or nothing was stated of it: built-in ones and drawings have
    a licence instead.
    """
    return ConsentInfo(**asdict(await gateway.catalog.consent(name)))


@router.get(
    "/avatars/{name}/head.glb",
    response_class=Response,
    responses={
        200: {"content": {"model/gltf-binary": {}}},
        304: {"description": "It is the one of `If-None-Match`"},
        **responses(404, 503),
    },
)
async def get_head(name: str, gateway: TheGateway, if_none_match: Known = "") -> Response:
    """The avatar as a head that clients draw themselves: glTF with the 52 blendshapes.

    404 where it has none: a photograph is drawn by the server alone.
    """
    return await _of_head(name, HeadFile.MODEL, "model/gltf-binary", gateway, if_none_match)


@router.get(
    "/avatars/{name}/head.json",
    response_class=Response,
    responses={
        200: {"content": {"application/json": {}}},
        304: {"description": "It is the one of `If-None-Match`"},
        **responses(404, 503),
    },
)
async def get_head_scene(name: str, gateway: TheGateway, if_none_match: Known = "") -> Response:
    """How the portrait of such a head shows it: camera, lamps, and what it turns about. Metres."""
    return await _of_head(name, HeadFile.SCENE, "application/json", gateway, if_none_match)


@router.get(
    "/avatars/{name}/background.png",
    response_class=Response,
    responses={
        200: {"content": {"image/png": {}}},
        304: {"description": "It is the one of `If-None-Match`"},
        **responses(404, 503),
    },
)
async def get_head_background(
    name: str, gateway: TheGateway, if_none_match: Known = ""
) -> Response:
    """What stands behind such a head in its portrait; square."""
    return await _of_head(name, HeadFile.BACKGROUND, "image/png", gateway, if_none_match)


async def _of_head(
    name: str, file: HeadFile, media_type: str, gateway: TheGateway, known: str
) -> Response:
    found = await gateway.catalog.head(name, file, known.removeprefix("W/").strip('"')[:64])
    kept = {"Cache-Control": "max-age=60", "ETag": f'"{found.sha256}"'}
    if not found.content:
        return Response(status_code=304, headers=kept)
    return Response(found.content, media_type=media_type, headers=kept)


@router.delete("/avatars/{name}", status_code=204, responses=responses(404, 409, 422, 503))
async def delete_avatar(name: str, gateway: TheGateway) -> Response:
    """Delete an avatar that was made here, everywhere.

    When this returns, none of it is on any replica's disk, in what they share, or in a gateway's
    memory. Sessions that wear it are told by a `warning` (`avatar_deleted`) and a `session` event,
    and wear the default one from the next turn on.
    """
    await gateway.catalog.delete_avatar(name)
    gateway.sessions.avatar_deleted(name)
    await gateway.peers.tell_others({"avatar_deleted": name})
    return Response(status_code=204)


@router.patch("/avatars/{name}", responses=responses(400, 404, 409, 413, 422, 503))
async def rename_avatar(name: str, body: AvatarChange, gateway: TheGateway) -> AvatarInfo:
    """Give an avatar that was made here another name, everywhere.

    Sessions that show it keep it, and are told by a `session` event what it is called now.
    """
    renamed = await gateway.catalog.rename_avatar(name, body.name)
    gateway.sessions.avatar_renamed(name, body.name)
    await gateway.peers.tell_others({"avatar_renamed": name, "to": body.name})
    return AvatarInfo(**asdict(renamed))
