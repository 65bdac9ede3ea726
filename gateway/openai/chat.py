"""A conversation to an answer: whole, or as events while it is written."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from gateway.api.state import TheGateway
from gateway.openai.errors import OpenAiRoute, event_of, responses
from gateway.openai.models import known_model
from gateway.openai.schemas import ChatRequest
from gateway.openai.serving import DONE, EVENTS, Flowing, begun, event, whole, within_limits
from gateway.stages.plain_calls import Written
from gateway.tools.offers import Call
from visavis.serving.errors import VisavisError

router = APIRouter(prefix="/v1/chat", tags=["OpenAI"], route_class=OpenAiRoute)


@router.post(
    "/completions",
    response_class=Response,
    responses={
        200: {"content": {"application/json": {}, EVENTS: {}}},
        **responses(404, 413, 429),
    },
)
async def create_chat_completion(
    body: ChatRequest, request: Request, gateway: TheGateway
) -> Response:
    """The answer to a conversation, as `chat.completion` or, with `stream`, as chunks of one.

    Where no message instructs, the persona of the llm service does. 429 with Retry-After where no
    replica has a slot free.
    """
    running = gateway.plain.models("llm")
    model = known_model(body.model, running)
    pieces = within_limits(request, gateway, gateway.plain.write(body.wanted(), model))
    told = _Told(model or next(iter(running), body.model))
    if body.stream:
        with_usage = bool(body.stream_options and body.stream_options.include_usage)
        flowing = _events(await begun(request, pieces), told, with_usage=with_usage)
        return Flowing(flowing, EVENTS)
    return JSONResponse(told.completion(await whole(request, pieces)))


@dataclass(frozen=True, slots=True)
class _Told:
    """What every part of one answer says of it."""

    model: str
    id: str = field(default_factory=lambda: f"chatcmpl-{secrets.token_hex(12)}")
    created: int = field(default_factory=lambda: int(time.time()))

    def completion(self, pieces: Sequence[Written]) -> dict[str, Any]:
        """All of it."""
        calls = _joined([call for piece in pieces for call in piece.calls])
        text = "".join(piece.text for piece in pieces)
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        if calls:
            message |= {"content": text or None, "tool_calls": calls}
        last = pieces[-1]
        choice = {
            "index": 0,
            "message": message,
            "finish_reason": last.finish_reason,
            "logprobs": None,
        }
        return {**self._head("chat.completion"), "choices": [choice], "usage": _usage(last)}

    def chunk(self, delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
        """A part of it."""
        choice = {
            "index": 0,
            "delta": delta,
            "finish_reason": finish_reason,
            "logprobs": None,
        }
        return {**self._head("chat.completion.chunk"), "choices": [choice]}

    def usage(self, last: Written) -> dict[str, Any]:
        """What it took, as the last part."""
        return {**self._head("chat.completion.chunk"), "choices": [], "usage": _usage(last)}

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}


async def _events(
    pieces: AsyncGenerator[Written, None], told: _Told, *, with_usage: bool
) -> AsyncGenerator[bytes, None]:
    """A failure in the middle is an event, too: the status has been sent."""
    no_usage: dict[str, Any] = {"usage": None} if with_usage else {}
    yield event(told.chunk({"role": "assistant", "content": ""}) | no_usage)
    try:
        async with aclosing(pieces):
            async for piece in pieces:
                if piece.text:
                    yield event(told.chunk({"content": piece.text}) | no_usage)
                if piece.calls:
                    calls = [_call_delta(call) for call in piece.calls]
                    yield event(told.chunk({"tool_calls": calls}) | no_usage)
                if piece.finish_reason:
                    yield event(told.chunk({}, piece.finish_reason) | no_usage)
                    if with_usage:
                        yield event(told.usage(piece))
    except VisavisError as error:
        yield event(event_of(error))
        return
    yield DONE


def _call_delta(call: Call) -> dict[str, Any]:
    if not call.name:
        return {"index": call.index, "function": {"arguments": call.arguments}}
    function = {"name": call.name, "arguments": call.arguments}
    return {"index": call.index, "id": call.id, "type": "function", "function": function}


def _joined(pieces: Sequence[Call]) -> list[dict[str, Any]]:
    """Calls out of their pieces."""
    calls: list[dict[str, Any]] = []
    for piece in pieces:
        if piece.name:
            function = {"name": piece.name, "arguments": ""}
            calls.append({"id": piece.id, "type": "function", "function": function})
        calls[piece.index]["function"]["arguments"] += piece.arguments
    return calls


def _usage(last: Written) -> dict[str, int]:
    read, written = last.prompt_tokens, last.completion_tokens
    return {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
    }
