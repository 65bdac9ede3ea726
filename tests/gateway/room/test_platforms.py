"""Adapters on local servers that speak as the platforms do; never the platforms themselves."""

from __future__ import annotations

import asyncio
import math
import time
import zlib
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from gateway.room.choosing.comments import Author, Comment, Kind
from gateway.room.moving import sent_of
from gateway.room.platforms import bilibili, twitch, youtube
from gateway.room.platforms.bilibili import Bilibili, Operation, packets
from gateway.room.platforms.connection import (
    Adapter,
    Connection,
    Phase,
    PlatformError,
    RefusedError,
    told,
)
from gateway.room.platforms.twitch import Twitch
from gateway.room.platforms.youtube import YouTube
from gateway.room.rooms import adapters_of
from gateway.room.schemas import RoomRequest
from tests.gateway.conftest import until
from tests.gateway.room.platform_servers import (
    KEY,
    SECRET,
    BilibiliServer,
    TwitchServer,
    YouTubeServer,
    frame,
    http_server,
)
from visavis.serving.lifetime.supervision import ends_unless

PRIVMSG = (
    "@badge-info=subscriber/8;badges=subscriber/6,premium/1;color=#0000FF;display-name=Anna_B;"
    "emotes=25:6-10;first-msg=1;id=b34ccfc7;mod=0;room-id=1;subscriber=1;tmi-sent-ts={ms};"
    "user-id=42;user-type= :anna_b!anna_b@anna_b.tmi.twitch.tv PRIVMSG #cleo "
    ":Hello Kappa Cleo, why?"
)
CHEER = (
    "@badges=;bits=250;display-name=ronni;id=c1;mod=1;user-id=7 "
    ":ronni!ronni@ronni.tmi.twitch.tv PRIVMSG #cleo :cheer250 well done"
)
RESUB = (
    "@badges=;display-name=ronni;id=c2;login=ronni;msg-id=resub;"
    r"system-msg=ronni\shas\ssubscribed\sfor\s6\smonths!;user-id=7 :tmi.twitch.tv USERNOTICE #cleo"
)
CLEARMSG = "@login=ronni;target-msg-id=c1 :tmi.twitch.tv CLEARMSG #cleo :cheer250 well done"
CLEARCHAT = "@ban-duration=9;target-user-id=42 :tmi.twitch.tv CLEARCHAT #cleo :anna_b"
CLEARED = "@room-id=1 :tmi.twitch.tv CLEARCHAT #cleo"


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Platforms are reached through whatever proxy the environment names; our servers are here."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")


async def read(adapter: Adapter, count: int) -> list[Comment]:
    """The first comments."""
    found: list[Comment] = []
    live: list[bool] = []
    async with asyncio.timeout(20), aclosing(adapter.comments(lambda: live.append(True))) as all_:
        async for comment in all_:
            found.append(comment)
            if len(found) == count:
                break
    assert live
    return found


# ------------------------------------------------------------ Twitch


async def test_gifts_to_a_community_are_counted_once() -> None:
    def notice(what: str, more: str) -> str:
        return (
            rf"@id={more};login=ann;msg-id={what};msg-param-{more} :tmi.twitch.tv USERNOTICE #cleo"
        )

    notices = (
        notice("submysterygift", r"origin-id=98\s6d;msg-param-mass-gift-count=5"),
        *(notice("subgift", r"origin-id=98\s6d;msg-param-sender-count=0") for _ in range(5)),
        notice("submysterygift", "community-gift-id=7;msg-param-mass-gift-count=2"),
        *(notice("subgift", "community-gift-id=7") for _ in range(2)),
        notice("subgift", r"origin-id=aa\s01"),
    )
    async with TwitchServer(*notices).running() as server:
        gifts = await read(Twitch("cleo", url=server.url), 3)
    assert [gift.count for gift in gifts] == [5, 2, 1]


