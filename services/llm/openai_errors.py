"""The errors of OpenAI-compatible servers, in every shape that they come in, to ours.

With a status: {"error": {"message": ...}} (OpenAI, newer vLLM, llama.cpp),
{"object": "error", "message": ...} (SGLang, trtllm-serve, older vLLM), or
{"detail": [...]} where FastAPI refuses a field. In the middle of a stream that
began with 200: the first two, as an event, with the status as their `code`.
"""

from __future__ import annotations

import json
from typing import Any

from visavis.errors import AtCapacityError, EngineError, InvalidInputError, VisavisError

_MAX_CHARS = 300


def status_error(url: str, model: str, status: int, message: str) -> VisavisError:
    """Our error for an answer of the server with a status that is no success."""
    reason = f"{url} answered {status}: {message}"
    if status in (401, 403):
        return EngineError(f"{reason}; check `api_key`")
    if status == 404:
        return EngineError(f"{reason}; check `url` and `model` ({model!r})")
    return _by_status(status, reason)


def raise_event_error(content: Any) -> None:
    """Raises our error if an event of the stream is an error; else does nothing."""
    error = content.get("error")
    if not error and content.get("object") == "error":
        error = content
    if not error:
        return
    code = error.get("code") if isinstance(error, dict) else None
    reason = f"the language model server failed: {message_in(json.dumps(content))}"
    raise _by_status(code if isinstance(code, int) else 500, reason)


def message_in(text: str) -> str:
    """The message in an error body, whatever its shape, on one short line."""
    try:
        content = json.loads(text)
        error = content.get("error", content)
        message = _message_of(error) if isinstance(error, dict) else error
    except (ValueError, AttributeError):
        message = text
    return " ".join(str(message).split())[:_MAX_CHARS] or "(no message)"


def _message_of(error: dict[str, Any]) -> Any:
    if "message" in error:
        return error["message"]
    detail = error.get("detail", error)
    if not isinstance(detail, list):
        return detail
    return "; ".join(
        f"{'.'.join(map(str, part.get('loc', ())))}: {part.get('msg')}"
        if isinstance(part, dict)
        else str(part)
        for part in detail
    )


def _by_status(status: int, reason: str) -> VisavisError:
    # SGLang answers 503 where its queue is full; with others 503 is "still loading".
    if status == 429 or (status == 503 and "queue is full" in reason):
        return AtCapacityError(reason)
    if status in (400, 413, 422):
        return InvalidInputError(reason)
    return EngineError(reason)
