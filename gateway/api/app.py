"""The gateway's web application: wires the parts together, and how it is served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING

from fastapi import Depends, FastAPI
from fastapi.security import HTTPBearer

from gateway.access.doorkeeper import Doorkeeper
from gateway.answers.answering import KnownTexts, Sources
from gateway.answers.cache import AnswerCache, LearnedLimits
from gateway.answers.prerender import Prerenderer
from gateway.answers.sharing import SharedLessons
from gateway.api import pages, problems, sockets
from gateway.api.access import AccessControl, BodyLimit, Ownership, cross_origin
from gateway.api.description import DescribedApp
from gateway.api.routes import cache, catalog, media, operation
from gateway.api.routes import sessions as session_routes
from gateway.api.state import Gateway
from gateway.apps import routes as app_routes
from gateway.apps import sockets as app_sockets
from gateway.edge.tls import Tls
from gateway.faces import routes as face_routes
from gateway.live import routes_broadcasts, routes_hls, routes_webrtc
from gateway.openai import chat, errors, models, speech, transcriptions
from gateway.peers.handover import Handover
from gateway.peers.passing import Carrier, PassOn
from gateway.peers.peers import Peers, owner_of, session_id
from gateway.peers.standing_in import StandingIn
from gateway.playout.sinks.recording_folders import forget_left_behind
from gateway.realtime import calls
from gateway.realtime import doors as realtime
from gateway.room import routes as room_routes
from gateway.room.rooms import Rooms
from gateway.session.sessions import Sessions
from gateway.settings import GatewaySettings
from gateway.stages.catalog import Catalog
from gateway.stages.idle_loops import LoopLibrary
from gateway.stages.phrases import Phrases
from gateway.stages.plain_calls import PlainCalls
from gateway.stages.registry import Registry
from gateway.tools.doing import NoServerTools, ServerTools
from gateway.tools.mcp_servers import McpServers, read_servers
from gateway.waiting.entrance import Entrance
from gateway.wyoming.server import WyomingServer
from visavis.bundles.store.catalogue import cache_root
from visavis.serving.admission.admission import Admission
from visavis.serving.admission.meter import Assumed
from visavis.serving.admission.probes import cores, foreign_cores
from visavis.serving.admission.reporting import CapacityReporter
from visavis.serving.aiortc_private.known import check as check_aiortc
from visavis.serving.discovery import instance_of
from visavis.serving.errors import InvalidInputError, SettingsError
from visavis.serving.lifetime.heartbeat import Heartbeat
from visavis.serving.lifetime.supervision import Keeper
from visavis.serving.runtime import connect_bus
from visavis.serving.telemetry.tracing import start_tracing, stop_tracing
from visavis.wire.bus import Bus
from visavis.wire.clock import MonotonicClock

if TYPE_CHECKING:
    from gateway.knowledge.folder import Knowledge

# Sound and pictures on their way to a visitor, until they are measured.
_ASSUMED = Assumed(units_per_s=0.0, unit_cost_s=0.0, cores=0.05)

# For the page of the API alone: who may pass has been decided before, for every route.
_SHOWN = HTTPBearer(auto_error=False, description="A key, a JWT, or a session's token")

# A key in the address, no key, a foreign page, what cannot be read; a bus that is away.
_ANYWHERE = problems.responses(400, 401, 403, 422, 503)
# The same in OpenAI's shape, where what cannot be read is 400, and no room 429.
_OPENAI = errors.responses(400, 401, 403, 429, 503)

_DESCRIPTION = """
Speak or type to a face, and it answers with voice and lips in step.

1. `POST /v1/sessions` makes a session. Where deadlines would not hold with one more, it answers
   429 with the expected wait; with `"queue": true` 202 and a place in line, under the id that the
   session will have. `GET /v1/sessions/{id}/place` tells how it stands, the WebSocket of the same
   path as it changes; `DELETE /v1/sessions/{id}` leaves.
