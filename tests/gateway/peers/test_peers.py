"""Two gateways on one bus, with a key: either takes any request, and the right one answers it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from socket import IPPROTO_TCP, TCP_NOTSENT_LOWAT
from typing import Any

import httpx
import pytest
import pytest_asyncio
import websockets
from nats.aio.client import Client
from nats.aio.msg import Msg
from starlette.types import Message, Send
from websockets.asyncio.server import ServerConnection, serve

from gateway.api import pages
from gateway.peers import passing
from gateway.peers.peers import session_id
from gateway.session.session import Session
from gateway.stages import registry
from gateway.stages.room import answer_load
from gateway.waiting.entrance import Wish
from tests.gateway.conftest import HERE, Rig, RunningGateway, another, meets, until
from tests.gateway.doubles import Doubles
from tests.gateway.edge.test_edge import Raw
from tests.gateway.media import film
from tests.gateway.visiting import Browser, collect, first_of, problem
from visavis.client import GatewayClient, GatewayError, GatewaySession
from visavis.serving.discovery import Replica, discover
from visavis.wire.subjects import gateway_subject

KEY = "secret"
CROWD = 20
SETTINGS = {"api_key": KEY, "token_key": "s" * 32, "recording_limit_s": 60.0}
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("peers")
    (folder / "answers.json").write_text("{}")
    return folder


def settings_of(folder: Path, name: str) -> dict[str, Any]:
    """Of one of the gateways: what they have learned lies on a disk of each."""
    learns = {"learn_answers": True, "answer_cache_dir": folder / name}
    return {**SETTINGS, **learns, "answers": folder / "answers.json", "max_sessions": 3}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(folder: Path) -> AsyncIterator[Rig]:
    rig = Rig(folder)
    rig.nats.process.storage = folder / "storage"
    await rig.start(**settings_of(folder, "one"))
    yield rig
    await rig.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def beside(rig: Rig, folder: Path) -> AsyncIterator[RunningGateway]:
    async with another(rig, **settings_of(folder, "other")) as other:
        yield other


@pytest_asyncio.fixture(loop_scope="module")
async def other(
    rig: Rig, gateway: RunningGateway, beside: RunningGateway
) -> AsyncIterator[RunningGateway]:
    """Beside `gateway`; each knows the other, and all services."""
    for one in (gateway, beside):
        await meets(one, rig.doubles, gateways=2)
    yield beside
    sessions = beside.inside.sessions
    for session in sessions.all():
        await sessions.end_for_shutdown(session)


@pytest_asyncio.fixture(loop_scope="module")
async def theirs(client: GatewayClient, other: RunningGateway) -> AsyncIterator[GatewaySession]:
    """A session of `other`, used through `gateway` alone."""
    async with GatewayClient(other.url, KEY) as direct:
        await direct.call("POST", "/v1/sessions", json={}, headers=HERE)
    [session] = other.inside.sessions.all()
    async with client.connect(f"/v1/sessions/{session.id}/events") as events:
        yield GatewaySession(client, session.id, events)


async def test_a_session_s_id_is_no_option_of_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.token_urlsafe", lambda size: "-a_b-c")
    assert session_id("gateway-1234abcd") == "_a_b_c-1234abcd"


async def test_new_sessions_go_where_most_room_is_and_either_lists_all(
    client: GatewayClient, gateway: RunningGateway, other: RunningGateway
) -> None:
    made = [(await client.call("POST", "/v1/sessions", json={})).json()["id"] for _ in range(4)]
    assert [len(g.inside.sessions.all()) for g in (gateway, other)] == [2, 2]
    for url in (gateway.url, other.url):
        async with GatewayClient(url, KEY) as asked:
            listed = (await asked.call("GET", "/v1/sessions")).json()["sessions"]
            assert [session["id"] for session in listed] == made, "the oldest first"
            for session in made[-2:]:
                told = (await asked.call("GET", f"/v1/sessions/{session}")).json()
                assert told["id"] == session
    targets = (await client.call("GET", "/v1/metrics-targets")).json()
    own = [t["targets"][0] for t in targets if t["labels"]["service"] == "gateway"]
    assert sorted(f"http://{address}" for address in own) == sorted([gateway.url, other.url])


async def test_whom_the_other_one_has_just_let_in_counts_at_once(
    client: GatewayClient, gateway: RunningGateway, other: RunningGateway, doubles: Doubles
) -> None:
    doubles.script.capacity = {"sessions": 1, "alone_p95_s": 0.2, "predicted_p95_s": 0.25}
    await gateway.inside.registry.refresh()
    load = answer_load(gateway.inside.registry.replicas)
    assert 0.7 < load < 1.0, "one more would just be served in time"
    doubles.script.capacity["predicted_p95_s"] = 0.5  # and has come, and no stage has told it yet
    with pytest.raises(GatewayError, match="answers would begin"):
        await client.call("POST", "/v1/sessions", json={}, headers=HERE)


async def test_a_crowd_for_whom_there_is_no_room_shares_a_look(
    monkeypatch: pytest.MonkeyPatch,
    client: GatewayClient,
    gateway: RunningGateway,
    other: RunningGateway,
    doubles: Doubles,
) -> None:
    """Those who came while the first one's look was under way need one of their own."""
    doubles.script.capacity = {"sessions": 1, "alone_p95_s": 0.2, "predicted_p95_s": 0.5}
    await gateway.inside.registry.refresh()
    came, looks = list[Wish](), list[Client]()
    enter = gateway.inside.entrance.enter

    async def entering(wish: Wish) -> Session:
        came.append(wish)
        return await enter(wish)

    async def looking(bus: Client) -> list[Replica]:
        looks.append(bus)
        await until(lambda: len(came) == CROWD)
        return await discover(bus, wait_s=0.05)

    monkeypatch.setattr(gateway.inside.entrance, "enter", entering)
    monkeypatch.setattr(registry, "discover", looking)

    async def knock() -> None:
        with pytest.raises(GatewayError, match="answers would begin"):
            await client.call("POST", "/v1/sessions", json={}, headers=HERE)

    await asyncio.gather(*(knock() for _ in range(CROWD)))
    assert len(looks) <= 8, "two, and those that both gateways have now and then"


