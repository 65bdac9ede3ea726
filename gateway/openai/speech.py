"""A text to a file of its sound, sent while it is spoken."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Literal

from fastapi import APIRouter, Request, Response
from pydantic import AfterValidator, BaseModel, Field

from gateway import metrics
from gateway.api.state import TheGateway
from gateway.openai.errors import OpenAiRoute, event_of, responses
from gateway.openai.models import aliases_of, known_model, voice_named
from gateway.openai.serving import EVENTS, Flowing, begun, event, within_limits
from gateway.openai.sound_files import FORMATS, open_encoder
from gateway.stages.plain_calls import Sound, Speaking
from visavis.serving.errors import InvalidInputError, VisavisError
from visavis.styles import STYLES

router = APIRouter(prefix="/v1/audio", tags=["OpenAI"], route_class=OpenAiRoute)

LONGEST_TEXT = 20_000
"""Characters; five times as many as OpenAI takes."""
_SLOWEST, _FASTEST = 0.5, 2.0


def _speakable(speed: float) -> float:
    if not _SLOWEST <= speed <= _FASTEST:
        raise ValueError(f"the voices speak at {_SLOWEST:g} to {_FASTEST:g}")
    return speed


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("there is nothing in it to be spoken")
    return text


class NamedVoice(BaseModel):
    """A voice by its id."""

    id: str = Field(max_length=200)


class SpeechRequest(BaseModel):
    """POST /v1/audio/speech."""

    model: str = Field(max_length=200)
    input: Annotated[
        str,
        Field(max_length=LONGEST_TEXT, json_schema_extra={"pattern": r"\S"}),
        AfterValidator(_not_blank),
    ]
    voice: Annotated[str, Field(max_length=200)] | NamedVoice
    instructions: str | None = None
    """The name of a style, such as "happy"; anything else changes nothing."""
    response_format: Literal["mp3", "opus", "aac", "flac", "wav", "pcm"] = "mp3"
    speed: Annotated[
        float,
        Field(json_schema_extra={"minimum": _SLOWEST, "maximum": _FASTEST}),
        AfterValidator(_speakable),
    ] = 1.0
    stream_format: Literal["audio", "sse"] = "audio"


_MEDIA_TYPES = (*(known.media_type for known in FORMATS.values()), EVENTS)


@router.post(
    "/speech",
    response_class=Response,
    responses={
        200: {"content": {media_type: {} for media_type in _MEDIA_TYPES}},
        **responses(404, 413, 429),
    },
)
async def create_speech(body: SpeechRequest, request: Request, gateway: TheGateway) -> Response:
    """The text as it is spoken, in one of six formats; with `stream_format` "sse" as events.

    The first bytes come with the first phrase. Text in a language that the voice does not speak is
    given to one that does.
    """
    known_model(body.model, gateway.plain.models("tts"), aliases_of("tts"))
    wanted = body.voice if isinstance(body.voice, str) else body.voice.id
    voice = voice_named(wanted, await gateway.catalog.voices())
    style = (body.instructions or "").strip().lower()
    how = Speaking("", voice, body.speed, style if style in STYLES else "")
    sounds = within_limits(request, gateway, _audible(gateway.plain.speak(body.input, how)))
    file = _file(await begun(request, sounds), body.response_format)
    if body.stream_format == "sse":
        return Flowing(_events(file), EVENTS)
    return Flowing(file, FORMATS[body.response_format].media_type)


async def _audible(sounds: AsyncGenerator[Sound, None]) -> AsyncGenerator[Sound, None]:
    """Raises InvalidInputError where there is none."""
    heard = False
    async with aclosing(sounds):
        async for sound in sounds:
            if len(sound.pcm):
                heard = True
                yield sound
    if not heard:
        raise InvalidInputError("input: there is nothing in it that this voice can speak")


async def _file(sounds: AsyncGenerator[Sound, None], name: str) -> AsyncGenerator[bytes, None]:
    """Encoded on a thread: a long phrase takes tens of milliseconds."""
    encoder = None
    async with aclosing(sounds):
        async for sound in sounds:
            if encoder is None:
                encoder = open_encoder(name, sound.rate_hz)
            metrics.openai_audio_seconds.labels("spoken").inc(len(sound.pcm) / sound.rate_hz)
            if made := await asyncio.to_thread(encoder.feed, sound.pcm):
                yield made
    if encoder is not None and (rest := await asyncio.to_thread(encoder.finish)):
        yield rest


async def _events(file: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    try:
        async with aclosing(file):
            async for piece in file:
                audio = base64.b64encode(piece).decode()
                yield event({"type": "speech.audio.delta", "audio": audio})
    except VisavisError as error:
        yield event(event_of(error))
        return
    # A voice reads no tokens.
    usage = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
    yield event({"type": "speech.audio.done", "usage": usage})
