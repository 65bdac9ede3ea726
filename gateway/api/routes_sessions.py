"""Sessions, text, interruption, turns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request, Response

from gateway.answers.cache import Speaker
from gateway.api.problems import refusals_counted, responses
from gateway.api.schemas import (
    PlaceInfo,
    SessionChange,
    SessionInfo,
    SessionList,
    SessionRequest,
    TextRequest,
    TurnNumber,
)
from gateway.api.state import Gateway, TheGateway, TheSession
from gateway.ledger.records import Timeline, TurnRecord
from gateway.stages.stages import Options
from gateway.talk.session import Session
from gateway.waiting.entrance import Standing, Wish
from visavis.serving.errors import UnknownNameError

router = APIRouter(prefix="/v1/sessions", tags=["sessions"])


def info_of(session: Session) -> SessionInfo:
    options = session.options
    return SessionInfo(
        id=session.id,
        language=options.language,
        voice=options.voice,
        avatar=options.avatar,
        persona=session.persona,
        speed=options.speed,
        style=options.style,
        state=session.state,
        welcome=session.answering.welcome.text,
        viewers=session.audience.present,
        stages=session.stages.instances,
    )


async def change_session(session: Session, gateway: Gateway, change: dict[str, Any]) -> None:
    """Apply what is set in `change`. Raises UnknownNameError."""
    catalog = gateway.catalog
    wanted = {key: value for key, value in change.items() if value is not None}
    if "language" in wanted:
        # A stage that is told of one it does not know would end its lease, again and again.
        catalog.check_language(wanted["language"])
    if "voice" in wanted:
        await catalog.check_voice(wanted["voice"])
    if "avatar" in wanted:
        await catalog.check_avatar(wanted["avatar"])
    options = replace(session.options, **wanted)
    session.touch()
    if options != session.options:
        await session.update(options)


@router.post(
    "",
    status_code=201,
    responses={202: {"model": PlaceInfo}, **responses(400, 404, 413, 422, 429, 503)},
)
async def create(
    request: Request, response: Response, body: SessionRequest, gateway: TheGateway
) -> SessionInfo | PlaceInfo:
    """Start a session, if all four services hold their deadlines with it.

    Else 429, with Retry-After, what has no room, and the expected wait; or, with `queue`, 202 and
    a place in line: see `/v1/sessions/{session_id}/place`. A session that nobody is connected to
    ends by itself after a while.
    """
    options = Options(body.language, body.voice, body.avatar, body.speed, body.style)
    await gateway.catalog.check_voice(body.voice)
    persona = gateway.settings.persona if body.persona is None else body.persona
    welcome = body.welcome if isinstance(body.welcome, str) else ""
    if body.welcome is True:
        welcome = gateway.answers.welcome(Speaker(persona, body.language))
    wish = Wish(options, persona, welcome)
    enter = gateway.entrance.enter_or_wait if body.queue else gateway.entrance.enter
    with refusals_counted():
        found = await enter(wish)
    gone = await request.is_disconnected()
    if isinstance(found, Standing):
        if gone:
            gateway.entrance.leave(found.id)
        response.status_code = 202
        return place_of(found)
    info = info_of(found)
    if gone:
        # Nobody knows its name: it would keep its slots until it expires.
        await gateway.sessions.delete(found.id)
    return info


def place_of(standing: Standing) -> PlaceInfo:
    wait_s = standing.expected_wait_s
    return PlaceInfo(
        id=standing.id,
        state=standing.phase.value,
        position=standing.position,
        expected_wait_s=None if wait_s is None else round(wait_s, 1),
        message=standing.why,
    )


@router.get("/{session_id}/place", responses=responses(404))
async def place(session_id: str, gateway: TheGateway) -> PlaceInfo:
    """How a place in line stands. One that nobody asks for is given up after a while.

    The WebSocket of the same path tells the same as `place` events, whenever it changes and once a
    second, and closes once the place waits no more.
    """
    return place_of(gateway.entrance.standing(session_id))


@router.get("")
async def list_sessions(request: Request, gateway: TheGateway) -> SessionList:
    """All open sessions, of every gateway that answers."""
    sessions = [info_of(s) for s in gateway.sessions.all()]
    for answer in await gateway.carrier.ask_others(gateway.peers, request):
        sessions += SessionList.model_validate(answer).sessions
    return SessionList(sessions=sessions)


@router.get("/{session_id}", responses=responses(404))
async def get(session: TheSession) -> SessionInfo:
    """One session as it is now."""
    return info_of(session)


@router.patch("/{session_id}", responses=responses(400, 404, 413, 422, 503))
async def update(session: TheSession, body: SessionChange, gateway: TheGateway) -> SessionInfo:
    """Change language, voice, avatar, speed or style; takes effect from the next turn on."""
    await change_session(session, gateway, body.model_dump(exclude_unset=True))
    return info_of(session)


@router.delete("/{session_id}", status_code=204, responses=responses(404))
async def delete(session_id: str, gateway: TheGateway) -> Response:
    """End a session; viewers are disconnected, recordings deleted. Or leave the line."""
    if not gateway.entrance.leave(session_id):
        await gateway.sessions.delete(session_id)
    return Response(status_code=204)


@router.post(
    "/{session_id}/text", status_code=202, responses=responses(400, 404, 413, 422, 429, 503)
)
async def submit_text(session: TheSession, body: TextRequest) -> TurnNumber:
    """Say something to the face by typing. It interrupts what is being said.

    The answer comes as media and as events; the turn's number finds it again. A session that
    nobody was connected to takes its slots of the services again; 429 where none is free now.
    """
    await session.wake()
    return TurnNumber(turn=session.submit_text(body.text, body.style))


@router.post("/{session_id}/interrupt", responses=responses(404))
async def interrupt(session: TheSession) -> TurnNumber:
    """Be silent now. Returns the newest turn number; turns up to it are over."""
    return TurnNumber(turn=session.interrupt())


@router.get("/{session_id}/turns", responses=responses(404))
async def turns(session: TheSession) -> list[TurnRecord]:
    """The last turns, oldest first."""
    return session.records.all()


@router.get("/{session_id}/turns/{turn}", responses=responses(404))
async def turn(session: TheSession, turn: int) -> TurnRecord:
    """What was asked and answered in a turn, and where its time went."""
    record = session.records.get(turn)
    if record is None:
        raise UnknownNameError(f"turn: there is no turn {turn} in this session (any more)")
    return record


@router.get("/{session_id}/turns/{turn}/timeline", responses=responses(404))
async def timeline(session: TheSession, turn: int) -> Timeline:
    """What each stage did with a turn's first and last chunk: transfer, wait, queue, compute.

    There once the answer's first sample has left; complete when the turn is over.
    """
    known = session.records.timeline(session.id, turn)
    if known is None:
        raise UnknownNameError(f"turn: there is no timeline of turn {turn} in this session (yet)")
    return known