2. Media: `POST …/webrtc` with an SDP offer, or the WebSocket `…/media?role=speaker|viewer`
   (fragmented mp4 with H.264 and AAC to the client; the speaker's microphone as binary
   messages of 16-bit little-endian mono PCM at 16 kHz, 16 to 20 ms each).
   Sound alone, as samples: the WebSocket `…/audio?role=speaker|listener`.
   With `"drawn_by": "client"` there are no pictures: the WebSocket `…/face` has 52 blendshapes for
   each, and `GET /v1/avatars/{name}/head.glb` a head to draw with them; `…/head.json` and
   `…/background.png` tell how its portrait shows it. With `"spoken_by": "client"` the WebSocket
   `…/speech` takes the voice.
3. Captions, states and latencies: the WebSocket `…/events`. Server to client: `session`,
   `state`, `transcript`, `answer` (pieces of a text, to be appended), `answer.shown` (the same of
   code and tables, which are not said), `answer.sources`, `answer.tool_call`, `words`, `say`,
   `turn`, `latency`, `broadcast`, `error`, `warning`, `pong`; client to server:
   `{"type": "text", "text": "…", "style"?}`, `{"type": "typing", "text": "…"}` before it is sent,
   `{"type": "interrupt"}`,
   `{"type": "say", "text": "…", "style"?, "language"?, "interrupt"?}`,
   `{"type": "tool_result", "call_id": "…", "output": "…"}` to an `answer.tool_call`,
   `{"type": "update", "language"?, "voice"?, "avatar"?, "speed"?, "style"?, "drawn_by"?}`,
   `{"type": "ping"}`.

4. To many: `POST …/broadcasts` pushes the session to an RTMP server or a WHIP endpoint; players
   watch by WHEP (`POST …/whep`) or HLS (`GET …/hls/index.m3u8`); `POST …/whip` takes a microphone.
   What changes in its room is told on the WebSocket `…/room/live`.

Every error from 400 on is `{"error": {"code", "message"}}`. A request that does not come to its end
is answered 408, whatever it asks for.

Programs that were written for OpenAI's API find models, chat, speech and transcriptions where they
look for them, under `/v1`, and Realtime at the WebSocket `/v1/realtime`; errors there have OpenAI's
shape.

Who makes a session gets a `token` with it, which opens that session alone: all that lies under
`/v1/sessions/{id}`, and nothing else but voices and avatars to look at. It holds for
`token_expires_in_s`; `POST …/token` renews it while the session lives, or makes one for viewers.
Where the gateway has keys, an operator's opens everything, an app's makes sessions and opens
those; where it has none, who shows nothing is an operator.

Key or token: `Authorization: Bearer …`; a WebSocket that cannot set headers offers the
subprotocols `visavis` and `bearer.…`, percent-encoded. Never in the address.
"""

_LICENCE = "https://www.apache.org/licenses/LICENSE-2.0"
_TAGS = {
    "sessions": "What is said and answered in a session",
    "media": "A session's face and voice by WebRTC, and to a file",
    "live": "A session to many: WHEP, HLS, broadcasts; and a microphone by WHIP",
    "live room": "Comments of many, answered by a session's face",
    "faces for other engines": "A session's face by VMC and Live Link Face",
    "voices and avatars": "What there is to choose from",
    "answer cache": "What is said without the language model; for operators",
    "OpenAI": "What programs written for OpenAI's API ask for",
    "operation": "Services, metrics, health; for operators",
}


def create_app(settings: GatewaySettings, address: str = "", tls: Tls | None = None) -> FastAPI:
    """The application; it connects to the bus when it is started. Raises VisavisError.

    address: "host:port" where other gateways reach this one; "": there are no others. tls: how they
    do, and how it is served; None: by plain http.
    """
    check_aiortc()
    settings.login()  # what is wrong with it is told at once
    settings.access()
    files = _read_files(settings)
    instance = instance_of(settings.label or "gateway")
    doorkeeper = Doorkeeper(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        running = _running(settings, files, instance, address, tls, doorkeeper)
        async with running as app.state.gateway:
            yield

    app = DescribedApp(
        title="visavis",
        version=version("visavis"),
        description=_DESCRIPTION,
        license_info={"name": "Apache-2.0", "url": _LICENCE},
        openapi_tags=[{"name": name, "description": told} for name, told in _TAGS.items()],
        generate_unique_id_function=lambda route: route.name,  # what generated clients call it
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.wants_a_key = doorkeeper.wants_a_key
    uploads = {
        "/v1/avatars": round(settings.upload_limit_mb * 1e6),
        "/v1/audio/transcriptions": round(settings.transcription_limit_mb * 1e6),
    }
    app.add_middleware(Ownership)
    app.add_middleware(PassOn)
    app.add_middleware(BodyLimit, uploads=uploads)
    app.add_middleware(AccessControl, settings=settings, doorkeeper=doorkeeper)
    cross_origin(app, settings)
    problems.install(app, errors.shape_at)
    # FastAPI makes a router's routes ready as the first request comes to it: behind all the others,
    # the first socket of a gateway would wait for them.
    for doors in (sockets.router, realtime.sockets, room_routes.sockets, app_sockets.router):
        app.include_router(doors)
    for module in (
        session_routes,
        app_routes,
        media,
        routes_webrtc,
        routes_hls,
        routes_broadcasts,
        catalog,
        cache,
        operation,
        room_routes,
        face_routes,
    ):
        app.include_router(module.router, dependencies=[Depends(_SHOWN)], responses=_ANYWHERE)
    for module in (models, chat, speech, transcriptions, realtime, calls):
        app.include_router(module.router, dependencies=[Depends(_SHOWN)], responses=_OPENAI)
    app.include_router(operation.health, responses=problems.responses(400))
    app.add_api_websocket_route("/{name:path}", sockets.nowhere)
    pages.add_pages(app, settings)
    return app


@dataclass(frozen=True)
class _Files:
    """What the operator's files say. None: there is no such file."""

    answers: AnswerCache
    tools: McpServers | None
    knowledge: Knowledge | None
    rooms: Rooms


