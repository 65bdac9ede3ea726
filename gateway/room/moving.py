"""A room that goes to another gateway with its session: what goes along, and what it becomes."""

from __future__ import annotations

import json
import time
from typing import Any

from pydantic import BaseModel, ValidationError

from gateway.room import schemas
from gateway.room.choosing.comments import Comment, Outcome
from gateway.room.room import Room
from visavis.serving.errors import InvalidInputError

_SHORTENED = ("waiting", "answered", "seen", "banned")


class RoomRecord(BaseModel):
    """What a gateway needs to go on with a room that another one had.

    Gifts that were not thanked yet stay behind, and how many asked the same: of what waits, the
    newest comment of each goes along. What an older gateway does not tell has a default, and what
    a newer one tells beside it is left out.
    """

    wanted: dict[str, Any]
    """A RoomRequest, its secrets among it: it travels on the bus alone."""
    paused: bool
    blocked_words: list[str]
    banned: dict[str, str]
    waiting: list[schemas.CommentIn]
    answered: list[tuple[float, str]]
    """How long ago in seconds, and what."""
    outcomes: dict[Outcome, int]
    to_say: list[str] = []
    """By the operator, before anything else."""
    script_said: int = 0
    """Lines of the script up to now: the next one is behind them."""
    seen: list[tuple[str, str]] = []
    """Platforms and ids of what has come last, and is not taken again."""


def record_of(room: Room, unix_s: float) -> dict[str, Any]:
    """unix_s: now, in seconds since 1970."""
    selection, now = room.host.selection, room.now
    waiting = [entry.comment for entry in room.host.unanswered(now)]
    ids = {(comment.platform, comment.id) for comment in waiting}
    record = RoomRecord(
        wanted=room.wanted.model_dump(mode="json", context=schemas.WITH_SECRETS),
        paused=room.host.paused,
        blocked_words=room.blocked_words,
        banned=selection.banned,
        waiting=[sent_of(comment, now, unix_s) for comment in waiting],
        answered=selection.answered(now),
        outcomes=dict(selection.outcomes),
        to_say=room.host.unsaid,
        script_said=room.host.script_said,
        seen=[key for key in selection.seen if key not in ids],
    )
    return record.model_dump(mode="json")


def shorten(told: dict[str, Any]) -> bool:
    """Take a quarter from what is longest of a record, that goes along as far as there is room;
    False: there is nothing more to take.

    What is oldest goes first, and of what waits what matters least.
    """
    longest = max(_SHORTENED, key=lambda part: len(json.dumps(told[part])))
    kept = list(told[longest].items() if longest == "banned" else told[longest])
    if not kept:
        return False
    goes = len(kept) // 4 + 1
    kept = kept[:-goes] if longest == "waiting" else kept[goes:]
    told[longest] = dict(kept) if longest == "banned" else kept
    return True


def sent_of(comment: Comment, now_s: float, unix_s: float) -> schemas.CommentIn:
    """A comment as it travels. now_s, on the room's clock, and unix_s: the same moment."""
    who = comment.author
    author = schemas.AuthorIn(
        name=who.name,
        id=who.id,
        moderator=who.moderator,
        member=who.member,
        first_time=who.first_time,
    )
    return schemas.CommentIn(
        author=author,
        text=comment.text,
        id=comment.id,
        platform=comment.platform,
        kind=comment.kind,
        at=unix_s - (now_s - comment.at_s),
        amount=comment.amount,
        currency=comment.currency,
        gift=comment.gift,
        count=comment.count,
        target=comment.target,
    )


def read(told: dict[str, Any]) -> tuple[RoomRecord, schemas.RoomRequest]:
    """Raises InvalidInputError."""
    try:
        record = RoomRecord.model_validate(told)
        known = schemas.RoomRequest.model_fields.keys() & record.wanted.keys()
        wanted = {name: record.wanted[name] for name in known}
        return record, schemas.RoomRequest.model_validate(wanted)
    except ValidationError as error:
        # What it holds is not said: secrets are among it.
        raise InvalidInputError(f"room: it cannot be read: {error.error_count()} faults") from None


def read_late(told: list[Any]) -> list[schemas.CommentIn]:
    """Comments that `sent_of` has made. Raises InvalidInputError."""
    try:
        return [schemas.CommentIn.model_validate(comment) for comment in told]
    except ValidationError as error:
        raise InvalidInputError(f"comments: {error.error_count()} faults") from None


async def carry_on(room: Room, record: RoomRecord) -> None:
    """Go on where it stood in another gateway. Raises InvalidInputError."""
    selection, now = room.host.selection, room.now
    room.host.paused = record.paused
    room.host.carry_on(record.script_said)
    for author, name in record.banned.items():
        selection.ban(author, name)
    selection.carry_on(record.outcomes, record.answered, record.seen, now)
    room.counted_elsewhere(record.outcomes)
    for text in record.to_say:
        room.host.say(text)
    await room.command(schemas.BlockCommand(type="block", words=record.blocked_words))
    now, unix_s = room.now, time.time()
    for sent in record.waiting:
        # As a question alone: thanks for what was paid were said where it came in, or stay there.
        selection.take(sent.comment(now, unix_s), now)
