"""Sessions, text, interruption, turns."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from gateway.access.callers import Caller, Role
from gateway.access.tokens import IN_A_SESSION, Issued
from gateway.answers.cache import Speaker
from gateway.api.choices import choice_of, offers_of
from gateway.api.problems import ForbiddenError, refusals_counted, responses
from gateway.api.schemas import (
    NewPlace,
    NewSession,
    PlaceInfo,
    SessionChange,
    SessionInfo,
    SessionList,
    SessionRequest,
    TextRequest,
    TokenInfo,
    TokenRequest,
    TurnNumber,
)
from gateway.api.state import Gateway, TheCaller, TheGateway, TheSession
from gateway.ledger.records import Timeline, TurnRecord
from gateway.session.session import Session
from gateway.stages.stages import Options
from gateway.talk.actions import Message
from gateway.talk.actions import Role as Speaking
from gateway.tools.doing import offered
from gateway.tools.offers import FREE
from gateway.waiting.entrance import Wish
from gateway.waiting.line import Standing
from visavis.serving.errors import InvalidInputError, UnknownNameError

router = APIRouter(prefix="/v1/sessions", tags=["sessions"])

_ROLES: dict[str, Speaking] = {"visitor": "user", "avatar": "assistant"}


def info_of(session: Session, caller: Caller) -> SessionInfo:
    """What it is now, to who asks: how the app has it speak is not its visitors' to read."""
    options = session.options
    return SessionInfo(
        id=session.id,
        created_at=session.created_at,
        language=options.language,
        voice=options.voice,
        avatar=options.avatar,
        persona="" if caller.role in IN_A_SESSION else session.persona,
        speed=options.speed,
        style=options.style,
        drawn_by=session.drawn_by(),
        spoken_by=options.spoken_by,
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
    response_model=NewSession,
    responses={202: {"model": NewPlace}, **responses(400, 404, 413, 422, 429, 503)},
)
async def create_session(
    request: Request,
    body: SessionRequest,
    gateway: TheGateway,
    caller: TheCaller,
) -> NewSession | Response:
    """Start a session, if all four services hold their deadlines with it.

    Its `token` opens it, and nothing else: this is what to give to a browser.

    Else 429, with Retry-After, what has no room, and the expected wait; or, with `queue`, 202 and
    a place in line: see `/v1/sessions/{session_id}/place`. An app's key that has or makes more
    sessions than it may: 429 `over_limit`. A session that nobody is connected to
    ends by itself after a while.
    """
    tools = offers_of(body.tools)
    chosen = ("language", "voice", "avatar", "speed", "style", "drawn_by", "spoken_by")
    options = Options(
        **{name: getattr(body, name) for name in chosen},
        tools=tools,
        tool_choice=choice_of(body.tool_choice, offered(tools, gateway.tools.offers)),
    )
    if body.welcome and body.spoken_by == "client":
        raise InvalidInputError("welcome: the client brings all that is said (spoken_by)")
    await gateway.catalog.check_voice(body.voice)
    persona = gateway.settings.persona if body.persona is None else body.persona
    welcome = body.welcome if isinstance(body.welcome, str) else ""
    if body.welcome is True:
        welcome = gateway.answers.welcome(Speaker(persona, body.language))
    said = tuple(Message(_ROLES[line.side], line.text) for line in body.history)
    wish = Wish(options, persona, welcome, caller.owner, said)
    enter = gateway.entrance.enter_or_wait if body.queue else gateway.entrance.enter
    with refusals_counted():
        async with gateway.within_limits(caller):
            found = await enter(wish)
    gone = await request.is_disconnected()
    if isinstance(found, Standing):
        if gone:
            gateway.entrance.leave(found.id)
        issued = gateway.doorkeeper.issue(found.id)
        made = NewPlace(**place_of(found).model_dump(), **_told(issued))
        return JSONResponse(made.model_dump(mode="json"), 202)
    info, issued = info_of(found, caller), gateway.doorkeeper.issue(found.id)
    if gone:
        # Nobody knows its name: it would keep its slots until it expires.
        await gateway.sessions.delete(found.id)
    return NewSession(**info.model_dump(), **_told(issued))


def _told(issued: Issued) -> dict[str, Any]:
    return TokenInfo(
        token=issued.token,
        token_role="viewer" if issued.role is Role.VIEWER else "visitor",
        token_expires_in_s=issued.expires_in_s,
    ).model_dump()


def place_of(standing: Standing) -> PlaceInfo:
    wait_s = standing.expected_wait_s
    return PlaceInfo(
        id=standing.id,
        state=standing.phase.value,
        position=standing.position,
        expected_wait_s=None if wait_s is None else round(wait_s, 1),
        message=standing.why,
        again=standing.again,
    )


