"""Local servers that speak as the platforms do, from what their descriptions and clients record."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import struct
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from websockets.asyncio.server import ServerConnection, serve

from tests.gateway.conftest import served

KEY, SECRET = "access-key", "access-secret"

Answer = Callable[[Request], Awaitable[Response]]


@asynccontextmanager
async def http_server(*routes: Route) -> AsyncIterator[str]:
    """An HTTP server's address."""
    config = uvicorn.Config(
        Starlette(routes=list(routes)), port=0, log_config=None, ws="websockets-sansio"
    )
    async with served(config) as port:
        yield f"http://127.0.0.1:{port}"


class TwitchServer:
    """Twitch's IRC over a WebSocket. lines: sent once somebody has joined a channel."""

    def __init__(self, *lines: str, password: str = "") -> None:
        self.heard: list[str] = []
        self.lines = lines
        self.url = ""
        self._password = password
        self._sockets: list[ServerConnection] = []

    async def say(self, line: str) -> None:
        """To whoever is connected."""
        for socket in self._sockets:
            await socket.send(f"{line}\r\n")

    async def talk(self, socket: ServerConnection) -> None:
        tell = ":tmi.twitch.tv"
        self._sockets.append(socket)
        async for message in socket:
            self.heard += str(message).splitlines()
            command, _, rest = str(message).partition(" ")
            if command == "CAP":
                await socket.send(f"{tell} CAP * ACK {rest.partition(' ')[2]}\r\n")
            elif command == "PASS" and rest != self._password:
                await socket.send(f"{tell} NOTICE * :Login authentication failed\r\n")
                return
            elif command == "NICK":
                welcome = "\r\n".join(f"{tell} {n} {rest} :-" for n in ("001", "372", "376"))
                await socket.send(f"{welcome}\r\n")
            elif command == "JOIN":
                room = f"@emote-only=0;room-id=1 {tell} ROOMSTATE {rest}"
                await socket.send("\r\n".join((room, "PING :tmi.twitch.tv", *self.lines)) + "\r\n")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[TwitchServer]:
        async with serve(self.talk, "127.0.0.1", 0) as server:
            self.url = f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"
            yield self


_HEADER = struct.Struct(">IHHII")


def frame(operation: int, body: bytes, version: int) -> bytes:
    return _HEADER.pack(16 + len(body), 16, version, operation, 0) + body


class BilibiliServer:
    """The open platform: its HTTP calls, whose signatures it checks, and its WebSocket.

    commands: sent once somebody has shown what he was given. deflated: several in one packet.
    """

    def __init__(self, *commands: dict[str, Any], deflated: bool) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.operations: list[int] = []
        self.url = ""
        self._link = ""
        self._commands = commands
        self._deflated = deflated

    async def called(self, request: Request) -> Response:
        body = await request.body()
        names = sorted(name for name in request.headers if name.startswith("x-bili-"))
        text = "\n".join(f"{name}:{request.headers[name]}" for name in names)
        signature = hmac.new(SECRET.encode(), text.encode(), hashlib.sha256).hexdigest()
        digest = hashlib.md5(body).hexdigest()
        right = request.headers["authorization"] == signature
        if not right or request.headers["x-bili-content-md5"] != digest or len(names) != 6:
            return JSONResponse({"code": 4002, "message": "signature", "request_id": "1"})
        self.calls.append((request.url.path, json.loads(body)))
        data = {
            "game_info": {"game_id": "game-1"},
            "websocket_info": {"auth_body": '{"key":"shown"}', "wss_link": [self._link]},
            "anchor_info": {"room_id": 4711, "uname": "Cleo", "uid": 1},
        }
        return JSONResponse({"code": 0, "message": "0", "request_id": "1", "data": data})

    async def talk(self, socket: ServerConnection) -> None:
        async for message in socket:
            assert isinstance(message, bytes)
            length, _, _, operation, _ = _HEADER.unpack_from(message)
            assert length == len(message)
            self.operations.append(operation)
            if operation == 7:
                right = message[16:] == b'{"key":"shown"}'
                await socket.send(frame(8, json.dumps({"code": 0 if right else -101}).encode(), 1))
            elif operation == 2:
                # What is sent back of ours is not in the length that its header tells.
                await socket.send(frame(3, b"\x00\x00\x00\x07", 1) + b"{}")
                await self._tell(socket)

    async def _tell(self, socket: ServerConnection) -> None:
        frames = [frame(5, json.dumps(c).encode(), 0) for c in self._commands]
        if self._deflated:
            await socket.send(frame(5, zlib.compress(b"".join(frames)), 2))
        else:
            await socket.send(b"".join(frames))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[BilibiliServer]:
        async with serve(self.talk, "127.0.0.1", 0) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            self._link = f"ws://127.0.0.1:{port}/sub"
            async with http_server(
                Route("/v2/app/{what}", self.called, methods=["POST"])
            ) as self.url:
                yield self


