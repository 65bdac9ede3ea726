"""A recording to its text: whole in five forms, or as events while it is understood."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import numpy as np
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from numpy.typing import NDArray
from starlette.datastructures import FormData, UploadFile

from gateway import metrics
from gateway.api.problems import TooLargeError
from gateway.api.state import Gateway, TheGateway
from gateway.api.uploads import read_form
from gateway.openai.errors import OpenAiRoute, RefusedError, event_of, responses, unsupported
from gateway.openai.models import aliases_of, known_model
from gateway.openai.passages import as_srt, as_verbose_json, as_vtt, usage_of
from gateway.openai.serving import EVENTS, Flowing, begun, event, whole, within_limits
from gateway.openai.sound_files import samples_of
from gateway.stages.plain_calls import RECOGNISED_RATE_HZ, Recognised
from visavis.serving.errors import VisavisError

router = APIRouter(prefix="/v1/audio", tags=["OpenAI"], route_class=OpenAiRoute)

_FORMATS = ("json", "text", "srt", "vtt", "verbose_json")
_GRANULARITIES = ("segment", "word")
_MOST_FIELDS = 64
_LANGUAGE = re.compile(r"([A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*)?")
_FORM: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file", "model"],
                    "properties": {
                        "file": {"type": "string", "format": "binary"},
                        "model": {"type": "string", "minLength": 1},
                        "language": {
                            "type": "string",
                            "pattern": f"^{_LANGUAGE.pattern}$",
                            "description": "ISO 639-1 or BCP 47",
                        },
                        "languages[]": {
                            "type": "array",
                            "items": {"type": "string", "pattern": f"^{_LANGUAGE.pattern}$"},
                            "description": "Instead of language: the first one counts",
                        },
                        "response_format": {"type": "string", "enum": list(_FORMATS)},
                        "timestamp_granularities[]": {
                            "type": "array",
                            "items": {"type": "string", "enum": list(_GRANULARITIES)},
                        },
                        "stream": {"type": "boolean"},
                    },
                }
            }
        },
    }
}


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the form asks for."""

    file: bytes
    model: str
    language: str
    form: str
    granularities: tuple[str, ...]
    stream: bool


@router.post(
    "/transcriptions",
    response_class=Response,
    openapi_extra=_FORM,
    responses={
        200: {"content": {"application/json": {}, "text/plain": {}, "text/vtt": {}, EVENTS: {}}},
        **responses(404, 413, 429),
    },
)
async def create_transcription(request: Request, gateway: TheGateway) -> Response:
    """What is said in a recording: flac, mp3, mp4, mpeg, m4a, ogg, wav or webm.

    A recording of ten minutes at most; with `stream` of an hour, and the text comes utterance by
    utterance. `prompt`, `keywords`, `temperature` and `chunking_strategy` change
    nothing.
    """
    with gateway.plain.recordings.hold():
        asked = await _read(request, round(gateway.settings.transcription_limit_mb * 1e6))
        known_model(asked.model, gateway.plain.models("asr"), aliases_of("asr"))
        pcm = await asyncio.to_thread(samples_of, asked.file)
        duration_s = len(pcm) / RECOGNISED_RATE_HZ
        metrics.openai_audio_seconds.labels("heard").inc(duration_s)
        if asked.stream:
            heard = within_limits(request, gateway, _utterances(gateway, pcm, asked.language))
            return Flowing(_events(await begun(request, heard), duration_s), EVENTS)
        heard = within_limits(request, gateway, _text(gateway, pcm, asked.language))
        (told,) = await whole(request, heard)
    return _answer(told, asked, duration_s)


async def _text(
    gateway: Gateway, pcm: NDArray[np.int16], language: str
) -> AsyncGenerator[Recognised, None]:
    """The one answer to a recording; an empty one asks nobody."""
    if not len(pcm):
        yield Recognised("", language, ())
    else:
        yield await gateway.plain.recognise(pcm, language)


