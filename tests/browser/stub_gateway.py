"""A stub of the gateway for tests of the page alone: it speaks the public API and thinks nothing.

The real gateway, with everything behind it, is met in test_conversation.py.
"""

from __future__ import annotations

import asyncio
import functools
import mimetypes
import socket
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from aiortc import RTCPeerConnection, RTCSessionDescription
from fastapi import FastAPI, Form, Request, Response, UploadFile, WebSocket, WebSocketDisconnect
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway import __file__ as gateway_file
from tests.browser.stub_media import (
    AudioStreamTrack,
    FaceClip,
    Picture,
    StubVideo,
    drawn_face,
    fmp4,
    jpeg,
)

STATIC = Path(gateway_file).with_name("static")
VOICES = [
    {"name": "hibari", "languages": ["en"], "gender": "female", "description": "Clear and calm"},
    {"name": "joe", "languages": ["en"], "gender": "male", "description": "Warm"},
    {"name": "baker", "languages": ["zh"], "gender": "female", "description": "标准普通话"},
]


@dataclass
class Script:
    """How the stub behaves; a test changes it before or while the page is open."""

    api_key: str = ""
    token: str = "token"
    """What session tokens begin with; those that begin otherwise have run out."""
    webrtc_status: int = 200
    full: str = ""
    ahead: int = 0
    """Visitors who are let in before; who comes has to wait in line for them."""
    wait_s: float | None = None
    """What those who wait are told."""
    places_lost: int = 0
    place_refused: str = ""
    """Why; for good."""
    """The first places are lost: their gateway ends, and says so to every second of them."""
    missing: dict[str, str] = field(default_factory=dict)
    """Services that are not there yet, and why."""
    deaf: bool = False
    """Its sockets look open, and nothing comes any more: as after a machine's sleep."""
    dark: bool = False
    """Its media socket brings nothing yet."""
    refuse_avatar: str = ""
    avatars: list[str] = field(default_factory=lambda: ["eileen", "grandma-gu"])
    portrait: Picture = field(default_factory=drawn_face)
    turns: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Seen:
    """What the page has done."""

    sessions: list[dict[str, Any]] = field(default_factory=list)
    updates: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    consents: list[tuple[str, str]] = field(default_factory=list)
    uploads: list[tuple[str, int]] = field(default_factory=list)
    recording: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    pcm: bytearray = field(default_factory=bytearray)
    media: int = 0
    """So many media sockets were opened."""
    unheard: int = 0
    """So many messages came over the events' sockets while it was deaf."""


@functools.cache
def _file(name: str) -> Response:
    """One of the page's own, read once for all stubs: whoever opens the page asks for fifty."""
    file = STATIC / name
    if not file.is_file():
        return Response(status_code=404)
    return Response(file.read_bytes(), media_type=mimetypes.guess_type(name)[0])


