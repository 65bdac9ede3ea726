"""Bilibili's live chat, by its open platform: signed HTTP calls to begin, keep up and end, and a
WebSocket of binary packets.

A packet is a header of 16 bytes (length, header length, version, operation, sequence; big-endian)
and a body: JSON, or with version 2 packets again, deflated. The platform lets nobody write into a
room.
By open-live.bilibili.com/document.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import logging
import secrets
import struct
import time
import zlib
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import httpx
import websockets
from websockets.asyncio.client import ClientConnection

from gateway.room.choosing.comments import Author, Comment, Kind
from gateway.room.platforms.connection import QUIET, PlatformError, RefusedError, told
from visavis.serving.lifetime.supervision import cancelled_at_last
from visavis.serving.way_out import UNPACKED, json_in, socket_way_to, way_to, whole, why_not

log = logging.getLogger(__name__)

URL = "https://live-open.biliapi.com"
_HEADER = struct.Struct(">IHHII")
_DEFLATED = 2
_LARGEST_BYTES = 8_000_000
_TIMEOUT_S = 10.0
_SOCKET_BEAT_S, _PROJECT_BEAT_S = 30.0, 20.0
# It answers each of our heartbeats.
_SILENT_S = 75.0
_OLDEST_S = 60.0
# A signature, an app or an identity code that is wrong stays so.
_FOR_GOOD = (4000, 4001, 4002, 7007)


class Operation(IntEnum):
    """What a packet is for."""

    HEARTBEAT = 2
    HEARTBEAT_REPLY = 3
    MESSAGE = 5
    AUTH = 7
    AUTH_REPLY = 8


@dataclass(frozen=True, slots=True)
class _Begun:
    """What the platform has told of a room. game: to be kept up and ended; "": neither."""

    game: str
    auth_body: str
    links: tuple[str, ...]


def packet(operation: Operation, body: bytes, version: int = 1) -> bytes:
    """One packet as it is sent."""
    return _HEADER.pack(_HEADER.size + len(body), _HEADER.size, version, operation, 1) + body


def packets(data: bytes, depth: int = 0) -> Iterator[tuple[int, bytes]]:
    """Operation and body of each packet, deflated ones opened. Raises PlatformError."""
    at = 0
    while at < len(data):
        if len(data) - at < _HEADER.size:
            raise PlatformError("bilibili: a packet that ends within its header")
        length, header, version, operation, _ = _HEADER.unpack_from(data, at)
        # Of a heartbeat's reply the length does not count what it repeats of ours.
        if header < _HEADER.size or length < header or at + length > len(data):
            raise PlatformError("bilibili: a packet of an impossible length")
        body = data[at + header : at + length]
        at = len(data) if operation == Operation.HEARTBEAT_REPLY else at + length
        if version != _DEFLATED:
            yield operation, body
        elif depth:
            raise PlatformError("bilibili: packets within packets within packets")
        else:
            yield from packets(_inflated(body), depth + 1)


def _inflated(body: bytes) -> bytes:
    try:
        opened = zlib.decompressobj()
        data = opened.decompress(body, _LARGEST_BYTES)
    except zlib.error as error:
        raise PlatformError(f"bilibili: a packet that cannot be inflated: {error}") from error
    if opened.unconsumed_tail:
        raise PlatformError("bilibili: a packet that is larger than any of ours")
    return data


def signed(key: str, secret: str, body: bytes, nonce: str, unix_s: int) -> dict[str, str]:
    """Headers of a call: each value, in the order of names, is signed with the secret."""
    headers = {
        "x-bili-accesskeyid": key,
        "x-bili-content-md5": hashlib.md5(body, usedforsecurity=False).hexdigest(),
        "x-bili-signature-method": "HMAC-SHA256",
        "x-bili-signature-nonce": nonce,
        "x-bili-signature-version": "1.0",
        "x-bili-timestamp": str(unix_s),
    }
    text = "\n".join(f"{name}:{value}" for name, value in sorted(headers.items()))
    signature = hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()
    accepted = "application/json"
    return headers | {"Authorization": signature, "Content-Type": accepted, "Accept": accepted}


class Bilibili:
    """One room of Bilibili. See `Adapter`.

    code: the streamer's identity code. url: of the open platform.
    """

    platform = "bilibili"
    posts = False

    def __init__(self, key: str, secret: str, app: int, code: str, url: str = URL) -> None:
        self.room = f"app {app}"
        self._key = key
        self._secret = secret
        self._app = app
        self._code = code
        self._url = url
        self._tries = 0

    async def comments(self, on_live: Callable[[], None]) -> AsyncGenerator[Comment, None]:
        """See `Adapter`."""
        async with httpx.AsyncClient(
            base_url=self._url, headers=UNPACKED, timeout=_TIMEOUT_S, **way_to(self._url)
        ) as http:
            begun = await self._begin(http)
            link = begun.links[self._tries % len(begun.links)]
            self._tries += 1
            try:
                async with websockets.connect(
                    link,
                    open_timeout=_TIMEOUT_S,
                    max_size=_LARGEST_BYTES,
                    logger=QUIET,
                    **socket_way_to(link),
                ) as socket:
                    await socket.send(packet(Operation.AUTH, begun.auth_body.encode()))
                    beats = (_beat(socket), self._keep_up(http, begun.game, socket))
                    async with cancelled_at_last(*beats):
                        async for comment in self._read(socket, on_live):
                            yield comment
            except (OSError, TimeoutError, websockets.WebSocketException) as error:
                raise PlatformError(f"bilibili: {why_not(link, error)}") from error
            finally:
                await self._end(http, begun.game)

    async def post(self, comment: Comment, text: str) -> str:
        """See `Adapter`."""
        raise PlatformError("bilibili: its open platform lets nobody write into a room")

    async def _read(
        self, socket: ClientConnection, on_live: Callable[[], None]
    ) -> AsyncGenerator[Comment, None]:
        while True:
            async with asyncio.timeout(_SILENT_S):
                try:
                    message = await socket.recv()
                except websockets.ConnectionClosedOK:
                    return
            for operation, body in packets(message if isinstance(message, bytes) else b""):
                if operation == Operation.AUTH_REPLY:
                    if _json(body).get("code") != 0:
                        raise PlatformError("bilibili: the WebSocket does not know us")
                    on_live()
                    await socket.send(packet(Operation.HEARTBEAT, b"{}"))
                elif operation == Operation.MESSAGE and body:
                    command = _json(body)
                    for comment in told(comments_of, command, time.monotonic(), time.time()):
                        yield comment

    # ------------------------------------------------------------ the open platform

    async def _begin(self, http: httpx.AsyncClient) -> _Begun:
        data = await self._call(http, "/v2/app/start", {"code": self._code, "app_id": self._app})
        try:
            anchor, socket = data.get("anchor_info", {}), data["websocket_info"]
            self.room = str(anchor.get("room_id", self.room))
            game = str(data["game_info"]["game_id"])
            links = tuple(map(str, socket["wss_link"]))
            begun = _Begun(game, str(socket["auth_body"]), links)
        except (KeyError, TypeError, AttributeError) as error:
            raise PlatformError("bilibili: an answer that cannot be read") from error
        if not links:
            raise PlatformError("bilibili: it names no WebSocket")
        return begun

    async def _keep_up(self, http: httpx.AsyncClient, game: str, socket: ClientConnection) -> None:
        """Without it the platform takes the project for ended."""
        while game:
            await asyncio.sleep(_PROJECT_BEAT_S)
            try:
                await self._call(http, "/v2/app/heartbeat", {"game_id": game})
            except (PlatformError, RefusedError) as error:
                log.warning("%s", error)
                await socket.close()
                return

    async def _end(self, http: httpx.AsyncClient, game: str) -> None:
        if game:
            with contextlib.suppress(PlatformError, RefusedError):
                await self._call(http, "/v2/app/end", {"app_id": self._app, "game_id": game})

    async def _call(
        self, http: httpx.AsyncClient, path: str, body: dict[str, Any]
    ) -> dict[str, Any]:
        """What lies in `data` of the answer. Raises PlatformError, RefusedError."""
        content = json.dumps(body).encode()
        headers = signed(
            self._key, self._secret, content, secrets.token_hex(16), round(time.time())
        )
        try:
            async with http.stream("POST", path, content=content, headers=headers) as answer:
                found: Any = json_in(await whole(answer))
        except (httpx.HTTPError, ValueError) as error:
            raise PlatformError(f"bilibili: {path}: {why_not(self._url, error)}") from error
        if not isinstance(found, dict) or found.get("code") != 0:
            code = found.get("code") if isinstance(found, dict) else None
            said = found.get("message", "") if isinstance(found, dict) else ""
            message = f"bilibili: {path}: {code} {said}"[:300]
            raise RefusedError(message) if code in _FOR_GOOD else PlatformError(message)
        data = found.get("data")
        return data if isinstance(data, dict) else {}


async def _beat(socket: ClientConnection) -> None:
    while True:
        await asyncio.sleep(_SOCKET_BEAT_S)
        await socket.send(packet(Operation.HEARTBEAT, b"{}"))


def _json(body: bytes) -> dict[str, Any]:
    try:
        found = json_in(body)
    except ValueError as error:
        raise PlatformError("bilibili: a message that is no JSON") from error
    return found if isinstance(found, dict) else {}


def comments_of(command: dict[str, Any], now_s: float, unix_s: float) -> list[Comment]:
    """What a message says of viewers. now_s and unix_s: the same moment."""
    data = command.get("data")
    if not isinstance(data, dict):
        return []
    who = data.get("user_info", data)
    author = Author(
        str(who.get("open_id") or who.get("uid") or ""),
        str(who.get("uname", "")),
        member=bool(data.get("guard_level") or data.get("fans_medal_wearing_status")),
    )
    sent_s = data.get("timestamp")
    age_s = unix_s - sent_s if isinstance(sent_s, int) and sent_s else 0.0
    at_s = now_s - min(_OLDEST_S, max(0.0, age_s))
    key = str(data.get("msg_id", ""))

    def made(kind: Kind, text: str = "", **more: Any) -> list[Comment]:
        about: dict[str, Any] = {"id": key, "author": author} | more
        return [Comment(platform="bilibili", text=text, at_s=at_s, kind=kind, **about)]

    match str(command.get("cmd", "")).removeprefix("LIVE_OPEN_PLATFORM_"):
        case "DM":
            return made(Kind.COMMENT, "" if data.get("dm_type") == 1 else str(data.get("msg", "")))
        case "SUPER_CHAT":
            key = str(data.get("message_id", key))
            paid = float(data.get("rmb") or 0)
            return made(Kind.SUPERCHAT, str(data.get("message", "")), amount=paid, currency="CNY")
        case "SUPER_CHAT_DEL":
            nobody = Author("?", "")
            targets = map(str, data.get("message_ids", []))
            return [c for t in targets for c in made(Kind.REMOVED, target=t, author=nobody)]
        case "SEND_GIFT":
            number = max(1, int(data.get("gift_num") or 1))
            price = (
                float(data.get("r_price") or data.get("price") or 0) if data.get("paid") else 0.0
            )
            gift = str(data.get("gift_name", ""))
            worth: dict[str, Any] = {"amount": number * price / 1000, "currency": "CNY"}
            return made(Kind.GIFT, gift=gift, count=number, **worth)
        case "GUARD":
            paid = float(data.get("price") or 0) / 1000
            return made(Kind.MEMBER, amount=paid, currency="CNY")
        case "LIKE":
            return made(Kind.LIKE, count=max(1, int(data.get("like_count") or 1)))
        case "LIVE_ROOM_ENTER":
            return made(Kind.ENTER)
    return []
