"""Errors as HTTP answers: one table, one shape."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.routing import Match, Mount

from gateway import metrics
from gateway.access.limits import OverLimitError
from gateway.api.choices import sendable
from gateway.api.events import MOST_FAULTS, why_of
from gateway.api.schemas import Problem
from gateway.apps.sayings import SayingsFullError
from gateway.apps.speech import SpeechFullError
from gateway.stages.room import NoRoomError
from gateway.talk.microphone import MicrophoneTakenError
from visavis.serving.errors import (
    AlreadyExistsError,
    AtCapacityError,
    BusError,
    EngineError,
    InvalidInputError,
    OutOfOrderError,
    StageLostError,
    UnknownNameError,
    VisavisError,
)

RETRY_AFTER_S = 5


class TooLargeError(VisavisError):
    """An upload is larger than allowed."""


class ForbiddenError(VisavisError):
    """The caller may not do this."""


_TABLE: tuple[tuple[type[Exception], int, str], ...] = (
    (InvalidInputError, 422, "invalid_input"),
    (ForbiddenError, 403, "forbidden"),
    (UnknownNameError, 404, "not_found"),
    (AlreadyExistsError, 409, "already_exists"),
    (MicrophoneTakenError, 409, "microphone_taken"),
    (OutOfOrderError, 409, "out_of_order"),
    (TooLargeError, 413, "too_large"),
    (OverLimitError, 429, "over_limit"),
    (NoRoomError, 429, "at_capacity"),
    (SayingsFullError, 429, "too_many_waiting"),
    (SpeechFullError, 429, "too_many_waiting"),
    (AtCapacityError, 503, "at_capacity"),
    (StageLostError, 503, "stage_lost"),
    (EngineError, 503, "unavailable"),
    (BusError, 503, "unavailable"),
)

# How pydantic names, in the midst of a place, which of several shapes it has tried.
_CHOICE = re.compile(r"[A-Z]\w*|constrained-str")
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_CODES = {
    400: "bad_request",
    404: "not_found",
    405: "method_not_allowed",
    413: "too_large",
    502: "bad_gateway",
    504: "gateway_timeout",
}
_LATER = {"Retry-After": {"description": "Seconds", "schema": {"type": "integer"}}}
_CHALLENGE = {"WWW-Authenticate": {"description": "Bearer", "schema": {"type": "string"}}}
_HEADERS: dict[int, object] = {401: _CHALLENGE, 429: _LATER, 503: _LATER}
"""For the OpenAPI page, by status."""
_LONGEST_PATH = 200
"""Characters of a path that are told."""
Shape: TypeAlias = Callable[[Exception], JSONResponse]
"""How the clients of some paths read errors."""


def code_of(error: Exception) -> tuple[int, str]:
    """HTTP status and machine-readable code of one of our errors."""
    for kind, status, code in _TABLE:
        if isinstance(error, kind):
            return status, code
    return 500, "internal"


@contextmanager
def refusals_counted() -> Iterator[None]:
    """A session is asked for inside: where it is refused for now, that is counted by its reason."""
    try:
        yield
    except VisavisError as error:
        status, code = code_of(error)
        if status in (429, 503):
            metrics.session_refusals.labels(str(status), code).inc()
        raise


def responses(
    *statuses: int, model: type[BaseModel] = Problem
) -> dict[int | str, dict[str, object]]:
    """Of a route, for the OpenAPI page. model: their body."""
    return {status: {"model": model, "headers": _HEADERS.get(status, {})} for status in statuses}


def install(app: FastAPI, shape_at: Callable[[str], Shape]) -> None:
    """Have every error answered. shape_at: as it is read where that path is asked for."""

    async def answered(request: Request, error: Exception) -> JSONResponse:
        path = request.scope["path"]
        if not isinstance(error, HTTPException):
            return shape_at(path)(error)
        if error.status_code == 404:  # of what our routes do not find they say it themselves
            told = sendable(path[:_LONGEST_PATH])
            error = HTTPException(404, f"path: there is no {request.method} {told} here")
        answer = shape_at(path)(error)
        answer.headers.update(error.headers or {})
        if error.status_code == 405:
            answer.headers["Allow"] = ", ".join(sorted(_methods(request)))
        return answer

    for kind in (VisavisError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, answered)


def problem(
    status: int, code: str, message: str, *, retry_after_s: float = RETRY_AFTER_S, **more: Any
) -> JSONResponse:
    """An error as clients get it. more: of the error's body."""
    later = {"Retry-After": str(math.ceil(retry_after_s))} if status in (429, 503) else None
    error = {"code": code, "message": message, **more}
    return JSONResponse({"error": error}, status, headers=later)