async def _utterances(
    gateway: Gateway, pcm: NDArray[np.int16], language: str
) -> AsyncGenerator[Recognised, None]:
    """Each counts among the recordings that are held in memory until the last one is out."""
    with gateway.plain.streamed_recordings.hold():
        async with aclosing(gateway.plain.recognise_on(pcm, language)) as utterances:
            async for heard in utterances:
                yield heard


def _answer(heard: Recognised, asked: _Asked, duration_s: float) -> Response:
    match asked.form:
        case "text":
            return PlainTextResponse(heard.text + "\n")
        case "srt":
            return PlainTextResponse(as_srt(heard.passages))
        case "vtt":
            return PlainTextResponse(as_vtt(heard.passages), media_type="text/vtt")
        case "verbose_json":
            told = as_verbose_json(
                heard,
                duration_s,
                with_segments="segment" in asked.granularities,
                with_words="word" in asked.granularities,
            )
            return JSONResponse(told)
        case _:
            return JSONResponse({"text": heard.text, "usage": usage_of(duration_s)})


async def _events(
    utterances: AsyncGenerator[Recognised, None], duration_s: float
) -> AsyncGenerator[bytes, None]:
    """Only what is final is told, so that the deltas together are the text."""
    text = ""
    try:
        async with aclosing(utterances):
            async for heard in utterances:
                delta = heard.behind(text)
                text += delta
                yield event({"type": "transcript.text.delta", "delta": delta})
    except VisavisError as error:
        yield event(event_of(error))
        return
    usage = usage_of(duration_s)
    yield event({"type": "transcript.text.done", "text": text, "usage": usage})


async def _read(request: Request, limit_bytes: int) -> _Asked:
    form = await read_form(request, "file", "file and model", max_fields=_MOST_FIELDS)
    try:
        file = form.get("file")
        if not isinstance(file, UploadFile):
            raise RefusedError("file: the form has no such file", "file", "invalid_value")
        content = await file.read(limit_bytes + 1)
        if len(content) > limit_bytes:
            raise TooLargeError(f"file: larger than {limit_bytes / 1e6:g} MB")
        model = _one(form, "model")
        if not model:
            raise RefusedError("model: the form has no such field", "model", "invalid_value")
        language = next(filter(None, (_one(form, "language"), *_all(form, "languages"))), "")
        if not _LANGUAGE.fullmatch(language):
            raise RefusedError("language: no code such as en", "language", "invalid_value")
        wanted = _one(form, "response_format") or "json"
        if wanted not in _FORMATS:
            known = ", ".join(_FORMATS)
            raise unsupported("response_format", f"{wanted[:40]!r} is none of {known}")
        if _all(form, "include"):
            raise unsupported("include", "probabilities are not told")
        granularities = _granularities(form, wanted)
        stream = _one(form, "stream").lower() in ("true", "1")
        return _Asked(content, model, language, wanted, granularities, stream)
    finally:
        await form.close()


def _granularities(form: FormData, wanted: str) -> tuple[str, ...]:
    asked = _all(form, "timestamp_granularities")
    if asked and wanted != "verbose_json":
        raise RefusedError(
            "timestamp_granularities: only with response_format verbose_json",
            "timestamp_granularities",
            "invalid_value",
        )
    if unknown := [name for name in asked if name not in _GRANULARITIES]:
        raise RefusedError(
            f"timestamp_granularities: {unknown[0][:40]!r} is neither segment nor word",
            "timestamp_granularities",
            "invalid_value",
        )
    return tuple(asked) or ("segment",)


def _one(form: FormData, name: str) -> str:
    value = form.get(name)
    return value if isinstance(value, str) else ""


def _all(form: FormData, name: str) -> list[str]:
    """Of a list; clients write brackets behind its name, or none."""
    return [v for key in (f"{name}[]", name) for v in form.getlist(key) if isinstance(v, str)]