async def test_twitch_is_read_without_an_account() -> None:
    sent_ms = round(1000 * (time.time() - 5.0))
    lines = (PRIVMSG.format(ms=sent_ms), CHEER, RESUB, CLEARMSG, CLEARCHAT, CLEARED)
    async with TwitchServer(*lines).running() as server:
        chat, cheer, member, gone, banned, cleared = await read(Twitch("Cleo", url=server.url), 6)
        assert server.heard[0] == "CAP REQ :twitch.tv/tags twitch.tv/commands"
        assert server.heard[1].startswith("NICK justinfan")
        assert "JOIN #cleo" in server.heard and not any("PASS" in h for h in server.heard)
    assert chat.author == Author("42", "Anna_B", member=True, first_time=True)
    assert chat.text.split() == ["Hello", "Cleo,", "why?"] and chat.id == "b34ccfc7"
    assert 4.9 < time.monotonic() - chat.at_s < 15
    assert cheer.kind is Kind.SUPERCHAT and cheer.worth == 2.5 and cheer.author.moderator
    assert member.kind is Kind.MEMBER and member.author.name == "ronni"
    assert (gone.kind, gone.target) == (Kind.REMOVED, "c1")
    assert (banned.kind, banned.author.id, banned.target) == (Kind.REMOVED, "42", "")
    assert (cleared.kind, cleared.target) == (Kind.REMOVED, "*")