def problem_of(error: Exception) -> JSONResponse:
    """Of one of our errors, of FastAPI's, or of one that has a status of its own."""
    error = readable(error)
    if isinstance(error, NoRoomError):
        wait_s = error.expected_wait_s
        return problem(
            *code_of(error),
            str(error),
            retry_after_s=RETRY_AFTER_S if wait_s is None else max(1.0, wait_s),
            service=error.service,
            expected_wait_s=None if wait_s is None else round(wait_s, 1),
            waiting=error.waiting,
        )
    if isinstance(error, OverLimitError):
        return problem(*code_of(error), str(error), retry_after_s=max(1.0, error.retry_after_s))
    if isinstance(error, HTTPException):
        return problem(error.status_code, _CODES.get(error.status_code, "http"), str(error.detail))
    if isinstance(error, RequestValidationError):
        faults = [fault_of(fault) for fault in error.errors()[:MOST_FAULTS]]
        told = "; ".join(f"{where or 'body'}: {why}" for where, why in faults)
        return problem(422, "invalid_input", sendable(told))
    return problem(*code_of(error), message_of(error))


def message_of(error: Exception) -> str:
    """What a client is told of one that is ours, or of a fault in our code."""
    if isinstance(error, VisavisError):
        return str(error)
    # Starlette logs it with its traceback, which is no business of a client.
    return "internal error; see the gateway's log"


def readable(error: Exception) -> Exception:
    """Of a body that FastAPI could not read and says nothing about: what is wrong with it, and
    where. Any other error is as it is.
    """
    match error.__cause__ if isinstance(error, HTTPException) else None:
        case UnicodeDecodeError() as fault:
            return not_text(fault, "body")
        case RecursionError():
            return InvalidInputError("body: nested too deeply")
        case ValueError():
            return InvalidInputError("body: a number in it has too many digits")
    return error


def text_of(content: bytes, where: str) -> str:
    """A part of a request as text. Raises InvalidInputError."""
    try:
        return content.decode()
    except UnicodeDecodeError as fault:
        raise not_text(fault, where) from None


def not_text(fault: UnicodeDecodeError, where: str) -> InvalidInputError:
    """What is wrong with a part of a request that is not UTF-8."""
    return InvalidInputError(f"{where}: not UTF-8, at byte {fault.start + 1}")


def fault_of(fault: Mapping[str, Any]) -> tuple[str, str]:
    """The field of a request that is wrong, "" for its body as a whole, and why; of FastAPI's."""
    place = [part for part in fault["loc"] if part != "body"]
    if fault["type"] == "json_invalid" and place and isinstance(place[0], int):
        return "", f"not JSON, at character {place[0] + 1}"
    if not place and isinstance(fault.get("input"), bytes):
        return "", "not taken for JSON; send it with Content-Type: application/json"
    named = (str(part)[:80] for part in place if not _CHOICE.fullmatch(str(part)))
    return ".".join(named), why_of(fault)


def _methods(request: Request) -> set[str]:
    """What may be asked of the request's path: each of its routes knows its own alone."""
    routes = [route for route in request.app.routes if not isinstance(route, Mount)]
    asked = {method: {**request.scope, "method": method} for method in _METHODS}
    allowed = {m for m in asked if any(r.matches(asked[m])[0] is Match.FULL for r in routes)}
    # Where there is no route, static files answer.
    return allowed or {"GET", "HEAD"}
