"""Models and voices: what they are called here, what OpenAI calls its own, and which there are."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter

from gateway.api.state import Gateway, TheGateway
from gateway.openai.errors import OpenAiRoute, RefusedError, responses
from gateway.stages.catalog import Voice

router = APIRouter(prefix="/v1", tags=["OpenAI"], route_class=OpenAiRoute)

ANY = "visavis"
"""A model's name that is always known: whatever runs here."""
SPEAKING = ("tts-1", "tts-1-hd", "gpt-4o-mini-tts")
HEARING = (
    "whisper-1",
    "gpt-transcribe",
    "gpt-live-transcribe",
    "gpt-4o-transcribe",
    "gpt-4o-mini-transcribe",
    "gpt-4o-transcribe-diarize",
)
_DATED = re.compile(r"-\d{4}-\d\d-\d\d\Z")
"""How OpenAI's names end that mean a model as it was on a day."""
_HIGH = ("alloy", "coral", "fable", "marin", "nova", "sage", "shimmer")
_LOW = ("ash", "ballad", "cedar", "echo", "onyx", "verse")
VOICES = (*_HIGH, *_LOW)
"""OpenAI's names of voices; which of ours speaks for each says `voice_named`."""
_OWNER = "visavis"
# When a model was made is not known; clients want a number.
_CREATED = 0


def known_model(name: str, running: Sequence[str], aliases: Sequence[str] = ()) -> str:
    """The one of those `running` that is meant; "": any. Raises RefusedError.

    aliases: taken as of a certain day, too.
    """
    if name == ANY or name in aliases or _DATED.sub("", name) in aliases:
        return ""
    if name not in running:
        known = ", ".join(dict.fromkeys((ANY, *running, *aliases)))
        message = f"model: there is no {name[:80]!r}; known are {known}"
        raise RefusedError(message, "model", "model_not_found", 404)
    return name


def voice_named(wanted: str, voices: Sequence[Voice]) -> str:
    """Ours by its name, or one in the place of OpenAI's. Raises RefusedError.

    Those of OpenAI are shared out over our voices of the first one's language, by gender as far as
    there are such.
    """
    names = [voice.name for voice in voices]
    if wanted in names:
        return wanted
    name = wanted.lower()
    if name not in VOICES or not voices:
        known = ", ".join((*names, *VOICES))
        raise RefusedError(
            f"voice: there is no {wanted[:80]!r}; known are {known}", "voice", "invalid_value"
        )
    language = voices[0].languages[0]
    speakers = [voice for voice in voices if language in voice.languages]
    group, gender = (_HIGH, "female") if name in _HIGH else (_LOW, "male")
    fitting = [voice for voice in speakers if voice.gender == gender] or speakers
    return fitting[group.index(name) % len(fitting)].name


def aliases_of(service: str) -> tuple[str, ...]:
    """What OpenAI's own models for this are called."""
    return _ALIASES.get(service, ())


_ALIASES: Mapping[str, tuple[str, ...]] = {"tts": SPEAKING, "asr": HEARING}


@router.get("/models")
async def list_models(gateway: TheGateway) -> dict[str, Any]:
    """Networks that run here, and the names of OpenAI's that stand for them."""
    return {"object": "list", "data": [_model(name) for name in _all(gateway)]}


@router.get("/models/{name:path}", responses=responses(404))
async def get_model(name: str, gateway: TheGateway) -> dict[str, Any]:
    """One of them. 404 where there is none."""
    known_model(name, _all(gateway))
    return _model(name)


@router.get("/audio/voices")
async def list_openai_voices(gateway: TheGateway) -> dict[str, Any]:
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
