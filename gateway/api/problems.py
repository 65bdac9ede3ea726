"""Errors as HTTP answers: one table, one shape."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match, Mount

from gateway import metrics
from gateway.access.limits import OverLimitError
from gateway.api.choices import sendable
from gateway.api.events import MOST_FAULTS, why_of
from gateway.api.schemas import Problem
from gateway.apps.sayings import SayingsFullError
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
    (AtCapacityError, 503, "at_capacity"),
    (StageLostError, 503, "stage_lost"),
    (EngineError, 503, "unavailable"),
    (BusError, 503, "unavailable"),
)

# How pydantic names, in the midst of a place, which of several shapes it has tried.
_CHOICE = re.compile(r"[A-Z]\w*|constrained-str")
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_CODES = {400: "bad_request", 404: "not_found", 405: "method_not_allowed", 413: "too_large"}


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


def responses(*statuses: int) -> dict[int | str, dict[str, object]]:
    """Of a route, for the OpenAPI page."""
    return {status: {"model": Problem} for status in statuses}


def install(app: FastAPI) -> None:
    """Have every error answered as `Problem`."""
    app.add_exception_handler(VisavisError, _ours)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unexpected)


def problem(
    status: int, code: str, message: str, *, retry_after_s: float = RETRY_AFTER_S, **more: Any
) -> JSONResponse:
    """An error as clients get it. more: of the error's body."""
    later = {"Retry-After": str(math.ceil(retry_after_s))} if status in (429, 503) else None
    error = {"code": code, "message": message, **more}
    return JSONResponse({"error": error}, status, headers=later)


def problem_of(error: Exception) -> JSONResponse:
    """Of one of our errors, or of one that has a status of its own."""
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
    status, code = code_of(error)
    return problem(status, code, str(error))


def fault_of(fault: Mapping[str, Any]) -> tuple[str, str]:
    """The field of a request that is wrong, "" for its body as a whole, and why; of FastAPI's."""
    place = [part for part in fault["loc"] if part != "body"]
    if fault["type"] == "json_invalid" and place and isinstance(place[0], int):
        return "", f"not JSON, at character {place[0] + 1}"
    if not place and isinstance(fault.get("input"), bytes):
        return "", "not taken for JSON; send it with Content-Type: application/json"
    named = (str(part)[:80] for part in place if not _CHOICE.fullmatch(str(part)))
    return ".".join(named), why_of(fault)


async def _ours(_request: Request, error: Exception) -> JSONResponse:
    return problem_of(error)


async def _invalid(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    parts = []
    for fault in error.errors():
        where, why = fault_of(fault)
        parts.append(f"{where or 'body'}: {why}")
    return problem(422, "invalid_input", sendable("; ".join(parts[:MOST_FAULTS])))


async def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    answer = problem_of(error)
    answer.headers.update(error.headers or {})
    if error.status_code == 405:
        answer.headers["Allow"] = ", ".join(sorted(_methods(request)))
    return answer


def _methods(request: Request) -> set[str]:
    """What may be asked of the request's path: each of its routes knows its own alone."""
    routes = [route for route in request.app.routes if not isinstance(route, Mount)]
    asked = {method: {**request.scope, "method": method} for method in _METHODS}
    allowed = {m for m in asked if any(r.matches(asked[m])[0] is Match.FULL for r in routes)}
    # Where there is no route, static files answer.
    return allowed or {"GET", "HEAD"}


async def _unexpected(_request: Request, _error: Exception) -> JSONResponse:
    # Starlette logs it with its traceback, which is no business of a client.
    return problem(500, "internal", "internal error; see the gateway's log")