def _read_files(settings: GatewaySettings) -> _Files:
    """Before anything is served. Raises SettingsError that names the file and what is wrong."""
    try:
        return _Files(_answers(settings), _tools(settings), _knowledge(settings), Rooms(settings))
    except InvalidInputError as error:
        raise SettingsError(str(error)) from error


@asynccontextmanager
async def _running(
    settings: GatewaySettings,
    files: _Files,
    instance: str,
    address: str,
    tls: Tls | None,
    doorkeeper: Doorkeeper,
) -> AsyncIterator[Gateway]:
    """All that lives as long as the process; what is named last is ended first."""
    async with AsyncExitStack() as ending:
        start_tracing("gateway", instance)
        ending.callback(stop_tracing)
        heartbeat = Heartbeat()
        heartbeat.start()
        ending.push_async_callback(heartbeat.stop)
        await asyncio.to_thread(forget_left_behind, settings.recording_dir)
        bus = await connect_bus(settings, instance)
        ending.push_async_callback(bus.close)
        registry = Registry(bus, settings.access())
        ending.push_async_callback(registry.close)
        await registry.start()
        answers, rooms = files.answers, files.rooms
        await answers.open()
        ending.push_async_callback(answers.close)
        loops = LoopLibrary(registry, round(settings.loop_memory_mb * 1e6))
        ending.push_async_callback(loops.close)
        loops.start()
        lessons = SharedLessons(bus, answers)
        ending.push_async_callback(lessons.stop)
        if answers.learns:
            lessons.start()
        new_id = partial(session_id, instance)
        tools = await _called(files.tools, ending)
        sources = Sources(answers, tools, await _watched(files.knowledge, ending))
        sessions = Sessions(bus, registry, settings, sources, loops, new_id)
        ending.push_async_callback(sessions.end_all)
        sessions.start()
        entrance = _entrance(settings, sessions, registry, new_id)
        ending.push_async_callback(entrance.stop)
        entrance.start()
        capacity = _capacity(bus, instance, registry, sessions)
        ending.push_async_callback(capacity.stop)
        await capacity.start()
        prerenderer = Prerenderer(Phrases(registry), answers, lambda: sessions.busy > 0)
        ending.push_async_callback(prerenderer.stop)
        if settings.prerender:
            prerenderer.start()
        ending.push_async_callback(rooms.close_all)
        carrier = _carrier(tls, ending)
        room = partial(_room, sessions, entrance)
        own = {"pages": pages.version_of(pages.STATIC)}
        if address:
            own |= {"http": address, "scheme": "https" if tls else "http"}
        peers = Peers(
            bus,
            registry,
            instance,
            own,
            room,
            lambda: sessions.free,
            sessions.has,
            lambda: {owner_of(session.id) for session in sessions.all()},
        )
        ending.push_async_callback(peers.stop)
        handover = Handover(
            sessions,
            peers,
            MonotonicClock(),
            lambda to, text: sockets.obey(to, gateway, text),
            rooms,
        )
        ending.push_async_callback(handover.close)
        gateway = Gateway(
            settings,
            bus,
            registry,
            Catalog(registry),
            sessions,
            entrance,
            answers,
            prerenderer,
            peers,
            carrier,
            handover,
            doorkeeper,
            PlainCalls(registry),
            rooms,
            tools,
        )
        standing_in = StandingIn(bus, sessions, peers, handover, rooms)
        await peers.start(standing_in.obey, gateway.usage_of)
        ending.push_async_callback(standing_in.stop)
        if address:
            standing_in.start()
        wyoming = WyomingServer(gateway)
        ending.push_async_callback(wyoming.stop)
        await wyoming.start()
        heartbeat.working()
        yield gateway


