"""Voices and avatars."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from starlette.datastructures import UploadFile

from gateway.api.choices import AnyLanguage
from gateway.api.problems import TooLargeError, responses
from gateway.api.schemas import AvatarInfo, AvatarList, VoiceInfo, VoiceList
from gateway.api.state import TheGateway
from visavis.serving.errors import InvalidInputError
from visavis.v1 import face_pb2

router = APIRouter(prefix="/v1", tags=["voices and avatars"])

_FORM: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["name", "photo"],
                    "properties": {
                        "name": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
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
    return VoiceList(
        voices=[
            VoiceInfo(
                name=v.name,
                languages=list(v.languages),
                gender=v.gender,
                sample_rate_hz=v.sample_rate_hz,
                licence=v.licence,
                description=v.description,
                controls=list(v.controls),
                styles=list(v.styles),
            )
            for v in await gateway.catalog.voices(language)
        ]
    )


def _info(avatar: face_pb2.Avatar) -> AvatarInfo:
    return AvatarInfo(
        name=avatar.name,
        width=avatar.width,
        height=avatar.height,
        builtin=avatar.builtin,
        licence=avatar.licence,
    )


@router.get("/avatars", responses=responses(503))
async def avatars(gateway: TheGateway) -> AvatarList:
    """Avatars to choose from; the first one is the default."""
    return AvatarList(avatars=[_info(a) for a in await gateway.catalog.avatars()])


@router.post(
    "/avatars",
    status_code=201,
    responses=responses(400, 409, 413, 422, 503),
    openapi_extra=_FORM,
)
async def create_avatar(request: Request, gateway: TheGateway) -> AvatarInfo:
    """Make an avatar from a portrait.

    422 says why a picture will not do: no face, several faces, too small a face, not an
    image. It can be used as soon as this call returns.
    """
    limit_bytes = round(gateway.settings.upload_limit_mb * 1e6)
    async with request.form(max_files=1, max_fields=4) as form:
        name, photo = form.get("name"), form.get("photo")
        if not isinstance(name, str) or not name:
            raise InvalidInputError("name: the form has no such field")
        if not isinstance(photo, UploadFile):
            raise InvalidInputError("photo: the form has no such file")
        image = await photo.read(limit_bytes + 1)
    if len(image) > limit_bytes:
        raise TooLargeError(f"photo: larger than {limit_bytes / 1e6:g} MB")
    if not image:
        raise InvalidInputError("photo: the file is empty")
    return _info(await gateway.catalog.create_avatar(name, image))


@router.get(
    "/avatars/{name}/portrait.jpg",
    response_class=Response,
    responses={200: {"content": {"image/jpeg": {}}}, **responses(404, 503)},
)
async def portrait(name: str, gateway: TheGateway) -> Response:
    """The avatar's neutral face."""
    image = await gateway.catalog.portrait(name)
    return Response(image, media_type="image/jpeg", headers={"Cache-Control": "max-age=60"})


@router.delete("/avatars/{name}", status_code=204, responses=responses(404, 409, 422, 503))
async def delete_avatar(name: str, gateway: TheGateway) -> Response:
    """Delete an avatar that was made here; sessions that show it keep it."""
    await gateway.catalog.delete_avatar(name)
    return Response(status_code=204)