class YouTubeServer:
    """The Data API's live chat. pages: one after the other; the last is told again, with all that
    was posted.
    """

    def __init__(self, *pages: list[dict[str, Any]]) -> None:
        self.asked: list[dict[str, str]] = []
        self.posted: list[dict[str, Any]] = []
        self.url = ""
        self._pages = pages
        self.refusal = ""
        """The reason for which everything is refused."""
        self.odd: tuple[int, Any] | None = None
        """Status and body of what it answers instead of the chat."""
        self.tokens = True
        """Whether it takes any."""
        self.may_answer = asyncio.Event()
        """Who posts is told so."""
        self.may_answer.set()

    async def messages(self, request: Request) -> Response:
        self.asked.append({**request.query_params, **_shown(request)})
        if self.odd is not None:
            status, body = self.odd
            return JSONResponse(body, status)
        if not self.tokens and "authorization" in request.headers:
            expired = {"code": 401, "message": "no", "errors": [{"reason": "authError"}]}
            return JSONResponse({"error": expired}, 401)
        if self.refusal:
            error: dict[str, Any] = {"message": "no", "errors": [{"reason": self.refusal}]}
            if self.refusal == "API_KEY_INVALID":
                about = "type.googleapis.com/google.rpc.ErrorInfo"
                error["errors"] = [{"reason": "badRequest"}]
                error["details"] = [{"@type": about, "reason": self.refusal}]
                return JSONResponse({"error": {"code": 400, **error}}, 400)
            return JSONResponse({"error": {"code": 403, **error}}, 403)
        if request.method == "POST":
            post = await request.json()
            self.posted.append(post)
            text = post["snippet"]["textMessageDetails"]["messageText"]
            item = {"id": f"posted-{len(self.posted)}", "authorDetails": {"channelId": "UCours"}}
            self._pages[-1].append(
                {**item, "snippet": {"type": "textMessageEvent", "displayMessage": text}}
            )
            await self.may_answer.wait()
            return JSONResponse(item)
        page = int(request.query_params.get("pageToken", "0"))
        told = {
            "kind": "youtube#liveChatMessageListResponse",
            "nextPageToken": str(min(page + 1, len(self._pages) - 1)),
            "pollingIntervalMillis": 10,
            "items": self._pages[page],
        }
        return JSONResponse(told)

    async def videos(self, request: Request) -> Response:
        details = {"activeLiveChatId": f"chat-of-{request.query_params['id']}"}
        return JSONResponse({"items": [{"liveStreamingDetails": details}]})

    @asynccontextmanager
    async def running(self) -> AsyncIterator[YouTubeServer]:
        routes = (
            Route("/liveChat/messages", self.messages, methods=["GET", "POST"]),
            Route("/videos", self.videos),
        )
        async with http_server(*routes) as self.url:
            yield self


def _shown(request: Request) -> dict[str, str]:
    return {
        name: request.headers[name]
        for name in ("authorization", "x-goog-api-key")
        if name in request.headers
    }
