"""A live room over a gateway's own doors, on doubles of the services."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import Any

import httpx
import pytest
import pytest_asyncio
import websockets

from gateway.peers.peers import Peer, Peers
from gateway.room.choosing.host import Begin, Situation
from gateway.room.choosing.safety import WordList
from gateway.room.platforms.connection import Connection
from gateway.room.platforms.twitch import Twitch
from gateway.room.platforms.youtube import YouTube
from gateway.room.room import Room, last_exchanges
from gateway.room.schemas import RoomRequest
from gateway.session.session import Session
from gateway.talk.actions import Message
from tests.fakes import MetricGrowth
from tests.gateway.conftest import (
    HERE,
    SETTINGS,
    Rig,
    RunningGateway,
    another,
    eventually,
    meets,
    next_event,
    until,
)
from tests.gateway.doubles import Doubles
from tests.gateway.peers.test_handover import drain
from tests.gateway.room.platform_servers import TwitchServer, YouTubeServer
from tests.gateway.visiting import new_session, problem
from visavis.client import GatewayClient
from visavis.serving.errors import UnknownNameError

pytestmark = pytest.mark.asyncio(loop_scope="module")

WORDS = "grobnik"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    words = tmp_path_factory.mktemp("room") / "words.txt"
    words.write_text(f"{WORDS}  # nobody says so\n", encoding="utf-8")
    return {"room_words": words}


@pytest_asyncio.fixture(loop_scope="module")
async def session(http: httpx.AsyncClient) -> str:
    return await new_session(http)


@pytest_asyncio.fixture(loop_scope="module")
async def path(http: httpx.AsyncClient, session: str) -> str:
    """Of a room that is open."""
    path = f"/v1/sessions/{session}/room"
    opened = await http.post(path, json={"blocked_words": ["marzipan"], "addressed_as": ["Cleo"]})
    assert opened.status_code == 201, opened.text
    return path


@pytest_asyncio.fixture(loop_scope="module")
async def live(client: GatewayClient, path: str) -> AsyncIterator[Any]:
    async with client.connect(f"{path}/live") as socket:
        yield socket


def sent(name: str, text: str, **more: Any) -> dict[str, Any]:
    return {"author": {"name": name}, "text": text, **more}


async def command(http: httpx.AsyncClient, path: str, **what: Any) -> dict[str, Any]:
    answer = await http.post(f"{path}/commands", json=what)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


async def test_comments_are_answered_one_after_the_other_and_their_senders_told(
    http: httpx.AsyncClient, path: str, live: Any, doubles: Doubles
) -> None:
    doubles.script.answer = "I am fine, Anna."
    asked = MetricGrowth("gateway_room_answer_age_seconds_count")
    await command(http, path, type="pause")  # until both are here
    await live.send(json.dumps({"type": "comments", "comments": [sent("Anna", "How are you?")]}))
    (anna,) = (await next_event(live, "taken"))["taken"]
    more = [sent("Ben_99", "Cleo, what time is it?", id="b", platform="twitch")]
    taken = await http.post(f"{path}/comments", json={"comments": more * 2})
    assert taken.json()["taken"] == [
        {"id": "b", "outcome": None},
        {"id": "b", "outcome": "repeated"},
    ]
    await command(http, path, type="resume")
    first = await next_event(live, "answered")
    assert (first["platform"], first["id"]) == ("twitch", "b"), "the avatar is called by its name"
    second = await next_event(live, "answered")
    assert second["id"] == anna["id"], "the room has made one up"
    assert second["author"] == "Anna" and second["answer"] == "I am fine, Anna."
    assert second["outcome"] == "answered" and 0 < second["age_s"] < 30
    questions = [prompt[-1][1] for prompt in doubles.seen.prompts[-2:]]
    assert questions == ["Ben asks: “Cleo, what time is it?”", "Anna asks: “How are you?”"]
    assert not any("How are" in text or "time" in text for _, text in doubles.seen.prompts[-1][:-1])
    state = (await http.get(path)).json()
    assert state["coverage"]["outcomes"] == {"answered": 2, "repeated": 1}
    assert state["coverage"]["received"] == 3 and state["coverage"]["unsettled"] == 0
    assert [speech["name"] for speech in state["recent"]] == ["Anna", "Ben_99"]
    assert asked.value == 2


async def test_the_operator_pauses_says_bans_and_blocks(
    http: httpx.AsyncClient, client: GatewayClient, session: str, path: str
) -> None:
    await command(http, path, type="pause")
    for name, text in (
        ("Anna", "how are you today?"),
        ("Troll", "where do you live now?"),
        ("Ben", "do you like walnuts?"),
        ("Carl", "are pears better than apples?"),
    ):
        one = await http.post(f"{path}/comments", json=sent(name, text))
        (taken,) = one.json()["taken"]
        assert taken["outcome"] is None
    async with client.connect(f"/v1/sessions/{session}/events") as events:
        said = await command(http, path, type="say", text="We begin in a minute.")
        assert said["paused"]
        answer = await next_event(events, "answer")
        while not answer["final"]:
            more = await next_event(events, "answer")
            answer = {**more, "text": answer["text"] + more["text"]}
        assert answer["text"].strip() == "We begin in a minute."
    await command(http, path, type="ban", author="app:Troll", name="Troll")
    await command(http, path, type="block", words=["walnuts"])
    state = await command(http, path, type="skip", platform="app", id=taken["id"])
    assert [entry["name"] for entry in state["waiting"]] == ["Anna"]
    assert state["waiting_in_all"] == 1
    assert state["banned"] == {"app:Troll": "Troll"} and state["blocked_words"] == ["walnuts"]
    outcomes = state["coverage"]["outcomes"]
    assert outcomes == {"blocked_author": 1, "blocked_word": 1, "skipped": 1}
    late = await http.post(f"{path}/comments", json=sent("Troll", "let me in again"))
    assert late.json()["taken"][0]["outcome"] == "blocked_author"
    await command(http, path, type="unban", author="app:Troll")
    state = await command(http, path, type="resume")
    assert not state["paused"] and state["banned"] == {}


async def test_an_answer_with_a_blocked_word_is_stopped(
    http: httpx.AsyncClient, path: str, live: Any, doubles: Doubles
) -> None:
    doubles.script.answer = "Well you are a Grob-nik and nothing else at all."
    doubles.script.voice_s = 5.0
    await http.post(f"{path}/comments", json=sent("Anna", "what am I?"))
    answered = await next_event(live, "answered")
    assert answered["outcome"] == "blocked_word"
    turn = f"{path.removesuffix('/room')}/turns/{answered['turn']}"
    assert (await http.get(turn)).json()["heard"] == ""


async def test_what_is_no_comment_is_refused(http: httpx.AsyncClient, path: str) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "comment.author"),
        ({"comments": []}, "comments"),
        ({"comments": [sent("A", "hi there")] * 101}, "100"),
        (sent("A", "x" * 4001), "text"),
        (sent("A", "hi", platform="No Such!"), "platform"),
        (sent("A", "hi", kind="dance"), "kind"),
        (sent("A", "hi", count=0), "count"),
        (sent("A", "hi", count="2"), "count"),
        (sent("A", "hi", amount=False), "amount"),
        ({**sent("A", "hi"), "author": {"name": "A", "member": 1}}, "member"),
    ]
    for body, words in wrong:
        told = problem(await http.post(f"{path}/comments", json=body), 422)
        assert words in told and "Extra" not in told, "of one comment not what several would need"


async def test_what_cannot_be_commanded_is_told(
    http: httpx.AsyncClient, path: str, live: Any
) -> None:
    async def refused(status: int, **what: Any) -> str:
        return problem(await http.post(f"{path}/commands", json=what), status)

    assert "dance" in await refused(422, type="dance")
    assert "author" in await refused(422, type="ban", author="Troll")
    assert "grobnik" in await refused(422, type="say", text="You grobnik!")
    assert "waits" in await refused(404, type="skip", id="none")
    assert "banned" in await refused(404, type="unban", author="app:nobody")
    assert "has one" in problem(await http.post(path, json={}), 409)
    await command(http, path, type="pause")
    for name in ("", "x" * 200, "\nx"):
        await http.post(f"{path}/comments", json=sent(name, f"How tall is {len(name)}?"))
        (waits,) = (await http.get(path)).json()["waiting"]
        state = await command(http, path, type="ban", author=waits["author"])
        assert state["banned"] and not state["waiting"], "whoever is told of can be banned"
        await command(http, path, type="unban", author=waits["author"])
    for message in ("", "[]", '{"type": "say", "text": "grobnik"}', '{"type": "dance"}'):
        await live.send(message)
        assert (await next_event(live, "error"))["message"]
    await live.send(b"binary")
    assert "binary" in (await next_event(live, "error"))["message"]
    await live.send('{"type": "ping"}')
    assert await next_event(live, "pong")
    await live.send('{"type": "pause"}')
    assert (await next_event(live, "done"))["done"] == "pause"


async def test_more_than_a_room_takes_is_refused_whole(
    http: httpx.AsyncClient, path: str, live: Any
) -> None:
    many = {"comments": [sent("A", "😀")] * 100}
    answers = await asyncio.gather(*(http.post(f"{path}/comments", json=many) for _ in range(10)))
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert refused.json()["error"]["code"] == "over_limit"
    assert int(refused.headers["Retry-After"]) >= 1
    taken = sum(answer.status_code == 200 for answer in answers)
    assert (await http.get(path)).json()["coverage"]["received"] == 100 * taken
    for _ in answers:  # as often: where the machine is busy some are taken again by now
        await live.send(json.dumps({"type": "comments", **many}))
    assert (await next_event(live, "error"))["code"] == "over_limit"


async def test_a_room_ends_with_its_session_or_before(
    gateway: RunningGateway, http: httpx.AsyncClient, client: GatewayClient, session: str, path: str
) -> None:
    closed = MetricGrowth("gateway_room_comments_total", outcome="closed")
    await command(http, path, type="pause")
    await http.post(f"{path}/comments", json=sent("Anna", "how are you today?"))
    assert (await http.delete(path)).status_code == 204
    assert closed.value == 1
    assert "open one" in problem(await http.get(path), 404)
    with pytest.raises(websockets.InvalidStatus):
        await client.connect(f"{path}/live")
    assert (await http.post(path, json={})).status_code == 201
    async with client.connect(f"{path}/live") as socket:
        await http.delete(f"/v1/sessions/{session}")
        async with asyncio.timeout(30):
            await socket.wait_closed()
        assert socket.close_code == 4410
    with pytest.raises(UnknownNameError):
        gateway.inside.rooms.get(session)


async def test_a_comment_is_as_old_as_its_sender_says(
    http: httpx.AsyncClient, session: str
) -> None:
    path = f"/v1/sessions/{session}/room"
    await http.post(path, json={"answer_within_s": 100.0, "paused": True})
    for age_s, outcome in ((90.0, None), (110.0, "expired")):
        comment = sent("Anna", f"Is it {age_s} s old?", at=time.time() - age_s)
        taken = (await http.post(f"{path}/comments", json=comment)).json()["taken"]
        assert taken[0]["outcome"] == outcome
    (waiting,) = (await http.get(path)).json()["waiting"]
    assert waiting["age_s"] == pytest.approx(90, abs=5)


async def test_what_is_taken_back_without_a_name_is_not_everything(
    http: httpx.AsyncClient, path: str
) -> None:
    async def waiting_after(**removed: Any) -> list[str]:
        await http.post(f"{path}/comments", json=sent("", "", kind="removed", **removed))
        return [entry["name"] for entry in (await http.get(path)).json()["waiting"]]

    await command(http, path, type="pause")
    await http.post(f"{path}/comments", json=sent("Anna", "How are you?", id="a"))
    assert await waiting_after() == ["Anna"]
    assert await waiting_after(target="*", platform="other") == ["Anna"]
    assert await waiting_after(target="*") == []


async def test_what_is_taken_back_while_the_session_wakes_is_not_answered(
    http: httpx.AsyncClient, path: str, doubles: Doubles, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, awake = asyncio.Event(), asyncio.Event()

    async def wake(session: Session) -> None:
        asked.set()
        await awake.wait()

    monkeypatch.setattr(Session, "wake", wake)
    await http.post(f"{path}/comments", json=sent("Anna", "How are you?", id="a"))
    async with asyncio.timeout(30):
        await asked.wait()
    prompts = len(doubles.seen.prompts)
    await http.post(f"{path}/comments", json=sent("", "", kind="removed", target="a"))
    awake.set()
    room = (await http.get(path)).json()
    async with asyncio.timeout(30):
        while room["current"] or room["coverage"]["unsettled"]:
            room = (await http.get(path)).json()
    assert room["coverage"]["outcomes"] == {"removed": 1, "noted": 1}
    assert len(doubles.seen.prompts) == prompts


async def test_an_answer_is_posted_where_the_comment_came_from(
    gateway: RunningGateway, session: str, doubles: Doubles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    doubles.script.answer = "A rainbow is light."
    line = "@display-name=Anna;id=m-1;user-id=42 :anna!a@a PRIVMSG #cleo :what is a rainbow?"
    async with TwitchServer(line, password="oauth:word").running() as server:
        wanted = RoomRequest.model_validate({"post_answers": True})
        room = Room(gateway.inside.sessions.get(session), wanted, [], lambda: None)
        adapter = Twitch("cleo", "bot", "oauth:word", url=server.url)
        room.start([Connection(adapter, room.take)])
        try:
            posted = "@reply-parent-msg-id=m-1 PRIVMSG #cleo :A rainbow is light."
            await until(lambda: posted in server.heard)
            assert doubles.seen.prompts[-1][-1][1] == "Anna asks: “what is a rainbow?”"
        finally:
            await room.close()


@pytest_asyncio.fixture(loop_scope="module")
async def leaving(rig: Rig, gateway: RunningGateway) -> AsyncIterator[RunningGateway]:
    """Another gateway, whose sessions go to `gateway` as it drains."""
    async with another(rig, **SETTINGS) as other:
        await meets(gateway, rig.doubles, gateways=2)
        yield other


async def opened_in(client: GatewayClient, **wanted: Any) -> str:
    """The path of a room; nothing is answered in it yet, unless that is `wanted`."""
    made = await client.call("POST", "/v1/sessions", json={}, headers=HERE)
    path = f"/v1/sessions/{made.json()['id']}/room"
    await client.call("POST", path, json={"paused": True, **wanted})
    return path


async def test_what_a_room_has_posted_itself_it_does_not_answer_wherever_it_goes_on(
    leaving: RunningGateway, client: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leaves as its answer is just being posted; what waits is answered where it goes on."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr("gateway.room.platforms.youtube._LEAST_POLL_S", 0.01)
    monkeypatch.setattr("gateway.room.platforms.youtube._POST_TIMEOUT_S", 60.0)
    monkeypatch.setattr("gateway.room.room._POST_S", 60.0)
    asked = [
        {
            "id": f"m-{name}",
            "snippet": {"type": "textMessageEvent", "displayMessage": f"what is a {what}?"},
            "authorDetails": {"channelId": f"UC{name}"},
        }
        for name, what in {"anna": "rainbow", "ben": "walnut"}.items()
    ]
    async with YouTubeServer(asked).running() as server, GatewayClient(leaving.url) as theirs:
        monkeypatch.setattr(
            "gateway.room.rooms.adapters_of",
            lambda wanted: [YouTube("chat", token="token", url=server.url)],
        )
        server.may_answer.clear()
        path = await opened_in(theirs, paused=False, post_answers=True)
        room = leaving.inside.rooms.get(path.split("/")[-2])
        await until(lambda: room.host.current)
        room.host.paused = True  # until it drains
        await until(lambda: server.posted)
        await leaving.inside.registry.refresh()
        left = drain(leaving)
        await until(lambda: leaving.inside.sessions.draining)
        room.host.paused = False
        with suppress(TimeoutError):
            await until(lambda: not leaving.inside.sessions.all(), timeout_s=0.5)
        with suppress(TimeoutError):
            await until(lambda: room.host.current, timeout_s=1.5)
        assert room.host.current is None, "nothing begins meanwhile"
        server.may_answer.set()
        await left

        async def heard() -> dict[str, Any]:
            coverage = (await client.call("GET", path)).json()["coverage"]
            all_settled = coverage["outcomes"].get("answered") == 2 and not coverage["unsettled"]
            return dict(coverage["outcomes"]) if all_settled else {}

        await eventually(heard)
        outcomes = await heard()
        await until(lambda: len(server.posted) >= 2)
        assert set(outcomes) <= {"answered", "repeated", "own"}


def next_said(room: Room, now: float) -> str:
    """What a room says where nothing has come for long."""
    order = room.host.look(now, Situation(idle=True))
    assert isinstance(order, Begin)
    room.host.opened(order.speech, 1)
    room.host.ended(1, "finished", now)
    return order.speech.text


async def test_a_room_goes_to_another_gateway_with_its_session(
    gateway: RunningGateway,
    leaving: RunningGateway,
    client: GatewayClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway.room.room.LOOK_S", 60.0)
    tell = Peers.tell

    async def as_a_newer_one(peers: Peers, peer: Peer, message: dict[str, Any]) -> None:
        if "session" in message:
            told = message["session"]
            for part in (told, told["room"], told["room"]["wanted"]):
                part["not_known_yet"] = True
        await tell(peers, peer, message)

    monkeypatch.setattr(Peers, "tell", as_a_newer_one)
    async with GatewayClient(leaving.url) as theirs:
        lines = [{"say": "One."}, {"say": "Two."}]
        path = await opened_in(theirs, script=lines, paused=False)
        session = path.split("/")[-2]
        room = leaving.inside.rooms.get(session)
        assert next_said(room, room.now + 60) == "One."
        room.host.paused = True
        twitch = {"channel": "cleo", "login": "bot", "token": "oauth:word"}
        room.wanted = RoomRequest.model_validate({"blocked_words": ["x"], "twitch": twitch})
        comments = [sent("Anna", "how are you?", id="a"), sent("Ben", "😀", id="b")]
        comments += [sent("Cat", "who are you?", kind="superchat", amount=5.0)]
        await theirs.call("POST", f"{path}/comments", json={"comments": comments})
        for what in (
            {"type": "block", "words": ["walnuts"]},
            {"type": "ban", "author": "app:T"},
            {"type": "say", "text": "We are back in a minute."},
        ):
            await theirs.call("POST", f"{path}/commands", json=what)
        told = leaving.inside.rooms.record(session)
        assert told is not None and told["wanted"]["twitch"]["token"] == "oauth:word"
        room.wanted = RoomRequest.model_validate({"script": lines})
        empty = MetricGrowth("gateway_room_comments_total", outcome="empty")
        closed = MetricGrowth("gateway_room_comments_total", outcome="closed")
        async with theirs.connect(f"{path}/live") as live:
            await leaving.inside.registry.refresh()
            await drain(leaving)
            async with asyncio.timeout(30):
                await live.wait_closed()
            assert live.close_code == 1012
    state = (await client.call("GET", path)).json()
    again = await client.call("POST", f"{path}/comments", json=sent("Ben", "Hi!", id="b"))
    assert again.json()["taken"][0]["outcome"] == "repeated"
    assert state["to_say"] == ["We are back in a minute."]
    assert [entry["name"] for entry in state["waiting"]] == ["Cat", "Anna"]
    assert state["gifts_waiting"] == 0, "nobody is thanked twice"
    assert state["paused"] and state["blocked_words"] == ["walnuts"]
    assert state["banned"] == {"app:T": ""}
    assert state["coverage"]["received"] == 3 and state["coverage"]["outcomes"] == {"empty": 1}
    assert (empty.value, closed.value) == (0, 0), "counted where it came to; it goes on"
    room = gateway.inside.rooms.get(session)
    room.host.paused = False
    assert next_said(room, room.now + 3600) == "We are back in a minute."
    assert next_said(room, room.now + 7200) == "Two.", "the script goes on, too"


async def test_what_a_platform_brings_while_a_room_is_handed_over_goes_along_and_else_is_refused(
    leaving: RunningGateway, client: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "@display-name=Anna;id=m-1;user-id=42 :anna!a@a PRIVMSG #cleo :what is a rainbow?"
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    tell = Peers.tell
    async with TwitchServer().running() as server, GatewayClient(leaving.url) as theirs:
        monkeypatch.setattr(
            "gateway.room.rooms.adapters_of", lambda wanted: [Twitch("cleo", url=server.url)]
        )
        path = await opened_in(theirs)
        room = leaving.inside.rooms.get(path.split("/")[-2])
        await until(lambda: room.connections[0].phase == "live")
        async with theirs.connect(f"{path}/live") as live:

            async def slowly(peers: Peers, peer: Peer, message: dict[str, Any]) -> None:
                if "session" in message:
                    late = {"type": "comments", "comments": [sent("Ben", "Hello?")]}
                    await live.send(json.dumps(late))
                    await server.say(line)
                    await until(lambda: room.connections[0].received == 1)
                    before = room.host.selection.received
                    with suppress(TimeoutError):
                        await until(lambda: room.host.selection.received > before, timeout_s=0.5)
                await tell(peers, peer, message)

            monkeypatch.setattr(Peers, "tell", slowly)
            await leaving.inside.registry.refresh()
            await drain(leaving)
            with pytest.raises(websockets.ConnectionClosedError, match="1012"):
                while True:
                    told = json.loads(await live.recv())
                    assert told["type"] != "taken", "it is to be sent again"
    state = (await client.call("GET", path)).json()
    assert [entry["text"] for entry in state["waiting"]] == ["what is a rainbow?"]


async def test_of_what_was_said_before_exchanges_alone_are_read_again() -> None:
    thanks = Message("assistant", "Thank you, Ben!")
    said = [
        *(Message("user", "Anna asks: 1"), Message("assistant", "one"), thanks),
        *(Message("user", "never answered"), Message("user", "Ben asks: 2")),
        *(Message("assistant", "two"), thanks),
    ]
    assert last_exchanges(said, 0) == []
    assert [m.content for m in last_exchanges(said, 1)] == ["Ben asks: 2", "two"]
    assert len(last_exchanges(said, 9)) == 4


async def test_words_that_ship_are_blocked_unless_that_is_not_wanted(
    http: httpx.AsyncClient, session: str
) -> None:
    path = f"/v1/sessions/{session}/room"
    for shipped, outcome in ((True, "blocked_word"), (False, None)):
        await http.post(path, json={"shipped_words": shipped, "paused": True})
        taken = await http.post(f"{path}/comments", json=sent("Anna", "what a load of bullshit"))
        assert taken.json()["taken"][0]["outcome"] == outcome
        await http.delete(path)


async def test_words_are_made_ready_beside_what_is_being_said(
    http: httpx.AsyncClient, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []

    class Noted(WordList):
        def __init__(self, words: Iterable[str]) -> None:
            threads.append(threading.current_thread())
            super().__init__(words)

    monkeypatch.setattr("gateway.room.room.WordList", Noted)
    path = f"/v1/sessions/{session}/room"
    assert (await http.post(path, json={})).status_code == 201
    await command(http, path, type="block", words=["marzipan"])
    await http.delete(path)
    assert len(threads) == 2 and threading.current_thread() not in threads


async def test_a_room_that_cannot_be_is_not_opened(http: httpx.AsyncClient, session: str) -> None:
    mute = await new_session(http, spoken_by="client")
    wrong: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
        (mute, {}, ("spoken_by",)),
        (session, {"script": [{}]}, ("say, or ask, is wanted",)),
        (session, {"youtube": {"video_id": "v", "api_key": "k…"}}, ("youtube.api_key: ", "ASCII")),
    ]
    for name, body, words in wrong:
        told = problem(await http.post(f"/v1/sessions/{name}/room", json=body), 422)
        assert all(word in told for word in words) and "k…" not in told
