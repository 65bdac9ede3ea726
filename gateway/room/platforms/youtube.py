"""YouTube's live chat, by the Data API: asked as often as YouTube says, and no oftener.

An API key reads; an OAuth token (scope youtube.force-ssl) also posts. Each page that is asked for
costs quota: a day's 10,000 units are some hours of chat. By developers.google.com/youtube/v3/live.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import httpx

from gateway.room.choosing.comments import Author, Comment, Kind
from gateway.room.platforms.connection import PlatformError, RefusedError, shortened, told
from visavis.serving.way_out import UNPACKED, json_in, way_to, whole, why_not

URL = "https://www.googleapis.com/youtube/v3"
LONGEST_POST = 200
_LEAST_POLL_S, _MOST_POLL_S = 1.0, 60.0
_TIMEOUT_S = 15.0
_POST_TIMEOUT_S = 5.0
# Of ours, known by their words: the chat may bring one before its id is told, and where telling it
# takes too long, it never is.
_POSTS_KNOWN = 50
_OLDEST_S = 60.0
# What was written before we came is history, and nobody waits for an answer to it.
_HISTORY_S = 30.0
_FOR_GOOD = ("liveChatEnded", "liveChatNotFound", "liveChatDisabled", "forbidden", "keyInvalid",
             "videoNotFound", "authError", "API_KEY_INVALID")  # fmt: skip


class YouTube:
    """One live chat of YouTube. See `Adapter`.

    chat_id: the broadcast's activeLiveChatId; "": it is asked of video_id. url: of the API.
    """

    platform = "youtube"

    def __init__(
        self,
        chat_id: str,
        video_id: str = "",
        api_key: str = "",
        token: str = "",
        url: str = URL,
    ) -> None:
        self.room = video_id or chat_id
        self.posts = bool(token)
        self._chat_id = chat_id
        self._video_id = video_id
        self._api_key = api_key
        self._token = token
        self._url = url
        self._posted: deque[str] = deque(maxlen=_POSTS_KNOWN)

    async def comments(self, on_live: Callable[[], None]) -> AsyncGenerator[Comment, None]:
        """See `Adapter`."""
        async with self._client() as http:
            if not self._chat_id:
                self._chat_id = await self._look_up(http)
            page, began_s = "", time.time()
            while True:
                asked = {"liveChatId": self._chat_id, "part": "snippet,authorDetails"}
                answer = await self._ask(
                    http, "GET", "/liveChat/messages", asked | ({"pageToken": page} if page else {})
                )
                read = _read_page(answer, page)
                on_live()
                for item in read.items:
                    unix_s = time.time()
                    # Of the first page alone is there history: later ones are new whatever our
                    # clock says, which may have been set.
                    if page or _published_s(item, unix_s) > began_s - _HISTORY_S:
                        for comment in told(comments_of, item, time.monotonic(), unix_s):
                            if not self._is_ours(comment):
                                yield comment
                if read.over:
                    raise RefusedError("youtube: the broadcast has ended")
                page = read.next
                await asyncio.sleep(read.poll_s)

    async def post(self, comment: Comment, text: str) -> str:
        """See `Adapter`."""
        text = f"@{comment.author.name.lstrip('@')} {' '.join(text.split())}"
        text = shortened(text, LONGEST_POST)
        snippet = {
            "liveChatId": self._chat_id,
            "type": "textMessageEvent",
            "textMessageDetails": {"messageText": text},
        }
        body = {"snippet": snippet}
        self._posted.append(_words(text))
        async with self._client(_POST_TIMEOUT_S) as http:
            told = await self._ask(http, "POST", "/liveChat/messages", {"part": "snippet"}, body)
        return str(told.get("id", ""))

    def _is_ours(self, comment: Comment) -> bool:
        return comment.kind is Kind.COMMENT and _words(comment.text) in self._posted

    def _client(self, timeout_s: float = _TIMEOUT_S) -> httpx.AsyncClient:
        # In a header, where no log of addresses keeps it.
        headers = (
            {"Authorization": f"Bearer {self._token}"}
            if self.posts
            else {"X-Goog-Api-Key": self._api_key}
        )
        return httpx.AsyncClient(
            base_url=self._url, headers=headers | UNPACKED, timeout=timeout_s, **way_to(self._url)
        )

    async def _look_up(self, http: httpx.AsyncClient) -> str:
        asked = {"id": self._video_id, "part": "liveStreamingDetails"}
        answer = await self._ask(http, "GET", "/videos", asked)
        with _reading("/videos"):
            items = answer.get("items", [])
            details = items[0].get("liveStreamingDetails", {}) if items else {}
            if chat := details.get("activeLiveChatId"):
                return str(chat)
        raise PlatformError(f"youtube: {self._video_id!r} has no live chat now")

    async def _ask(
        self,
        http: httpx.AsyncClient,
        method: str,
        path: str,
        asked: dict[str, str],
        body: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        try:
            async with http.stream(method, path, params=asked, json=body) as answer:
                found: Any = json_in(await whole(answer))
        except (httpx.HTTPError, ValueError) as error:
            raise PlatformError(f"youtube: {path}: {why_not(self._url, error)}") from error
        with _reading(path):
            if not isinstance(found, dict):
                raise TypeError("it is no object")
            if answer.is_success:
                return found
            fault = found.get("error", {})
            # Of a key, `errors` tell no more than "badRequest" by now.
            told = [*fault.get("errors", []), *fault.get("details", [])]
            reasons = [str(one["reason"]) for one in told if "reason" in one]
            why = f"{', '.join(reasons)}: {fault.get('message', '')}"
        message = f"youtube: {answer.status_code} {why}"[:300]
        if answer.status_code == 401 and self._api_key and "Authorization" in http.headers:
            # A token holds for an hour or so: what the key can do goes on.
            self.posts = False
            raise PlatformError(message)
        if answer.status_code == 401 or any(reason in _FOR_GOOD for reason in reasons):
            raise RefusedError(message)
        raise PlatformError(message)


@dataclass(frozen=True, slots=True)
class _Page:
    """What one answer of the chat tells."""

    items: list[Any]
    next: str
    poll_s: float
    over: bool
    """The broadcast has ended."""


def _read_page(answer: dict[str, Any], page: str) -> _Page:
    """page: which one it is. Raises PlatformError."""
    with _reading("/liveChat/messages"):
        poll_s = float(answer.get("pollingIntervalMillis", 5000)) / 1000
        return _Page(
            items=list(answer.get("items", [])),
            next=str(answer.get("nextPageToken", page)),
            poll_s=min(_MOST_POLL_S, max(_LEAST_POLL_S, poll_s)),
            over=bool(answer.get("offlineAt")),
        )


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """Raises PlatformError where an answer is not as YouTube describes it."""
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise PlatformError(f"youtube: an answer to {path} that cannot be read") from error


def comments_of(item: dict[str, Any], now_s: float, unix_s: float) -> list[Comment]:
    """What a liveChatMessage says of viewers. now_s and unix_s: the same moment."""
    snippet, who = item.get("snippet", {}), item.get("authorDetails", {})
    at_s = now_s - min(_OLDEST_S, max(0.0, unix_s - _published_s(item, unix_s)))
    author = Author(
        str(who.get("channelId", "")),
        str(who.get("displayName", "")).lstrip("@"),
        moderator=bool(who.get("isChatModerator") or who.get("isChatOwner")),
        member=bool(who.get("isChatSponsor")),
    )
    key, text = str(item.get("id", "")), str(snippet.get("displayMessage", ""))

    def made(kind: Kind, text: str = "", **more: Any) -> list[Comment]:
        return [Comment(key, "youtube", author, text, at_s, kind, **more)]

    match snippet.get("type"):
        case "textMessageEvent":
            return made(Kind.COMMENT, text)
        case "superChatEvent":
            details = snippet.get("superChatDetails", {})
            return made(Kind.SUPERCHAT, str(details.get("userComment", "")), **_paid(details))
        case "superStickerEvent":
            details = snippet.get("superStickerDetails", {})
            return made(Kind.GIFT, gift="sticker", **_paid(details))
        case "newSponsorEvent" | "memberMilestoneChatEvent":
            return made(Kind.MEMBER)
        case "membershipGiftingEvent":
            details = snippet.get("membershipGiftingDetails", {})
            return made(Kind.MEMBER, count=max(1, int(details.get("giftMembershipsCount", 1))))
        case "messageDeletedEvent":
            details = snippet.get("messageDeletedDetails", {})
            return made(Kind.REMOVED, target=str(details.get("deletedMessageId", "")) or "?")
        case "userBannedEvent":
            banned = snippet.get("userBannedDetails", {}).get("bannedUserDetails", {})
            author = Author(str(banned.get("channelId", "?")), str(banned.get("displayName", "")))
            return made(Kind.REMOVED)
    return []


def _words(text: str) -> str:
    """Of a message, however YouTube shows its blanks, signs and emoji."""
    return "".join(filter(str.isalnum, text)).casefold()


def _paid(details: dict[str, Any]) -> dict[str, Any]:
    micros = str(details.get("amountMicros", "0"))
    amount = int(micros) / 1e6 if micros.isdecimal() else 0.0
    return {"amount": amount, "currency": str(details.get("currency", ""))}


def _published_s(item: dict[str, Any], unix_s: float) -> float:
    """When it was written, in seconds since 1970; now where that is not told."""
    try:
        return datetime.fromisoformat(str(item["snippet"]["publishedAt"])).timestamp()
    except (KeyError, TypeError, ValueError):
        return unix_s