async def test_twitch_is_answered_with_an_account_and_a_ping_always(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(twitch, "_POST_EVERY_S", 3600.0)  # before the next one
    server = TwitchServer(PRIVMSG.format(ms=0), password="oauth:word")
    async with server.running():
        adapter = Twitch("cleo", "CleoBot", "oauth:word", url=server.url)
        with pytest.raises(PlatformError, match="not connected"):
            await adapter.post(_comment("x"), "hello")
        async with aclosing(adapter.comments(lambda: None)) as comments:
            async with asyncio.timeout(20):
                await anext(comments)
            await adapter.post(_comment("b34ccfc7"), "/ban\r\nme " + "word " * 200)
            await until(lambda: "PRIVMSG" in server.heard[-1])
    assert server.heard[:3][1:] == ["PASS oauth:word", "NICK cleobot"]
    assert "PONG :tmi.twitch.tv" in server.heard
    tag, _, posted = server.heard[-1].partition(" ")
    assert tag == "@reply-parent-msg-id=b34ccfc7"
    assert posted.startswith("PRIVMSG #cleo :ban me word") and posted.endswith("…")
    assert len(posted.partition(" :")[2]) <= twitch.LONGEST_POST


async def test_twitch_refuses_a_wrong_token_for_good() -> None:
    async with TwitchServer(password="oauth:word").running() as server:
        connection = Connection(Twitch("cleo", "bot", "oauth:other", url=server.url), print)
        task = asyncio.create_task(connection.run())
        await until(lambda: connection.phase is Phase.REFUSED)
        task.cancel()
        assert "authentication failed" in connection.message and not connection.posts


def test_lines_of_irc_are_taken_apart_whatever_stands_in_them() -> None:
    line = twitch.parse(r"@a=x\sy\:z\\;b=;c :nick!u@h PRIVMSG #room :text : with colons")
    assert line.tags == {"a": r"x y;z" + "\\", "b": "", "c": ""}
    assert (line.command, line.nick, line.middle) == ("PRIVMSG", "nick", ("#room",))
    assert line.text == "text : with colons"
    for odd in ("", " ", "@", "@a", ":", "@a=\\", ":x", "PING"):
        assert twitch.parse(odd).command in ("", "PING", "A")
    strange = twitch.parse("@bits=x;emotes=1:9-2,a-b,5;tmi-sent-ts=² :a!b PRIVMSG #c :hi")
    (comment,) = told(twitch.comments_of, strange, 10.0, 10.0)
    assert comment.text == "hi" and comment.at_s == 10.0
    action = twitch.parse(":a!b PRIVMSG #c :\x01ACTION waves\x01")
    assert twitch.comments_of(action, 0.0, 0.0)[0].text == "waves"


# ------------------------------------------------------------ Bilibili


def _command(what: str, /, **data: Any) -> dict[str, Any]:
    return {"cmd": f"LIVE_OPEN_PLATFORM_{what}", "data": {"room_id": 4711, **data}}


MING = {"uname": "小明", "open_id": "o1", "fans_medal_wearing_status": False}
EVE = {"uname": "Eve", "open_id": "o3"}
BEN = {"user_info": {"uname": "Ben", "open_id": "o4"}, "guard_level": 3}
FLOWERS = {"gift_name": "小花花", "gift_num": 5, "price": 100, "r_price": 200, "paid": True}
COMMANDS = (
    _command("DM", **MING, msg="你好吗", msg_id="m1", dm_type=0, guard_level=3, timestamp=1),
    _command("SEND_GIFT", uname="阿强", open_id="o2", **FLOWERS, msg_id="m2", timestamp=0),
    _command("SUPER_CHAT", **EVE, message_id=77, message="who are you?", rmb=30, msg_id="m3"),
    _command("GUARD", **BEN, price=138000, msg_id="m4"),
    _command("SUPER_CHAT_DEL", message_ids=[77, 78], msg_id="m5"),
    _command("LIKE", **EVE, like_count=9, msg_id="m6"),
    {"cmd": "LIVE_OPEN_PLATFORM_SOMETHING_NEW", "data": {}},
    _command("LIVE_ROOM_ENTER", uname="Zoe", open_id="o5", msg_id="m7"),
)


@pytest.mark.parametrize("deflated", [False, True])
async def test_bilibili_is_read_by_its_packets(deflated: bool) -> None:
    async with BilibiliServer(*COMMANDS, deflated=deflated).running() as server:
        adapter = Bilibili(KEY, SECRET, 12, "identity", url=server.url)
        found = await read(adapter, 8)
        assert adapter.room == "4711"
    assert [call for call, _ in server.calls] == ["/v2/app/start", "/v2/app/end"]
    assert server.calls[0][1] == {"code": "identity", "app_id": 12}
    assert server.calls[1][1] == {"app_id": 12, "game_id": "game-1"}
    assert server.operations == [Operation.AUTH, Operation.HEARTBEAT]
    chat, gift, paid, guard, gone, also_gone, like, enter = found
    assert (chat.text, chat.author.name, chat.author.member) == ("你好吗", "小明", True)
    assert 55 < time.monotonic() - chat.at_s < 75, "old, but nothing is believed to be older"
    assert (gift.gift, gift.count, gift.amount, gift.currency) == ("小花花", 5, 1.0, "CNY")
    assert (paid.kind, paid.id, paid.amount) == (Kind.SUPERCHAT, "77", 30.0)
    assert (guard.kind, guard.author.id, guard.amount) == (Kind.MEMBER, "o4", 138.0)
    assert [gone.target, also_gone.target] == ["77", "78"]
    assert (like.kind, like.count, enter.kind) == (Kind.LIKE, 9, Kind.ENTER)


async def test_bilibili_with_a_wrong_secret_is_refused() -> None:
    async with BilibiliServer(deflated=False).running() as server:
        with pytest.raises(RefusedError, match="4002"):
            await read(Bilibili(KEY, "wrong", 12, "identity", url=server.url), 1)
        with pytest.raises(PlatformError, match="nobody write"):
            await Bilibili(KEY, SECRET, 1, "").post(_comment("x"), "hello")


@pytest.mark.parametrize(
    "data",
    [
        b"\x00",
        b"\xff" * 16,
        frame(5, b"{}", 0)[:-1],
        frame(5, b"not deflated", 2),
        frame(5, zlib.compress(frame(5, zlib.compress(b""), 2)), 2),
        frame(5, zlib.compress(bytes(9_000_000)), 2),
        bytes(16),
    ],
)
def test_packets_that_are_none_are_told(data: bytes) -> None:
    with pytest.raises(PlatformError):
        list(packets(data))


def test_odd_commands_are_no_comments() -> None:
    half = _command("DM", uname="An\ud83d", open_id="o1", msg="hi", msg_id="\udc00")
    (comment,) = told(bilibili.comments_of, half, 0.0, 0.0)
    assert (comment.author.name, comment.id) == ("An?", "?"), "halves of characters are told nobody"
    for odd in ({}, {"data": 7}, {"cmd": 5, "data": {}}, _command("SEND_GIFT", gift_num="x")):
        assert told(bilibili.comments_of, odd, 0.0, 0.0) == []


# ------------------------------------------------------------ YouTube


def _item(kind: str, text: str = "", name: str = "@Anna", **more: Any) -> dict[str, Any]:
    now = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
    who: dict[str, Any] = {"channelId": f"UC{name}", "displayName": name}
    who |= {"isChatModerator": False, "isChatOwner": True, "isChatSponsor": True}
    snippet = {"type": kind, "displayMessage": text, "publishedAt": now, **more}
    about = {"kind": "youtube#liveChatMessage", "id": f"{kind}-{text}"}
    return {**about, "snippet": snippet, "authorDetails": who}


async def test_youtube_is_asked_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(youtube, "_LEAST_POLL_S", 0.01)
    paid = {"amountMicros": "5000000", "currency": "EUR", "userComment": "why?"}
    old = _item("textMessageEvent", "from before")
    old["snippet"]["publishedAt"] = "2020-01-01T00:00:00Z"
    pages = (
        [old, _item("textMessageEvent", "hello"), _item("superChatEvent", superChatDetails=paid)],
        # A later page is new, whatever the clocks say.
        [
            _item("newSponsorEvent", publishedAt="2020-01-01T00:00:00Z"),
            {"snippet": {"type": "superChatEvent", "superChatDetails": 3}},
        ],
        [_item("messageDeletedEvent", messageDeletedDetails={"deletedMessageId": "x"})],
    )
    async with YouTubeServer(*pages).running() as server:
        adapter = YouTube("", "video1", api_key="the key", url=server.url)
        chat, superchat, member, gone = await read(adapter, 4)
    assert (chat.text, chat.author.name, chat.author.moderator) == ("hello", "Anna", True)
    assert (superchat.text, superchat.amount, superchat.currency) == ("why?", 5.0, "EUR")
    assert member.kind is Kind.MEMBER and gone.target == "x"
    assert [asked.get("pageToken") for asked in server.asked[:3]] == [None, "1", "2"]
    assert server.asked[0]["liveChatId"] == "chat-of-video1"
    assert server.asked[0]["x-goog-api-key"] == "the key" and "key" not in server.asked[0]


async def test_youtube_is_answered_by_who_has_a_token_and_a_closed_chat_is_told() -> None:
    async with YouTubeServer([]).running() as server:
        adapter = YouTube("chat1", token="token", url=server.url)
        assert adapter.posts and not YouTube("chat1", api_key="k").posts
        await adapter.post(_comment("x"), "Hello " * 60)
        await adapter.post(_comment("x"), "你好，" * 100)
        refusals = {"liveChatEnded": RefusedError, "API_KEY_INVALID": RefusedError}
        for reason, error in (*refusals.items(), ("rateLimitExceeded", PlatformError)):
            server.refusal = reason
            with pytest.raises(error, match=reason):
                await read(YouTube("chat1", api_key="k", url=server.url), 1)
    mandarin = server.posted[1]["snippet"]["textMessageDetails"]["messageText"]
    assert mandarin == ("@Anna " + "你好，" * 100)[: youtube.LONGEST_POST - 1] + "…"
    text = server.posted[0]["snippet"]["textMessageDetails"]["messageText"]
    assert text.startswith("@Anna Hello Hello") and text.endswith(" Hello…")
    assert len(text) <= youtube.LONGEST_POST
    assert server.posted[0]["snippet"]["liveChatId"] == "chat1"
    assert server.asked[0]["authorization"] == "Bearer token"


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, {"items": None}),
        (200, {"items": [], "pollingIntervalMillis": None}),
        (200, {"items": [], "pollingIntervalMillis": "soon"}),
        (200, []),
        (403, {"error": "forbidden"}),
        (502, {"error": {"errors": None}}),
    ],
)
async def test_what_cannot_be_read_of_youtube_is_asked_for_ever_more_seldom(
    status: int, body: Any
) -> None:
    async with YouTubeServer([]).running() as server:
        server.odd = status, body
        wait = Waits(4)
        connection = Connection(YouTube("chat1", api_key="k", url=server.url), print, wait)
        waits = await wait.told(connection)
    assert connection.phase is Phase.WAITING and "cannot be read" in connection.message
    assert 5 < waits[3] < 11