@router.get("/{session_id}/place", responses=responses(404))
async def get_place(session_id: str, gateway: TheGateway) -> PlaceInfo:
    """How a place in line stands. One that nobody asks for is given up after a while.

    The WebSocket of the same path tells the same as `place` events, whenever it changes and once a
    second, and closes once the place waits no more.
    """
    return place_of(gateway.entrance.standing(session_id))


@router.get("")
async def list_sessions(request: Request, gateway: TheGateway, caller: TheCaller) -> SessionList:
    """All open sessions, of every gateway that answers, the oldest first; to an app those that it
    made.
    """
    everything = caller.role is Role.OPERATOR
    mine = (s for s in gateway.sessions.all() if everything or s.owner == caller.owner)
    sessions = [info_of(session, caller) for session in mine]
    for answer in await gateway.carrier.ask_others(gateway.peers, request):
        sessions += SessionList.model_validate(answer).sessions
    return SessionList(sessions=sorted(sessions, key=_began))


def _began(session: SessionInfo) -> datetime:
    return session.created_at or datetime.min.replace(tzinfo=UTC)


@router.post("/{session_id}/token", responses=responses(400, 404, 413, 422))
async def renew_token(
    session_id: str, gateway: TheGateway, caller: TheCaller, body: TokenRequest | None = None
) -> TokenInfo:
    """Another token of a session, or of a place in line, that holds for as long again.

    To be asked for while the last one holds, at half of its life for example; whoever may use the
    session by a key may ask at any time. With `"role": "viewer"` it is one to be given to others:
    who has it sees and hears, says nothing and changes nothing.
    """
    if gateway.owner_of(session_id) is None:
        gateway.sessions.get(session_id)  # says that there is none
    own = caller.role if caller.role in IN_A_SESSION else Role.VISITOR
    role = own if body is None or body.role is None else Role(body.role)
    if own is Role.VIEWER and role is not own:
        raise ForbiddenError("role: a viewer's token makes tokens for viewers alone")
    return TokenInfo(**_told(gateway.doorkeeper.issue(session_id, role)))


@router.get("/{session_id}", responses=responses(404))
async def get_session(session: TheSession, caller: TheCaller) -> SessionInfo:
    """One session as it is now."""
    return info_of(session, caller)


@router.patch("/{session_id}", responses=responses(400, 404, 413, 422, 503))
async def update_session(
    session: TheSession, body: SessionChange, gateway: TheGateway, caller: TheCaller
) -> SessionInfo:
    """Change language, voice, avatar, speed, style or tools; takes effect from the next turn on.

    Tools are the app's: a session's token does not change them.
    """
    change = body.model_dump(exclude_unset=True, exclude={"tools", "tool_choice"})
    if body.tools is not None or body.tool_choice is not None:
        if caller.role in IN_A_SESSION:
            raise ForbiddenError("tools: only who made the session changes them")
        tools = session.options.tools if body.tools is None else offers_of(body.tools)
        there = offered(tools, gateway.tools.offers)
        choice = session.options.tool_choice
        if body.tool_choice is not None:
            choice = choice_of(body.tool_choice, there)
        elif choice.named and choice.named not in [tool.name for tool in there]:
            choice = FREE  # the one that had to be called is there no more
        change |= {"tools": tools, "tool_choice": choice}
    await change_session(session, gateway, change)
    return info_of(session, caller)


@router.delete("/{session_id}", status_code=204, responses=responses(404))
async def delete_session(session_id: str, gateway: TheGateway) -> Response:
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
async def list_turns(session: TheSession) -> list[TurnRecord]:
    """The last turns, oldest first."""
    return session.records.all()


@router.get("/{session_id}/turns/{turn}", responses=responses(404))
async def get_turn(session: TheSession, turn: int) -> TurnRecord:
    """What was asked and answered in a turn, and where its time went."""
    record = session.records.get(turn)
    if record is None:
        raise UnknownNameError(f"turn: there is no turn {turn} in this session (any more)")
    return record


@router.get("/{session_id}/turns/{turn}/timeline", responses=responses(404))
async def get_timeline(session: TheSession, turn: int) -> Timeline:
    """What each stage did with a turn's first and last chunk: transfer, wait, queue, compute.

    There once the answer's first sample has left; complete when the turn is over.
    """
    known = session.records.timeline(session.id, turn)
    if known is None:
        raise UnknownNameError(f"turn: there is no timeline of turn {turn} in this session (yet)")
    return known
