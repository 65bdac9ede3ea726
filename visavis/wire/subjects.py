"""Every NATS subject of the product: `vv.<session>.<turn>.<kind>`."""

from __future__ import annotations

import re
from enum import StrEnum

from visavis.serving.errors import InvalidInputError

PREFIX = "vv"
STARTING = f"{PREFIX}.starting"
"""What a service is busy with before it is ready, see `visavis/serving/lifetime/starting.py`."""
GATEWAY = f"{PREFIX}.gateway"
"""What a gateway answers that is asked for by name, see `gateway/peers/peers.py`."""
MICRO_PREFIX = "visavis-"
"""Name of a service in the micro protocol is this and its short name."""
AVATARS, CHARACTERS = f"{MICRO_PREFIX}avatars", f"{MICRO_PREFIX}characters"
LEARNED_ANSWERS = f"{MICRO_PREFIX}learned-answers"
BUNDLES = f"{MICRO_PREFIX}bundles"
"""JetStream's object stores that the product uses."""
SESSIONS = f"{MICRO_PREFIX}sessions"
"""And its key-value store: what it takes to go on with each session, should its gateway die."""
_TURN_DIGITS = 10  # of a uint32
_SESSION = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Kind(StrEnum):
    """What a subject carries; see protos/visavis/v1/media.proto for the message of each."""

    MIC = "mic"
    TRANSCRIPT = "transcript"
    TURN = "turn"
    TOKENS = "tokens"
    VOICE = "voice"
    MEL = "mel"
    VIDEO = "video"
    FACE = "face"
    CLOCK = "clock"


def check_session(session: str) -> str:
    """`session` itself. Raises InvalidInputError if it cannot be part of a subject."""
    if not _SESSION.fullmatch(session):
        raise InvalidInputError(
            f"session: {session[:80]!r} is not 1 to 64 characters of A-Z, a-z, 0-9, _ and -"
        )
    return session


def chunk_subject(session: str, turn: int, kind: Kind) -> str:
    """Subject of one turn's chunks of one kind."""
    return f"{PREFIX}.{session}.{turn}.{kind}"


def capacity_subject(service: str) -> str:
    """Where a service's processes tell what they have to give; "*": each service's.

    See `visavis/serving/admission/reporting.py`.
    """
    return f"{PREFIX}.capacity.{service}"


def micro_name(service: str) -> str:
    """What a service is called in the micro protocol."""
    return f"{MICRO_PREFIX}{service}"


def info_subject(service: str) -> str:
    """Where the processes of one service are asked who they are."""
    return f"$SRV.INFO.{micro_name(service)}"


def gateway_subject(owner: str) -> str:
    """Where one gateway can be asked. owner: its name in the ids of its sessions."""
    return f"{GATEWAY}.{owner}"


def handover_subject(owner: str) -> str:
    """Where one gateway takes what another one hands over to it."""
    return f"{gateway_subject(owner)}.handover"


def session_key(session: str) -> str:
    """Of a session's record in `SESSIONS`; what it begins with is the key of its maker's own."""
    return f"{session.rpartition('-')[2]}.{session}"


def begun_key(session: str) -> str:
    """Likewise of the answer that is under way in it."""
    return f"{session_key(session)}.begun"


def all_turns(session: str, kind: Kind) -> str:
    """Pattern that matches one kind's chunks of every turn of a session."""
    return f"{PREFIX}.{check_session(session)}.*.{kind}"


def turn_of(subject: str) -> int | None:
    """The turn that stands in a chunk's subject, read without decoding the chunk."""
    turn = subject.split(".", 3)[2]
    return int(turn) if turn.isascii() and turn.isdigit() and len(turn) <= _TURN_DIGITS else None