@pytest.mark.parametrize(
    ("piece", "times", "why"),
    [(b" " * 1_000_000, 20, "longer than 8 MB"), (b"[" * 100_000, 1, "nested too deeply")],
)
async def test_an_answer_that_nobody_could_read_is_told(piece: bytes, times: int, why: str) -> None:
    async def answered(_: Request) -> Response:
        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(times):
                yield piece

        return StreamingResponse(pieces())

    async with http_server(Route("/{path:path}", answered, methods=["GET", "POST"])) as url:
        for adapter in (YouTube("chat1", api_key="k", url=url), Bilibili(KEY, SECRET, 7, "c", url)):
            with pytest.raises(PlatformError, match=why):
                await read(adapter, 1)


async def test_what_youtube_is_still_posting_is_no_viewers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(youtube, "_LEAST_POLL_S", 0.01)
    async with YouTubeServer([_item("textMessageEvent", "hello")]).running() as server:
        server.may_answer.clear()
        adapter = YouTube("chat1", token="token", url=server.url)
        posting = asyncio.create_task(adapter.post(_comment("x"), "Hello, too"))
        await until(lambda: server.posted)
        assert {chat.text for chat in await read(adapter, 2)} == {"hello"}
        assert not posting.done()
        server.may_answer.set()
        assert await posting == "posted-1"