def _with_files(app: ASGIApp) -> ASGIApp:
    """`app`, asked only for what is no file: on its way is more than a file needs."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        _, is_file, name = scope.get("path", "").partition("/static/")
        await (_file(name) if is_file else app)(scope, receive, send)

    return answer


def _error(status: int, code: str, message: str) -> JSONResponse:
    return JSONResponse({"error": {"code": code, "message": message}}, status)


class StubGateway:
    """Runs in a thread of its own, on a free port of the loopback interface."""

    def __init__(self, script: Script | None = None) -> None:
        self.script = script or Script()
        self.seen = Seen()
        self._speaking = False
        self._sockets: dict[str, set[WebSocket]] = {"events": set(), "media": set()}
        self._peers: set[RTCPeerConnection] = set()
        self._live: set[str] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        config = uvicorn.Config(_with_files(self._app()), log_config=None, ws="websockets-sansio")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="stub-gateway")

    def __enter__(self) -> StubGateway:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._server.serve([self._socket])
        await self._close_peers()

    # ---------------------------------------------------------------- what tests do

    def begin(self, session: str) -> None:
        """A session that somebody else has made."""
        self._live.add(session)

    def push(self, *events: dict[str, Any]) -> None:
        """Sends events to the page, in order; returns when they are sent."""
        self._speaking = next((e["state"] == "speaking" for e in events if "state" in e), False)
        self._do(lambda: self._push(events))

    def drop(self, kind: str = "", *, forget: bool = False) -> None:
        """Cuts every connection, or the sockets of one kind; forget: as after a restart, the
        session is unknown too."""
        if forget:
            self._live.clear()
        self._do(lambda: self._drop(kind))

    async def until(self, met: Callable[[Seen], object], timeout_s: float = 15) -> None:
        """Returns once the page has done it."""
        async with asyncio.timeout(timeout_s):
            while not met(self.seen):  # noqa: ASYNC110 - seen changes in another thread
                await asyncio.sleep(0.02)

    def _do(self, make: Callable[[], Coroutine[Any, Any, None]]) -> None:
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(make(), self._loop).result(10)

    async def _push(self, events: tuple[dict[str, Any], ...]) -> None:
        for peer in list(self._sockets["events"]):
            for event in events:
                await peer.send_json(event)

    async def _drop(self, only: str) -> None:
        for kind, peers in self._sockets.items():
            for peer in list(peers) if only in ("", kind) else []:
                with suppress(RuntimeError):  # it has gone by itself
                    await peer.close(1012)
        if not only:
            await self._close_peers()

    async def _close_peers(self) -> None:
        while self._peers:
            await self._peers.pop().close()

    # ---------------------------------------------------------------- the API

    def _app(self) -> FastAPI:
        app = FastAPI()
        app.middleware("http")(self._check_key)
        app.get("/")(self._page)
        app.get("/readyz")(self._readyz)
        app.get("/v1/services")(self._services)
        app.get("/v1/voices")(self._voices)
        app.get("/v1/avatars")(self._avatars)
        app.post("/v1/avatars")(self._create_avatar)
        app.delete("/v1/avatars/{name}")(self._delete_avatar)
        app.patch("/v1/avatars/{name}")(self._rename_avatar)
        app.get("/v1/avatars/{name}/portrait.jpg")(self._portrait)
        app.post("/v1/sessions")(self._create)
        app.post("/v1/sessions/{session}/token")(self._token)
        app.get("/v1/sessions/{session}")(self._get)
        app.get("/v1/sessions/{session}/turns")(self._turns)
        app.patch("/v1/sessions/{session}")(self._update)
        app.delete("/v1/sessions/{session}")(self._delete)
        app.get("/v1/sessions/{session}/ice-servers")(self._ice_servers)
        app.post("/v1/sessions/{session}/webrtc")(self._webrtc)
        app.delete("/v1/sessions/{session}/webrtc/{peer_id}")(self._leave)
        app.post("/v1/sessions/{session}/recording")(self._record)
        app.post("/v1/sessions/{session}/recording/stop")(self._record_stop)
        app.get("/v1/sessions/{session}/recording.mp4")(self._recording)
        app.websocket("/v1/sessions/{session}/place")(self._line)
        app.websocket("/v1/sessions/{session}/events")(self._events)
        app.websocket("/v1/sessions/{session}/media")(self._media)
        return app

    async def _check_key(self, request: Request, forward: Any) -> Any:
        key, path = self.script.api_key, request.url.path
        of_a_session = path.removeprefix("/v1/sessions/").partition("/")[0]
        known = of_a_session in self._live
        shown = request.headers.get("authorization", "")
        if (
            known
            and not key
            and shown not in ("", f"Bearer {self._token_of(of_a_session)['token']}")
        ):
            return _error(401, "unauthenticated", "this session token has expired")
        if key and path.startswith("/v1/"):
            wanted = f"token-of-{of_a_session}" if known else key
            if shown != f"Bearer {wanted}":
                return _error(401, "unauthenticated", "this gateway needs an API key")
        return await forward(request)

    async def _page(self) -> Response:
        return _file("index.html")

    async def _readyz(self) -> JSONResponse:
        missing = self.script.missing
        return JSONResponse({"status": "…", "missing": missing}, 503 if missing else 200)

    async def _services(self) -> dict[str, Any]:
        return {"services": [{"service": "llm", "engines": [{"model": "smollm2-135m"}]}]}

    async def _voices(self) -> Any:
        if "tts" in self.script.missing:
            return _error(503, "stage_lost", "tts: no replica is running")
        return {"voices": VOICES}

    async def _avatars(self) -> Any:
        if "face" in self.script.missing:
            return _error(503, "stage_lost", "face: no replica is running")
        made = [name for name, _ in self.seen.uploads]
        known = [{"name": name, "builtin": name not in made} for name in self.script.avatars]
        return {"avatars": known}

    async def _rename_avatar(self, name: str, request: Request) -> dict[str, Any]:
        new_name = (await request.json())["name"]
        self.script.avatars[self.script.avatars.index(name)] = new_name
        self.seen.uploads.append((new_name, 0))
        return {"name": new_name}

    async def _delete_avatar(self, name: str) -> Response:
        self.script.avatars.remove(name)
        return Response(status_code=204)

    async def _create_avatar(
        self,
        photo: UploadFile,
        name: str = Form(),
        likeness: str = Form(),
        agreed_to: str = Form(),
    ) -> Any:
        self.seen.consents.append((likeness, agreed_to))
        if self.script.refuse_avatar:
            return _error(422, "invalid_input", self.script.refuse_avatar)
        self.seen.uploads.append((name, len(await photo.read())))
        self.script.avatars.append(name)
        return JSONResponse({"name": name}, 201)

    async def _portrait(self, name: str) -> Response:
        return Response(jpeg(self.script.portrait), media_type="image/jpeg")

    async def _create(self, request: Request) -> Any:
        if self.script.full:
            return _error(429, "at_capacity", self.script.full)
        self.seen.sessions.append(await request.json())
        session = f"session{len(self.seen.sessions)}"
        token = self._token_of(session)
        if self.script.ahead:
            return JSONResponse({**self._place(session), **token}, 202)
        self._live.add(session)
        return JSONResponse({"id": session, **self.seen.sessions[-1], **token}, 201)

    async def _token(self, session: str) -> Any:
        if session not in self._live and not self.script.ahead:
            return _error(401, "unauthenticated", "this session token has expired")
        return self._token_of(session)

    def _token_of(self, session: str) -> dict[str, Any]:
        token = f"{self.script.token}-of-{session}"
        return {"token": token, "token_role": "visitor", "token_expires_in_s": 900.0}

    def _place(self, session: str) -> dict[str, Any]:
        ahead = self.script.ahead
        state = "waiting" if ahead else "admitted"
        told = {"id": session, "state": state, "position": ahead, "message": ""}
        return {**told, "expected_wait_s": self.script.wait_s}

    async def _line(self, peer: WebSocket, session: str) -> None:
        made = len(self.seen.sessions)
        if made <= self.script.places_lost and made % 2:
            await peer.send_denial_response(_error(404, "not_found", "nobody waits"))
            return
        await peer.accept(subprotocol="visavis")
        with suppress(WebSocketDisconnect, RuntimeError):
            if made <= self.script.places_lost:
                await self._refuse(peer, session, "about to end", again=True)
                return
            if self.script.place_refused:
                await self._refuse(peer, session, self.script.place_refused, again=False)
                return
            while self.script.ahead:
                await peer.send_json({"type": "place", **self._place(session)})
                await asyncio.sleep(0.05)
            self._live.add(session)
            await peer.send_json({"type": "place", **self._place(session)})
            await peer.close()

    async def _refuse(self, peer: WebSocket, session: str, why: str, *, again: bool) -> None:
        told = {**self._place(session), "state": "refused", "message": why, "again": again}
        await peer.send_json({"type": "place", **told})
        await peer.close()

    async def _get(self, session: str) -> Any:
        if session not in self._live:
            return _error(404, "not_found", f"no session {session}")
        return {"id": session}

    async def _turns(self, session: str) -> list[dict[str, Any]]:
        return self.script.turns

    async def _update(self, session: str, request: Request) -> dict[str, Any]:
        self.seen.updates.append(await request.json())
        return {"id": session}

    async def _leave(self, session: str, peer_id: str) -> Response:
        return Response(status_code=204)

    async def _delete(self, session: str) -> Response:
        self.seen.deleted.append(session)
        return Response(status_code=204)

    async def _ice_servers(self, session: str) -> dict[str, Any]:
        return {"ice_servers": []}

    async def _webrtc(self, session: str, request: Request) -> Any:
        if self.script.webrtc_status != 200:
            return _error(self.script.webrtc_status, "unavailable", "no WebRTC here")
        offer = await request.json()
        peer = RTCPeerConnection()
        self._peers.add(peer)
        peer.addTrack(AudioStreamTrack())
        peer.addTrack(StubVideo(self._clip()))
        await peer.setRemoteDescription(RTCSessionDescription(offer["sdp"], offer["type"]))
        await peer.setLocalDescription(await peer.createAnswer())
        answer = peer.localDescription
        return {"sdp": answer.sdp, "type": answer.type, "peer_id": "p1"}

    def _clip(self) -> FaceClip:
        return FaceClip(self.script.portrait, lambda: self._speaking)

    async def _record(self, session: str) -> Any:
        if self.seen.recording[-1:] == ["start"]:
            return _error(409, "out_of_order", "recording: one is running; stop it first")
        self.seen.recording.append("start")
        return {"id": session}

    async def _record_stop(self, session: str) -> dict[str, Any]:
        self.seen.recording.append("stop")
        return {"id": session}

    async def _recording(self, session: str) -> Response:
        return Response(b"not a real film", media_type="video/mp4")

    async def _events(self, peer: WebSocket, session: str) -> None:
        if session not in self._live:
            await peer.send_denial_response(_error(404, "not_found", f"no session {session}"))
            return
        await peer.accept("visavis")
        self._sockets["events"].add(peer)
        try:
            await peer.send_json({"type": "state", "state": "idle"})
            while True:
                said = await peer.receive_json()
                if self.script.deaf:
                    self.seen.unheard += 1
                    continue
                if said == {"type": "ping"}:
                    await peer.send_json({"type": "pong"})
                else:
                    self.seen.events.append(said)
        except WebSocketDisconnect:
            pass
        finally:
            self._sockets["events"].discard(peer)

    async def _media(self, peer: WebSocket, session: str) -> None:
        await peer.accept("visavis")
        self.seen.media += 1
        self._sockets["media"].add(peer)
        sender = asyncio.create_task(self._send_film(peer))
        try:
            while True:
                self.seen.pcm += await peer.receive_bytes()
        except WebSocketDisconnect:
            pass
        finally:
            self._sockets["media"].discard(peer)
            sender.cancel()
            await asyncio.gather(sender, return_exceptions=True)

    async def _send_film(self, peer: WebSocket) -> None:
        async for piece in fmp4(self._clip()):
            while self.script.dark:  # noqa: ASYNC110 - changed in another thread
                await asyncio.sleep(0.02)
            await peer.send_bytes(piece)
