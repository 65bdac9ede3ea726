"""The gateway's web application: wires the parts together, and how it is served."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import swagger_ui_bundle
import uvicorn
from fastapi import FastAPI, Request
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import FileResponse, HTMLResponse
from fastapi.staticfiles import StaticFiles
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from gateway.answers.cache import AnswerCache, LearnedLimits
from gateway.answers.prerender import Prerenderer
from gateway.answers.sharing import SharedLessons
from gateway.api import (
    problems,
    routes_cache,
    routes_catalog,
    routes_media,
    routes_operation,
    routes_sessions,
    sockets,
)
from gateway.api.access import AccessControl, BodyLimit
from gateway.api.events import MAX_SOCKET_MESSAGE_BYTES
from gateway.api.state import Gateway
from gateway.peers.handover import Handover
from gateway.peers.passing import Carrier, PassOn
from gateway.peers.peers import Peers, session_id
from gateway.settings import GatewaySettings
from gateway.stages.catalog import Catalog
from gateway.stages.idle_loops import LoopLibrary
from gateway.stages.phrases import Phrases
from gateway.stages.registry import Registry
from gateway.talk.sessions import Sessions
from gateway.waiting.entrance import Entrance
from visavis.bundles.store.catalogue import cache_root
from visavis.serving import aiortc_private
from visavis.serving.admission.admission import Admission
from visavis.serving.admission.meter import Assumed
from visavis.serving.admission.probes import cores
from visavis.serving.admission.reporting import CapacityReporter
from visavis.serving.discovery import instance_of
from visavis.serving.heartbeat import Heartbeat
from visavis.wire.bus import Bus
from visavis.wire.clock import MonotonicClock

_STATIC = Path(__file__).parents[1] / "static"
_BUS_WAIT_S = 30.0
# Sound and pictures on their way to a visitor, until they are measured.
_ASSUMED = Assumed(units_per_s=0.0, unit_cost_s=0.0, cores=0.05)
_DRAIN_S = 3
# A client that vanished without a word holds its session's slots until that is noticed.
_PING_EVERY_S, _PING_TIMEOUT_S = 5, 15

# A key in the address, no key, a foreign page, what cannot be read; a bus that is away.
_ANYWHERE = problems.responses(400, 401, 403, 422, 503)

_DESCRIPTION = """
Speak or type to a face, and it answers with voice and lips in step.

1. `POST /v1/sessions` makes a session. Where deadlines would not hold with one more, it answers
   429 with the expected wait; with `"queue": true` 202 and a place in line, under the id that the
   session will have. `GET /v1/sessions/{id}/place` tells how it stands, the WebSocket of the same
   path as it changes; `DELETE /v1/sessions/{id}` leaves.
2. Media: `POST …/webrtc` with an SDP offer, or the WebSocket `…/media?role=speaker|viewer`
   (fragmented mp4 with H.264 and AAC to the client; the speaker's microphone as binary
   messages of 16-bit little-endian mono PCM at 16 kHz, 16 to 20 ms each).
3. Captions, states and latencies: the WebSocket `…/events`. Server to client: `session`,
   `state`, `transcript`, `answer`, `turn`, `latency`, `error`, `warning`, `pong`; client
   to server: `{"type": "text", "text": "…", "style"?}`, `{"type": "interrupt"}`,
   `{"type": "update", "language"?, "voice"?, "avatar"?, "speed"?, "style"?}`, `{"type": "ping"}`.