async def test_youtube_is_read_on_by_the_key_where_the_token_has_expired() -> None:
    async with YouTubeServer([_item("textMessageEvent", "hello")]).running() as server:
        server.tokens = False
        adapter = YouTube("chat1", api_key="k", token="token", url=server.url)
        found: list[Comment] = []
        connection = Connection(adapter, found.append, Waits(9))
        task = asyncio.create_task(connection.run())
        await until(lambda: found)
        task.cancel()
    assert connection.phase is Phase.LIVE and not connection.posts


# ------------------------------------------------------------ all of them


def test_what_is_beyond_all_bounds_can_still_be_handed_over() -> None:
    def read(amount: float, now_s: float, _: float) -> list[Comment]:
        long = 5000 * "x"
        author = Author(long, long)
        return [Comment(long, "test", author, long, now_s, amount=amount, gift=long, count=10**9)]

    (comment,) = told(read, 5.0, 0.0, 0.0)
    assert sent_of(comment, 0.0, 0.0).comment(0.0, 0.0) == comment
    assert not [c for paid in (math.nan, math.inf, -1.0) for c in told(read, paid, 0.0, 0.0)]


def _comment(key: str) -> Comment:
    return Comment(key, "test", Author("1", "Anna"), "hi", 0.0)


class Waits:
    """Passes at once, until there are `most` of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._seconds: list[float] = []
        self._all = asyncio.Event()

    async def __call__(self, seconds: float) -> None:
        self._seconds.append(seconds)
        if len(self._seconds) == self._most:
            self._all.set()
            await asyncio.Event().wait()

    async def told(self, connection: Connection) -> list[float]:
        """How long each is, of a connection that runs until then."""
        async with asyncio.timeout(20):
            assert not await ends_unless(connection.run(), self._all.wait())
        return self._seconds


async def test_a_connection_that_is_lost_is_tried_again_ever_more_seldom() -> None:
    wait = Waits(9)
    connection = Connection(Twitch("cleo", url="ws://127.0.0.1:9"), print, wait)
    waits = await wait.told(connection)
    assert connection.phase is Phase.WAITING and connection.message.startswith("twitch: ")
    assert 0.7 <= waits[0] <= 1.3 and 5 < waits[3] < 11 and all(w < 80 for w in waits)
    assert 40 < waits[8]


def test_what_a_room_is_connected_to_is_as_it_was_wanted() -> None:
    wanted = RoomRequest.model_validate(
        {
            "twitch": {"channel": "cleo", "login": "cleobot", "token": "oauth:hidden"},
            "bilibili": {"access_key": "k", "access_secret": "hidden", "app_id": 1, "code": "c"},
            "youtube": {"video_id": "v", "token": "hidden"},
        }
    )
    found = adapters_of(wanted)
    assert [type(adapter) for adapter in found] == [Twitch, Bilibili, YouTube]
    assert [adapter.posts for adapter in found] == [True, False, True]
    with pytest.raises(ValueError, match="video_id"):
        RoomRequest.model_validate({"youtube": {"api_key": "k"}})
    assert "hidden" not in repr(wanted) and "hidden" not in wanted.model_dump_json()
