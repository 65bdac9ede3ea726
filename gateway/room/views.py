"""A room as its operator sees it: what waits, what is said, what became of all that came."""

from __future__ import annotations

from gateway.room import schemas
from gateway.room.choosing.comments import Outcome
from gateway.room.choosing.host import Host, Speech
from gateway.room.choosing.selection import Entry
from gateway.room.room import Room

_SHOWN = 50
_RECENT = 20
_SERVED = (Outcome.ANSWERED, Outcome.MERGED, Outcome.THANKED)


def info_of(room: Room, now: float) -> schemas.RoomInfo:
    """now: on the room's clock."""
    host = room.host
    waiting = host.selection.waiting(now)[:_SHOWN]
    return schemas.RoomInfo(
        session=room.session.id,
        paused=host.paused,
        state=room.session.state,
        current=None if host.current is None else _speech(host.current),
        next=None if host.next is None else _waiting(host, host.next, now),
        waiting=[_waiting(host, entry, now) for entry in waiting],
        waiting_in_all=host.selection.places_taken,
        to_say=list(host.to_say),
        recent=[_speech(speech) for speech in reversed(host.recent)][:_RECENT],
        gifts_waiting=host.gifts.waiting,
        banned=host.selection.banned,
        blocked_words=room.blocked_words,
        coverage=coverage_of(host),
        platforms=[
            schemas.PlatformInfo(
                platform=connection.platform,
                room=connection.room,
                phase=connection.phase.value,
                posts=connection.posts,
                received=connection.received,
                message=connection.message,
            )
            for connection in room.connections
        ],
    )


def coverage_of(host: Host) -> schemas.Coverage:
    """What became of all that came."""
    outcomes, ages_s = host.selection.outcomes, sorted(host.measured.ages_s)
    served = sum(outcomes[outcome] for outcome in _SERVED)
    received = host.selection.received
    return schemas.Coverage(
        received=received,
        unsettled=host.unsettled,
        outcomes={outcome: count for outcome, count in outcomes.most_common() if count},
        answered_share=round(served / received, 4) if received else 0.0,
        age_median_s=_rank(ages_s, 0.5),
        age_p95_s=_rank(ages_s, 0.95),
        age_most_s=_rank(ages_s, 1.0),
        lead_s=round(host.measured.lead_s, 3),
    )


def _rank(ordered: list[float], share: float) -> float | None:
    return round(ordered[round(share * (len(ordered) - 1))], 3) if ordered else None


def _speech(speech: Speech) -> schemas.SpeechInfo:
    entry = speech.entry
    said = schemas.SpeechInfo(
        why=speech.why,
        phase=speech.phase,
        text=speech.text if entry is None else entry.text,
        answer=speech.answer.strip(),
        turn=speech.turn,
        age_s=None if speech.age_s is None else round(speech.age_s, 1),
        outcome=speech.outcome,
    )
    if entry is None:
        return said
    comment = entry.comment
    about = {"name": comment.author.name, "author": comment.author_key}
    return said.model_copy(update=about | {"platform": comment.platform, "id": comment.id})


def _waiting(host: Host, entry: Entry, now: float) -> schemas.WaitingInfo:
    comment = entry.comment
    return schemas.WaitingInfo(
        id=comment.id,
        platform=comment.platform,
        author=comment.author_key,
        name=comment.author.name,
        text=entry.text,
        others=entry.others,
        age_s=round(now - comment.at_s, 1),
        score=round(host.selection.score(entry, now), 2),
        amount=comment.amount,
        currency=comment.currency,
    )