Every error from 400 on is `{"error": {"code", "message"}}`. Where the gateway has an API
key: `Authorization: Bearer KEY`; a WebSocket that cannot set headers offers the subprotocols
`visavis` and `bearer.KEY`, the key percent-encoded. Never in the address.
"""


def create_app(settings: GatewaySettings, address: str = "") -> FastAPI:
    """The application; it connects to the bus when it is started. Raises VisavisError.

    address: "host:port" where other gateways reach this one; "": there are no others.
    """
    aiortc_private.check()
    instance = instance_of(settings.label or "gateway")

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with _running(settings, instance, address) as app.state.gateway:
            yield

    app = FastAPI(
        title="visavis",
        version=version("visavis"),
        description=_DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    # What the bundled page can show.
    app.openapi_version = "3.0.3"
    limit_bytes = round(settings.upload_limit_mb * 1e6)
    app.add_middleware(PassOn)
    app.add_middleware(BodyLimit, upload_path="/v1/avatars", upload_limit_bytes=limit_bytes)
    app.add_middleware(AccessControl, settings=settings)
    problems.install(app)
    for module in (
        routes_sessions,
        routes_media,
        routes_catalog,
        routes_cache,
        routes_operation,
        sockets,
    ):
        app.include_router(module.router, responses=_ANYWHERE)
    _add_pages(app)
    return app


@asynccontextmanager
async def _running(
    settings: GatewaySettings, instance: str, address: str
) -> AsyncIterator[Gateway]:
    """All that lives as long as the process; what is named last is ended first."""
    async with AsyncExitStack() as ending:
        heartbeat = Heartbeat()
        heartbeat.start()
        ending.push_async_callback(heartbeat.stop)
        bus = await Bus.connect(settings.nats_url, name=instance, wait_s=_BUS_WAIT_S)
        ending.push_async_callback(bus.close)
        registry = Registry(bus)
        ending.push_async_callback(registry.close)
        await registry.start()
        answers = _answers(settings)
        await answers.open()
        ending.push_async_callback(answers.save)
        loops = LoopLibrary(registry, round(settings.loop_memory_mb * 1e6))
        ending.push_async_callback(loops.close)
        loops.start()
        lessons = SharedLessons(bus, answers)
        ending.push_async_callback(lessons.stop)
        if answers.learns:
            lessons.start()
        new_id = partial(session_id, instance)
        sessions = Sessions(bus, registry, settings, answers, loops, new_id)
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
        carrier = Carrier()
        ending.push_async_callback(carrier.close)
        room = partial(_room, sessions, entrance)
        peers = Peers(bus, registry, instance, address, room, lambda: sessions.free, sessions.has)
        ending.push_async_callback(peers.stop)
        handover = Handover(
            sessions, peers, MonotonicClock(), lambda to, text: sockets.obey(to, gateway, text)
        )
        ending.push_async_callback(handover.close)
        await peers.start(handover.hear)
        heartbeat.working()
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
        )
        yield gateway


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
    admission = Admission("gateway", clock, _ASSUMED, None, slots=sessions.free, cores=cores())

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


def _add_pages(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(_STATIC / "index.html", headers={"Cache-Control": "no-cache"})

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> HTMLResponse:
        # Relative addresses, so that a reverse proxy may serve all of it under a prefix.
        return get_swagger_ui_html(
            openapi_url="openapi.json",
            title="visavis API",
            swagger_js_url="docs/swagger-ui-bundle.js",
            swagger_css_url="docs/swagger-ui.css",
            swagger_favicon_url="docs/favicon-32x32.png",
        )

    vendor = Path(swagger_ui_bundle.__file__).parent / "vendor"
    app.mount("/docs", StaticFiles(directory=next(vendor.glob("swagger-ui-*"))))
    app.mount("/static", StaticFiles(directory=_STATIC, check_dir=False))


class _Sockets(WebSocketsSansIOProtocol):
    """A handshake that was answered with an HTTP error is complete.

    uvicorn takes it for one that the application forgot, and logs each as an error of it.
    """

    async def send(self, message: Any) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and self.close_sent:
            self.handshake_complete = True


def server_config(
    app: FastAPI, *, host: str = "127.0.0.1", port: int = 0, drain_s: int = _DRAIN_S
) -> uvicorn.Config:
    """Of the gateway's web server. drain_s: for requests that run when it is told to stop.

    To be made once logging is set up.
    """
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        log_config=None,
        # At DEBUG it writes down the headers of every handshake, and so the key.
        log_level=max(logging.INFO, logging.getLogger().getEffectiveLevel()),
        access_log=False,
        ws=_Sockets,
        ws_max_size=MAX_SOCKET_MESSAGE_BYTES,
        ws_per_message_deflate=False,
        ws_ping_interval=_PING_EVERY_S,
        ws_ping_timeout=_PING_TIMEOUT_S,
        timeout_graceful_shutdown=drain_s,
    )
