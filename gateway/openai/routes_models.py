"""Which models and voices there are."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from gateway.api.state import Gateway, TheGateway
from gateway.openai.errors import OpenAiRoute, responses
from gateway.openai.names import ANY, VOICES, aliases_of, known_model

router = APIRouter(prefix="/v1", tags=["OpenAI"], route_class=OpenAiRoute)

_OWNER = "visavis"
# When a model was made is not known; clients want a number.
_CREATED = 0


@router.get("/models")
async def models(gateway: TheGateway) -> dict[str, Any]:
    """Networks that run here, and the names of OpenAI's that stand for them."""
    return {"object": "list", "data": [_model(name) for name in _all(gateway)]}


@router.get("/models/{name:path}", responses=responses(404))
async def model(name: str, gateway: TheGateway) -> dict[str, Any]:
    """One of them. 404 where there is none."""
    known_model(name, _all(gateway))
    return _model(name)


@router.get("/audio/voices")
async def voices(gateway: TheGateway) -> dict[str, Any]:
    """Voices of this stack, and the names of OpenAI's that stand for them."""
    names = [*(voice.name for voice in await gateway.catalog.voices()), *VOICES]
    listed = [
        {"id": name, "object": "audio.voice", "name": name, "created_at": _CREATED}
        for name in names
    ]
    return {"object": "list", "data": listed, "voices": listed}


def _all(gateway: Gateway) -> list[str]:
    names = [ANY]
    for service in ("llm", "tts", "asr"):
        names += [*gateway.plain.models(service), *aliases_of(service)]
    return list(dict.fromkeys(names))


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": _CREATED, "owned_by": _OWNER}
