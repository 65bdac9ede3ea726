"""Refusals as OpenAI's clients read them: {"error": {"message", "type", "param", "code"}}."""

from __future__ import annotations

import asyncio
import math
import re
import secrets
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from gateway import metrics
from gateway.access.limits import OverLimitError
from gateway.api import problems
from gateway.api.choices import sendable
from gateway.api.problems import (
    RETRY_AFTER_S,
    Shape,
    TooLargeError,
    code_of,
    fault_of,
    message_of,
    problem_of,
    readable,
)
from visavis.serving.errors import AtCapacityError, InvalidInputError, VisavisError

# All that its clients ask for, also what there is none of here.
_PATHS = re.compile(
    r"/v1/(models|chat|audio|realtime|assistants|batches|completions|conversations|embeddings|files"
    r"|fine_tuning|images|moderations|responses|threads|uploads|vector_stores|videos)(/.*)?",
    re.DOTALL,
)
_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
# An answer without a session takes about so long.
_SLOT_FREE_S = 2
# What a client may show of a request's id in its logs.
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_FIELD = re.compile(r"(?!body:|path:)([a-z_]+(\[\d+\])?(\.[a-z_]+)*): ")
_CODES = {404: "unknown_url", 413: "too_large"}
"""Of what has no code but its status."""


class OpenAiErrorBody(BaseModel):
    """What is wrong, as OpenAI's clients read it."""

    message: str = Field(description="For people: what is wrong, and what to do")
    type: str = Field(description="Such as invalid_request_error")
    param: str | None = Field(description="The field at fault")
    code: str | None = Field(description="For programs")


class OpenAiProblem(BaseModel):
    """Body of every answer from 400 on, where OpenAI's clients ask."""

    error: OpenAiErrorBody


def responses(*statuses: int) -> dict[int | str, dict[str, object]]:
    """Of a route, for the OpenAPI page."""
    return problems.responses(*statuses, model=OpenAiProblem)


class RefusedError(VisavisError):
    """A request that is refused. param: the field at fault; code: for programs; status: of HTTP."""

    def __init__(self, message: str, param: str = "", code: str = "", status: int = 400) -> None:
        super().__init__(message)
        self.param = param
        self.code = code
        self.status = status


def unsupported(param: str, why: str) -> RefusedError:
    """A field is known, and cannot be honoured here."""
    return RefusedError(f"{param}: {why}", param, "unsupported_parameter")


def is_openai(path: str) -> bool:
    """Whether a path is one of those that OpenAI's clients ask for."""
    return _PATHS.fullmatch(path) is not None


def shape_at(path: str) -> Shape:
    """How errors are read where this path is asked for: here as OpenAI's, elsewhere as ours."""
    return answer_of if is_openai(path) else problem_of


def body_of(status: int, message: str, param: str = "", code: str = "") -> dict[str, Any]:
    """Of an answer with this status."""
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {
        "error": {"message": message, "type": kind, "param": param or None, "code": code or None}
    }


def answer_of(error: Exception) -> JSONResponse:
    """For one of our errors, of FastAPI's or of one with a status of its own."""
    error = readable(error)
    status, param, code = _told(error)
    headers: dict[str, str] = {}
    if status in (429, 503):
        again_s = _SLOT_FREE_S if status == 429 else RETRY_AFTER_S
        wait_s = getattr(error, "retry_after_s", None) or again_s
        headers["Retry-After"] = str(max(1, math.ceil(wait_s)))
    return JSONResponse(body_of(status, _message_of(error), param, code), status, headers=headers)


def event_of(error: Exception) -> Mapping[str, Any]:
    """For an answer that has begun: clients raise it as they read it."""
    status, param, code = _told(error)
    return body_of(status, _message_of(error), param, code)


def _told(error: Exception) -> tuple[int, str, str]:
    """HTTP status, field at fault, code."""
    if isinstance(error, RefusedError):
        return error.status, error.param, error.code
    if isinstance(error, RequestValidationError):
        return 400, _field_of(error), "invalid_value"
    if isinstance(error, HTTPException):
        return error.status_code, "", _CODES.get(error.status_code, "")
    field = found[1] if (found := _FIELD.match(str(error))) else ""
    if isinstance(error, InvalidInputError):
        return 400, field, "invalid_value"
    if isinstance(error, AtCapacityError):
        return 429, "", "at_capacity"
    if isinstance(error, OverLimitError):
        return 429, "", "rate_limit_exceeded"
    if isinstance(error, TooLargeError):
        return 413, field, "too_large"
    status, code = code_of(error)
    return status, field if status < 500 else "", code


def _message_of(error: Exception) -> str:
    if isinstance(error, HTTPException):
        return str(error.detail)
    if isinstance(error, RequestValidationError):
        field, why = fault_of(_fault(error))
        return sendable(f"{field or 'body'}: {why}")
    return message_of(error)


def _fault(error: RequestValidationError) -> Mapping[str, Any]:
    """Of a choice between a text and a list of parts, what is wrong in the part says more."""
    faults: list[Mapping[str, Any]] = list(error.errors())
    return max(faults, key=lambda fault: len(fault["loc"]))


def _field_of(error: RequestValidationError) -> str:
    return sendable(fault_of(_fault(error))[0])


class OpenAiRoute(APIRoute):
    """A route whose refusals are in OpenAI's shape, and whose answers have a request's id."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            status = "500"
            try:
                answer = await handle(request)
                status = str(answer.status_code)
            except (VisavisError, RequestValidationError, HTTPException) as error:
                answer = answer_of(error)
                status = str(answer.status_code)
            except (ClientDisconnect, asyncio.CancelledError):
                status = "499"
                raise
            finally:
                metrics.openai_requests.labels(self.path_format, status).inc()
            given = request.headers.get("x-request-id", "")
            own = given if _REQUEST_ID.fullmatch(given) else f"req_{secrets.token_hex(12)}"
            answer.headers["x-request-id"] = own
            return answer

        return handled
