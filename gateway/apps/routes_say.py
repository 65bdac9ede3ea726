"""The door for texts that are to be said as they stand."""

from __future__ import annotations

from fastapi import APIRouter

from gateway.api.problems import responses
from gateway.api.schemas import SayNumber, SayRequest
from gateway.api.state import Gateway, TheGateway, TheSession
from gateway.apps.sayings import Saying
from gateway.session.session import Session
from gateway.talk.actions import Manner

router = APIRouter(prefix="/v1/sessions/{session_id}", tags=["sessions"])


async def say_in(
    session: Session, gateway: Gateway, text: str, manner: Manner, *, interrupt: bool
) -> Saying:
    """Have `text` said. Raises UnknownNameError, SayingsFullError and what `wake` does."""
    if manner.language:
        gateway.catalog.check_language(manner.language)
    await session.wake()
    return session.say(text, manner, interrupt=interrupt)


@router.post("/say", status_code=202, responses=responses(400, 404, 413, 422, 429, 503))
async def say(session: TheSession, body: SayRequest, gateway: TheGateway) -> SayNumber:
    """Have the face say a text as it stands; no language model is asked.

    It is a turn like any other: it can be interrupted, and what was heard of it is in the history
    as what the face has said. While something is being said, or the visitor speaks, it waits, in
    the order of the requests; what interrupts the face drops all that waits. `say` events tell what
    becomes of it. With `interrupt` it is said at once, in place of all that. 429
    `too_many_waiting` where too much waits already.
    """
    manner = Manner(body.style, body.language)
    saying = await say_in(session, gateway, body.text, manner, interrupt=body.interrupt)
    return SayNumber(say=saying.number)
