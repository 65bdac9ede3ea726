"""Who may say what on the bus: the one place that knows, for every nats-server of the product.

Each stage has a user of its own. It publishes and hears what its work needs and nothing else, has a
prefix for its inboxes that no other user may listen to, and may answer whoever has asked it, once.
No stage may make streams or consumers: JetStream writes to subjects that their maker may not.
Pure. `docs/security-inside.md` tells the rest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from visavis.wire.subjects import (
    AVATARS,
    BUNDLES,
    CHARACTERS,
    GATEWAY,
    LEARNED_ANSWERS,
    PREFIX,
    SESSIONS,
    STARTING,
    Kind,
    capacity_subject,
    info_subject,
    micro_name,
)


class User(StrEnum):
    """Who connects to the bus; all processes of a stage are one user."""

    ASR = "asr"
    LLM = "llm"
    TTS = "tts"
    FACE = "face"
    GATEWAY = "gateway"
    OPERATOR = "operator"
    """Whoever runs the stack: hears all, makes buckets, shares bundles of weights, and takes no
    part in conversations."""


PROCESSES = tuple(user for user in User if user is not User.OPERATOR)

CARRIED: Mapping[Kind, tuple[frozenset[User], frozenset[User]]] = {
    kind: (frozenset(senders), frozenset(readers))
    for kind, senders, readers in (
        (Kind.MIC, [User.GATEWAY], [User.ASR]),
        (Kind.TRANSCRIPT, [User.ASR], [User.GATEWAY]),
        (Kind.TURN, [User.GATEWAY], [User.LLM, User.TTS, User.FACE]),
        # The gateway's are answers that are known.
        (Kind.TOKENS, [User.LLM, User.GATEWAY], [User.TTS, User.GATEWAY]),
        # The gateway's is the speech that clients bring.
        (Kind.VOICE, [User.TTS, User.GATEWAY], [User.FACE, User.GATEWAY]),
        # The gateway keeps what was not heard yet, for a face that takes over.
        (Kind.MEL, [User.TTS], [User.FACE, User.GATEWAY]),
        (Kind.VIDEO, [User.FACE], [User.GATEWAY]),
        (Kind.FACE, [User.FACE], [User.GATEWAY]),
        (Kind.CLOCK, [User.GATEWAY], [User.TTS, User.FACE]),
    )
}
"""Who sends and who reads each kind of chunk."""

BUCKETS: Mapping[str, User] = {
    AVATARS: User.FACE,
    CHARACTERS: User.FACE,
    LEARNED_ANSWERS: User.GATEWAY,
    BUNDLES: User.OPERATOR,
}
"""Who keeps things in each of JetStream's object stores that the product uses."""

RECORDS: Mapping[str, User] = {SESSIONS: User.GATEWAY}
"""Likewise of its key-value stores, which lie in the bus's memory: of them nobody else reads."""

READERS: Mapping[str, frozenset[User]] = {
    BUNDLES: frozenset({User.ASR, User.TTS, User.FACE}),
}
"""Who else reads what is in them, and cannot change it."""

_PASSWORD = re.compile(r"[A-Za-z0-9_-]{16,256}")


@dataclass(frozen=True, slots=True)
class Login:
    """With what a process comes to the bus."""

    user: User
    password: str = field(repr=False)

    @property
    def inbox(self) -> str:
        """Prefix of the subjects on which answers to it arrive."""
        return inbox_of(self.user)


@dataclass(frozen=True, slots=True)
class Permissions:
    """Subjects, as patterns, that a user may publish to and subscribe to."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]


def inbox_of(user: User) -> str:
    """Prefix of a user's inboxes."""
    return f"_INBOX_{user}"


def permissions_of(user: User) -> Permissions:
    """All that a user may say and hear, beside answers to those who have asked it."""
    if user is User.OPERATOR:
        return Permissions(("$SRV.>", "$JS.API.>", *_of_buckets(user)), (">",))
    publish = [f"{PREFIX}.*.*.{kind}" for kind, (senders, _) in CARRIED.items() if user in senders]
    subscribe = [
        f"{PREFIX}.*.*.{kind}" for kind, (_, readers) in CARRIED.items() if user in readers
    ]
    publish += [capacity_subject(user), *_of_buckets(user)]
    subscribe += [capacity_subject("*"), f"{inbox_of(user)}.>"]
    # Everybody may hear the questions to all; only answers to those by name count (`discover`).
    subscribe += ["$SRV.*", f"$SRV.*.{micro_name(user)}", f"$SRV.*.{micro_name(user)}.*"]
    if user is User.GATEWAY:
        publish += [f"{GATEWAY}.>", *(info_subject(service) for service in PROCESSES)]
        subscribe += [f"{GATEWAY}.>"]
    else:
        publish += [STARTING]
    return Permissions(tuple(publish), tuple(subscribe))


def _of_buckets(user: User) -> list[str]:
    """What reading, writing and deleting objects and records needs, and no more."""
    found = []
    for records, keeper in RECORDS.items():
        if keeper is user:
            found += [*_stream_api(f"KV_{records}", ("MSG.GET", "MSG.DELETE")), f"$KV.{records}.>"]
    for bucket, keeper in BUCKETS.items():
        read, write = ("INFO", "MSG.GET"), ("MSG.DELETE", "PURGE")
        if keeper is user:
            found += [*_stream_api(f"OBJ_{bucket}", read + write), f"$O.{bucket}.>"]
        elif user in READERS.get(bucket, ()):
            found += _stream_api(f"OBJ_{bucket}", read)
    return found


def _stream_api(stream: str, verbs: Iterable[str]) -> list[str]:
    return [f"$JS.API.STREAM.{verb}.{stream}" for verb in verbs]


def users_config(passwords: Mapping[User, str]) -> str:
    """nats-server's configuration of all users: a secret, it holds their passwords. And how soon it
    notices that one has gone without a word.

    Raises ValueError for a password that is short, or not of letters, digits, - and _.
    """
    lines = [
        "# Written from visavis/wire/permissions.py.",
        "# Who freezes, or vanishes with his machine, is gone after 4 s, not after minutes.",
        'ping_interval: "1s"',
        "ping_max: 3",
        "authorization {",
        "  users: [",
    ]
    for user in User:
        password, allowed = passwords[user], permissions_of(user)
        if not _PASSWORD.fullmatch(password):
            raise ValueError(f"{user}: 16 to 256 characters of A-Z, a-z, 0-9, _ and - are wanted")
        lines += [
            "    {",
            f"      user: {json.dumps(user.value)}, password: {json.dumps(password)}",
            "      permissions: {",
            f"        publish: {{ allow: {json.dumps(allowed.publish)} }}",
            f"        subscribe: {{ allow: {json.dumps(allowed.subscribe)} }}",
            "        allow_responses: true",
            "      }",
            "    }",
        ]
    return "\n".join([*lines, "  ]", "}", ""])