def _carrier(tls: Tls | None, ending: AsyncExitStack) -> Carrier:
    """What reaches other gateways, by the certificate that all of them have at the time."""
    if tls is not None:
        looking = Keeper("certificate", tls.keep_looking)
        ending.push_async_callback(looking.stop)
        looking.start()
    carrier = Carrier(tls.peers if tls is not None else None)
    ending.push_async_callback(carrier.close)
    return carrier


def _entrance(
    settings: GatewaySettings,
    sessions: Sessions,
    registry: Registry,
    new_id: Callable[[], str],
) -> Entrance:
    return Entrance(
        sessions,
        registry,
        new_id,
        places=settings.queue_places,
        patience_s=settings.queue_patience_s,
    )


def _room(sessions: Sessions, entrance: Entrance) -> int:
    """For a new visitor: whoever waits comes first."""
    return sessions.free - entrance.waiting


def _capacity(bus: Bus, instance: str, registry: Registry, sessions: Sessions) -> CapacityReporter:
    """What this process takes of the machine that replicas share with it, and what they tell."""
    clock = MonotonicClock()
    admission = Admission(
        "gateway",
        clock,
        _ASSUMED,
        None,
        slots=sessions.free,
        cores=cores(),
        foreign_cores=foreign_cores(),
    )

    def look() -> None:
        admission.meter.attached(len(sessions.all()))
        admission.meter.working(sessions.busy)

    return CapacityReporter(
        bus, "gateway", instance, admission, on_look=look, on_told=registry.told
    )


def _answers(settings: GatewaySettings) -> AnswerCache:
    """Raises InvalidInputError where the file of answers is not in order."""
    folder = settings.answer_cache_dir or cache_root() / "visavis" / "answers"
    limits = LearnedLimits(
        settings.answer_cache_entries,
        round(settings.answer_cache_mb * 1e6),
        settings.answer_cache_hours * 3600,
    )
    return AnswerCache(
        settings.answers,
        settings.persona,
        learn_in=folder if settings.learn_answers else None,
        limits=limits,
    )


def _tools(settings: GatewaySettings) -> McpServers | None:
    """Those of configured servers. Raises InvalidInputError where their file is not in order."""
    return McpServers(read_servers(settings.mcp)) if settings.mcp is not None else None


async def _called(servers: McpServers | None, ending: AsyncExitStack) -> ServerTools:
    if servers is None:
        return NoServerTools()
    ending.push_async_callback(servers.stop)
    await servers.start()
    return servers


def _knowledge(settings: GatewaySettings) -> Knowledge | None:
    """The folder of texts. Raises InvalidInputError where there is none of that name."""
    if settings.knowledge is None:
        return None
    from gateway.knowledge.folder import Knowledge  # its libraries take a while

    return Knowledge(settings.knowledge)


async def _watched(knowledge: Knowledge | None, ending: AsyncExitStack) -> KnownTexts | None:
    """The texts, read, and read anew when they change."""
    if knowledge is None:
        return None
    await knowledge.open()
    watching = Keeper("knowledge", knowledge.watch)
    ending.push_async_callback(watching.stop)
    watching.start()
    return knowledge