async def test_a_session_of_the_other_one_is_talked_to_and_watched(
    theirs: GatewaySession, client: GatewayClient, gateway: RunningGateway
) -> None:
    path = f"/v1/sessions/{theirs.id}"
    media = await client.connect(f"{path}/media?role=speaker")
    await media.send(b"\0" * 640)
    await theirs.record_turn()
    turn = await theirs.ask("How are you?")
    events = await collect(theirs, "finished")
    assert "".join(e["text"] for e in events if e["type"] == "answer")
    assert isinstance(await media.recv(), bytes)
    with pytest.raises(websockets.InvalidStatus) as refused:
        await client.connect(f"{path}/media?role=speaker")
    assert refused.value.response.status_code == 409
    assert b"microphone" in (refused.value.response.body or b"")
    media.transport.abort()
    record = (await client.call("GET", f"{path}/turns/{turn}")).json()
    assert record["state"] == "finished"
    with film(await theirs.recording()) as recorded:
        assert list(recorded.decode(video=0))
    with pytest.raises(GatewayError, match="text"):
        await theirs.ask("word " * 20_000)
    with pytest.raises(GatewayError, match="larger than 1 MB"):
        await theirs.ask("x" * 2_000_000)
    assert not gateway.inside.sessions.all()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passing, "_SOCKET_PING_S", 0.05)
    monkeypatch.setattr(passing, "_SOCKET_SILENT_S", 0.1)


async def carry(owner: Callable[[ServerConnection], Awaitable[None]], send: Send) -> None:
    """Hand a client's WebSocket on to a gateway that does with it what `owner` does."""
    scope = {
        **{"type": "websocket", "path": "/", "raw_path": b"/", "query_string": b""},
        **{"headers": [], "subprotocols": []},
    }
    told = iter([{"type": "websocket.connect"}])

    async def receive() -> Message:
        return next(told, None) or await asyncio.get_running_loop().create_future()

    carrier = passing.Carrier()
    async with serve(owner, "127.0.0.1", 0, compression=None, write_limit=4096) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        await carrier.carry(scope, receive, send, f"127.0.0.1:{port}")
    await carrier.close()


async def test_a_client_who_reads_slowly_is_waited_for_and_gets_nothing_old(
    impatient: None,
) -> None:
    frame, sent, got = bytes(10_000), 0, 0
    ended: list[Message] = []

    async def owner(socket: ServerConnection) -> None:
        """Sends what the client takes, and leaves out the rest, as a session's media do."""
        nonlocal sent
        link = socket.transport.get_extra_info("socket")
        link.setsockopt(IPPROTO_TCP, TCP_NOTSENT_LOWAT, 16_384)
        while got < 20:
            await socket.send(frame)
            sent += 1
        await socket.close(1000)

    async def send(message: Message) -> None:
        nonlocal got
        got += message["type"] == "websocket.send"
        if message["type"] == "websocket.close":
            ended.append(message)
        elif got == 5:
            await asyncio.sleep(1.0)  # of which the other gateway's keepalive would be ten
            assert sent - got < 40

    async with asyncio.timeout(30):
        await carry(owner, send)
    assert got >= 20 and [message["code"] for message in ended] == [1000]


