"""Typed errors, and the one table that maps them to gRPC status codes."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from typing import NoReturn

import grpc

log = logging.getLogger(__name__)


class VisavisError(Exception):
    """Base of every error that visavis raises on purpose. The message is for a person."""


class InvalidInputError(VisavisError):
    """A request's field is wrong; the message names it and what is allowed."""


class UnknownNameError(VisavisError):
    """No such session, voice, avatar, language or bundle; the message lists what exists."""


class AlreadyExistsError(VisavisError):
    """The name or the lease is taken."""


class UnauthenticatedError(VisavisError):
    """Who calls, or who answers, does not prove that it belongs to the stack."""


class OutOfOrderError(VisavisError):
    """Messages came in the wrong order, for example sound before the config."""


class AtCapacityError(VisavisError):
    """Every slot is taken: try another replica, or later.

    expected_wait_s: until there is room, as far as that is known.
    """

    def __init__(self, message: str, *, expected_wait_s: float | None = None) -> None:
        super().__init__(message)
        self.expected_wait_s = expected_wait_s


class DrainingError(AtCapacityError):
    """The replica is about to end and takes nothing new: try another one."""


class SupersededError(VisavisError):
    """A newer request took this one's place before it was begun: nobody needs its answer."""


class EngineError(VisavisError):
    """The engine failed while working."""


class EngineLoadError(EngineError):
    """The engine could not be made ready."""


class UnfitShapeError(EngineError):
    """A plan was not compiled for these shapes. Nothing has run and nothing is broken."""


class PlanError(EngineLoadError):
    """A network could not be compiled, or its plan kept; the message carries the compiler's own."""


class PlanCancelledError(PlanError):
    """The build was cancelled; nothing of it is left."""


class PlanRefusedError(PlanError):
    """The plan's precision was measured and is not good enough; the message has the figure."""


class BusError(VisavisError):
    """The bus cannot be reached or refused a message."""


class StageLostError(VisavisError):
    """A service that took part in the turn went away."""


class OutdatedError(VisavisError):
    """A process is of an earlier version, and does not know what it is to be asked for."""


class SettingsError(VisavisError):
    """A setting is unknown or its value is not allowed; the message names it."""


class ModelStoreError(VisavisError):
    """A bundle is missing, damaged or cannot be fetched; the message says what to do."""


SETTINGS_EXIT_STATUS = 78
"""Exit status after a SettingsError (EX_CONFIG of sysexits.h): a new start would not help."""

_STATUS: tuple[tuple[type[BaseException], grpc.StatusCode], ...] = (
    (InvalidInputError, grpc.StatusCode.INVALID_ARGUMENT),
    (UnknownNameError, grpc.StatusCode.NOT_FOUND),
    (AlreadyExistsError, grpc.StatusCode.ALREADY_EXISTS),
    (OutOfOrderError, grpc.StatusCode.FAILED_PRECONDITION),
    (UnauthenticatedError, grpc.StatusCode.UNAUTHENTICATED),
    (AtCapacityError, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (SupersededError, grpc.StatusCode.CANCELLED),
    (EngineError, grpc.StatusCode.UNAVAILABLE),
    (BusError, grpc.StatusCode.UNAVAILABLE),
    (StageLostError, grpc.StatusCode.UNAVAILABLE),
    (ModelStoreError, grpc.StatusCode.UNAVAILABLE),
    (TimeoutError, grpc.StatusCode.DEADLINE_EXCEEDED),
    (asyncio.CancelledError, grpc.StatusCode.CANCELLED),
)


def exit_with(prog: str, error: VisavisError) -> NoReturn:
    """End the process with one line on stderr and a status that tells wrong settings apart."""
    sys.stderr.write(f"{prog}: {error}\n")
    sys.exit(SETTINGS_EXIT_STATUS if isinstance(error, SettingsError) else 1)


# gRPC takes messages for headers, of which it forwards 8 KB, each byte that is no ASCII in three.
# Where there is more the client sees RESOURCE_EXHAUSTED in place of the error.
_LONGEST_MESSAGE_BYTES = 2000


def status_of(error: BaseException) -> tuple[grpc.StatusCode, str]:
    """Status code and message that a client sees for `error`.

    Errors that are not ours become INTERNAL with a neutral message: their text
    may hold what a client should not see, and belongs into the log.
    """
    for kind, code in _STATUS:
        if isinstance(error, kind):
            return code, _cut(str(error)) or type(error).__name__
    return grpc.StatusCode.INTERNAL, "internal error; see the service's log"


def _cut(message: str) -> str:
    told = message.encode(errors="replace")
    if len(told) <= _LONGEST_MESSAGE_BYTES:
        return message
    return told[:_LONGEST_MESSAGE_BYTES].decode(errors="ignore") + "…"


_ADDRESS = re.compile(r"\b(ipv4|ipv6|unix|dns):")


def without_addresses(details: str, service: str) -> str:
    """What a call to `service` ended with, for whoever is not to know where services listen.

    gRPC's own words name the address that it could not reach, which is for our log alone; those of
    services name none.
    """
    if not _ADDRESS.search(details):
        return details
    log.warning("%s: %s", service, details)
    return "its replica cannot be reached"
