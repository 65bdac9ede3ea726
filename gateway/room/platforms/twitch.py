"""Twitch's chat: IRC over a WebSocket, with the tags that say who writes.

Reads without an account, under a nick of `justinfan` and digits; with login and OAuth token it also
posts. By Twitch's description of its IRC (dev.twitch.tv/docs/chat/irc) and IRCv3's message tags.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass, field, replace

import websockets
from websockets.asyncio.client import ClientConnection

from gateway.room.choosing.comments import ALL, Author, Comment, Kind
from gateway.room.platforms.connection import (
    QUIET,
    PlatformError,
    RefusedError,
    shortened,
    told,
)
from visavis.serving.way_out import socket_way_to, why_not

URL = "wss://irc-ws.chat.twitch.tv:443"
LONGEST_POST = 500
_OPEN_S = 10.0
# Twitch sends a PING about every five minutes.
_SILENT_S = 420.0
_LARGEST_MESSAGE = 1_000_000
_OLDEST_S = 60.0
# Of one account in a channel that is not its own: 20 messages in 30 seconds.
_POST_EVERY_S = 1.6
_BITS_IN_USD = 0.01
_ESCAPED = {":": ";", "s": " ", "\\": "\\", "r": "\r", "n": "\n"}
_WRONG = ("Login authentication failed", "Login unsuccessful", "Improperly formatted auth")
# Gifts to a whole community that may still be told of one by one.
_COMMUNAL = 100
_MEMBERS = ("sub", "resub", "subgift", "submysterygift", "giftpaidupgrade", "primepaidupgrade")


@dataclass(frozen=True, slots=True)
class Line:
    """One message of IRC."""

    command: str
    nick: str = ""
    middle: tuple[str, ...] = ()
    text: str = ""
    """What stands behind the last colon."""
    tags: dict[str, str] = field(default_factory=dict)


def parse(raw: str) -> Line:
    """One line, without its end. What is no message gives one without a command."""
    tags, prefix, rest = "", "", raw
    if rest.startswith("@"):
        tags, _, rest = rest[1:].partition(" ")
    if rest.startswith(":"):
        prefix, _, rest = rest[1:].partition(" ")
    rest, _, text = rest.partition(" :")
    command, *middle = rest.split() or [""]
    pairs = (tag.partition("=") for tag in tags.split(";") if tag)
    known = {name: _unescaped(value) for name, _, value in pairs}
    return Line(command.upper(), prefix.partition("!")[0], tuple(middle), text, known)


def _unescaped(value: str) -> str:
    if "\\" not in value:
        return value
    out, letters = [], iter(value)
    for c in letters:
        if c == "\\":
            c = next(letters, "")
            c = _ESCAPED.get(c, c)
        out.append(c)
    return "".join(out)


def comments_of(line: Line, now_s: float, unix_s: float) -> list[Comment]:
    """What a line says of viewers. now_s and unix_s: the same moment."""
    tags = line.tags
    sent_ms = tags.get("tmi-sent-ts", "")
    age_s = unix_s - int(sent_ms) / 1000 if sent_ms.isdecimal() else 0.0
    at_s = now_s - min(_OLDEST_S, max(0.0, age_s))
    match line.command:
        case "PRIVMSG":
            return [_of_message(line, at_s)]
        case "USERNOTICE" if tags.get("msg-id") in _MEMBERS:
            gifts = tags.get("msg-param-mass-gift-count", "1")
            author = _author(tags, tags.get("login", ""))
            member = Comment(tags.get("id", ""), "twitch", author, "", at_s, Kind.MEMBER)
            return [replace(member, count=max(1, int(gifts)))]
        case "CLEARMSG" if target := tags.get("target-msg-id"):
            nobody = Author("?", "")
            return [Comment("", "twitch", nobody, "", at_s, Kind.REMOVED, target=target)]
        case "CLEARCHAT":
            author = Author(tags.get("target-user-id", "") or line.text, line.text)
            target = "" if author.id else ALL
            return [Comment("", "twitch", author, "", at_s, Kind.REMOVED, target=target)]
    return []


def _of_message(line: Line, at_s: float) -> Comment:
    tags, text = line.tags, line.text
    if text.startswith("\x01ACTION ") and text.endswith("\x01"):
        text = text[8:-1]
    bits = tags.get("bits", "")
    paid = int(bits) * _BITS_IN_USD if bits.isdecimal() else 0.0
    return Comment(
        tags.get("id", ""),
        "twitch",
        _author(tags, line.nick),
        _without_emotes(text, tags.get("emotes", "")),
        at_s,
        Kind.SUPERCHAT if paid else Kind.COMMENT,
        amount=paid,
        currency="USD" if paid else "",
    )


def _author(tags: dict[str, str], login: str) -> Author:
    badges = {badge.partition("/")[0] for badge in tags.get("badges", "").split(",")}
    return Author(
        tags.get("user-id", "") or login,
        tags.get("display-name", "").strip() or login,
        moderator=tags.get("mod") == "1" or bool(badges & {"broadcaster", "moderator"}),
        member=tags.get("subscriber") == "1" or bool(badges & {"subscriber", "founder"}),
        first_time=tags.get("first-msg") == "1",
    )


def _without_emotes(text: str, emotes: str) -> str:
    """Emotes are words to whoever does not know them; the tag says where they stand."""
    kept = list(text)
    for span in (
        part for emote in emotes.split("/") for part in emote.partition(":")[2].split(",")
    ):
        first, _, last = span.partition("-")
        if first.isdecimal() and last.isdecimal() and int(last) < len(kept):
            kept[int(first) : int(last) + 1] = " " * (int(last) + 1 - int(first))
    return "".join(kept)


class Twitch:
    """One channel of Twitch. Raises nothing when made; see `Adapter`.

    login, token: an account's; "": read only. url: of the platform.
    """

    platform = "twitch"

    def __init__(self, channel: str, login: str = "", token: str = "", url: str = URL) -> None:
        self.room = channel.lower()
        self.posts = bool(login and token)
        self._login = login.lower()
        self._token = token.removeprefix("oauth:")
        self._url = url
        self._socket: ClientConnection | None = None
        self._posting = asyncio.Lock()
        self._posted_at_s = -math.inf
        self._communal: deque[str] = deque(maxlen=_COMMUNAL)

    async def comments(self, on_live: Callable[[], None]) -> AsyncGenerator[Comment, None]:
        """See `Adapter`."""
        try:
            async with websockets.connect(
                self._url,
                open_timeout=_OPEN_S,
                max_size=_LARGEST_MESSAGE,
                logger=QUIET,
                **socket_way_to(self._url),
            ) as socket:
                await self._greet(socket)
                self._socket = socket
                async for line in self._lines(socket):
                    if line.command == "ROOMSTATE" or line.command == "366":
                        on_live()
                    if self._is_counted(line):
                        continue
                    for comment in told(comments_of, line, time.monotonic(), time.time()):
                        yield comment
        except (OSError, TimeoutError, websockets.WebSocketException) as error:
            raise PlatformError(f"twitch: {why_not(self._url, error)}") from error
        finally:
            self._socket = None

    async def _greet(self, socket: ClientConnection) -> None:
        await socket.send("CAP REQ :twitch.tv/tags twitch.tv/commands")
        if self.posts:
            await socket.send(f"PASS oauth:{self._token}")
            await socket.send(f"NICK {self._login}")
        else:
            await socket.send(f"NICK justinfan{random.randint(10_000, 99_999)}")
        await socket.send(f"JOIN #{self.room}")

    async def _lines(self, socket: ClientConnection) -> AsyncGenerator[Line, None]:
        while True:
            async with asyncio.timeout(_SILENT_S):
                try:
                    message = await socket.recv()
                except websockets.ConnectionClosedOK:
                    return
            for line in _split(message):
                if line.command == "PING":
                    await socket.send(f"PONG :{line.text}")
                elif line.command == "RECONNECT":
                    return
                elif line.command == "NOTICE" and line.text.startswith(_WRONG):
                    raise RefusedError(f"twitch: {line.text[:200]}")
                elif (
                    line.command == "NOTICE" and line.tags.get("msg-id") == "msg_channel_suspended"
                ):
                    raise RefusedError(f"twitch: {line.text[:200]}")
                else:
                    yield line

    def _is_counted(self, line: Line) -> bool:
        """Whether it tells of one of many gifts of which another line has told how many."""
        what, origin = line.tags.get("msg-id"), line.tags.get("msg-param-origin-id")
        if what == "submysterygift" and origin:
            self._communal.append(origin)
        one = what == "subgift"
        return one and ("msg-param-community-gift-id" in line.tags or origin in self._communal)

    async def post(self, comment: Comment, text: str) -> str:
        """See `Adapter`."""
        socket = self._socket
        if not self.posts or socket is None:
            raise PlatformError("twitch: not connected with an account that may post")
        text = shortened(" ".join(text.split()), LONGEST_POST)
        # A line that begins with a slash would be a command of ours.
        text = text.lstrip("/.") or "…"
        tag = f"@reply-parent-msg-id={comment.id} " if _is_id(comment.id) else ""
        async with self._posting:
            await asyncio.sleep(self._posted_at_s + _POST_EVERY_S - time.monotonic())
            with contextlib.suppress(websockets.ConnectionClosed):
                await socket.send(f"{tag}PRIVMSG #{self.room} :{text}")
            self._posted_at_s = time.monotonic()
        return ""


def _split(message: str | bytes) -> Iterator[Line]:
    text = message if isinstance(message, str) else message.decode("utf-8", errors="replace")
    yield from (parse(raw) for raw in text.split("\r\n") if raw)


def _is_id(text: str) -> bool:
    return 0 < len(text) <= 64 and all(c.isalnum() or c == "-" for c in text)