async def test_a_gateway_that_falls_silent_is_left(impatient: None) -> None:
    ended = asyncio.get_running_loop().create_future()

    async def owner(socket: ServerConnection) -> None:
        await socket.send("It was here.")
        socket.transport.pause_reading()  # it hears no ping
        await ended
        socket.transport.resume_reading()

    async def send(message: Message) -> None:
        if message["type"] == "websocket.close":
            ended.set_result(message["code"])

    async with asyncio.timeout(30):
        await carry(owner, send)
    assert ended.result() == 1012, "the client is to connect again"


async def test_a_call_of_the_other_one_is_hung_up(
    theirs: GatewaySession, client: GatewayClient, other: RunningGateway
) -> None:
    await client.call("POST", f"/v1/realtime/calls/{theirs.id}/hangup")
    assert not other.inside.sessions.all()


async def test_sessions_of_both_keep_an_avatar_that_gets_another_name(
    client: GatewayClient, gateway: RunningGateway, other: RunningGateway, doubles: Doubles
) -> None:
    form: dict[str, Any] = {"data": {"name": "me"}, "files": {"photo": ("me.jpg", b"picture")}}
    await client.call("POST", "/v1/avatars", **form)
    for url in (gateway.url, other.url):
        async with GatewayClient(url, KEY) as direct:
            await direct.call("POST", "/v1/sessions", json={"avatar": "me"}, headers=HERE)
    sessions = [*gateway.inside.sessions.all(), *other.inside.sessions.all()]
    async with contextlib.AsyncExitStack() as ending:
        sockets = [
            await ending.enter_async_context(client.connect(f"/v1/sessions/{session.id}/events"))
            for session in sessions
        ]
        await client.call("PATCH", "/v1/avatars/me", json={"name": "mine"})
        assert doubles.seen.rename_within_s > 20, "as long as a deletion, which is a part of it"
        for session, socket in zip(sessions, sockets, strict=True):
            told = GatewaySession(client, session.id, socket).events()
            async with asyncio.timeout(30):
                named = [event["avatar"] async for event in first_of(told, "session", 2)]
            assert named == ["me", "mine"]
        asked = doubles.seen.of("face", "config")
        assert [request.config.face.avatar for request in asked] == ["me", "me"], "nobody left it"
        await doubles.stop("face")
        await doubles.start("face")
        await until(lambda: len(doubles.seen.of("face", "config")) == 4)
        again = doubles.seen.of("face", "config")[2:]
        assert [request.config.face.avatar for request in again] == ["mine", "mine"]


async def test_media_over_webrtc_go_to_the_other_one_by_themselves(
    theirs: GatewaySession, client: GatewayClient
) -> None:
    browser = Browser(client, theirs)
    await browser.connect("viewer")
    await browser.pc.close()


