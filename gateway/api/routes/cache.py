"""What can be said without a language model: list, prerender, clear."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import AsyncIterator, Sequence
from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from gateway.answers.prerender import Prerenderer
from gateway.api.problems import responses
from gateway.api.schemas import (
    CacheCleared,
    CacheInfo,
    ConfiguredInfo,
    LearnedInfo,
    PhrasesInfo,
    WarmRequest,
)
from gateway.api.state import Gateway, TheGateway
from gateway.peers.passing import PASSED_ON
from visavis.serving.errors import InvalidInputError, StageLostError

router = APIRouter(prefix="/v1/cache", tags=["answer cache"])


@router.get("", responses=responses(503))
async def get_answer_cache(gateway: TheGateway) -> CacheInfo:
    """Configured and learned answers, welcome phrases, and what of them is prerendered."""
    cache = gateway.answers
    welcome: dict[str, list[str]] = {}
    for phrase in cache.book.welcome:
        welcome.setdefault(phrase.spoken_language, []).append(phrase.text)
    now_s = cache.now_s()
    return CacheInfo(
        file=str(cache.file) if cache.file else None,
        learns=cache.learns,
        lookups=cache.lookups,
        evictions=cache.learned.evictions,
        expirations=cache.learned.expirations,
        learned=[
            LearnedInfo(
                language=learned.language,
                persona_digest=learned.persona_digest,
                question=learned.question,
                answer=learned.answer,
                age_s=round(now_s - learned.learned_at_s, 1),
                hits=learned.hits,
            )
            for learned in cache.learned.all(now_s)
        ],
        learned_bytes=cache.learned.text_bytes,
        configured=[
            ConfiguredInfo(
                language=entry.spoken_language,
                persona=entry.persona,
                questions=entry.questions,
                answer=entry.answer,
                hits=cache.hits.get(entry.questions[0], 0),
            )
            for entry in cache.book.answers
        ],
        welcome=welcome,
        phrases=await _phrases(gateway),
    )


async def _phrases(gateway: Gateway) -> list[PhrasesInfo]:
    kept = await gateway.prerenderer.phrases.kept()
    return [PhrasesInfo(replica=name, **dataclasses.asdict(told)) for name, told in kept.items()]


@router.post(
    "/warm",
    response_class=StreamingResponse,
    responses={
        200: {
            "content": {"application/x-ndjson": {}},
            "description": "One line as each text is ready on each replica: replica, text, "
            "phrases, made, evicted, error, done, total",
        },
        **responses(404, 422, 503),
    },
)
async def warm_answer_cache(
    request: Request, gateway: TheGateway, body: WarmRequest
) -> StreamingResponse:
    """Have every gateway read its file of answers anew, and the voice of the texts made.

    For another voice, speed or style than the default one, too: what is ready speaks at once.
    """
    await gateway.answers.reload()
    if PASSED_ON in request.headers:
        return StreamingResponse(iter(["{}"]), media_type="application/x-ndjson")
    await gateway.carrier.ask_others(gateway.peers, request, body.model_dump())
    await gateway.catalog.check_voice(body.voice)
    language = body.language.partition("-")[0].lower()
    book = gateway.answers.book
    texts = [(known, text) for known, text in book.texts() if language in ("", known)]
    if not texts:
        raise InvalidInputError(
            "answers: there is nothing to warm"
            + (f" in {body.language!r}" if language else "")
            + "; give the gateway a file with --answers"
        )
    if not gateway.prerenderer.phrases.replicas():
        raise StageLostError("tts: no replica is running")
    lines = _lines(gateway.prerenderer, texts, body)
    return StreamingResponse(lines, media_type="application/x-ndjson")


async def _lines(
    prerenderer: Prerenderer, texts: Sequence[tuple[str, str]], wanted: WarmRequest
) -> AsyncIterator[str]:
    total = len(texts) * len(prerenderer.phrases.replicas())
    done = 0
    async for ready in prerenderer.make(
        texts, voice=wanted.voice, speed=wanted.speed, style=wanted.style
    ):
        done += 1
        line = {**dataclasses.asdict(ready), "done": done, "total": max(done, total)}
        yield json.dumps(line, ensure_ascii=False) + "\n"


@router.delete("", responses=responses(422))
async def clear_answer_cache(
    request: Request, gateway: TheGateway, what: Literal["all", "learned", "phrases"] = "all"
) -> CacheCleared:
    """Forget learned answers, prerendered sound, or both. Configured answers stay."""
    await gateway.carrier.ask_others(gateway.peers, request)
    learned = await gateway.answers.forget_learned() if what != "phrases" else 0
    phrases = await gateway.prerenderer.phrases.clear() if what != "learned" else 0
    return CacheCleared(learned=learned, phrases=phrases)