async def test_the_key_is_wanted_and_goes_along_and_into_no_log(
    theirs: GatewaySession, gateway: RunningGateway, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with httpx.AsyncClient(base_url=gateway.url, trust_env=False) as http:
        problem(await http.get(f"/v1/sessions/{theirs.id}"), 401)
    url = f"ws{gateway.url.removeprefix('http')}/v1/sessions/{theirs.id}/events"
    offered = [websockets.Subprotocol(p) for p in ("visavis", f"bearer.{KEY}")]
    quiet = logging.getLogger("tests.quiet")
    quiet.setLevel(logging.INFO)
    async with websockets.connect(url, subprotocols=offered, logger=quiet, proxy=None) as socket:
        assert json.loads(await socket.recv())["type"] == "session"
        assert socket.subprotocol == "visavis"
    assert KEY not in caplog.text


async def test_a_client_who_leaves_has_left_the_other_one_too(
    theirs: GatewaySession, client: GatewayClient, other: RunningGateway
) -> None:
    [session] = other.inside.sessions.all()
    media = await client.connect(f"/v1/sessions/{theirs.id}/media?role=speaker")
    await until(lambda: session.audience.present == 1)
    media.transport.abort()
    await until(lambda: session.audience.present == 0)
    async with client.connect(f"/v1/sessions/{theirs.id}/media?role=speaker"):
        pass  # its microphone is free again


async def test_what_a_client_breaks_off_is_not_passed_on_as_if_it_were_whole(
    theirs: GatewaySession,
    client: GatewayClient,
    gateway: RunningGateway,
    other: RunningGateway,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path, before, there = f"/v1/sessions/{theirs.id}/say", gateway.requests, other.requests
    async with Raw(gateway) as raw:
        await raw.say(
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {KEY}\r\n"
            "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
            '10\r\n{"text": "Half"}\r\n'
        )
        await until(lambda: other.requests > there)
        raw.writer.transport.abort()
        await until(lambda: gateway.requests == before)
    first = (await client.call("POST", path, json={"text": "Whole."})).json()
    assert first["say"] == 1
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_both_know_what_one_has_learned_or_was_told(
    client: GatewayClient, gateway: RunningGateway, other: RunningGateway, folder: Path
) -> None:
    caches = [gateway.inside.answers, other.inside.answers]
    async with client.session() as session:
        await session.ask("How are you?")
        await collect(session, "finished")
    await until(lambda: all(len(cache.learned.all(cache.now_s())) == 1 for cache in caches))
    await client.call("DELETE", "/v1/cache", params={"what": "learned"})
    assert [cache.learned.all(cache.now_s()) for cache in caches] == [[], []]
    welcome = {"language": "en", "text": "Hello."}
    (folder / "answers.json").write_text(json.dumps({"welcome": [welcome]}))
    await client.call("POST", "/v1/cache/warm", json={})
    assert [cache.book.welcome[0].text for cache in caches] == ["Hello.", "Hello."]


async def test_of_a_gateway_that_is_gone_is_told_so(  # the last one that has two
    theirs: GatewaySession, client: GatewayClient, other: RunningGateway
) -> None:
    async with client.connect(f"/v1/sessions/{theirs.id}/events") as socket:
        await other.stop()
        async with asyncio.timeout(30):
            with pytest.raises(websockets.ConnectionClosed) as closed:
                while True:
                    await socket.recv()
    assert closed.value.rcvd is not None and closed.value.rcvd.code in (4410, 1012)
    with pytest.raises(GatewayError, match="the gateway that had it is gone") as gone:
        await client.call("GET", f"/v1/sessions/{theirs.id}")
    assert gone.value.code == "not_found"
    created = await client.call("POST", "/v1/sessions", json={})
    assert created.json()["stages"]["face"]


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [
        (None, 503, "does not answer"),
        (
            {
                **{"instance": "gateway-deadbeef", "address": "127.0.0.1:1", "free": 1, "seats": 1},
                "newest": "that only gateways tell which are newer than this one",
            },
            502,
            "reached",
        ),
    ],
)
async def test_of_a_gateway_that_is_frozen_or_out_of_reach_is_told_so(
    rig: Rig, client: GatewayClient, answer: dict[str, Any] | None, status: int, said: str
) -> None:
    async def reply(message: Msg) -> None:
        if answer is not None:
            await message.respond(json.dumps(answer).encode())

    frozen = await rig.bus.client.subscribe(gateway_subject("deadbeef"), cb=reply)
    await rig.bus.client.flush()  # else a request may come before it
    try:
        async with httpx.AsyncClient(base_url=client.url, trust_env=False) as http:
            headers = {"Authorization": f"Bearer {KEY}"}
            asked = await http.get("/v1/sessions/abc-deadbeef", headers=headers)
        assert said in problem(asked, status)
        with pytest.raises(websockets.InvalidStatus) as refused:
            await client.connect("/v1/sessions/abc-deadbeef/events")
        assert refused.value.response.status_code == status
    finally:
        await frozen.unsubscribe()


async def test_a_page_has_files_of_its_own_version_whichever_gateway_is_asked_for_them(
    gateway: RunningGateway, rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it does not start: what one of its files wants of another one may not be there."""
    ours, theirs = (pages.STATIC / "main.js").read_text(), "// of another version"
    (tmp_path / "main.js").write_text(theirs)
    (tmp_path / "index.html").write_bytes((pages.STATIC / "index.html").read_bytes())
    monkeypatch.setattr(pages, "STATIC", tmp_path)
    async with httpx.AsyncClient(verify=False, trust_env=False) as http:

        async def main_of(door: RunningGateway) -> str:
            page = (await http.get(door.url)).text
            return page.partition('type="module" src="')[2].partition('"')[0]

        async def asked(door: RunningGateway, file: str) -> str:
            return (await http.get(f"{door.url}/{file}")).raise_for_status().text

        async with another(rig, **SETTINGS) as other:
            doors, page = (gateway, other), await main_of(other)
            assert [await asked(door, page) for door in doors] == [theirs, theirs]
            assert [await asked(door, await main_of(gateway)) for door in doors] == [ours, ours]
        assert await asked(gateway, page) == ours, "better than none"
